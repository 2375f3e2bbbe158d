"""Copies of arrays with dims the other way round."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.arrays.buffers import empty
from rushlight.opset.large import LARGE, native_loop


def flipped(array: Any, dims: Any) -> Any:
    """A copy with some dims, not below 0, the other way round."""
    inner = array.ndim - len(dims)
    if dims and min(dims) >= inner and array.size >= LARGE and array.flags.c_contiguous:
        # The last dims together are rows that are read from their ends on.
        run = native_loop("reversed", array.dtype)
        if run is not None:
            found = empty(array.shape, array.dtype, array.nbytes)
            rows = prod(array.shape[:inner])
            run(array, found, rows, array.size // rows)
            return found
    place = [slice(None)] * array.ndim
    for dim in dims:
        place[dim] = slice(None, None, -1)
    return array[tuple(place)].copy()
