"""`replace_pattern`: find a small graph in a large one and put another in its place.

A match maps every node of the pattern to a node of the graph. Only the pattern's results may be
used outside the match, and no node belongs to two matches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.fx.tracing import symbolic_trace
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """Where the pattern was found: its last node, and the node for each of the pattern's."""

    anchor: Node
    nodes_map: dict[Node, Any]


class ReplacedPatterns(NamedTuple):
    """A match, and the nodes that took its place."""

    anchor: Node
    nodes_map: dict[Node, Any]
    replacements: list[Node]


def graph_of(source: Any) -> Graph:
    if isinstance(source, Graph):
        return source
    graph = getattr(source, "graph", None)
    if isinstance(graph, Graph):
        return graph
    return symbolic_trace(source).graph


def results_of(graph: Graph) -> list[Node]:
    """The nodes that a graph returns."""
    return graph.output_node().all_input_nodes


def match_values(pattern: Any, value: Any, found: dict[Node, Any]) -> bool:
    """Whether `value` has the pattern's form; `found` takes the nodes on the way."""
    if isinstance(pattern, Node):
        return match_node(pattern, value, found)
    if isinstance(pattern, (list, tuple)):
        return (
            isinstance(value, (list, tuple))
            and len(pattern) == len(value)
            and all(match_values(p, v, found) for p, v in zip(pattern, value))
        )
    if isinstance(pattern, dict):
        return (
            isinstance(value, dict)
            and pattern.keys() == value.keys()
            and all(match_values(pattern[key], value[key], found) for key in pattern)
        )
    if isinstance(pattern, slice):
        return isinstance(value, slice) and match_values(
            (pattern.start, pattern.stop, pattern.step),
            (value.start, value.stop, value.step),
            found,
        )
    return type(pattern) is type(value) and bool(pattern == value)


def match_node(pattern: Node, value: Any, found: dict[Node, Any]) -> bool:
    if pattern in found:
        known = found[pattern]
        return known is value or (not isinstance(value, Node) and bool(known == value))
    if pattern.op == "placeholder":
        found[pattern] = value
        return True
    if not isinstance(value, Node) or pattern.op != value.op or pattern.target != value.target:
        return False
    found[pattern] = value
    return match_values(pattern.args, value.args, found) and match_values(
        dict(pattern.kwargs), dict(value.kwargs), found
    )


def is_contained(pattern: Graph, found: dict[Node, Any]) -> bool:
    """Whether nothing outside the match uses what only the pattern's inside has."""
    results = set(results_of(pattern))
    inside = {value for key, value in found.items() if key.op != "placeholder"}
    return all(
        key.op == "placeholder" or key in results or all(user in inside for user in value.users)
        for key, value in found.items()
    )


def find_matches(graph: Graph, pattern: Graph) -> list[Match]:
    """The matches of a pattern, none overlapping another."""
    results = results_of(pattern)
    taken: set[Node] = set()
    matches: list[Match] = []
    for anchor in reversed(graph.nodes):
        found: dict[Node, Any] = {}
        if anchor in taken or not results or not match_node(results[-1], anchor, found):
            continue
        inside = {value for key, value in found.items() if key.op != "placeholder"}
        complete = all(result in found for result in results)
        if complete and not inside & taken and is_contained(pattern, found):
            taken |= inside
            matches.append(Match(anchor, found))
    matches.reverse()
    return matches


def insert_replacement(graph: Graph, match: Match, pattern: Graph, new: Graph) -> list[Node]:
    """Put a copy of `new` where the match is; returns its nodes."""
    inputs = [node for node in pattern.nodes if node.op == "placeholder"]
    new_inputs = [node for node in new.nodes if node.op == "placeholder"]
    values: dict[Node, Any] = {
        theirs: match.nodes_map[ours]
        for ours, theirs in zip(inputs, new_inputs)
        if ours in match.nodes_map
    }
    before = set(graph.nodes)
    inside = {value for key, value in match.nodes_map.items() if key.op != "placeholder"}
    place = max(inside)
    # Next to what uses the results, where that comes after all of the match.
    users = [
        user
        for result in results_of(pattern)
        for user in match.nodes_map[result].users
        if user not in inside
    ]
    if users and min(users) > place:
        place = min(users)
    with graph.inserting_before(place):
        copied = graph.graph_copy(new, values)
    made = [node for node in graph.nodes if node not in before]
    replacing = [copied] if not isinstance(copied, (list, tuple)) else list(copied)
    for result, node in zip(results_of(pattern), replacing):
        match.nodes_map[result].replace_all_uses_with(node)
    for node in reversed(list(pattern.nodes)):
        old = match.nodes_map.get(node)
        if node.op not in ("placeholder", "output") and isinstance(old, Node) and not old.users:
            graph.erase_node(old)
    return made


def replace_pattern_with_filters(
    gm: Any,
    pattern: Any,
    replacement: Any = None,
    match_filters: Any = None,
    ignore_literals: bool = False,
) -> list[ReplacedPatterns]:
    """`replace_pattern` where every filter `f(match, graph, pattern_graph)` accepts the match."""
    graph, pattern, new = gm.graph, graph_of(pattern), graph_of(replacement)
    if ignore_literals:
        raise NotImplementedError("replace_pattern does not support ignore_literals=True")
    done = []
    replaced: dict[Node, Node] = {}
    for match in find_matches(graph, pattern):
        # A match may take its inputs from the results of one that was replaced before it.
        nodes = {
            key: replaced.get(value, value) if isinstance(value, Node) else value
            for key, value in match.nodes_map.items()
        }
        match = Match(match.anchor, nodes)
        if not all(accept(match, graph, pattern) for accept in match_filters or ()):
            continue
        old = [nodes[result] for result in results_of(pattern)]
        made = insert_replacement(graph, match, pattern, new)
        replaced.update(zip(old, results_in(made, new)))
        done.append(ReplacedPatterns(match.anchor, nodes, made))
    for target, value in missing_members(gm, replacement):
        gm.add_submodule(target, value)
    gm.recompile()
    return done


def results_in(made: list[Node], new: Graph) -> list[Node]:
    """The copies of the nodes that `new` returns."""
    originals = [node for node in new.nodes if node.op not in ("placeholder", "output")]
    copies = dict(zip(originals, made))
    return [copies[node] for node in results_of(new) if node in copies]


def missing_members(gm: Any, replacement: Any) -> list[tuple[str, Any]]:
    """Modules that the graph calls now and that only the replacement has."""
    if not hasattr(replacement, "get_submodule"):
        return []
    known = dict(gm.named_modules())
    targets = [node.target for node in gm.graph.nodes if node.op == "call_module"]
    return [
        (target, replacement.get_submodule(target)) for target in targets if target not in known
    ]


def replace_pattern(gm: Any, pattern: Any, replacement: Any) -> list[Match]:
    """Replace every place in the graph that looks like `pattern` by `replacement`.

    Both are functions or modules with the same inputs and outputs; parameters match any value.
    """
    done = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(one.anchor, one.nodes_map) for one in done]
