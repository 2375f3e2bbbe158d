"""How arrays are turned round, and what turns of dims mean."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.opset.kinds import Spec
from rushlight.opset.large import LoopRule

__all__ = ["flipped", "lower_flipped", "native_flipped", "rolled", "rotation"]


def flipped(array: Any, dims: Any) -> Any:
    """A copy with some dims, not below 0, the other way round."""
    place = [slice(None)] * array.ndim
    for dim in dims:
        place[dim] = slice(None, None, -1)
    return array[tuple(place)].copy()


def lower_flipped(build: Any, self: Any, dims: Any) -> Any:
    return build.reversed(build.plain(self), self.shape, geometry.wrap_dims(dims, len(self.shape)))


# What turns arrays round that others lay out.
native_flipped = LoopRule("flipped", lower_flipped, lambda self, dims: Spec(self.shape, self.dtype))


def rolled(xp: Any, array: Any, shift: int, dim: int) -> Any:
    """A copy with its parts along a dim in the other order."""
    dim %= array.ndim
    shift %= array.shape[dim]
    result = xp.empty(array.shape, array.dtype)
    before = (slice(None),) * dim
    result[(*before, slice(shift, None))] = array[(*before, slice(None, -shift or None))]
    if shift:
        result[(*before, slice(None, shift))] = array[(*before, slice(-shift, None))]
    return result


def rotation(ndim: int, k: int, dims: Any) -> tuple[int, int, int]:
    """(quarter turns, first dim, second dim), checked."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == ndim:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    return k % 4, geometry.wrap_dim(dims[0], ndim), geometry.wrap_dim(dims[1], ndim)
