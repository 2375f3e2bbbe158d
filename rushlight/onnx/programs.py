"""Exported programs as ONNX models: a walk over the graph, op by op."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload, Tag
from rushlight.core.tensor import Tensor, values_of
from rushlight.export.program import ExportedProgram
from rushlight.export.signature import ConstantArgument, InputKind, OutputKind
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.onnx import translations
from rushlight.onnx.building import Builder, Value, find_translation, number_type, told
from rushlight.onnx.loops import translate_hop
from rushlight.onnx.messages import Graph, Info, Model
from rushlight.onnx.refusals import OnnxExporterError, refuse, refuse_op
from rushlight.onnx.translations.complexes import Complex, translate_complex
from rushlight.symbolic.numbers import SymNumber
from rushlight.version import OWN

__all__ = ["NEWEST", "OLDEST", "translated"]

OLDEST, NEWEST = 18, 23
# Results that are kept from a program: those of the call, not those written back.
RESULTS = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)


class Walk:
    """Translates one graph into a builder's."""

    def __init__(self, builder: Builder, module: GraphModule) -> None:
        self.builder = builder
        self.module = module
        self.values: dict[Node, Any] = {}

    def value(self, argument: Any) -> Any:
        """An argument with values for nodes."""
        if isinstance(argument, Node):
            return self.values[argument]
        if isinstance(argument, (list, tuple)):
            return [self.value(each) for each in argument]
        return argument

    def run(self) -> Any:
        """Translates every node but the inputs; the results."""
        for node in self.module.graph.nodes:
            if node.op == "output":
                return self.value(node.args[0])
            if node.op == "get_attr":
                self.values[node] = getattr(self.module, str(node.target))
            elif node.op == "call_function":
                self.values[node] = self.call(node)
        raise refuse("a graph without results")

    def call(self, node: Node) -> Any:
        target: Any = node.target
        builder = self.builder
        builder.result = node.meta.get("val")
        builder.label = node.name
        if target is operator.getitem:
            found = self.value(node.args[0])[node.args[1]]
            if found is None and node.users:
                raise refuse(f"{node.args[0]} gives a result that ONNX has in another form")
            return found
        if isinstance(target, OpOverload):
            translation = find_translation(target.base_name, target.overload or "default")
            arguments = [self.value(each) for each in by_schema(target, node)]
            if target.namespace == "aten" and any(map(has_complex, arguments)):
                name, overload = target.base_name, target.overload or "default"
                found = translate_complex(builder, name, overload, arguments)
                return told(builder, found, node.meta.get("val"))
            if translation is None or target.namespace != "aten":
                return self.known(target, node)
        elif isinstance(target, HigherOrderOperator):
            given = [self.value(each) for each in node.args]
            return translate_hop(target.name(), builder, self.inlined, node, given)
        else:
            translation = translations.numbers.FUNCTIONS.get(target)
            if translation is None:
                raise refuse_op(str(target))
            arguments = [self.value(each) for each in node.args]
        try:
            return told(builder, translation(builder, *arguments), node.meta.get("val"))
        except OnnxExporterError as failure:
            failure.add_note(f"While translating {node.format_node()}")
            raise

    def known(self, op: OpOverload, node: Node) -> Any:
        """The result of an op without a translation: a constant, if nothing varies in it."""
        like: Any = node.meta.get("val")
        varies = node.all_input_nodes or Tag.nondeterministic_seeded in op.tags
        plain = isinstance(like, Tensor) and like.layout.name == "strided"
        if varies or not plain or like.dtype.is_complex:
            raise refuse_op(str(op))
        found = op(*node.args, **node.kwargs)
        return self.builder.weight(node.name, values_of(found), found.dtype, like)

    # -- graphs within graphs ----------------------------------------------------------------------

    def inlined(self, module: GraphModule, args: list[Any], builder: Builder) -> Any:
        """A graph's nodes among those of a builder."""
        walk = Walk(builder, module)
        inputs = [each for each in module.graph.nodes if each.op == "placeholder"]
        walk.values.update(zip(inputs, args, strict=True))
        return walk.run()


