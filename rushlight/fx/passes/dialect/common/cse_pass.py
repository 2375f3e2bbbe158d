"""Common subexpressions become one node."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from rushlight.base.keys import exact_key
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["CSEPass", "get_CSE_banned_ops", "is_seeded", "merge_common", "writes"]


def merge_common(
    module: GraphModule,
    is_banned: Callable[[Node], bool] = lambda node: False,
    place_of: Callable[[Node], Any] = lambda node: None,
    is_kept: Callable[[Node], bool] = lambda node: False,
) -> bool:
    """Let calls that give the same be one; answers whether there were any. Random calls, writes and
    calls in two places are never the same; one that is kept stays beside the first."""
    graph = module.graph
    seen: dict[Any, Node] = {}
    modified = False
    for node in list(graph.nodes):
        if node.op != "call_function" or is_seeded(node) or writes(node) or is_banned(node):
            continue
        try:
            key = (node.target, exact_key(node.args), exact_key(node.kwargs), place_of(node))
            known = seen.setdefault(key, node)
        except TypeError:
            continue
        if known is not node and not is_kept(node):
            node.replace_all_uses_with(known)
            graph.erase_node(node)
            modified = True
    return modified


def is_seeded(node: Node) -> bool:
    return "nondeterministic_seeded" in getattr(node.target, "tags", ())


def writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def get_CSE_banned_ops() -> set[Any]:
    """The ops that torch names as never the same. Random ops and writes are found by their facts
    besides."""
    from rushlight.ops import aten

    names = (
        "dropout native_dropout rand randn randperm randint rand_like rrelu bernoulli multinomial "
        "normal poisson binomial add_ sub_ mul_ div_ pow_ lerp_ relu_ sigmoid_ tanh_"
    )
    return {getattr(aten, name) for name in names.split()}


class CSEPass(PassBase):
    """Merges common subexpressions in a copy; ops in `banned_ops`, or their packets, are left
    alone."""

    def __init__(self, banned_ops: Any = None) -> None:
        self.banned_ops = set(banned_ops or ())

    def call(self, graph_module: GraphModule) -> PassResult:
        graph = Graph(tracer_cls=graph_module.graph._tracer_cls)
        results = graph.graph_copy(graph_module.graph, {})
        graph.output(results, graph_module.graph.output_node().type)
        graph.set_codegen(copy.deepcopy(graph_module.graph._codegen))
        made = GraphModule(graph_module, graph)
        made.meta.update(graph_module.meta)
        modified = merge_common(made, self.is_banned)
        made.recompile()
        return PassResult(made, modified)

    def is_banned(self, node: Node) -> bool:
        target: Any = node.target
        packet = getattr(target, "overloadpacket", target)
        return target in self.banned_ops or packet in self.banned_ops
