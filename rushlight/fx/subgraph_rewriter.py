"""`replace_pattern`: find a small graph in a large one and put another in its place.

A match maps every node of the pattern to a node of the graph. Only the pattern's results may be
used outside the match, and no node belongs to two matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import get_attr
from rushlight.fx.tracing import symbolic_trace
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.nn.module import Module

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
    if not isinstance(value, Node) or pattern.op != value.op:
        return False
    if pattern.target != value.target and not (
        pattern.op == "get_attr" and reads_tensor(pattern) and reads_tensor(value)
    ):
        return False
    found[pattern] = value
    given, expected = value.args, pattern.args
    if isinstance(pattern.target, OpOverload):
        expected, given = written_out(pattern), written_out(value)
        return match_values(expected, given, found, any_literal)
    return match_values(expected, given, found, any_literal) and match_values(
        dict(pattern.kwargs), dict(value.kwargs), found, any_literal
    )


def reads_tensor(node: Node) -> bool:
    """Whether a node reads a tensor of its module: any stands for any."""
    owner: Any = node.graph.owning_module
    return owner is not None and isinstance(get_attr(owner, str(node.target)), Tensor)


def written_out(node: Node) -> tuple[Any, ...]:
    """The arguments of an op by position, with the defaults of those that are not given."""
    target: Any = node.target
    rest = target._schema.arguments[len(node.args) :]
    return (
        *node.args,
        *[node.kwargs.get(argument.name, argument.default_value) for argument in rest],
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


def find_matches(graph: Graph, pattern: Graph, any_literal: bool = False) -> list[Match]:
    """The matches of a pattern, none overlapping another."""
    results = results_of(pattern)
    taken: set[Node] = set()
    matches: list[Match] = []
    for anchor in reversed(graph.nodes):
        found: dict[Node, Any] = {}
        if anchor in taken or not results:
            continue
        if not match_node(results[-1], anchor, found, any_literal):
            continue
        for nodes in completed(graph, results, found, any_literal):
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
    replacement_callback: Callable[[Match, Graph, Graph], Graph] | None = None,
) -> list[ReplacedPatterns]:
    """`replace_pattern` where every filter `f(match, graph, pattern_graph)` accepts the match. With
    `ignore_literals` constants of the pattern stand for any; a `replacement_callback`, called like
    a filter, makes the graph for each match."""
    graph, pattern = gm.graph, graph_of(pattern)
    if replacement is None and replacement_callback is None:
        raise AssertionError("give a replacement, or a replacement_callback")
    new = None if replacement is None else graph_of(replacement)
    done = []
    replaced: dict[Node, Any] = {}
    for match in find_matches(graph, pattern, ignore_literals):
        # A match may take its inputs from the results of one that was replaced before it.
        nodes = {
            key: replaced.get(value, value) if isinstance(value, Node) else value
            for key, value in match.nodes_map.items()
        }
        match = Match(match.anchor, nodes)
        if not all(accept(match, graph, pattern) for accept in match_filters or ()):
            continue
        old = [nodes[result] for result in results_of(pattern)]
        chosen = new
        if replacement_callback is not None:
            chosen = replacement_callback(match, graph, pattern)
        assert chosen is not None
        made, results = insert_replacement(graph, match, pattern, chosen)
        replaced.update(zip(old, results))
        done.append(ReplacedPatterns(match.anchor, nodes, made))
    if isinstance(replacement, Module):
        take_members(gm, replacement)
    gm.recompile()
    return done


def take_members(gm: Any, replacement: Module) -> None:
    """Let a module have what its graph uses of the replacement, and no module that it calls no
    more."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or holds(gm, str(node.target)):
            continue
        if not holds(replacement, str(node.target)):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        *path, name = str(node.target).split(".")
        owner = gm
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        setattr(owner, name, get_attr(replacement, str(node.target)))


def holds(module: Any, target: str) -> bool:
    for part in target.split("."):
        if not hasattr(module, part):
            return False
        module = getattr(module, part)
    return True


def replace_pattern(gm: Any, pattern: Any, replacement: Any) -> list[Match]:
    """Replace every place in the graph that looks like `pattern` by `replacement`.

    Both are functions or modules with the same inputs and outputs; parameters match any value.
    """
    done = replace_pattern_with_filters(gm, pattern, replacement)
    return [Match(one.anchor, one.nodes_map) for one in done]
