"""Names of a program's nodes: those of the module's own names win over those of ops.

User inputs are named after parameters and keys, lifted ones after their dotted names with a letter
for their kind; other nodes make way. Graphs that higher-order ops call have the names of their
operands.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rushlight.core.hop import HigherOrderOperator
from rushlight.export.signature import ExportGraphSignature, InputKind, OutputKind
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["name_nodes", "name_subgraphs"]

PREFIXES = {
    InputKind.PARAMETER: "p_",
    InputKind.BUFFER: "b_",
    InputKind.CONSTANT_TENSOR: "c_",
    InputKind.CUSTOM_OBJ: "obj_",
    InputKind.TOKEN: "token",
}
NUMBERED = re.compile(r"^(.*)_(\d+)$")
ILLEGAL = re.compile(r"[^a-zA-Z0-9]")


class Names:
    """Names that are taken."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def for_input(self, wanted: str) -> str:
        """The name, or the first of name_1, name_2, ... that is free."""
        name, number = wanted, 0
        while name in self.taken:
            number += 1
            name = f"{wanted}_{number}"
        self.taken.add(name)
        return name

    def for_node(self, wanted: str) -> str:
        """The name, with a number that goes up until it is free."""
        name = wanted
        while name in self.taken:
            found = NUMBERED.match(name)
            name = f"{found[1]}_{int(found[2]) + 1}" if found else f"{name}_1"
        self.taken.add(name)
        return name


def name_nodes(
    module: GraphModule, signature: ExportGraphSignature, user_names: Sequence[str]
) -> None:
    """Give all nodes of a program their names; the signature follows."""
    names = Names()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    pairs = list(zip(placeholders, signature.input_specs, strict=True))
    wanted = iter(user_names)
    renamed: dict[str, str] = {}
    for lifted in (False, True):
        for node, spec in pairs:
            if (spec.kind is not InputKind.USER_INPUT) is not lifted:
                continue
            name = lifted_name(spec.kind, spec.target) if lifted else next(wanted)
            new = names.for_input(name)
            renamed[node.name] = spec.arg.name = new
            node.name = node.target = new
    for node in module.graph.nodes:
        if node.op != "placeholder":
            node.name = names.for_node(node.name)
    follow_outputs(module.graph, signature, renamed)
    name_subgraphs(module)
    renew_namespace(module)
    module.recompile()


def lifted_name(kind: InputKind, target: str | None) -> str:
    return PREFIXES[kind] + ILLEGAL.sub("_", target or "").lower()


def follow_outputs(graph: Graph, signature: ExportGraphSignature, renamed: dict[str, str]) -> None:
    """Let output specs name the nodes that are there now."""
    outputs: Any = graph.output_node().args[0]
    for value, spec in zip(outputs, signature.output_specs, strict=True):
        if isinstance(value, Node):
            spec.arg.name = value.name
        if spec.kind is OutputKind.USER_INPUT_MUTATION:
            spec.target = renamed[str(spec.target)]


def name_subgraphs(module: GraphModule) -> None:
    """Give inputs of graphs that are called the names of the operands."""
    for node in module.graph.nodes:
        if not isinstance(node.target, HigherOrderOperator):
            continue
        graphs = [
            getattr(module, str(arg.target))
            for arg in node.args
            if isinstance(arg, Node) and arg.op == "get_attr"
        ]
        operands = operands_of(node)
        for graph in graphs:
            if isinstance(graph, GraphModule):
                name_subgraph(graph, operands)


def operands_of(node: Node) -> list[Any]:
    """What the graphs that a node calls are called on."""
    name = node.target.name()
    rest = list(node.args)
    if name == "cond":
        return list(rest[3])
    if name in ("map_impl", "scan", "associative_scan", "while_loop", "strict_mode"):
        return [item for part in rest if isinstance(part, (list, tuple)) for item in part]
    after = [
        place
        for place, arg in enumerate(rest)
        if isinstance(arg, Node) and arg.op == "get_attr" and not arg.meta.get("val")
    ]
    return rest[after[-1] + 1 :] if after else []


def name_subgraph(module: GraphModule, operands: Sequence[Any]) -> None:
    names = Names()
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for node, operand in zip(placeholders, operands):
        if isinstance(operand, Node):
            node.name = node.target = names.for_input(operand.name)
    for node in placeholders[len(operands) :]:
        node.name = node.target = names.for_input(node.name)
    for node in module.graph.nodes:
        if node.op != "placeholder":
            node.name = names.for_node(node.name)
    name_subgraphs(module)
    renew_namespace(module)
    module.recompile()


def renew_namespace(module: GraphModule) -> None:
    """Let the graph know which names its nodes have, so that new nodes get others."""
    space = type(module.graph._graph_namespace)()
    for node in module.graph.nodes:
        space.reserve(node.name, node)
    module.graph._graph_namespace = space
