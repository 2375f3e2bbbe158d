"""Which dtype kernels compute in, and arrays brought to it.

Halves compute in float32 and round once; every other dtype computes as it is. float8 and pairs of
halves are stored and converted, never computed with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype

__all__ = ["HALVES", "cast", "check_computable", "dtype_of", "rounded", "widen", "working"]

HALVES = frozenset((dtypes.float16, dtypes.bfloat16))


def dtype_of(value: Any) -> dtype:
    """The dtype of a tensor or an array."""
    found: dtype | None = getattr(value, "_dtype", None)
    return dtypes.from_numpy(value.dtype) if found is None else found


def working(dtype: dtype) -> dtype:
    """The dtype that kernels accumulate in."""
    return dtypes.float32 if dtype in HALVES else dtype


def check_computable(kernel: str, dtype: dtype) -> None:
    if dtype in dtypes.FLOAT8 or dtype is dtypes.complex32:
        raise dtypes.unsupported(kernel, dtype)


def widen(array: Any) -> Any:
    """The array in the dtype to compute in: halves as float32. None for None."""
    if array is None or array.dtype.itemsize != 2 or array.dtype.kind in "iu":
        return array
    return array.astype(np.float32)


def rounded(array: Any, array_type: Any) -> Any:
    """The array in the dtype of the result."""
    return array if array.dtype == array_type else array.astype(array_type)


def cast(array: Any, dtype: dtype) -> Any:
    """The array in another dtype; a complex one loses its imaginary part where it must."""
    if array.dtype == dtype.np:
        return array
    if array.dtype.kind == "c" and dtype.category < dtypes.COMPLEX:
        array = array.real
    if dtype.category == dtypes.BOOL:
        return array != 0
    return array.astype(dtype.np)
