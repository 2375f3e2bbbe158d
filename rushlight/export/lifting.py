"""Tensors and objects that a graph holds as attributes become inputs of it.

A tensor that the module has under a name keeps it; others are called `lifted_tensor_0`, ..., in
the module whose forward made them.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.fake import FakeTensorMode, snapshot
from rushlight.core.tensor import Tensor
from rushlight.export.signature import (
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from rushlight.fx.graph_module import GraphModule, get_attr
from rushlight.graph.node import Node
from rushlight.nn.module import Module

__all__ = ["ConstantNames", "lift_constants_pass"]

# Constants come after parameters and buffers.
BEFORE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.TOKEN)


class ConstantNames:
    """The names of constants, by identity. `add` takes what a module has under a name."""

    def __init__(self) -> None:
        # Identity -> the constant, which lives as long as its identity counts, and its names.
        self.found: dict[int, tuple[Any, list[str]]] = {}

    def add(self, value: Any, name: str) -> None:
        self.found.setdefault(id(value), (value, []))[1].append(name)

    def names_of(self, value: Any) -> list[str]:
        held = self.found.get(id(value))
        return [] if held is None else held[1]

    def __contains__(self, value: Any) -> bool:
        return id(value) in self.found


def lift_constants_pass(
    gm: GraphModule, graph_signature: ExportGraphSignature, constant_attrs: Any
) -> dict[str, Any]:
    """Make inputs of a graph's constants; the signature says so afterwards. Returns the constants
    by their dotted names: all names of those that the module has under several."""
    known = constant_attrs if isinstance(constant_attrs, ConstantNames) else named(constant_attrs)
    lifting = Lifting(gm, graph_signature, known)
    for node in list(gm.graph.nodes):
        if node.op == "get_attr":
            lifting.visit(node)
    return lifting.constants


def named(constant_attrs: Any) -> ConstantNames:
    """From a dict {constant: its names, or its name}."""
    found = ConstantNames()
    for value, names in dict(constant_attrs).items():
        for name in [names] if isinstance(names, str) else names:
            found.add(value, name)
    return found


class Lifting:
    """One run of the pass."""

    def __init__(
        self, gm: GraphModule, signature: ExportGraphSignature, known: ConstantNames
    ) -> None:
        self.gm = gm
        self.signature = signature
        self.known = known
        self.constants: dict[str, Any] = {}
        # Identity of a constant -> the placeholder that stands for it.
        self.lifted: dict[int, Node] = {}
        self.taken = {spec.target for spec in signature.input_specs}
        self.numbers = {"lifted_tensor": 0, "lifted_custom": 0}
        specs = signature.input_specs
        self.place = sum([spec.kind is not InputKind.USER_INPUT for spec in specs])
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        self.first_user = next(
            (node for node, spec in zip(placeholders, specs) if spec.kind is InputKind.USER_INPUT),
            None,
        )
        self.by_target = {
            spec.target: node
            for node, spec in zip(placeholders, specs)
            if spec.kind is not InputKind.USER_INPUT
        }
        self.mode = mode_of(placeholders)

    def visit(self, node: Node) -> None:
        value = get_attr(self.gm, str(node.target))
        if isinstance(value, Module):
            return
        placeholder = self.lifted.get(id(value))
        if placeholder is None:
            placeholder = self.lifted[id(value)] = self.placeholder_for(node, value)
        node.replace_all_uses_with(placeholder)
        self.gm.graph.erase_node(node)
        if all([n.target != node.target for n in self.gm.graph.nodes if n.op == "get_attr"]):
            remove_attribute(self.gm, str(node.target))

    def placeholder_for(self, node: Node, value: Any) -> Node:
        names = self.known.names_of(value)
        for name in names:
            if name in self.by_target:
                return self.by_target[name]
        is_tensor = isinstance(value, Tensor)
        if not names:
            names = [self.fresh_name(node, "lifted_tensor" if is_tensor else "lifted_custom")]
            self.known.add(value, names[0])
        for name in names:
            self.constants[name] = value
            self.taken.add(name)
        prefix = "c" if is_tensor else "obj"
        graph = self.gm.graph
        with graph.inserting_before(self.first_user or after_placeholders(graph)):
            placeholder = graph.placeholder(f"{prefix}_{names[0].replace('.', '_')}")
        arg: Any = TensorArgument(placeholder.name)
        kind = InputKind.CONSTANT_TENSOR
        if is_tensor:
            placeholder.meta["val"] = self.fake_of(value)
        else:
            kind = InputKind.CUSTOM_OBJ
            arg = CustomObjArgument(placeholder.name, class_name(value), value)
            placeholder.meta["val"] = CustomObjArgument(placeholder.name, class_name(value))
        self.signature.input_specs.insert(self.place, InputSpec(kind, arg, names[0]))
        self.place += 1
        return placeholder

    def fake_of(self, value: Tensor) -> Any:
        if self.mode is not None:
            return snapshot(self.mode.from_tensor(value, static_shapes=True))
        return snapshot(value)

    def fresh_name(self, node: Node, prefix: str) -> str:
        path = module_of(next(iter(node.users), None))
        start = f"{path}." if path else ""
        while True:
            name = f"{start}{prefix}_{self.numbers[prefix]}"
            self.numbers[prefix] += 1
            if name not in self.taken:
                return name


def mode_of(placeholders: list[Node]) -> FakeTensorMode | None:
    for node in placeholders:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if isinstance(mode, FakeTensorMode):
            return mode
    return None


def after_placeholders(graph: Any) -> Node:
    found: Node = next(node for node in graph.nodes if node.op != "placeholder")
    return found


def module_of(node: Node | None) -> str:
    """The path of the module whose forward made a node."""
    stack = node.meta.get("nn_module_stack") if node is not None else None
    return str(list(stack.values())[-1][0]) if stack else ""


def class_name(value: Any) -> str:
    name = getattr(value, "_type", None)
    if name is not None:
        return str(name().qualified_name())
    return f"{type(value).__module__}.{type(value).__qualname__}"


def remove_attribute(module: Any, target: str) -> None:
    *path, name = target.split(".")
    for part in path:
        module = getattr(module, part)
    if hasattr(module, name):
        delattr(module, name)
