"""`split_by_tags`: a graph cut into modules by the tags of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from operator import getitem
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg

__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]


def getattr_recursive(obj: Any, name: str) -> Any:
    """What a dotted name leads to."""
    for part in name.split("."):
        obj = getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Put a value where a dotted name leads to."""
    place, _, name = attr.rpartition(".")
    setattr(getattr_recursive(obj, place) if place else obj, name, value)


@dataclass
class Component:
    """The part of one tag: its graph, and what it takes from outside and gives."""

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    gm: GraphModule | None = None


def split_by_tags(
    gm: GraphModule,
    tags: list[str],
    return_fqn_mapping: bool = False,
    return_tuple: bool = False,
    GraphModuleCls: type[GraphModule] = GraphModule,
) -> Any:
    """A module that calls one submodule for each tag, in the order of the tags.

    Every node of the graph but inputs, outputs and attributes has a `tag`; a node's inputs have
    the same tag or an earlier one.
    """
    parts = {tag: Component(Graph(), i, tag) for i, tag in enumerate(tags)}
    copies: dict[Node, Node] = {}
    home: dict[Node, Component] = {}
    main, in_main = Graph(), {}
    used_later: dict[str, dict[Node, None]] = {tag: {} for tag in tags}

    for node in gm.graph.nodes:
        if node.op == "placeholder":
            in_main[node] = main.node_copy(node)
        elif node.op == "output":
            returned = node
        elif node.op != "get_attr":
            home[node] = parts[tag_of(node)]

    for node in gm.graph.nodes:
        part = home.get(node)
        if part is not None:
            copies[node] = part.graph.node_copy(
                node, partial(brought, part=part, home=home, copies=copies, used_later=used_later)
            )
    map_arg(returned.args, lambda x: note(x, home, used_later))

    for tag, part in parts.items():
        part.orig_outputs = list(used_later[tag])
        outputs = tuple(copies[each] for each in part.orig_outputs)
        single = len(outputs) == 1 and not return_tuple
        part.graph.output(outputs[0] if single else outputs)
        part.gm = GraphModuleCls(gm, part.graph, class_name=tag)
        called = main.call_module(tag, tuple(in_main[each] for each in part.orig_inputs))
        for i, each in enumerate(part.orig_outputs):
            in_main[each] = called if single else main.call_function(getitem, (called, i))

    def at_top(node: Node) -> Node:
        if node not in in_main:
            in_main[node] = main.get_attr(str(node.target))
        return in_main[node]

    main.output(map_arg(returned.args[0], at_top))
    holder = {tag: part.gm for tag, part in parts.items()}
    attributes = {str(n.target): getattr_recursive(gm, str(n.target))
                  for n in main.nodes if n.op == "get_attr"}  # fmt: skip
    made = GraphModuleCls({**holder, **attributes}, main)
    if not return_fqn_mapping:
        return made
    names = {
        f"{tag}.{node.target}": str(node.target)
        for tag, part in parts.items()
        for node in part.graph.nodes
        if node.op in ("get_attr", "call_module")
    }
    return made, names


def tag_of(node: Node) -> str:
    tag = getattr(node, "tag", None)
    if tag is None:
        raise AssertionError(f"Node {node} does not have a tag")
    return str(tag)


def note(node: Node, home: dict[Node, Component], used_later: dict[str, dict[Node, None]]) -> Node:
    """Remember that a part gives a value to others."""
    if node in home:
        used_later[home[node].name][node] = None
    return node


def brought(
    node: Node,
    part: Component,
    home: dict[Node, Component],
    copies: dict[Node, Node],
    used_later: dict[str, dict[Node, None]],
) -> Node:
    """What stands for `node` within a part: its copy, an attribute, or an input of the part."""
    origin = home.get(node)
    if origin is part:
        return copies[node]
    if node.op == "get_attr":
        if node not in part.getattr_maps:
            part.getattr_maps[node] = part.graph.get_attr(str(node.target))
        return part.getattr_maps[node]
    if origin is not None and origin.order > part.order:
        raise AssertionError(
            f"{node} of {origin.name} is needed by {part.name}, which comes before"
        )
    if node not in part.orig_inputs:
        part.orig_inputs.append(node)
        part.input_placeholders.append(part.graph.placeholder(node.name))
        note(node, home, used_later)
    return part.input_placeholders[part.orig_inputs.index(node)]
