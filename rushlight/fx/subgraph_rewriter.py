"""`replace_pattern`: find a small graph in a large one and put another in its place.

A match maps every node of the pattern to a node of the graph. Only the pattern's results may be
used outside the match, and no node belongs to two matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from rushlight.base.errors import error
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


def match_values(
    pattern: Any, value: Any, found: dict[Node, Any], any_literal: bool = False
) -> bool:
    """Whether `value` has the pattern's form; `found` takes the nodes on the way. With
    `any_literal`, constants of the pattern stand for any."""
    if isinstance(pattern, Node):
        return match_node(pattern, value, found, any_literal)
    if isinstance(pattern, (list, tuple)):
        return (
            isinstance(value, (list, tuple))
            and len(pattern) == len(value)
            and all(match_values(p, v, found, any_literal) for p, v in zip(pattern, value))
        )
    if isinstance(pattern, dict):
        return (
            isinstance(value, dict)
            and pattern.keys() == value.keys()
            and all(match_values(pattern[key], value[key], found, any_literal) for key in pattern)
        )
    if isinstance(pattern, slice):
        return isinstance(value, slice) and match_values(
            (pattern.start, pattern.stop, pattern.step),
            (value.start, value.stop, value.step),
            found,
            any_literal,
        )
    if any_literal:
        return not isinstance(value, Node)
    return type(pattern) is type(value) and bool(pattern == value)


def match_node(
    pattern: Node, value: Any, found: dict[Node, Any], any_literal: bool = False
) -> bool:
    if pattern in found:
        known = found[pattern]
        return known is value or (not isinstance(value, Node) and bool(known == value))
    if pattern.op == "placeholder":
        found[pattern] = value
        return True
    if not isinstance(value, Node) or pattern.op != value.op or pattern.target != value.target:
        return False
    found[pattern] = value
    return match_values(pattern.args, value.args, found, any_literal) and match_values(
        dict(pattern.kwargs), dict(value.kwargs), found, any_literal
    )


def is_contained(pattern: Graph, found: dict[Node, Any]) -> bool:
    """Whether nothing outside the match uses what only the pattern's inside has."""
    results = set(results_of(pattern))
    inside = {value for key, value in found.items() if key.op != "placeholder"}
    return all(
        key.op == "placeholder" or key in results or all(user in inside for user in value.users)
        for key, value in found.items()
    )


def completed(
    graph: Graph, results: list[Node], found: dict[Node, Any], any_literal: bool = False
) -> Iterator[Any]:
    """Every way to find the pattern's other results, none of which leads to another."""
    missing = [result for result in results if result not in found]
    if not missing:
        yield found
    elif missing[0].op != "placeholder":
        inside = {value for key, value in found.items() if key.op != "placeholder"}
        for candidate in graph.nodes:
            trial = dict(found)
            if candidate not in inside and match_node(missing[0], candidate, trial, any_literal):
                yield from completed(graph, results, trial, any_literal)


def has_place(pattern: Graph, found: dict[Node, Any]) -> bool:
    """Whether all that goes into the match comes before all that uses its results."""
    users = outer_users(pattern, found)
    inputs = [v for key, v in found.items() if key.op == "placeholder" and isinstance(v, Node)]
    return not users or not inputs or max(inputs) < min(users)


def outer_users(pattern: Graph, found: dict[Node, Any]) -> list[Node]:
    inside = {value for key, value in found.items() if key.op != "placeholder"}
    return [
        user for result in results_of(pattern) for user in found[result].users if user not in inside
    ]


def find_matches(graph: Graph, pattern: Graph) -> list[Match]:
    """The matches of a pattern, none overlapping another."""
    results = results_of(pattern)
    taken: set[Node] = set()
    matches: list[Match] = []
    for anchor in reversed(graph.nodes):
        found: dict[Node, Any] = {}
        if anchor in taken or not results or not match_node(results[-1], anchor, found):
            continue
        for nodes in completed(graph, results, found):
            inside = {value for key, value in nodes.items() if key.op != "placeholder"}
            if inside & taken or not is_contained(pattern, nodes) or not has_place(pattern, nodes):
                continue
            taken |= inside
            matches.append(Match(anchor, nodes))
            break
    matches.reverse()
    return matches


def insert_replacement(
    graph: Graph, match: Match, pattern: Graph, new: Graph
) -> tuple[list[Node], list[Any]]:
    """Put a copy of `new` where the match is; returns its nodes, and what it returns."""
    inputs = [node for node in pattern.nodes if node.op == "placeholder"]
    new_inputs = [node for node in new.nodes if node.op == "placeholder"]
    values: dict[Node, Any] = {
        theirs: match.nodes_map[ours]
        for ours, theirs in zip(inputs, new_inputs)
        if ours in match.nodes_map
    }
    before = set(graph.nodes)
    inside = {value for key, value in match.nodes_map.items() if key.op != "placeholder"}
    # Next to what uses the results: their inputs all come before that.
    with graph.inserting_before(min(outer_users(pattern, match.nodes_map), default=max(inside))):
        copied = graph.graph_copy(new, values)
    made = [node for node in graph.nodes if node not in before]
    replacing = [copied] if not isinstance(copied, (list, tuple)) else list(copied)
    for result, node in zip(results_of(pattern), replacing):
        match.nodes_map[result].replace_all_uses_with(node)
    for node in reversed(list(pattern.nodes)):
        old = match.nodes_map.get(node)
        if node.op not in ("placeholder", "output") and isinstance(old, Node) and not old.users:
            graph.erase_node(old)
    return made, replacing


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
        raise error(
            "RL0701", NotImplementedError, function="replace_pattern", option="ignore_literals=True"
        )
    done = []
    replaced: dict[Node, Any] = {}
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
        made, results = insert_replacement(graph, match, pattern, new)
        replaced.update(zip(old, results))
        done.append(ReplacedPatterns(match.anchor, nodes, made))
    for target, value in missing_members(gm, replacement):
        gm.add_submodule(target, value)
    gm.recompile()
    return done


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
