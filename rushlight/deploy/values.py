"""The values that generated functions name, as plain data and back.

What a function needs besides names of its own: sizes, dtypes, operators, memory to work in, and
functions of graphs within the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.base.errors import error
from rushlight.codegen.support import Scratch
from rushlight.core import device as places
from rushlight.core import dtype as dtypes
from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype

if TYPE_CHECKING:
    from rushlight.codegen.loops import Buffer

__all__ = ["Reader", "written_buffer", "written_callee", "written_value"]

PLAIN = (bool, int, str, type(None))
# By their text: -0.0, infinities and NaN are no numbers of JSON.
NUMBERS = {"float": float, "complex": complex}
CONSTANTS: dict[str, Any] = {
    str(entry): entry for entry in (*places.LAYOUTS, *places.MEMORY_FORMATS)
}


def written_value(value: Any) -> Any:
    """Plain data for a value; raises where there is none."""
    if isinstance(value, PLAIN) and type(value) in PLAIN:
        return value
    if type(value) in (tuple, list):
        return {type(value).__name__: [written_value(item) for item in value]}
    if type(value) in (float, complex):
        return {type(value).__name__: repr(value)}
    if isinstance(value, dtype):
        return {"dtype": value.name}
    if isinstance(value, np.dtype):
        for known in dtypes.BY_NAME.values():
            if known.np is value:
                return {"array_dtype": known.name}
    if isinstance(value, device):
        return {"device": str(value)}
    if isinstance(value, (layout, memory_format)):
        return {"constant": str(value)}
    if isinstance(value, Scratch):
        return {"scratch": None}
    if isinstance(value, np.ndarray):
        return {"scratch": value.nbytes}
    raise error("RL1586", NotImplementedError, what=f"a value of type {type(value).__name__}")


def written_buffer(buffer: Buffer) -> Any:
    """What errors say of an input."""
    return {"buffer": [buffer.name, buffer.dtype.name]}


def written_callee(op: Any, is_below: bool) -> Any:
    """An operator that a step calls; `is_below` is whether all layers are passed by."""
    from rushlight.export.serde.names import target_name

    try:
        name = target_name(op)
    except RuntimeError:
        raise error("RL1586", NotImplementedError, what=f"a call of {op}") from None
    return {"backend" if is_below else "op": name}


class Reader:
    """Values from plain data; `unit` gives the function of a graph within the graph."""

    def __init__(self, unit: Callable[[int], Any]) -> None:
        self.unit = unit

    def value(self, data: Any) -> Any:
        if isinstance(data, PLAIN):
            return data
        ((kind, content),) = data.items()
        if kind in ("tuple", "list"):
            items = [self.value(item) for item in content]
            return tuple(items) if kind == "tuple" else items
        if kind in NUMBERS:
            return NUMBERS[kind](content)
        if kind == "dtype":
            return dtypes.BY_NAME[content]
        if kind == "array_dtype":
            return dtypes.BY_NAME[content].np
        if kind == "device":
            return device(content)
        if kind == "constant":
            return CONSTANTS[content]
        if kind == "buffer":
            return SimpleNamespace(name=content[0], dtype=dtypes.BY_NAME[content[1]])
        if kind == "scratch":
            return Scratch() if content is None else buffers.aligned_bytes(content)
        if kind == "unit":
            return self.unit(content)
        return operator(content, kind == "backend")


def operator(name: str, is_below: bool) -> Any:
    """An operator of this process by its name."""
    from rushlight.export.serde.names import find_target

    found = find_target(name)
    if found is None:
        raise error("RL1561", LookupError, name=name)
    return found.backend if is_below else found
