"""`merge_matmul`: products with the same right operand as one product."""

from __future__ import annotations

import operator
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.tools_common import stable_topological_sort
from rushlight.fx.tracing import symbolic_trace
from rushlight.graph import host
from rushlight.graph.node import Node

# What graphs call `torch`.
LIBRARY: Any = host.library

__all__ = ["are_nodes_independent", "may_depend_on", "merge_matmul", "split_result_tensors"]


def split_result_tensors(result: Any, inputs: list[Any]) -> tuple[Any, ...]:
    """The rows of a product, cut as the rows of its left operands were."""
    rows = [each.shape[0] for each in inputs]
    return tuple(LIBRARY.split(result, rows))


def may_depend_on(a: Node, b: Node, search_depth: int = 6) -> bool:
    """Whether `a` may need `b`; yes where the search goes deeper than it may."""
    if a == b:
        return True
    if not a.all_input_nodes:
        return False
    if search_depth == 0:
        return True
    return any([may_depend_on(each, b, search_depth - 1) for each in a.all_input_nodes])


def are_nodes_independent(nodes: list[Node]) -> bool:
    """Whether no node needs another one."""
    for i, first in enumerate(nodes):
        for second in nodes[i + 1 :]:
            if may_depend_on(first, second) or may_depend_on(second, first):
                return False
    return True


def merge_matmul(in_mod: Any) -> GraphModule:
    """A module whose matrix products by one matrix are one product of all rows."""
    gm = symbolic_trace(in_mod)
    by_right: dict[Any, list[Node]] = {}
    lefts: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        product = node.op == "call_function" and node.target is LIBRARY.matmul
        if (product or (node.op == "call_method" and node.target == "matmul")) and len(
            node.args
        ) == 2:
            left, right = node.args
            # An attribute is read anew for each use.
            is_read = isinstance(right, Node) and right.op == "get_attr"
            by_right.setdefault(right.target if is_read else right, []).append(node)
            lefts[node] = left
    for products in by_right.values():
        if len(products) < 2 or not are_nodes_independent([lefts[each] for each in products]):
            continue
        operands = [lefts[each] for each in products]
        factor = products[0].args[1]
        with gm.graph.inserting_before(first_after(gm, [*operands, factor])):
            stacked = gm.graph.call_function(LIBRARY.cat, (operands,))
            together = gm.graph.call_function(LIBRARY.matmul, (stacked, factor))
            parts = gm.graph.call_function(split_result_tensors, (together, operands))
            pieces = [
                gm.graph.call_function(operator.getitem, (parts, i)) for i in range(len(operands))
            ]
        for node, piece in zip(products, pieces, strict=True):
            node.replace_all_uses_with(piece)
            gm.graph.erase_node(node)
    gm.recompile()
    # What used the first product may stand before what the last one needs.
    gm = stable_topological_sort(gm)
    gm.graph.lint()
    return gm


def first_after(gm: GraphModule, needed: list[Node]) -> Node:
    """The first node behind all of those."""
    waiting = set(needed)
    for node in gm.graph.nodes:
        if not waiting:
            return node
        waiting.discard(node)
    raise AssertionError("a graph ends with its output")
