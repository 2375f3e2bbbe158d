"""Ops that put elements in another order: flips, rolls and quarter turns."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import REARRANGEMENT, Spec
from rushlight.opset.large import LARGE, LoopRule
from rushlight.opset.moving.shape import joined_strides
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import late, linear_in

flip = op(
    "flip(Tensor self, int[] dims) -> Tensor",
    kind=REARRANGEMENT,
    varargs=1,
    vjp=lambda grad, dims: grad.flip(dims),
    jvp=linear_in("self"),
)


@flip.shape
def _(self: Any, dims: Any) -> Any:
    sizes = sizes_of(self)
    geometry.wrap_dims(dims, len(sizes))
    return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))


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


@flip.kernel
def _(xp: Any, self: Any, dims: Any) -> Any:
    return flipped(self, geometry.wrap_dims(dims, self.ndim) if self.ndim else ())


flip.lower = lambda build, op, self, dims: lower_flipped(build, self, dims)


flip.samples = lambda make: [
    (make(2, 3), (0,)),
    (make.strided(2, 3), (0, -1)),
    (make.expanded(2, 3), (1,)),
    (make(2, 3), ()),
    (make(), (0,)),
]
flip.errors = lambda make: [
    (RuntimeError, (make(2, 3), (0, 0))),
    (IndexError, (make(2, 3), (2,))),
]


@composite("fliplr(Tensor self) -> Tensor")
def fliplr(self: Any) -> Any:
    if self.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return self.flip((1,))


@composite("flipud(Tensor self) -> Tensor")
def flipud(self: Any) -> Any:
    if self.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return self.flip((0,))


fliplr.samples = lambda make: [(make(2, 3),), (make.strided(2, 3),)]
flipud.samples = lambda make: [(make(2, 3),), (make(3),)]


roll = op(
    "roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor",
    kind=REARRANGEMENT,
    vjp=lambda grad, shifts, dims: grad.roll([-s for s in shifts[::-1]], dims[::-1]),
    jvp=linear_in("self"),
)


roll.batch = late("moving.batched:roll")


@roll.shape
def _(self: Any, shifts: Any, dims: Any) -> Any:
    sizes = sizes_of(self)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if len(dims) != len(shifts):
        if not dims and len(shifts) == 1:
            return Spec(sizes, self._dtype)
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not sizes and dims:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    wrapped = [geometry.wrap_dim(dim, len(sizes)) for dim in dims]
    if any(geometry.is_size(size, 0) for size in sizes):
        return Spec(sizes, self._dtype, geometry.like_strides(sizes, strides_of(self)))
    # torch: a roll joins two slices, and takes the layout that joining gives.
    strides: Any = strides_of(self)
    for shift, dim in zip(shifts, wrapped, strict=True):
        size = sizes[dim]
        if len(sizes) < 4:
            strides = None
            break
        start = -shift % size
        lengths = ((*sizes[:dim], length, *sizes[dim + 1 :]) for length in (size - start, start))
        strides = joined_strides(sizes, [(part, strides) for part in lengths])
    return Spec(sizes, self._dtype, strides)


@roll.kernel
def _(xp: Any, self: Any, shifts: Any, dims: Any) -> Any:
    if not dims:
        return xp.roll(self, shifts)
    if len(dims) == 1 and self.size:
        return rolled(xp, self, shifts[0], dims[0])
    return xp.roll(self, shifts, dims) if self.ndim else self.copy()


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


roll.samples = lambda make: [
    (make(2, 3), (1,)),
    (make.strided(2, 3), (1,), (1,)),
    (make(2, 3), (1, -2), (0, 1)),
    (make(2, 3), (0,), (0,)),
    (make(0, 3), (1,), (1,)),
    (make(), (1,)),
    (make.strided(2, 3, 2, 2), (1,), (1,)),
]
roll.errors = lambda make: [
    (RuntimeError, (make(3), (1, 2), (0,))),
    (RuntimeError, (make(3), ())),
    (IndexError, (make(3), (1,), (1,))),
    (RuntimeError, (make(2, 3), (1, 2), (0,))),
    (IndexError, (make(2, 3), 1, 2)),
]


rot90 = op(
    "rot90(Tensor self, int k=1, int[] dims=[0,1]) -> Tensor",
    kind=REARRANGEMENT,
    vjp=lambda grad, k, dims: grad.rot90(-k, dims),
    jvp=linear_in("self"),
)


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


@rot90.shape
def _(self: Any, k: int, dims: Any) -> Any:
    sizes, strides = sizes_of(self), strides_of(self)
    turns, first, second = rotation(len(sizes), k, dims)
    if turns == 0:
        return Spec(sizes, self._dtype)
    like = geometry.like_strides(sizes, strides)
    if turns == 2:
        return Spec(sizes, self._dtype, like)
    sizes, like, _ = geometry.transposed_geometry(sizes, like, first, second)
    return Spec(sizes, self._dtype, like)


@rot90.kernel
def _(xp: Any, self: Any, k: int, dims: Any) -> Any:
    turns, first, second = rotation(self.ndim, k, dims)
    if turns == 0:
        return self.copy()
    dims = (first, second) if turns == 2 else (second if turns == 1 else first,)
    found = native_flipped(self, dims) if self.size >= LARGE else None
    if found is None:
        found = flipped(self, dims)
    return found if turns == 2 else found.swapaxes(first, second)


rot90.samples = lambda make: [
    (make(2, 3),),
    (make(2, 3), 2),
    (make.strided(2, 3), 3),
    (make.strided(2, 3), 4),
    (make(2, 3, 2), -1, (1, -1)),
]
rot90.errors = lambda make: [
    (RuntimeError, (make(2, 3), 1, (0, 0))),
    (RuntimeError, (make(2, 3), 1, (0,))),
    (RuntimeError, (make(3),)),
    (IndexError, (make(2, 3), 1, (0, 5))),
    (RuntimeError, (make(3), 1, (0, 1))),
]
