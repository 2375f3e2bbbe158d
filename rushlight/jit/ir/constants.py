"""Constants of graphs: in which attribute they lie, and which type a Python value has.

Enumerations of torch (dtypes, layouts, memory formats) are numbers in graphs.
"""

from __future__ import annotations

import enum
import math
from typing import Any

from rushlight.core.device import MEMORY_FORMATS, device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.relations import unify_all, without_facts
from rushlight.jit.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    NONE,
    STR,
    DictType,
    ListType,
    TupleType,
    Type,
    complete_type,
)

LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "_mkldnn", "sparse_csc", "sparse_bsr",
           "sparse_bsc", "jagged")  # fmt: skip

SINGLE_LETTERS: dict[type, tuple[str, Type]] = {
    bool: ("i", BOOL),
    int: ("i", INT),
    float: ("f", FLOAT),
    complex: ("c", COMPLEX),
    str: ("s", STR),
}


def enumerated(value: Any) -> int | None:
    """The number that stands for a dtype, layout or memory format; None for anything else."""
    if isinstance(value, dtype):
        return value.code
    if isinstance(value, layout):
        return LAYOUTS.index(value.name)
    if isinstance(value, memory_format):
        return MEMORY_FORMATS.index(value)
    return None


def constant_form(value: Any) -> tuple[str, Any, Type]:
    """The letter of the attribute that holds a constant, what it holds, and the type.

    None lies in no attribute: its letter is empty.
    """
    if value is None:
        return "", None, NONE
    single = SINGLE_LETTERS.get(type(value))
    if single is not None:
        return single[0], int(value) if type(value) is bool else value, single[1]
    number = enumerated(value)
    if number is not None:
        return "i", number, INT
    if isinstance(value, Tensor):
        return "t", value, complete_type(value)
    if isinstance(value, device):
        return "s", str(value), DEVICE
    return "ival", value, type_of(value)


def type_of(value: Any) -> Type:
    """The type of a Python value; Any where it has no type in graphs."""
    single = SINGLE_LETTERS.get(type(value))
    if single is not None:
        return single[1]
    if value is None:
        return NONE
    if isinstance(value, Tensor):
        return complete_type(value)
    if isinstance(value, device):
        return DEVICE
    if enumerated(value) is not None:
        return INT
    if isinstance(value, tuple):
        return TupleType([type_of(item) for item in value])
    if isinstance(value, list):
        return ListType(common_type(value))
    if isinstance(value, dict):
        return DictType(common_type(value), common_type(value.values()))
    if isinstance(value, enum.Enum):
        return type_of(value.value)
    if isinstance(value, int | float | complex | str):
        return type_of(plain(value))
    return ANY


def common_type(values: Any) -> Type:
    """A type that all values have; of none, a tensor's."""
    types = [without_facts(type_of(value)) for value in values]
    return (unify_all(types) or ANY) if types else without_facts(type_of(Tensor()))


def plain(value: Any) -> Any:
    """An int, float, complex or str without its subclass."""
    builtins: tuple[Any, ...] = (int, float, complex, str)
    return next(each(value) for each in builtins if isinstance(value, each))


def same_constant(a: Any, b: Any) -> bool:
    """Whether two constants are the same: -0.0 is not 0.0, and nan is nan."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return (a == b and math.copysign(1, a) == math.copysign(1, b)) or (a != a and b != b)
    if isinstance(a, complex):
        return same_constant(a.real, b.real) and same_constant(a.imag, b.imag)
    if isinstance(a, Tensor):
        return same_tensor(a, b)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all([same_constant(x, y) for x, y in zip(a, b)])
    if isinstance(a, dict):
        return same_constant(list(a), list(b)) and same_constant(list(a.values()), list(b.values()))
    return bool(a == b)


def same_tensor(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors have the same bytes in the same layout."""
    return a is b or (
        a.dtype is b.dtype
        and a.device == b.device
        and a.layout is b.layout
        and tuple(a.shape) == tuple(b.shape)
        and a.stride() == b.stride()
        and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()
    )
