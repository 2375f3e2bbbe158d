"""The inputs of a trace: what may be given, which types it has, and how the graph reads it."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.relations import unify, without_facts
from rushlight.jit.ir.types import FLOAT, INT, STR, TENSOR, DictType, ListType, TupleType, Type
from rushlight.jit.tracing.frames import source_here
from rushlight.jit.tracing.state import TracingState

KEYS: dict[type, Type] = {str: STR, int: INT, float: FLOAT}


class NotTraceable(Exception):
    """Why an input has no type; empty where its own type says so."""


def input_type(value: Any) -> Type:
    """The type of an input; `NotTraceable` for one that a trace cannot take."""
    if isinstance(value, Tensor):
        from rushlight.jit.ir.types import complete_type

        return complete_type(value)
    if isinstance(value, tuple):
        return TupleType([input_type(item) for item in value])
    if isinstance(value, list):
        if not value:
            raise NotTraceable("List trace inputs must have elements")
        found = input_type(value[0])
        for item in value[1:]:
            found = unified(found, input_type(item), "List inputs to traced functions must have "
                            "consistent element type. Found {} and {}")  # fmt: skip
        return ListType(without_facts(found))
    if isinstance(value, dict):
        if not value:
            raise NotTraceable("Dictionary inputs must have entries")
        message = "Dictionary inputs to traced functions must have consistent type. Found {} and {}"
        keys: Type | None = None
        values: Type | None = None
        for key, item in value.items():
            key_type = KEYS.get(type(key)) or (TENSOR if isinstance(key, Tensor) else None)
            if key_type is None:
                raise NotTraceable
            keys = key_type if keys is None else unified(keys, key_type, message)
            item_type = input_type(item)
            values = item_type if values is None else unified(values, item_type, message)
        assert keys is not None and values is not None
        return DictType(keys, without_facts(values))
    raise NotTraceable


def unified(a: Type, b: Type, message: str) -> Type:
    """One type for two inputs, whatever is known of their tensors."""
    plain_a, plain_b = without_facts(a), without_facts(b)
    found = unify(plain_a, plain_b)
    if found is None:
        raise NotTraceable(message.format(plain_a.annotation_str, plain_b.annotation_str))
    return found


def check_inputs(inputs: tuple[Any, ...]) -> list[Type]:
    """The types of all inputs, or torch's refusal."""
    try:
        return [input_type(value) for value in inputs]
    except NotTraceable as refusal:
        if str(refusal):
            raise RuntimeError(f"Tracer cannot infer type of {inputs}\n:{refusal}") from None
    raise RuntimeError(
        f"Type '{loose_annotation(inputs)}' cannot be traced. Only Tensors and (possibly nested) "
        "Lists, Dicts, and Tuples of Tensors can be traced"
    )


def loose_annotation(value: Any) -> str:
    """The type of any Python value as an annotation."""
    if isinstance(value, tuple):
        return f"Tuple[{', '.join([loose_annotation(item) for item in value])}]"
    if isinstance(value, list):
        return f"List[{loose_annotation(value[0]) if value else 'Tensor'}]"
    if isinstance(value, dict):
        pairs = [f"{loose_annotation(k)}, {loose_annotation(v)}" for k, v in value.items()]
        return f"Dict[{pairs[0] if pairs else 'str, Tensor'}]"
    if isinstance(value, Tensor):
        return "Tensor"
    return "NoneType" if value is None else type(value).__name__


def add_input(state: TracingState, given: Any, type_: Type, value: Value) -> Any:
    """Makes an input known to the trace; what the traced code sees of it."""
    value.setType(type_)
    graph = state.graph
    if isinstance(given, Tensor):
        if state.has_value(given):
            with state.paused():
                given = given.view(given.shape)
        value.inferTypeFrom(given)
        state.set_value(given, value)
        return given
    if isinstance(type_, TupleType):
        unpack = graph.insertNode(graph.create("prim::TupleUnpack", [value], len(given)))
        parts = zip(given, type_.items, unpack.outputs())
        return tuple([add_input(state, item, each, output) for item, each, output in parts])
    if isinstance(type_, ListType):
        unpack = graph.insertNode(graph.create("prim::ListUnpack", [value], len(given)))
        element = type_.element
        return [
            add_input(state, item, element, output) for item, output in zip(given, unpack.outputs())
        ]
    assert isinstance(type_, DictType)
    seen: dict[Any, Any] = {}
    for key, item in given.items():
        shown = state.value_of(key) if isinstance(key, Tensor) else graph.insertConstant(key)
        node = graph.insertNode(graph.create("aten::__getitem__", [value, shown]))
        node.source = source_here()
        seen[key] = add_input(state, item, type_.value, node.output())
    return seen
