"""Values as text, as `print`, `str` and format strings of compiled code write them."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.printing import float_text, tensor_lines


def value_text(value: Any) -> str:
    """torch: floats have seventeen digits and a point, strings in containers no quotes."""
    if isinstance(value, bool | int | str | type(None)):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, complex):
        sign = "" if float_text(value.imag).startswith("-") else "+"
        return f"{float_text(value.real)}{sign}{float_text(value.imag)}j"
    if isinstance(value, Tensor):
        return "\n".join(tensor_lines(value)) if value.numel() else empty_text(value)
    if isinstance(value, list):
        return f"[{', '.join([value_text(item) for item in value])}]"
    if isinstance(value, tuple):
        comma = "," if len(value) == 1 else ""
        return f"({', '.join([value_text(item) for item in value])}{comma})"
    if isinstance(value, dict):
        pairs = [f"{value_text(key)}: {value_text(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    return str(value)


def empty_text(tensor: Tensor) -> str:
    sizes = ",".join([str(int(size)) for size in tensor.shape])
    return f"[ CPU{tensor.dtype.scalar_type_name}Type{{{sizes}}} ]"


def print_values(*values: Any) -> None:
    print(*[value_text(value) for value in values])


def fill_format(self: str, *values: Any) -> str:
    """`{}` by the values in order. torch: what else a brace may say stands as it is written."""
    parts = self.split("{}")
    if len(values) < len(parts) - 1:
        raise RuntimeError(f"Too few arguments for format string: {self}")
    filled = [value_text(value) for value in values]
    return "".join([part + text for part, text in zip(parts, [*filled[: len(parts) - 1], ""])])


WORDS = {str: "String", list: "List", tuple: "Tuple", dict: "GenericDict", type(None): "None"}


def fill_percents(self: str, *values: Any) -> str:
    """`%d`, `%s` and their like by the values in order."""
    waiting = list(values[0] if len(values) == 1 and isinstance(values[0], tuple) else values)
    found: list[str] = []
    parts = self.split("%")
    found.append(parts[0])
    place = 1
    while place < len(parts):
        part = parts[place]
        place += 1
        if not part:
            # Two in a row stand for one.
            if place == len(parts):
                raise RuntimeError("Incomplete format specifier")
            found.append("%" + parts[place])
            place += 1
            continue
        if not waiting:
            raise RuntimeError("Too few arguments for format string")
        found.append(percent_text(part[0], waiting.pop(0)) + part[1:])
    if waiting:
        raise RuntimeError("Too many arguments for format string")
    return "".join(found)


def percent_text(letter: str, value: Any) -> str:
    if letter == "s":
        return value_text(value)
    if letter == "c":
        return chr(value) if isinstance(value, int) else str(value)
    if letter not in "diouxXeEfF" or letter in "ouxX":
        raise RuntimeError(
            f"The specifier %{letter} is not supported in TorchScript format strings"
        )
    if not isinstance(value, int | float):
        word = WORDS.get(type(value), "Tensor")
        raise RuntimeError(f"%{letter} requires a number for formatting, but got {word}")
    return f"%{letter}" % value
