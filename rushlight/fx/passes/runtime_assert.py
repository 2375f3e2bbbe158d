"""The assertions that a graph's sizes rely on, as nodes."""

from __future__ import annotations

import operator
from typing import Any

from rushlight.core.op import find_overload
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.symbolic import build
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["insert_deferred_runtime_asserts"]


def insert_deferred_runtime_asserts(
    gm: GraphModule, shape_env: Any, name: str, export: bool = False
) -> None:
    """Let a graph check what its shape environment has put off: a node for each assertion, as soon
    as the sizes that it names are known."""
    waiting = list(shape_env.runtime_asserts)
    known: dict[Any, Any] = {}
    nodes = list(gm.graph.nodes)
    for place, node in enumerate(nodes):
        if node.op == "output":
            break
        bind_symbols(node, known)
        following = nodes[place + 1] if place + 1 < len(nodes) else None
        if following is not None and following.op == "placeholder":
            continue
        for one in list(waiting):
            if one.expr.free_symbols <= known.keys():
                waiting.remove(one)
                with gm.graph.inserting_before(following):
                    insert_assertion(gm, one, known)
    if waiting:
        missing = ", ".join([str(one.expr) for one in waiting])
        raise RuntimeError(f"the graph {name} never computes the sizes in {missing}")
    gm.recompile()


def bind_symbols(node: Node, known: dict[Any, Any]) -> None:
    """Note the symbols that a node's value makes known."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, NUMBERS):
        expr = value.node.expr
        if expr.is_Symbol:
            known.setdefault(expr, node)
    elif isinstance(value, Tensor):
        for dim, size in enumerate(value.shape):
            if isinstance(size, NUMBERS) and size.node.expr.is_Symbol:
                known.setdefault(size.node.expr, SizeOf(node, dim))


class SizeOf:
    """A size of a tensor that has no node yet."""

    def __init__(self, node: Node, dim: int) -> None:
        self.node = node
        self.dim = dim


def insert_assertion(gm: GraphModule, one: Any, known: dict[Any, Any]) -> None:
    def leaf(symbol: Any) -> Any:
        found = known[symbol]
        if isinstance(found, SizeOf):
            query = find_overload("aten", "sym_size", "int")
            found = gm.graph.call_function(query, (found.node, found.dim))
            known[symbol] = found
        return found

    condition = build(
        one.expr, leaf, lambda function, *args: gm.graph.call_function(function, args)
    )
    if not isinstance(condition, Node):
        condition = gm.graph.call_function(operator.truth, (condition,))
    text = f"Runtime assertion failed for expression {one.expr} on node '{condition}'"
    gm.graph.call_function(find_overload("aten", "_assert_scalar", "default"), (condition, text))
