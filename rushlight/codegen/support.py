"""What generated functions call at run time; loads nothing of the compiler."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.dtype import dtype
from rushlight.core.history import bump_version
from rushlight.core.state import changed
from rushlight.core.storage import Storage, VersionCounter
from rushlight.core.tensor import Tensor, alias_array, strides_of, values_of, wrap, wrap_strided
from rushlight.opset.results import lay_out

if TYPE_CHECKING:
    from rushlight.codegen.loops import Buffer

__all__ = [
    "RUN_NAMES",
    "Scratch",
    "array_of",
    "linked",
    "own_array_of",
    "strided",
    "team",
    "wrap_turned",
]


Ints = tuple[int, ...]


def strided(shape: Ints, strides: Ints, dtype: dtype, nbytes: int) -> Tensor:
    """A tensor over fresh memory with these strides."""
    storage = Storage(buffers.empty((nbytes,), np.uint8, nbytes))
    array = alias_array(storage, dtype, shape, strides, 0)
    if array.size:
        return wrap_strided(array, dtype, storage)
    return lay_out(np.empty(shape, dtype.np), strides, dtype)


def wrap_turned(array: Any, dtype: dtype, order: Ints) -> Tensor:
    """A tensor over fresh memory that is dense with its dims in this order."""
    # The array's base is more than its memory: that begins where it is aligned.
    return wrap_strided(array, dtype, Storage.of_array(array.transpose(order)))


def array_of(tensor: object, buffer: Buffer, shape: Ints, strides: Ints) -> Any:
    """The array of a tensor that does not look as expected: resolved and laid out, or refused.
    `shape` and `strides` are those of the buffer in this call."""
    if not isinstance(tensor, Tensor) or tensor._array is None:
        raise error(
            "RL0803", name=buffer.name, expected="a tensor with values", found=type(tensor).__name__
        )
    if tuple(tensor.shape) != shape or tensor.dtype is not buffer.dtype:
        sizes = geometry.show(shape)
        raise error(
            "RL0803",
            name=buffer.name,
            expected=f"{buffer.dtype} of sizes {sizes} as when it was compiled",
            found=f"{tensor.dtype} of sizes {geometry.show(tensor.shape)}",
        )
    array = values_of(tensor)
    found = strides_of(tensor)
    if array is tensor._array and all([s == 1 or a == b for s, a, b in zip(shape, strides, found)]):
        return array
    if not array.size:
        return array
    return lay_out(array, strides, buffer.dtype)._array


def own_array_of(tensor: Any, buffer: Buffer, shape: Ints, strides: Ints) -> Any:
    """As `array_of`, of a tensor that is written: it has to be the tensor's own memory."""
    array = array_of(tensor, buffer, shape, strides)
    if array is not tensor._array or not array.flags.writeable:
        raise error(
            "RL0803",
            name=buffer.name,
            expected=f"writable, with strides {geometry.show(strides)} as when it was compiled",
            found=f"strides {geometry.show(strides_of(tensor))}",
        )
    return array


def linked(view: Tensor, source: Tensor) -> Tensor:
    """A view that was made below autograd: what is written to one counts for both."""
    if view is not source:
        counter = source._counter
        if counter is None:
            counter = source._counter = VersionCounter()
        view._counter = counter
    return view


def team() -> Any:
    """How many threads native code may use, in memory."""
    from rushlight.codegen.kernels import pool

    return pool.team()


class Scratch:
    """Memory of a segment whose size calls tell: the largest so far, used by one call at a time,
    since native code runs under the interpreter's lock."""

    __slots__ = ("memory",)

    def __init__(self) -> None:
        self.memory = buffers.aligned_bytes(0)

    def __call__(self, nbytes: int) -> Any:
        memory = self.memory
        if len(memory) < nbytes or not buffers.REUSES:
            memory = self.memory = buffers.aligned_bytes(nbytes)
        return memory


# The names that every generated function may use.
RUN_NAMES: dict[str, Any] = {
    "empty": buffers.empty,
    "fresh": np.empty,
    "strided": strided,
    "wrap": wrap,
    "wrap_turned": wrap_turned,
    "array_of": array_of,
    "scratch": buffers.aligned_bytes,
    "strides_of": strides_of,
    "math": math,
    "dot": np.dot,
    "matmul": np.matmul,
    "linked": linked,
    "own_array_of": own_array_of,
    "touched": bump_version,
    "plain_calls": partial(changed, grad=False, autocast=None),
}
