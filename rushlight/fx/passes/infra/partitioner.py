"""`CapabilityBasedPartitioner`: the parts of a graph that someone can run, each as one module."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.operator_support import OperatorSupportBase
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions
from rushlight.graph.names import qualified_name
from rushlight.graph.node import Node

__all__ = ["CapabilityBasedPartitioner", "Partition"]


class Partition:
    """Nodes that may become one module."""

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        chosen = list(nodes or [])
        self.nodes: dict[Node, int | None] = dict.fromkeys(chosen)
        if node_orders is not None:
            self.nodes = dict(zip(chosen, node_orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        del self.nodes[node]

    def size(self) -> int:
        return len(self.nodes)


class CapabilityBasedPartitioner:
    """Grows partitions out of the nodes that `operator_support` says can be run.

    Two nodes are in one partition only if no way leads out of it and back. `non_compute_ops` are
    names of functions that do nothing by themselves: they do not make a partition.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or [])
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or [])
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        modules = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(modules, node)

    def propose_partitions(self) -> list[Partition]:
        """The partitions, those of late nodes first."""
        modules = dict(self.graph_module.named_modules())
        reach = downstream(self.graph_module)
        partitions: dict[int, set[Node]] = {}
        home: dict[Node, int] = {}
        for number, node in enumerate(reversed(self.graph_module.graph.nodes)):
            if not self.operator_support.is_node_supported(modules, node):
                continue
            partitions[number], home[node] = {node}, number
            candidates = dict.fromkeys([home[user] for user in node.users if user in home])
            if not self.skip_horizontal_fusion:
                candidates.update(dict.fromkeys(partitions))
            for other in candidates:
                mine = home[node]
                if other == mine or other not in partitions:
                    continue
                together = partitions[mine] | partitions[other]
                if can_merge(together, reach) and is_acyclic(together, partitions, home):
                    for moved in partitions[mine]:
                        home[moved] = other
                    partitions[other] |= partitions.pop(mine)
        self.move_parts(partitions, home)
        ordered = {
            number: [node for node in self.graph_module.graph.nodes if node in members]
            for number, members in partitions.items()
        }
        return [
            Partition(number, nodes) for number, nodes in ordered.items() if self.is_worth(nodes)
        ]

    def move_parts(self, partitions: dict[int, set[Node]], home: dict[Node, int]) -> None:
        """A result's parts belong to where the result is."""
        for node in self.graph_module.graph.nodes:
            if not all([is_getitem(user) for user in node.users]):
                continue
            place = home.get(node)
            for user in node.users:
                if user in home:
                    partitions[home.pop(user)].discard(user)
                if place is not None:
                    partitions[place].add(user)
                    home[user] = place

    def is_worth(self, nodes: list[Node]) -> bool:
        """Whether a partition is more than single calls and calls that do nothing."""
        if not nodes or self.allows_single_node_partition:
            return bool(nodes)
        names = [function_name(node) for node in nodes]
        computing = [
            name
            for node, name in zip(nodes, names, strict=True)
            if name not in self.non_compute_ops and not is_getitem(node)
        ]
        allowed = self.allowed_single_node_partition_ops
        return len(computing) > 1 or any(name in allowed for name in computing)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """The graph module with a call of a module for each partition."""
        return fuse_by_partitions(
            self.graph_module, [partition.nodes for partition in partitions], prefix
        )

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take calls that do nothing out of partitions where they come first or last."""
        for partition in partitions:
            inside = set(partition.nodes)
            changed = True
            while changed:
                changed = False
                for node in list(inside):
                    is_edge = not inside & set(node.all_input_nodes) or not inside & set(node.users)
                    if is_edge and function_name(node) in self.non_compute_ops:
                        inside.discard(node)
                        partition.remove_node(node)
                        changed = True

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        return self.fuse_partitions(self.propose_partitions(), prefix)


def downstream(module: GraphModule) -> dict[Node, set[Node]]:
    """All nodes that each node leads to."""
    reach: dict[Node, set[Node]] = {}
    for node in reversed(module.graph.nodes):
        reach[node] = set(node.users).union(*[reach[user] for user in node.users])
    return reach


def can_merge(members: Collection[Node], reach: dict[Node, set[Node]]) -> bool:
    """Whether no way leads out of the nodes and back into them."""
    inside = set(members)
    outside = {user for node in inside for user in node.users} - inside
    return not any(inside & reach[node] for node in outside)


def is_acyclic(
    members: Collection[Node], partitions: dict[int, set[Node]], home: dict[Node, int]
) -> bool:
    """The same where what is in a partition comes after all that goes into it."""
    inside = set(members)
    seen: set[Node] = set()
    waiting = list({user for node in inside for user in node.users} - inside)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        group = partitions[home[node]] if node in home else {node}
        seen |= group
        reached = {user for each in group for user in each.users}
        if reached & inside:
            return False
        waiting += reached - seen
    return True


def is_getitem(node: Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem


def function_name(node: Node) -> str:
    target: Any = node.target
    return str(target) if node.op != "call_function" else qualified_name(target)
