"""`ExportedProgram.module()`: the graph with its state in it, as a module to call.

Lifted inputs are attributes again, and values that were outputs because something is written are
written to it. Tensors are those of the program.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from rushlight.core.op import find_overload
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.export.checks import InputCheck
from rushlight.export.signature import ExportGraphSignature, InputKind, OutputKind
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg
from rushlight.graph.printing import _PyTreeCodeGen, _PyTreeInfo
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram

__all__ = ["unlift_program"]

WRITES = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def unlift_program(program: ExportedProgram, check_guards: bool = True) -> GraphModule:
    """The module of a program."""
    signature = program.graph_signature
    source = program.graph_module
    graph = Graph()
    values: dict[Node, Node] = {}
    outputs = graph.graph_copy(source.graph, values)
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    originals = [node for node in source.graph.nodes if node.op == "placeholder"]
    by_name = {node.name: values[node] for node in originals}
    copied = {node: name for name, node in by_name.items()}
    state = place_state(graph, signature, placeholders, by_name)
    # A result may be an input, in whose place stands another node now.
    outputs = map_arg(outputs, lambda node: by_name[copied[node]] if node in copied else node)
    graph.output(write_back(graph, signature, outputs, by_name, state))
    users = placeholders[len(placeholders) - user_count(signature) :]
    graph.set_codegen(codegen_of(program, users))
    root = stateful_root(program, source)
    graph.eliminate_dead_code()
    graph.lint()
    module = ProgramModule(root, graph)
    module.meta.update(source.meta)
    place_rest(program, module)
    if check_guards:
        user_nodes = originals[len(originals) - user_count(signature) :]
        hook = InputCheck(user_nodes, program.range_constraints)
        module.register_forward_pre_hook(hook, with_kwargs=True)
    return module


class ProgramModule(GraphModule):
    """The module of a program; its mode is that of the module that was exported."""

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        raise NotImplementedError("Calling eval() is not supported yet.")


def user_count(signature: ExportGraphSignature) -> int:
    return sum([spec.kind is InputKind.USER_INPUT for spec in signature.input_specs])


def place_state(
    graph: Graph,
    signature: ExportGraphSignature,
    placeholders: list[Node],
    by_name: dict[str, Node],
) -> dict[str, Node]:
    """Put attributes in the places of lifted inputs: dotted name -> node."""
    found: dict[str, Node] = {}
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            continue
        with graph.inserting_before(node):
            if spec.kind is InputKind.TOKEN:
                made = graph.call_function(find_overload("aten", "zeros", "default"), ([0],))
            else:
                made = graph.create_node("get_attr", str(spec.target))
                found[str(spec.target)] = made
        made.meta = copy.copy(node.meta)
        made.meta.pop("unbacked_bindings", None)
        node.replace_all_uses_with(made)
        by_name[spec.arg.name] = made
        graph.erase_node(node)
    return found


def write_back(
    graph: Graph,
    signature: ExportGraphSignature,
    outputs: Any,
    by_name: dict[str, Node],
    state: dict[str, Node],
) -> tuple[Any, ...]:
    """Write what leads the outputs; a result that is one of these values is what was written."""
    written: dict[Node, Node] = {}
    results = []
    for value, spec in zip(outputs, signature.output_specs, strict=True):
        if spec.kind is OutputKind.TOKEN:
            continue
        if spec.kind not in WRITES:
            results.append(value)
            continue
        is_input = spec.kind is OutputKind.USER_INPUT_MUTATION
        target = by_name[str(spec.target)] if is_input else state[str(spec.target)]
        made = write(graph, target, value)
        made.meta["val"] = target.meta.get("val")
        # An input that is written with itself stays what results name.
        written.setdefault(value, made)
    return tuple([written.get(v, v) if isinstance(v, Node) else v for v in results])


def write(graph: Graph, target: Node, value: Node) -> Node:
    """A node that writes to a tensor. A leaf that requires a gradient is written beside history."""
    copy_op = find_overload("aten", "copy_", "default")
    if getattr(target.meta.get("val"), "requires_grad", False) and target.op == "get_attr":
        detach = find_overload("aten", "detach", "default")
        target = graph.call_function(detach, (target,))
        value = graph.call_function(detach, (value,))
    return graph.create_node("call_function", copy_op, (target, value), name="copy__default")


def codegen_of(program: ExportedProgram, users: list[Node]) -> _PyTreeCodeGen:
    signature = program.module_call_graph[0].signature
    assert signature is not None
    names = signature.forward_arg_names
    if names is None:
        names = default_names(signature.in_spec)
    return _PyTreeCodeGen(_PyTreeInfo(list(names), signature.in_spec, signature.out_spec))


def default_names(in_spec: Any) -> list[str]:
    """Names of parameters for a program that has lost them."""
    positional, keywords = in_spec.children()
    return [
        *[f"arg_{number}" for number in range(positional.num_children)],
        *(keywords.context or ()),
    ]


def stateful_root(program: ExportedProgram, source: GraphModule) -> Module:
    """A module that has at their dotted names the graphs, tensors and objects of a program."""
    root = Module()
    for node in source.graph.nodes:
        if node.op == "get_attr":
            place(root, str(node.target), getattr(source, str(node.target)), True)
    signature = program.graph_signature
    left_out = set(signature.non_persistent_buffers)
    for spec in signature.input_specs:
        if spec.target is not None:
            value = program._value_of(spec.target)
            is_buffer = spec.kind is InputKind.BUFFER
            if spec.kind is InputKind.CONSTANT_TENSOR:
                value = as_constant(value)
            place(root, spec.target, value, spec.target not in left_out, is_buffer)
    return root


def place_rest(program: ExportedProgram, module: GraphModule) -> None:
    """Register what the graph does not use: state of the exported module that it still has."""
    signature = program.graph_signature
    buffers, left_out = set(signature.buffers), set(signature.non_persistent_buffers)
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER) and spec.target is not None:
            value = program._value_of(spec.target)
            place(module, spec.target, value, spec.target not in left_out, spec.target in buffers)
    for name, value in program.constants.items():
        if name not in buffers:
            place(module, name, as_constant(value), True)


def as_constant(value: Any) -> Any:
    """A tensor of the same memory that no gradient reaches, whatever the exported module had."""
    is_open = isinstance(value, Tensor) and (value.requires_grad or isinstance(value, Parameter))
    return value.detach() if is_open else value


def place(root: Module, target: str, value: Any, persistent: bool, is_buffer: bool = False) -> None:
    """Put a value at a dotted name, with modules on the way. A tensor is a buffer where it was."""
    *path, name = target.split(".")
    owner: Any = root
    for part in path:
        child = owner._modules.get(part)
        if child is None:
            child = Module()
            owner.add_module(part, child)
        owner = child
    if name in owner._parameters or name in owner._buffers or name in vars(owner):
        delattr(owner, name)
    if isinstance(value, Parameter):
        owner.register_parameter(name, value)
    elif isinstance(value, Tensor) and is_buffer:
        owner.register_buffer(name, value, persistent=persistent)
    else:
        setattr(owner, name, value)
