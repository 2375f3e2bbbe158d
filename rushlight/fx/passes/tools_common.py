"""Questions that passes ask of graphs, and an order of nodes in which each follows its inputs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.operator_support import target_name
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = [
    "FxNetAccFusionsFinder", "get_acc_ops_name", "get_node_target", "is_node_output_tensor",
    "legalize_graph", "stable_topological_sort", "validate_partition",
]  # fmt: skip


def get_acc_ops_name(k: Any) -> str:
    """The name of an operator, with the module it comes from."""
    if isinstance(k, str):
        return k
    module = k.__module__
    if module and "acc_ops" in module:
        return f"acc_ops.{k.__name__}"
    return f"{module.replace('torch._ops', 'torch.ops') if module else ''}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Any], node: Node) -> str:
    """What a node calls, as a name: of the module's class, the function, or the method."""
    if node.op not in ("call_function", "call_method", "call_module"):
        raise AssertionError(
            f"Expect op types of call_function, call_method, or call_module, but found {node.op}"
        )
    if node.op == "call_function":
        return get_acc_ops_name(node.target)
    return target_name(submodules, node)


def is_node_output_tensor(node: Node) -> bool:
    """Whether a node gives a tensor, by what its meta says of its type."""
    kind = node.meta.get("type")
    return isinstance(kind, type) and issubclass(kind, Tensor)


class FxNetAccFusionsFinder:
    """Groups of nodes that pass on what are no tensors: they must stay together."""

    def __init__(self, module: GraphModule, acc_nodes: set[Node]) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, set[Node]]:
        """Node -> the nodes of its group; groups with a node from outside belong to nobody."""
        group_of: dict[Node, set[Node]] = {}
        for node in self.nodes:
            if node not in self.acc_nodes or "tensor_meta" in node.meta or node in group_of:
                continue
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            group = self.grown(node)
            if group <= self.acc_nodes:
                for member in group:
                    group_of[member] = group
            else:
                self.acc_nodes -= group
        return group_of

    def grown(self, start: Node) -> set[Node]:
        group, waiting = set(), [start]
        while waiting:
            node = waiting.pop()
            if node in group:
                continue
            group.add(node)
            waiting += [
                each
                for each in node.all_input_nodes
                if "tensor_meta" not in each.meta and each.op.startswith("call_")
            ]
            if "tensor_meta" not in node.meta:
                waiting += [each for each in node.users if each.op != "output"]
        return group


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Bring the nodes into an order in which each follows its inputs, else as they stood."""
    nodes = list(gm.graph.nodes)
    place = {node: i for i, node in enumerate(nodes)}
    needs = {node: len(node.all_input_nodes) for node in nodes}
    ready = [place[node] for node in nodes if not needs[node]]
    heapq.heapify(ready)
    graph = Graph()
    known: dict[Node, Node] = {}
    while ready:
        node = nodes[heapq.heappop(ready)]
        known[node] = graph.node_copy(node, lambda x: known[x])
        for user in node.users:
            needs[user] -= 1
            if not needs[user]:
                heapq.heappush(ready, place[user])
    if len(known) < len(nodes):
        waiting = {node for node in nodes if node not in known}
        raise RuntimeError(f"Input graph has cycles, unable to add {waiting} to the new graph")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """As `stable_topological_sort`: nodes after their inputs."""
    return stable_topological_sort(gm)


def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether no way leads out of the nodes and back into them."""
    inside = set(partition)
    front = [user for node in inside for user in node.users if user not in inside]
    seen = set(front)
    while front:
        node = front.pop()
        if node in inside:
            return False
        for user in node.users:
            if user not in seen:
                seen.add(user)
                front.append(user)
    return True
