"""Arguments of ops as graphs have them, and as ops take them.

A graph has numbers for dtypes, layouts and memory formats, and lists for sizes; an op takes the
objects themselves, and tuples. Constants are converted once, when a graph is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.base.schema import Type as OperatorType
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload
from rushlight.jit.ir.constants import LAYOUTS as LAYOUT_NAMES
from rushlight.jit.ir.numbers import unwrapped_number

DTYPES = {dtype.code: dtype for dtype in dtypes.ALL}
LAYOUTS = {LAYOUT_NAMES.index(layout.name): layout for layout in devices.LAYOUTS}
MEMORY_FORMATS = dict(enumerate(devices.MEMORY_FORMATS))


def as_dtype(code: Any) -> Any:
    return DTYPES[code] if type(code) is int else code


def as_layout(code: Any) -> Any:
    return LAYOUTS[code] if type(code) is int else code


def as_memory_format(code: Any) -> Any:
    return MEMORY_FORMATS[code] if type(code) is int else code


def as_device(name: Any) -> Any:
    return devices.device(name) if type(name) is str else name


def as_tuple(values: Any) -> Any:
    return None if values is None else tuple(values)


def as_list(values: Any) -> Any:
    return None if values is None else list(values)


def as_float(value: Any) -> Any:
    return float(value) if type(value) is int else value


SINGLE: dict[str, Callable[[Any], Any]] = {
    "ScalarType": as_dtype,
    "Layout": as_layout,
    "MemoryFormat": as_memory_format,
    "Device": as_device,
}


def converter(type_: OperatorType) -> Callable[[Any], Any] | None:
    """What makes an op's argument of a graph's value; None where it is taken as it is."""
    if type_.kind == "List":
        assert type_.element is not None
        return as_list if type_.element.kind in ("Tensor", "List") else as_tuple
    return SINGLE.get(type_.kind)


def takes_numbers(op: OpOverload, position: int) -> bool:
    """Whether an op takes a Python number for the tensor at a position."""
    source = op if op.functional is None else op.functional
    accepts = source.options.get("numbers", False) or source.kind.name == "POINTWISE"
    return bool(accepts) and (position > 0 or accepts == "any")


def over_values(op: OpOverload, names: Sequence[str]) -> Callable[..., Any]:
    """The op as a function of a graph's values, one for each name; other arguments are None."""
    direct = op.direct
    given = {name: place for place, name in enumerate(names)}
    # For each argument its place, what converts it, and whether it may be a number.
    plan = [
        (given.get(argument.name), converter(argument.type), takes_numbers(op, place))
        for place, argument in enumerate(op._schema.arguments)
    ]
    answer = result_converter(op)

    def call(*args: Any) -> Any:
        bound = []
        for place, convert, as_number in plan:
            value = None if place is None else args[place]
            if convert is not None:
                value = convert(value)
            elif as_number:
                value = unwrapped_number(value)
            bound.append(value)
        result = direct(*bound)
        return result if answer is None else answer(result)

    return call


def code_of(dtype: Any) -> int:
    return int(dtype.code)


def result_converter(op: OpOverload) -> Callable[[Any], Any] | None:
    """What makes a graph's value of an op's result; None where it is one."""
    returns = op._schema.returns
    if len(returns) == 1 and returns[0].type.kind == "ScalarType":
        return code_of
    if len(returns) == 1 and returns[0].type.kind == "List":
        return list
    return None
