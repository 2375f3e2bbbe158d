"""The nodes that one module or function of the source program became."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """Nodes of one call of `source`, what goes into them, what is used of them, and parameters."""

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def source_of(node: Node) -> tuple[str, Any] | None:
    """(name of the call, module class or function) that a node came from."""
    stack = node.meta.get("source_fn_stack")
    if stack:
        name, source = stack[-1]
        return name, source
    if "torch_fn" in node.meta:
        name, path = node.meta["torch_fn"]
        return name, path.split(".")[-1]
    return None


def get_source_partitions(
    graph: Graph, wanted_sources: list[Any], filter_fn: Callable[[Node], bool] | None = None
) -> dict[Any, list[SourcePartition]]:
    """For each wanted module class or function the partitions that came from it."""
    calls: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        found = source_of(node)
        if found is not None and found[1] in wanted_sources:
            calls.setdefault(found[1], {}).setdefault(found[0], []).append(node)
    partitions: dict[Any, list[SourcePartition]] = {}
    for source, by_name in calls.items():
        made = [partition_of(nodes, source) for nodes in by_name.values()]
        if filter_fn is not None:
            made = [one for one in made if all(map(filter_fn, one.nodes))]
        if made:
            partitions[source] = made
    return partitions


def partition_of(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    params: dict[Node, None] = {}
    for node in nodes:
        for given in node.all_input_nodes:
            if given.op == "get_attr":
                params[given] = None
            elif given not in inside:
                inputs[given] = None
        if node.op == "get_attr":
            params[node] = None
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    return SourcePartition(nodes, source, list(inputs), outputs, list(params))


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether some node of the first is used by the second."""
    inside = set(subgraph1.nodes)
    return any(given in inside for node in subgraph2.nodes for given in node.all_input_nodes)
