"""`split_module`: a graph cut into modules that are called one after another."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rushlight.fx.graph_module import GraphModule, get_attr
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """One part: its nodes, what it takes from others and what others take from it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        # Parts whose results it takes, in the order in which it takes them.
        self.dependencies: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n "
            f"inputs: {[n.name for n in self.inputs]},\n "
            f"outputs: {[n.name for n in self.outputs]},\n "
            f"partitions depended on: {list(self.dependencies)}"
        )


def split_module(
    m: GraphModule,
    root_m: Any,
    split_callback: Callable[[Node], Any],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """A module that calls one submodule for each number, or name, that `split_callback` gives.

    `root_m` has what the graph's nodes name. `qualname_map` receives from the path of each called
    module in the result to its path in `root_m`. Parts are called in an order in which each comes
    after those whose results it takes, the earliest node first; with `keep_original_order`, in the
    order of their first nodes.
    """
    parts, home = assigned(m, split_callback, partition_affix)
    connect(m, parts, home)
    ordered = in_order(parts, keep_original_order)
    for part in ordered:
        add_inputs(part, keep_original_input_name)
    for node in m.graph.nodes:
        if node in home:
            copy_node(parts[home[node]], node, root_m, qualname_map, keep_original_node_name)
    return assembled(m, root_m, ordered, tuple_return)


def assigned(
    m: GraphModule, split_callback: Callable[[Node], Any], affix: str | None
) -> tuple[dict[str, Partition], dict[Node, str]]:
    """The parts by name, and for each node the name of its part."""
    parts: dict[str, Partition] = {}
    home: dict[Node, str] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        if affix is not None:
            name = f"{affix}_{name}"
        part = parts.setdefault(name, Partition(name))
        part.node_names.append(node.name)
        home[node] = name
    return parts, home


def connect(m: GraphModule, parts: dict[str, Partition], home: dict[Node, str]) -> None:
    for node in m.graph.nodes:
        user = home.get(node)
        for given in node.all_input_nodes:
            source = home.get(given)
            if source == user:
                continue
            if source is not None:
                parts[source].outputs[given] = None
            if user is not None:
                parts[user].inputs[given] = None
                if source is not None:
                    parts[user].dependencies[source] = None


def in_order(parts: dict[str, Partition], keep_original_order: bool | None) -> list[Partition]:
    if keep_original_order:
        return list(parts.values())
    rest, ordered = dict(parts), []
    while rest:
        ready = [name for name, part in rest.items() if not rest.keys() & part.dependencies]
        if not ready:
            raise RuntimeError(
                "cycle exists between partitions! These take results of one another: "
                f"{', '.join(rest)}"
            )
        ordered.append(rest.pop(ready[0]))
    return ordered


def add_inputs(part: Partition, keep_names: bool) -> None:
    for number, given in enumerate(part.inputs):
        name = given.name if keep_names else f"arg_{number}"
        made = part.graph.placeholder(name, type_expr=given.type)
        made.meta = given.meta.copy()
        part.environment[given] = made


def copy_node(
    part: Partition,
    node: Node,
    root_m: Any,
    qualname_map: dict[str, str] | None,
    keep_name: bool | None,
) -> None:
    target = node.target
    if node.op == "call_module":
        path = str(target)
        target = path.replace(".", "_")
        part.targets[target] = get_attr(root_m, path)
        if qualname_map is not None:
            qualname_map[f"{part.submod_name}.{target}"] = path
    args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda n: part.environment[n])
    name = node.name if keep_name else None
    made = part.graph.create_node(node.op, target, args, kwargs, name, type_expr=node.type)
    made.meta = node.meta.copy()
    part.environment[node] = made


def assembled(
    m: GraphModule, root_m: Any, ordered: list[Partition], tuple_return: bool
) -> GraphModule:
    """The module that calls the parts."""
    graph = Graph()
    known: dict[Node, Node] = {}
    members: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op == "placeholder":
            known[node] = graph.create_node(
                "placeholder", node.target, node.args, name=node.name, type_expr=node.type
            )
            known[node].meta = node.meta.copy()
        elif node.op == "get_attr":
            known[node] = graph.get_attr(str(node.target))
            known[node].meta = node.meta.copy()
            members[str(node.target)] = get_attr(root_m, str(node.target))
    for part in ordered:
        results = tuple([part.environment[node] for node in part.outputs])
        single = len(results) == 1 and not tuple_return
        part.graph.output(results[0] if single else results)
        members[part.submod_name] = GraphModule(part.targets, part.graph)
        call = graph.call_module(part.submod_name, tuple([known[n] for n in part.inputs]))
        for place, node in enumerate(part.outputs):
            known[node] = call if single else graph.call_function(operator.getitem, (call, place))
            known[node].meta = node.meta.copy()
    output = m.graph.output_node()
    graph.output(map_arg(output.args[0], lambda n: known[n])).meta = output.meta.copy()
    return GraphModule(members, graph)
