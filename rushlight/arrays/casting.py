"""Conversion of elements between dtypes, and of Python numbers to elements.

Arrays convert as C casts do. Python numbers are checked: one that a dtype cannot hold is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import is_narrow
from rushlight.core import dtype as dtypes
from rushlight.core import ports
from rushlight.core.dtype import COMPLEX, FLOAT, INTEGER, dtype

__all__ = ["cast", "fill_number", "held_number", "integer_bounds"]

PAIR = dtypes.complex32
HALVES = frozenset((dtypes.float16, dtypes.bfloat16))


def cast(array: Any, source: dtype, target: dtype) -> Any:
    """The array's values in another dtype; always a fresh C-ordered array."""
    if source is target:
        return array.copy()
    if source is PAIR:
        array = widen_pair(array)
        return array if target is dtypes.complex64 else cast(array, dtypes.complex64, target)
    if target is PAIR:
        return narrow_pair(array if source.category == COMPLEX else array.astype(np.float32))
    if source.category == COMPLEX:
        if target.category == dtypes.BOOL:
            return array.astype(np.bool_)
        if target.category != COMPLEX:
            array = array.real
        return array.astype(target.np, order="C")
    if array.size >= ports.large_size and (target in HALVES or source in HALVES):
        found = ports.converted(array, source, target)
        if found is not None:
            return found
    if target.category != FLOAT and is_narrow(source.np):
        # ml_dtypes has its own answer for NaN and inf as integers; to float32 it is exact.
        array = array.astype(np.float32)
    return array.astype(target.np, order="C")


def widen_pair(array: Any) -> Any:
    wide = np.empty(array.shape, np.complex64)
    wide.real, wide.imag = array["real"], array["imag"]
    return wide


def narrow_pair(array: Any) -> Any:
    pair = np.empty(array.shape, PAIR.np)
    pair["real"], pair["imag"] = array.real, array.imag
    return pair


def integer_bounds(dtype: dtype) -> tuple[int, int]:
    bits = dtype.itemsize * 8
    if dtype.is_signed:
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


CPP_NAMES = {
    "float32": "float",
    "float64": "double",
    "float16": "double",
    "bfloat16": "double",
    "bool": "bool",
    "int32": "int",
}
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
LARGEST_HALVES = {
    dtypes.float16: (float(dtypes.finfo(dtypes.float16).max), "c10::Half"),
    dtypes.bfloat16: (float(dtypes.finfo(dtypes.bfloat16).max), "c10::BFloat16"),
}


def cpp_name(dtype: dtype) -> str:
    return CPP_NAMES.get(dtype.name, f"{dtype.name}_t")


def overflow(name: str) -> RuntimeError:
    return RuntimeError(f"value cannot be converted to type {name} without overflow")


def fill_number(value: Any, dtype: dtype) -> Any:
    """A Python number as an element of `dtype`; RuntimeError for one that does not fit."""
    if dtype.category == dtypes.BOOL:
        return bool(value)
    if dtype.category == COMPLEX:
        if dtype is PAIR:
            number = complex(value)
            return np.array((number.real, number.imag), PAIR.np)
        return complex(value)
    if isinstance(value, complex):
        if value.imag != 0.0:
            raise overflow(cpp_name(dtype))
        value = value.real
    if dtype.category == FLOAT:
        if dtype is dtypes.float32 and LARGEST_FLOAT32 < abs(value) < np.inf:
            raise overflow("float")
        return value
    assert dtype.category == INTEGER
    low, high = integer_bounds(dtype)
    if isinstance(value, float) and not low <= value <= high:
        raise overflow(cpp_name(dtype))
    number = int(value)
    # torch: a negative integer may wrap into an unsigned type of which it fits the width.
    if number > high or number < (low or -high):
        raise overflow(cpp_name(dtype))
    return number if number >= low else number + high + 1


def held_number(value: Any, dtype: dtype, count: int = 2) -> Any:
    """As `fill_number`; a number beyond those of a half type does not fit either.

    torch: it becomes infinite where it is assigned, which is how one element alone is filled.
    """
    if count > 1 and dtype in LARGEST_HALVES and isinstance(value, (int, float)):
        largest, name = LARGEST_HALVES[dtype]
        if largest < abs(value) < np.inf:
            raise overflow(name)
    return fill_number(value, dtype)
