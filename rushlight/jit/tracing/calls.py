"""Compiled code that a traced function calls: one node, whose body keeps its own control flow."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.constants import type_of
from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.relations import without_facts
from rushlight.jit.ir.types import (
    DictType,
    FunctionType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from rushlight.jit.tracing.frames import source_here
from rushlight.jit.tracing.recorder import plain_argument
from rushlight.jit.tracing.state import TracingState
from rushlight.jit.unit import Function, Instance


def record_call(state: TracingState, function: Function, bound: list[Any], is_method: bool) -> Any:
    """Runs a compiled function on bound arguments and writes the call into the trace."""
    graph = state.graph
    source = source_here()
    arguments = function.schema.arguments
    inputs = [value_of(state, value, argument.type) for argument, value in zip(arguments, bound)]
    if is_method:
        call = graph.create("prim::CallMethod", inputs)
        call.s_("name", function.short_name)  # type: ignore[attr-defined]
    else:
        constant = graph.create("prim::Constant")
        constant.s_("name", function.short_name)  # type: ignore[attr-defined]
        constant.source = source
        graph.insertNode(constant)
        constant.output().setType(FunctionType(function))
        call = graph.create("prim::CallFunction", [constant.output(), *inputs])
    call.source = source
    graph.insertNode(call)
    returns = function.schema.returns
    output = call.output()
    if returns:
        output.setType(returns[0].type)
    with state.paused():
        result = function.program(*[plain_argument(value) for value in bound])
    set_result(state, result, output)
    return result


def value_of(state: TracingState, given: Any, type_: Type) -> Value:
    """An argument as a value of the trace, put together as its type asks."""
    graph = state.graph
    if isinstance(given, Tensor):
        return state.value_of(given)
    if given is None:
        return graph.insertConstant(None)
    if isinstance(type_, OptionalType):
        type_ = type_.element
    if isinstance(given, Instance):
        found = state.find(given)
        if found is None:
            raise RuntimeError(
                f"Tried to trace {given!r} but it is not part of the active trace. Modules that "
                "are called during a trace must be registered as submodules of the thing being "
                "traced."
            )
        return found
    if isinstance(given, tuple):
        types = type_.items if isinstance(type_, TupleType) else [type_of(item) for item in given]
        parts = [value_of(state, item, each) for item, each in zip(given, types)]
        node = graph.insertNode(graph.create("prim::TupleConstruct", parts))
        return node.output().setType(TupleType([part.type() for part in parts]))
    if isinstance(given, list):
        assert isinstance(type_, ListType)
        parts = [value_of(state, item, type_.element) for item in given]
        node = graph.insertNode(graph.create("prim::ListConstruct", parts))
        return node.output().setType(without_facts(type_))
    if isinstance(given, dict):
        assert isinstance(type_, DictType)
        parts = []
        for key, item in given.items():
            parts += [value_of(state, key, type_.key), value_of(state, item, type_.value)]
        node = graph.insertNode(graph.create("prim::DictConstruct", parts))
        return node.output().setType(without_facts(type_))
    return graph.insertConstant(given)


def set_result(state: TracingState, given: Any, value: Value) -> None:
    """Makes the tensors of a result known, each by a value that reads it."""
    graph = state.graph
    if isinstance(given, Tensor):
        type_ = value.type()
        if isinstance(type_, TensorType) and not type_.is_complete:
            state.infer(value, given)
        state.set_value(given, value)
    elif isinstance(given, Instance):
        state.set_value(given, value)
    elif isinstance(given, tuple):
        unpack = graph.insertNode(graph.create("prim::TupleUnpack", [value], len(given)))
        items = value.type().containedTypes()
        for output, item, type_ in zip(unpack.outputs(), given, items):
            set_result(state, item, output.setType(type_))
    elif isinstance(given, list):
        unpack = graph.insertNode(graph.create("prim::ListUnpack", [value], len(given)))
        (element,) = value.type().containedTypes()
        for output, item in zip(unpack.outputs(), given):
            set_result(state, item, output.setType(element))
    elif isinstance(given, dict):
        element = value.type().containedTypes()[1]
        for key, item in given.items():
            shown = graph.insertConstant(key)
            node = graph.insertNode(graph.create("aten::__getitem__", [value, shown]))
            set_result(state, item, node.output().setType(element))
    elif given is not None:
        raise RuntimeError(
            f"Tracer cannot set value trace for type {type(given).__name__}. Supported types are "
            "tensor, tensor list, tuple of tensors, and futures."
        )
