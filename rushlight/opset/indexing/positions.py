"""Positions along one dim, with the other coordinates, in the forms that NumPy and native loops
take."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.core import geometry
from rushlight.opset.large import native_loop

__all__ = ["by_native_code", "element_strides", "flat_positions", "grid"]


def element_strides(array: Any) -> tuple[int, ...]:
    width = array.dtype.itemsize
    return tuple([step // width for step in array.strides])


def grid(shape: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """`index` along `dim` joined by every other coordinate, for NumPy's advanced indexing."""
    parts: list[Any] = []
    for axis, size in enumerate(shape):
        if axis == dim:
            parts.append(index)
        else:
            parts.append(np.arange(size).reshape((-1,) + (1,) * (len(shape) - axis - 1)))
    return tuple(parts)


def flat_positions(array: Any, dim: int, index: Any) -> Any:
    """`grid` as positions in a contiguous array's flat view, where NumPy is faster."""
    steps = element_strides(array)
    found = index.astype(np.int64, copy=False)
    if steps[dim] != 1:
        found = found * steps[dim]
    for axis, size in enumerate(index.shape):
        if axis != dim and size > 1:
            rest = (1,) * (index.ndim - axis - 1)
            found = found + (np.arange(size) * steps[axis]).reshape(-1, *rest)
    return found


def by_native_code(name: str, array: Any, dim: int, index: Any, other: Any) -> bool:
    """Write what an index names along a dim by native code; False where there is none. The
    sizes of the other dims are those of the index, and positions are known to be right."""
    sizes, given = list(array.shape), list(index.shape)
    length, count = sizes.pop(dim), given.pop(dim)
    inner = prod(sizes[dim:])
    loop = name if inner != 1 else f"{name} along"
    run = native_loop(loop, array.dtype) if geometry.same_sizes(sizes, given) else None
    if run is None or other.dtype != array.dtype or not array.flags.writeable:
        return False
    if not array.flags.c_contiguous or not other.flags.c_contiguous:
        return False
    if np.may_share_memory(array, other) or np.may_share_memory(array, index):
        return False
    index = np.ascontiguousarray(index, np.int64)
    numbers = (length, count) if inner == 1 else (length, count, inner)
    run(array, index, other, prod(sizes[:dim]), *numbers)
    return True
