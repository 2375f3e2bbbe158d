"""Calls by schema, with errors that say who asked for the function to be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.jit.ir.graph import Graph, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import FunctionSchema
from rushlight.jit.ir.types import Type
from rushlight.jit.ops import matching
from rushlight.jit.ops.matching import binds_self
from rushlight.jit.scripting.sources import fail_at

if TYPE_CHECKING:
    from rushlight.jit.scripting.values import Args, Kwargs

__all__ = ["binds_self", "convert_value", "emit_builtin", "match_any"]


def emit_builtin(
    graph: Graph,
    place: SourceRange,
    kind: str,
    args: Args,
    kwargs: Kwargs,
    owner: Value | None = None,
) -> Value:
    values = [arg.value for arg in args]
    named = {name: arg.value for name, arg in kwargs.items()}
    try:
        return matching.emit_builtin(graph, kind, values, named, place, owner)
    except matching.MatchError as error:
        message = error.message
    fail_at(place, message)


def match_any(
    graph: Graph,
    place: SourceRange,
    schemas: Sequence[FunctionSchema],
    args: Args,
    kwargs: Kwargs,
) -> tuple[int, list[Value]]:
    """The first schema that takes the arguments, and its inputs."""
    values = [arg.value for arg in args]
    named = {name: arg.value for name, arg in kwargs.items()}
    try:
        chosen, match = matching.match_any(graph, schemas, values, named, place)
    except matching.MatchError as error:
        message = error.message
    else:
        return chosen, match.inputs()
    fail_at(place, message)


def convert_value(graph: Graph, place: SourceRange, type_: Type, value: Value) -> Value:
    """A value as another type, as far as that is done without being asked for."""
    return matching.convert_value(graph, value, type_, place, implicit=True)
