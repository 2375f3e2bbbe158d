"""Sums of arrays whose rounding error stays small along every axis.

NumPy sums pairwise only along the axis its inner loop runs over and adds rows one by one along
the others. Here long reductions over outer axes go block by block, so that the error grows with
the logarithm of the length whatever the memory layout.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["axes_by_stride", "sum_array"]

# Arrays of up to this many elements are summed in one go.
SMALL = 256
# Along outer axes this many elements are added one by one, the rest block by block.
SHORT = 32
BLOCK = 16
# Adjacent rows are joined until NumPy's inner loop has about this many elements.
WIDTH = 256

add_reduce: Any = np.add.reduce


def sum_array(array: Any, axes: tuple[int, ...] | None, keepdims: bool = False) -> Any:
    """The sum over `axes` (all where None) in the array's own dtype."""
    if array.size <= SMALL or array.dtype.kind not in "fc":
        return add_reduce(array, axes, array.dtype, None, keepdims)
    flags = array.flags
    if axes is None and (flags.c_contiguous or flags.f_contiguous):
        return add_reduce(array, None, None, None, keepdims)
    gone = tuple(range(array.ndim)) if axes is None else axes
    order = axes_by_stride(array)
    # The reduced axes that are innermost in memory: one pairwise sum.
    inner = 0
    while inner < len(order) and order[inner] in gone:
        inner += 1
    result = array
    first = tuple(order[:inner])
    if first:
        result = add_reduce(result, mergeable(result, first), None, None, True)
        first = tuple([axis for axis in first if result.shape[axis] != 1])
    rest = [axis for axis in order if axis in gone and result.shape[axis] != 1]
    for axis in rest:
        result = sum_along(result, axis)
    if 0 in array.shape:
        return add_reduce(array, axes, None, None, keepdims)
    if keepdims:
        return result
    kept = [size for axis, size in enumerate(result.shape) if axis not in gone]
    return result.reshape(kept)


def axes_by_stride(array: Any) -> list[int]:
    """Axes longer than 1 from the innermost in memory outwards."""
    strides = array.strides
    used = [axis for axis, size in enumerate(array.shape) if size != 1]
    return sorted(used, key=lambda axis: (abs(strides[axis]), -axis))


def mergeable(array: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    """The leading run of `axes`, given innermost first, that memory holds as one long axis."""
    taken = [axes[0]]
    extent = array.strides[axes[0]] * array.shape[axes[0]]
    for axis in axes[1:]:
        if array.strides[axis] != extent:
            break
        taken.append(axis)
        extent *= array.shape[axis]
    return tuple(taken)


def sum_along(array: Any, axis: int) -> Any:
    """The sum over one axis, kept with size 1, block by block where it is long."""
    order = axes_by_stride(array)
    if order[0] == axis:
        return add_reduce(array, axis, None, None, True)
    inner = 1
    for other in order[: order.index(axis)]:
        inner *= array.shape[other]
    length = array.shape[axis]
    while length > SHORT:
        width = max(1, min(WIDTH // inner, length // (2 * BLOCK)))
        blocks = length // (BLOCK * width)
        head, tail = np.split(array, [blocks * BLOCK * width], axis)
        shape = (*head.shape[:axis], blocks, BLOCK, width, *head.shape[axis + 1 :])
        partial = add_reduce(head.reshape(shape), axis + 1)
        partial = partial.reshape((*head.shape[:axis], blocks * width, *head.shape[axis + 1 :]))
        if tail.shape[axis]:
            partial = np.concatenate((partial, tail), axis)
        array = partial
        length = array.shape[axis]
    return add_reduce(array, axis, None, None, True)
