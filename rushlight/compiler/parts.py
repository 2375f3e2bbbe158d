"""Graphs with calls that must run as they are: what lies between is compiled part by part.

A hook is put on a tensor that is really there. The tensor is then a result of one part, and an
argument of the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.base.counters import counters
from rushlight.capture.recording import EXAMPLE, HOOK, NATIVE, WRITES
from rushlight.capture.states import SWITCHES
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg

__all__ = ["in_parts"]

Compile = Callable[[GraphModule, list[Any]], Callable[..., Any]]
# From the values of nodes: more values.
Step = Callable[[dict[Node, Any]], None]


def in_parts(module: Any, compile_part: Compile) -> Callable[..., Any]:
    """A function that runs a graph: native nodes as they are, other ones compiled in parts."""
    nodes = list(module.graph.nodes)
    switches = [node for node in nodes if node.target in SWITCHES]
    has_hooks = any(node.meta.get(NATIVE) == HOOK for node in nodes)
    if has_hooks and any(node.meta.get(WRITES) for node in nodes):
        # A hook sees what a write in the graph makes of a tensor; a part would hide that from it.
        counters["stats"]["graphs that run as they were captured"] += 1
        forward: Callable[..., Any] = module.forward
        return forward
    inputs = [node for node in nodes if node.op == "placeholder"]
    output = next(node for node in nodes if node.op == "output")
    steps: list[Step] = []
    group: list[Node] = []
    for node in nodes:
        if node.op == "placeholder":
            continue
        is_end = node.op == "output"
        if not (is_end or node.meta.get(NATIVE)):
            group.append(node)
            continue
        if group:
            steps.append(part_step(module, group, switches, compile_part))
            group = []
        if not is_end:
            steps.append(native_step(node))

    def run(*given: Any) -> Any:
        values = dict(zip(inputs, given, strict=True))
        for step in steps:
            step(values)
        return map_arg(output.args[0], values.__getitem__)

    return run


def native_step(node: Node) -> Step:
    def step(values: dict[Node, Any]) -> None:
        args, kwargs = map_arg((node.args, dict(node.kwargs)), values.__getitem__)
        if node.op == "call_method":
            values[node] = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]

    return step


def part_step(module: Any, group: list[Node], switches: list[Node], compile_part: Compile) -> Step:
    """One part as a graph of its own: what it takes from outside are its inputs. It begins in the
    modes that nodes in front of it switch to, and ends in those of the whole graph's beginning."""
    inside = set(group)
    before = [node for node in switches if node < group[0]]
    after = [node for node in switches if group[-1] < node]
    needed = list({x: None for node in group for x in node.all_input_nodes if x not in inside})
    results = [node for node in group if any(user not in inside for user in node.users)]
    graph, copies = Graph(), {}
    for node in needed:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta[EXAMPLE] = node.meta[EXAMPLE]
    for node in [*before, *group, *after]:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in results))
    run = compile_part(GraphModule(module, graph), [node.meta[EXAMPLE] for node in needed])

    def step(values: dict[Node, Any]) -> None:
        found = run(*[values[node] for node in needed])
        values.update(zip(results, found, strict=True))

    return step
