"""`SubgraphMatcher`: all places where a small graph is part of a large one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rushlight.fx.passes.tools_common import validate_partition
from rushlight.fx.subgraph_rewriter import completed, is_contained, match_node, match_values
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A match: the nodes for the pattern's results, for all its nodes, for its inputs, and for what
    it returns."""

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds a pattern in graphs.

    With `match_output` the whole graph must be the pattern; with `match_placeholder` inputs only
    match inputs; with `ignore_literals` numbers and other constants match any.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if not len(pattern.nodes):
            raise ValueError(
                "SubgraphMatcher cannot be initialized with an empty pattern; give it a graph "
                "with at least one call"
            )
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        self.results = pattern.output_node().all_input_nodes
        used_alone = [
            node for node in self.results if node.op != "placeholder" and len(node.users) == 1
        ]
        self.pattern_anchors = [pattern.output_node()] if match_output else used_alone

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The matches, those of late nodes first; of two that overlap, the first stands."""
        if self.match_output:
            found: dict[Node, Any] = {}
            ends = self.pattern.output_node(), graph.output_node()
            complete = self.match_arguments(*ends, found) and self.is_allowed(found)
            found[ends[0]] = ends[1]
            return [self.described(found)] if complete else []
        matches: list[InternalMatch] = []
        taken: set[Node] = set()
        for anchor in reversed(graph.nodes):
            if node_name_match and node_name_match not in anchor.name:
                continue
            for nodes in self.matches_at(graph, anchor):
                inside = {value for key, value in nodes.items() if key.op != "placeholder"}
                if inside & taken or not self.is_allowed(nodes):
                    continue
                if not is_contained(self.pattern, nodes) or not validate_partition(inside):
                    continue
                matches.append(self.described(nodes))
                if self.remove_overlapping_matches:
                    taken |= inside
                    break
        return matches

    def matches_at(self, graph: Graph, anchor: Node) -> Any:
        found: dict[Node, Any] = {}
        if self.results and match_node(self.results[-1], anchor, found, self.ignore_literals):
            yield from completed(graph, self.results, found, self.ignore_literals)

    def match_arguments(self, pattern: Node, node: Node, found: dict[Node, Any]) -> bool:
        return match_values(pattern.args, node.args, found, self.ignore_literals)

    def is_allowed(self, nodes: dict[Node, Any]) -> bool:
        """Whether inputs of the pattern stand for inputs, where they must."""
        if not self.match_placeholder:
            return True
        return all(
            isinstance(value, Node) and value.op == "placeholder"
            for key, value in nodes.items()
            if key.op == "placeholder"
        )

    def described(self, nodes: dict[Node, Any]) -> InternalMatch:
        return InternalMatch(
            anchors=[nodes[anchor] for anchor in self.pattern_anchors],
            nodes_map=nodes,
            placeholder_nodes=[
                nodes[node]
                for node in self.pattern.nodes
                if node.op == "placeholder" and node in nodes
            ],
            returning_nodes=[nodes[node] for node in self.results],
            name_node_map={
                key.name: value for key, value in nodes.items() if isinstance(value, Node)
            },
        )
