"""The recorder: a layer above autocast and autograd that writes each operator into the graph.

A node has every argument of the operator's schema, defaults too, each constant its own node. What
the operator does inside is not recorded, but for operators that torch's graphs do not have:
convolutions by their number of dimensions, cells, and those that return no tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.schema import Argument, Type
from rushlight.core import dispatch
from rushlight.core.op import OpOverload, find_overload
from rushlight.core.state import LOCAL, OVERRIDES, changed
from rushlight.core.tensor import Tensor, storage_of
from rushlight.jit.ir.graph import Node, Value
from rushlight.jit.ir.numbers import wrap_number
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import graph_type
from rushlight.jit.ir.types import INT, NUMBER, TENSOR, ListType
from rushlight.jit.tracing.frames import source_here
from rushlight.jit.tracing.state import TracedFloat, TracedInt, TracingState
from rushlight.jit.tracing.warnings import warn

TRACED = (TracedInt, TracedFloat)
# What calls that make a tensor say about it.
OPTIONS = frozenset(("dtype", "layout", "device", "pin_memory"))
LIVE = (
    "There are {count} live references to the data region being modified when tracing in-place "
    "operator {name}. This might cause the trace to be incorrect, because all other views that "
    "also reference this data will not reflect this change in the trace! On the other hand, if all "
    "other views use the same memory chunk, but are disjoint (e.g. are outputs of torch.split), "
    "this might still be safe."
)


class Recorder(TracingState):
    """Records the calls of one thread."""

    def process(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Record one call and run it below."""
        if op.namespace == "aten":
            name = op.base_name
            rule = RULES.get(name)
            if rule is not None:
                return rule(self, op, args)
            if op.options.get("traced_parts"):
                return self.divide(op, args)
            if not returns_tensors(op):
                return self.run_below(op, plain_arguments(args))
        return self.record(op, args)

    def divide(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        """Run a call whose parts are recorded, not itself."""
        assert op.body is not None
        with changed(excluded=LOCAL.state.excluded | OVERRIDES):
            return op.body(*args)

    def run_below(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        with self.below():
            return dispatch.go_on(op, args)

    def record(self, op: OpOverload, args: tuple[Any, ...]) -> Any:
        kind = f"{op.namespace}::{op.base_name}"
        arguments: Sequence[Argument] = op._schema.arguments
        shown: Sequence[Any] = args
        if op.out_positions:
            arguments, shown = self.arguments_of_out(op, args)
        elif self.force_outplace and op.mutated_positions:
            kind = kind.removesuffix("_")
        node = self.make_node(kind, arguments, shown)
        if self.force_outplace and op.mutated_positions and not op.out_positions:
            self.warn_of_views(op, args)
        result = self.run_below(op, plain_arguments(args))
        self.add_outputs(node, result)
        return result

    def arguments_of_out(self, op: OpOverload, args: tuple[Any, ...]) -> tuple[Any, Any]:
        """What a call with `out=` is recorded with: nothing that the result says itself, and out of
        place not the result either."""
        arguments = op._schema.arguments
        told = OPTIONS if OPTIONS.issubset([each.name for each in arguments]) else frozenset()
        kept = [
            at
            for at, argument in enumerate(arguments)
            if argument.name not in told and not (self.force_outplace and at in op.out_positions)
        ]
        return [arguments[at] for at in kept], [args[at] for at in kept]

    def warn_of_views(self, op: OpOverload, args: tuple[Any, ...]) -> None:
        for position in op.mutated_positions:
            if isinstance(args[position], Tensor):
                count = self.live_references(args[position])
                if count > 1:
                    warn(LIVE.format(count=count, name=op.base_name))

    def live_references(self, tensor: Tensor) -> int:
        """How many tensors of the trace lie in a tensor's memory, itself among them."""
        with self.paused():
            storage = storage_of(tensor)
            known = {key: other for values in self.values for key, (other, _) in values.items()}
            known[id(tensor)] = tensor
            return sum([storage_of(other) is storage for other in known.values()])

    # -- nodes

    def make_node(self, kind: str, arguments: Sequence[Argument], args: Sequence[Any]) -> Node:
        """A node with the arguments of a call as its inputs, at the insert point."""
        source = source_here()
        inputs = [
            self.encode(value, argument.type, source)
            for argument, value in zip(arguments, args, strict=True)
        ]
        node = self.graph.insertNode(self.graph.create(kind, inputs, 0))
        node.source = source
        return node

    def encode(self, value: Any, type_: Type, source: SourceRange) -> Value:
        """An argument as a value of the graph."""
        if value is None:
            return self.graph.insertConstant(None)
        if isinstance(value, Tensor):
            return self.value_of(value)
        cls = type(value)
        if cls is TracedInt or cls is TracedFloat:
            return self.encode_number(value, type_)
        kind = type_.kind
        if kind == "List":
            return self.encode_list(value, type_, source)
        if kind == "Tensor":
            with self.paused():
                return self.graph.insertConstant(wrap_number(value), source)
        if kind == "Generator":
            return self.graph.insertConstant(None)
        if kind == "float" or kind == "SymFloat":
            value = float(value)
        return self.graph.insertConstant(value, source)

    def encode_number(self, value: Any, type_: Type) -> Value:
        if type_.kind in ("int", "SymInt"):
            return self.number_value(value, "aten::Int", INT)
        if type_.kind == "Tensor":
            return self.value_of(value.tensor)
        if type_.kind in ("float", "SymFloat"):
            return self.graph.insertConstant(float(value))
        return self.number_value(value, "aten::ScalarImplicit", NUMBER)

    def encode_list(self, value: Any, type_: Type, source: SourceRange) -> Value:
        element = type_.element
        assert element is not None
        items = [self.encode(item, element, source) for item in value]
        node = self.graph.insertNode(self.graph.create("prim::ListConstruct", items))
        node.output().setType(ListType(graph_type(element)))
        return node.output()

    def add_outputs(self, node: Node, result: Any) -> None:
        """What a call has made, as outputs of its node."""
        if isinstance(result, Tensor):
            self.add_output(node, result)
        elif isinstance(result, list):
            value = node.addOutput(ListType(TENSOR))
            unpack = self.graph.insertNode(
                self.graph.create("prim::ListUnpack", [value], len(result))
            )
            for output, tensor in zip(unpack._outputs, result):
                self.infer(output, tensor)
                self.set_value(tensor, output)
        elif isinstance(result, tuple):
            for item in result:
                self.add_outputs(node, item)
        elif result is not None:
            node.addOutput(INT if isinstance(result, int) else NUMBER)

    def add_output(self, node: Node, tensor: Tensor) -> Value:
        value = node.addOutput()
        self.infer(value, tensor)
        self.set_value(tensor, value)
        return value

    def note_detached(self, tensor: Tensor) -> None:
        """`detach_()`: what the tensor is from now on."""
        node = self.make_node("aten::detach", DETACH._schema.arguments, (tensor,))
        self.add_output(node, tensor)

    def warn_constructor(self, name: str) -> None:
        from rushlight.jit.tracing.warnings import CONSTRUCTOR

        warn(f"torch.{name}{CONSTRUCTOR}")


def returns_tensors(op: OpOverload) -> bool:
    for entry in op._schema.returns:
        type_ = entry.type
        if type_.kind == "Tensor" or (type_.element is not None and type_.element.kind == "Tensor"):
            return True
    return False


def plain_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments whose numbers have forgotten which tensors they were."""
    for value in args:
        if isinstance(value, TRACED) or (
            type(value) in (tuple, list) and any([isinstance(item, TRACED) for item in value])
        ):
            return tuple([plain_argument(value) for value in args])
    return args


def plain_argument(value: Any) -> Any:
    if isinstance(value, TRACED):
        return int(value) if isinstance(value, TracedInt) else float(value)
    if type(value) in (tuple, list):
        return type(value)([plain_argument(item) for item in value])
    return value


DETACH = find_overload("aten", "detach", "default")
RULES: dict[str, Callable[[Recorder, OpOverload, tuple[Any, ...]], Any]] = {}


def rule(*names: str) -> Callable[[Any], Any]:
    """How operators of these names are recorded."""

    def note(function: Any) -> Any:
        for name in names:
            RULES[name] = function
        return function

    return note


@rule("lift_fresh")
def record_constant(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Data that enters the program. torch: as if it were converted to what it is."""
    (tensor,) = args
    if recorder.has_value(tensor):
        return tensor
    to = find_overload("aten", "to", "device")
    bound = (tensor, tensor.device, tensor.dtype, False, False, None)
    node = recorder.make_node("aten::to", to._schema.arguments, bound)
    result = recorder.run_below(op, args)
    recorder.add_outputs(node, result)
    return result


@rule("convolution")
def record_convolution(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """torch: the call that chooses a backend, made below autograd."""
    backend = find_overload("aten", "_convolution", "default")
    bound = (*args, False, False, True, True)
    node = recorder.make_node("aten::_convolution", backend._schema.arguments, bound)
    result = recorder.run_below(op, plain_arguments(args))
    value = recorder.add_output(node, result)
    value.setType(value.type().replaced(requires_grad=False))  # type: ignore[attr-defined]
    return result


@rule("lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell")
def record_cell(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    from rushlight.jit.tracing.cells import run_parts

    with changed(excluded=LOCAL.state.excluded | OVERRIDES):
        return run_parts(op.base_name, args)


@rule("to")
def record_move(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """torch: a move to a device also says which dtype and layout it keeps."""
    self, dtype, layout, place, *rest = args
    if op._overloadname != "dtype_layout" or place is None or dtype is not None:
        return recorder.record(op, args)
    return recorder.record(op, (self, self.dtype, layout or self.layout, place, *rest))


@rule("split")
def record_split(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """torch: a split by a list of sizes is an operator of another name."""
    if op._overloadname != "sizes":
        return recorder.record(op, args)
    return recorder.record(find_overload("aten", "split_with_sizes", "default"), args)


@rule("var", "std", "var_mean", "std_mean")
def record_spread(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """torch: the plain call is the one that takes a correction."""
    if op._overloadname != "default" or args[1] is not True:
        return recorder.record(op, args)
    return recorder.record(
        find_overload("aten", op.base_name, "correction"), (args[0], None, None, False)
    )


@rule("copy_")
def record_copy(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """A copy into a tensor that has no other views is, out of place, the source itself."""
    self, source, _ = args
    if recorder.force_outplace and recorder.live_references(self) <= 1:
        graph = recorder.graph
        inputs = [recorder.value_of(source), recorder.value_of(self)]
        node = graph.insertNode(graph.create("aten::expand_as", inputs, 0))
    else:
        if recorder.force_outplace:
            count = recorder.live_references(self)
            warn(LIVE.format(count=count, name="copy_ (possibly due to an assignment)"))
        node = recorder.make_node("aten::copy_", op._schema.arguments, args)
    result = recorder.run_below(op, args)
    recorder.add_outputs(node, result)
    return result


@rule("fill_", "zero_")
def record_fill(recorder: Recorder, op: OpOverload, args: tuple[Any, ...]) -> Any:
    """Out of place, filling makes a new tensor like the old one."""
    if not recorder.force_outplace:
        return recorder.record(op, args)
    recorder.warn_of_views(op, args)
    name = "full_like" if op.base_name == "fill_" else "zeros_like"
    like = find_overload("aten", name, "default")
    from rushlight.core.device import preserve_format, strided

    bound = (*args, None, strided, args[0].device, False, preserve_format)
    node = recorder.make_node(f"aten::{name}", like._schema.arguments, bound)
    result = recorder.run_below(op, plain_arguments(args))
    recorder.add_outputs(node, result)
    return result
