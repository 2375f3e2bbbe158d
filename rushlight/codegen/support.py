"""What generated functions call at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.codegen import buffers
from rushlight.codegen.loops import Buffer
from rushlight.core import geometry
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, alias_array, strides_of, values_of, wrap_strided
from rushlight.opset.results import lay_out

__all__ = ["array_of", "strided"]


def strided(buffer: Buffer) -> Tensor:
    """A tensor over fresh memory with the buffer's strides."""
    storage = Storage(buffers.empty((buffer.nbytes,), np.uint8, buffer.nbytes))
    array = alias_array(storage, buffer.dtype, buffer.shape, buffer.strides, 0)
    if array.size:
        return wrap_strided(array, buffer.dtype, storage)
    return lay_out(np.empty(buffer.shape, buffer.dtype.np), buffer.strides, buffer.dtype)


def array_of(tensor: object, buffer: Buffer) -> Any:
    """The array of a tensor that does not look as expected: resolved and laid out, or refused."""
    if not isinstance(tensor, Tensor) or tensor._array is None:
        raise error(
            "RL0803", name=buffer.name, expected="a tensor with values", found=type(tensor).__name__
        )
    if tuple(tensor.shape) != buffer.shape or tensor.dtype is not buffer.dtype:
        sizes = geometry.show(buffer.shape)
        raise error(
            "RL0803",
            name=buffer.name,
            expected=f"{buffer.dtype} of sizes {sizes} as when it was compiled",
            found=f"{tensor.dtype} of sizes {geometry.show(tensor.shape)}",
        )
    array = values_of(tensor)
    found = strides_of(tensor)
    pairs = zip(buffer.shape, buffer.strides, found)
    if array is tensor._array and all([s == 1 or a == b for s, a, b in pairs]):
        return array
    if not array.size:
        return array
    return lay_out(array, buffer.strides, buffer.dtype)._array
