"""Graphs of modules made simpler for inference: batch norms folded, dropout taken out."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.tracing import Tracer, symbolic_trace
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.nn import Conv1d, Conv2d, Conv3d, Dropout, Linear
from rushlight.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "UnionFind", "extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference",
    "remove_dropout", "replace_node_module", "reset_modules",
]  # fmt: skip

PATTERNS: tuple[tuple[type, type, Any], ...] = (
    (Conv1d, BatchNorm1d, fuse_conv_bn_eval),
    (Conv2d, BatchNorm2d, fuse_conv_bn_eval),
    (Conv3d, BatchNorm3d, fuse_conv_bn_eval),
    (Linear, BatchNorm1d, fuse_linear_bn_eval),
)


def parent_and_name(target: str) -> tuple[str, str]:
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node calls a module of the last class on the result of one of the first."""
    if not node.args:
        return False
    for each, expected in zip((node.args[0], node), pattern):
        if not isinstance(each, Node) or each.op != "call_module":
            return False
        if type(modules.get(str(each.target))) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: Any) -> None:
    """Put another module where a node's target is."""
    if not isinstance(node.target, str):
        raise AssertionError(f"expected the name of a module, got {type(node.target)}")
    parent, name = parent_and_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: Any, inplace: bool = False, no_trace: bool = False) -> Any:
    """A module in evaluation whose batch norms are part of the layers before them."""
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for first, second, merge in PATTERNS:
        for node in list(graph.nodes):
            if not matches_module_pattern((first, second), node, modules):
                continue
            source = node.args[0]
            layer, norm = modules[source.target], modules[node.target]
            if len(source.users) > 1 or not norm.track_running_stats:
                continue
            replace_node_module(source, modules, merge(layer, norm))
            node.replace_all_uses_with(source)
            graph.erase_node(node)
    return GraphModule(traced, graph)


def remove_dropout(model: Any) -> Any:
    """A module without its dropout layers."""
    traced = symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in list(traced.graph.nodes):
        if node.op == "call_module" and isinstance(modules[node.target], Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    traced.recompile()
    return traced


def extract_subgraph(
    orig_module: Any, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """Some nodes of a graph as a module of their own."""
    graph = Graph()
    known = {each: graph.placeholder(each.name) for each in inputs}
    for node in nodes:
        known[node] = graph.node_copy(node, lambda x: known[x])
    graph.output([known[each] for each in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def reset_modules(nodes: list[Node], modules: dict[str, Any], old_modules: dict[Any, Any]) -> None:
    """Put back the modules that others were made of."""
    for node in nodes:
        if node.op == "call_module" and modules[str(node.target)] in old_modules:
            replace_node_module(node, modules, old_modules[modules[str(node.target)]])


class UnionFind:
    """Sets of numbers that can be joined."""

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v: int) -> None:
        self.parent[v], self.size[v] = v, 1

    def find(self, v: int) -> int:
        """The number that stands for the set of `v`."""
        root = v
        while self.parent[root] != root:
            above = self.parent[root]
            if above is None:
                raise AssertionError(f"there is no set of {root}")
            root = above
        while v != root:
            above = self.parent[v]
            assert above is not None
            self.parent[v], v = root, above
        return root

    def join(self, a: int, b: int) -> int:
        """Make one set of two; the number that stands for it."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if self.size[a] < self.size[b]:
            a, b = b, a
        self.parent[b] = a
        self.size[a] += self.size[b]
        return a


def optimize_for_inference(
    model: Any, pass_config: dict[str, Any] | None = None, tracer: type[Tracer] = Tracer
) -> Any:
    """A module with batch norms folded and dropout gone, unless `pass_config` says otherwise."""
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    return model