def has_complex(value: Any) -> bool:
    if isinstance(value, list):
        return any(map(has_complex, value))
    return isinstance(value, Complex)


def by_schema(op: OpOverload, node: Node) -> list[Any]:
    """All arguments of a call, in the order of the schema."""
    found = []
    for place, argument in enumerate(op._schema.arguments):
        if argument.name in node.kwargs:
            found.append(node.kwargs[argument.name])
        elif place < len(node.args) and not argument.kwarg_only:
            found.append(node.args[place])
        else:
            found.append(argument.default_value)
    return found


def translated(
    program: ExportedProgram,
    opset: int,
    input_names: list[str] | None = None,
    output_names: list[str] | None = None,
    dim_names: dict[str, str] | None = None,
) -> Model:
    """The model of a program; `dim_names` are names for symbols of sizes."""
    if not OLDEST <= opset <= NEWEST:
        raise refuse(f"opset {opset}; {OLDEST} to {NEWEST} are written")
    builder = Builder(opset)
    builder.dim_names.update(dim_names or {})
    walk = Walk(builder, program.graph_module)
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs: list[Info] = []
    names = list(input_names or ())
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        like = node.meta["val"]
        if spec.kind is InputKind.USER_INPUT:
            if isinstance(spec.arg, ConstantArgument) or not isinstance(like, (Tensor, SymNumber)):
                walk.values[node] = like
                continue
            dtype = like.dtype if isinstance(like, Tensor) else number_type(like)
            wanted = names.pop(0) if names else node.name
            value = Value(builder.name(wanted), dtype, like)
            inputs.append(builder.info(value))
            builder.note_symbols(value)
            walk.values[node] = value
        elif spec.kind in (InputKind.CUSTOM_OBJ, InputKind.TOKEN):
            raise refuse(f"an input that is {spec.kind.name}")
        elif node.users:
            tensor = program._value_of(spec.target)
            array = values_of(tensor.detach())
            walk.values[node] = builder.weight(str(spec.target), array, tensor.dtype, like)
    return finished(walk, program, inputs, output_names)


def finished(
    walk: Walk, program: ExportedProgram, inputs: list[Info], output_names: list[str] | None
) -> Model:
    builder = walk.builder
    results = walk.run()
    builder.label = "output"
    outputs: list[Value] = []
    names = list(output_names or ())
    for result, spec in zip(results, program.graph_signature.output_specs, strict=True):
        if spec.kind in RESULTS and isinstance(result, Complex):
            raise refuse("a result of complex numbers")
        if spec.kind not in RESULTS or not isinstance(result, Value):
            continue
        # Inputs and results that are asked for twice need nodes of their own.
        taken = {*[info.name for info in inputs], *[output.name for output in outputs]}
        if names or result.name in taken or result.constant is not None:
            builder.label = names.pop(0) if names else "output"
            result = told(builder, builder.op("Identity", result), result.like)
        outputs.append(result)
    if not outputs:
        raise refuse("a program whose results are no tensors")
    graph = builder.graph("program", outputs)
    graph.inputs = inputs
    used = {*names_used(graph.nodes), *[output.name for output in outputs]}
    graph.weights = [weight for weight in graph.weights if weight.name in used]
    return Model(graph, builder.opset, "rushlight", OWN)


def names_used(nodes: list[Any]) -> Iterator[str]:
    """The values that nodes read, those of graphs within them included."""
    for node in nodes:
        yield from node.inputs
        for attribute in node.attributes.values():
            if isinstance(attribute, Graph):
                yield from names_used(attribute.nodes)


def as_arrays(values: Any) -> list[Any]:
    """Tensors and numbers of a call, for a runtime."""
    return [
        values_of(value.detach()) if isinstance(value, Tensor) else np.asarray(value)
        for value in values
    ]
