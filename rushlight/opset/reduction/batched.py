"""Batch rules of reductions and searches: over each sample's own elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten
from rushlight.opset.batching import settled
from rushlight.opset.registry import find

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "bucketize",
    "dist",
    "isin",
    "median",
    "norm",
    "renorm",
    "searchsorted",
    "segment_reduce",
]


def norm(level: VmapLevel, op: OpOverload, self: Any, p: Any, dtype: Any = None) -> Any:
    if op.out_positions:
        return level.loop(op, (self, p) if dtype is None else (self, p, dtype))
    flat = self.reshape((self.numel(),))
    return aten.norm(flat, p, [0]) if dtype is None else aten.norm(flat, p, [0], False, dtype=dtype)


def dist(level: VmapLevel, op: OpOverload, self: Any, other: Any, p: Any) -> Any:
    if op.out_positions or self.dtype is not other.dtype:
        return level.loop(op, (self, other, p))
    return aten.norm(self - other, p)


def renorm(level: VmapLevel, op: OpOverload, self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    rank = self.dim()
    if op.out_positions or rank < 2 or p <= 0 or maxnorm < 0 or self.dtype.itemsize < 4:
        return level.loop(op, (self, p, dim, maxnorm))
    others = [axis for axis in range(rank) if axis != dim % rank]
    length = aten.linalg_vector_norm(self, p, others, True)
    factor = aten.where(length > maxnorm, maxnorm / (length + 1e-7), 1)
    return settled(op, self, (self * factor).to(self.dtype))


def median(level: VmapLevel, op: OpOverload, self: Any) -> Any:
    if op.out_positions or not self.numel():
        return level.loop(op, (self,))
    return getattr(aten, op.base_name)(self.reshape((-1,)), 0)[0]


# -- searches --------------------------------------------------------------------------------------


def searchsorted(level: VmapLevel, op: OpOverload, sequence: Any, self: Any, *options: Any) -> Any:
    """Every sample has a row of its own; a value alone is a row of one."""
    sorter = options[-1]
    is_flat = sequence.dim() == 1
    if op.out_positions or (not is_flat and (not isinstance(self, Tensor) or not self.dim())):
        return level.loop(op, (sequence, self, *options))
    value = self if isinstance(self, Tensor) else sequence.new_tensor(self)
    sizes = tuple(value.shape)
    rows = value.reshape((-1,)) if is_flat else value
    order = None if sorter is None else level.full(sorter)
    moved = (level.full(sequence), level.full(rows), *options[:-1], order)
    found = level.wrap(level.below(find("searchsorted", "Tensor"), moved))
    return found.reshape(sizes) if is_flat else found


def bucketize(
    level: VmapLevel, op: OpOverload, self: Any, boundaries: Any, out_int32: bool, right: bool
) -> Any:
    if op.out_positions or boundaries.dim() != 1:
        return level.loop(op, (self, boundaries, out_int32, right))
    if not level.holds(boundaries):
        return level.wrap(level.below(op, (level.front(self), boundaries, out_int32, right)))
    return aten.searchsorted(boundaries, self, out_int32=out_int32, right=right)


def isin(
    level: VmapLevel, op: OpOverload, elements: Any, tests: Any, assume_unique: bool, invert: bool
) -> Any:
    if op.out_positions:
        return level.loop(op, (elements, tests, assume_unique, invert))
    if not level.holds(tests):
        moved = (level.front(elements), tests, assume_unique, invert)
        return level.wrap(level.below(op, moved))
    first = elements.unsqueeze(-1) if isinstance(elements, Tensor) else elements
    found = (first == tests.reshape((-1,))).any(-1)
    return found.logical_not() if invert else found


def segment_reduce(
    level: VmapLevel, op: OpOverload,
    data: Any, reduce: str, lengths: Any, indices: Any, offsets: Any,
    axis: int, unsafe: bool, initial: Any,
) -> Any:  # fmt: skip
    """Samples come first: lengths and offsets have the dims of the data up to `axis`."""
    cuts = lengths if offsets is None else offsets
    if op.out_positions or cuts is None or cuts.dim() != axis + 1 or axis < 0:
        args = (data, reduce, lengths, indices, offsets, axis, unsafe, initial)
        return level.loop(op, args)
    ends = [level.full(value) for value in (lengths, indices, offsets)]
    moved = (level.full(data), reduce, *ends, axis + 1, unsafe, initial)
    return level.wrap(level.below(op, moved))
