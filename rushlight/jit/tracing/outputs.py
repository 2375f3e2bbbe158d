"""What a traced function returns, as outputs of its graph."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.types import STR, TENSOR, DictType, ListType, TupleType, Type
from rushlight.jit.tracing.state import TracingState
from rushlight.jit.tracing.warnings import STRICT, warn

ONLY = (
    "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
    "functions"
)


def output_value(state: TracingState, given: Any, number: int) -> Value:
    """The value of something returned; `number` counts outputs in messages."""
    graph = state.graph
    if isinstance(given, Tensor):
        found = state.find(given)
        if found is None:
            raise RuntimeError(
                f"output {number} ({given}) of traced region did not have observable data "
                "dependence with trace inputs; this probably indicates your program cannot be "
                "understood by the tracer."
            )
        return found
    if isinstance(given, tuple):
        parts = [output_value(state, item, number) for item in given]
        node = graph.insertNode(graph.create("prim::TupleConstruct", parts))
        return node.output().setType(TupleType([part.type() for part in parts]))
    if isinstance(given, list) and all([isinstance(item, Tensor) for item in given]):
        if state.strict:
            warn(f"Encountering a list at the output of the tracer{STRICT}")
        parts = [output_value(state, item, number) for item in given]
        node = graph.insertNode(graph.create("prim::ListConstruct", parts))
        return node.output().setType(ListType(TENSOR))
    if isinstance(given, dict):
        return dict_output(state, given, number)
    raise RuntimeError(ONLY)


def dict_output(state: TracingState, given: dict[Any, Any], number: int) -> Value:
    if state.strict:
        raise RuntimeError(f"Encountering a dict at the output of the tracer{STRICT}")
    types = dict_types(given)
    if types is None:
        raise RuntimeError(
            f"output {number} ({given}) of traced region cannot be understood by the tracer, only "
            "outputs matching dict[Union[str, Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a "
            "dictionary output of a traced function"
        )
    graph = state.graph
    parts: list[Value] = []
    for key, item in given.items():
        parts.append(state.value_of(key) if isinstance(key, Tensor) else graph.insertConstant(key))
        parts.append(output_value(state, item, number))
    node = graph.insertNode(graph.create("prim::DictConstruct", parts))
    return node.output().setType(DictType(*types))


def dict_types(given: dict[Any, Any]) -> tuple[Type, Type] | None:
    """Key and value types of a dict that may be returned; None for others."""
    if all([isinstance(key, str) for key in given]):
        keys: Type = STR
    elif all([isinstance(key, Tensor) for key in given]):
        keys = TENSOR
    else:
        return None
    items = list(given.values())
    if all([isinstance(item, Tensor) for item in items]):
        return keys, TENSOR
    lengths = {len(item) if isinstance(item, tuple) else -1 for item in items}
    if len(lengths) != 1 or -1 in lengths:
        return None
    if not all([isinstance(part, Tensor) for item in items for part in item]):
        return None
    return keys, TupleType([TENSOR] * lengths.pop())
