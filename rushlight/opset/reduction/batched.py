"""Batch rules of reductions and searches: over each sample's own elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten
from rushlight.opset.batching import settled
from rushlight.opset.reduction.bins import check_shares
from rushlight.opset.registry import find

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = [
    "bucketize",
    "dist",
    "histc",
    "histogram",
    "histogram_of_points",
    "isin",
    "median",
    "norm",
    "renorm",
    "searchsorted",
    "segment_reduce",
    "segment_slopes",
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
    if op.out_positions:
        return level.loop(op, (self,))
    if not self.numel():
        # The same for all samples.
        return level.below(op, (level.run(lambda: level.front(self).reshape((0,))),))
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


def segment_slopes(
    level: VmapLevel, op: OpOverload,
    grad: Any, output: Any, data: Any, reduce: str, lengths: Any, offsets: Any,
    axis: int, initial: Any,
) -> Any:  # fmt: skip
    """As in `segment_reduce`."""
    cuts = lengths if offsets is None else offsets
    if op.out_positions or cuts is None or cuts.dim() != axis + 1 or axis < 0:
        return level.loop(op, (grad, output, data, reduce, lengths, offsets, axis, initial))
    tensors = [level.full(value) for value in (grad, output, data)]
    ends = [level.full(value) for value in (lengths, offsets)]
    return level.wrap(level.below(op, (*tensors, reduce, *ends, axis + 1, initial)))


def bin_ends(values: Any, dim: int, range: Any, margin: float, words: str) -> tuple[Any, Any]:
    """Where bins begin and end along `dim` of each sample: at `range`, else at its extremes, which
    are moved apart by `margin` where they are one."""
    if range is not None:
        low, high = [values.new_full((), bound) for bound in range]
    elif values.numel():
        low, high = values.amin(dim), values.amax(dim)
    else:
        low, high = values.new_zeros(()), values.new_ones(())
    aten._assert_async((low.isfinite() & high.isfinite()).all(), f"{words} is not finite")
    aten._assert_async((low <= high).all(), f"{words}: min should not exceed max")
    is_one = low == high
    return aten.where(is_one, low - margin, low), aten.where(is_one, high + margin, high)


def histc(level: VmapLevel, op: OpOverload, self: Any, bins: int, min: Any, max: Any) -> Any:
    op.rule("shape")(self, bins, min, max)
    if op.out_positions or self.dtype.itemsize < 4:
        return level.loop(op, (self, bins, min, max))
    flat = self.reshape((-1,))
    range = None if min == max and self.numel() else (min, max)
    low, high = bin_ends(flat, 0, range, 1, "torch.histc: range")
    is_inside = (flat >= low) & (flat <= high)
    places = ((flat - low) * (bins / (high - low))).to(dtypes.int64).clamp(0, bins - 1)
    return flat.new_zeros((bins,)).scatter_add(0, places, is_inside.to(self.dtype))


def spaced_edges(points: Any, bins: Any, range: Any) -> list[Any]:
    """For each column of (points, columns) the edges of its bins, at equal distances."""
    found = []
    for at, count in enumerate(bins):
        own = None if range is None else range[2 * at : 2 * at + 2]
        words = f"torch.histogramdd: dimension {at}'s range"
        low, high = bin_ends(points.select(1, at), 0, own, 0.5, words)
        found.append(aten.linspace(low, high, count + 1, dtype=points.dtype))
    return found


def counted(points: Any, edges: Any, weight: Any, density: bool) -> Any:
    """Weights of (points, columns) summed in boxes between edges; the last ones include theirs."""
    counts = [entry.shape[0] - 1 for entry in edges]
    is_inside = points.new_ones((points.shape[0],), dtype=dtypes.bool_)
    places = points.new_zeros((points.shape[0],), dtype=dtypes.int64)
    for at, (entry, count) in enumerate(zip(edges, counts, strict=True)):
        column = points.select(1, at).contiguous()
        is_inside = is_inside & (column >= entry[0]) & (column <= entry[-1])
        own = aten.searchsorted(entry.contiguous(), column, right=True) - 1
        places = places * count + own.clamp(0, count - 1)
    share = points.new_ones((points.shape[0],)) if weight is None else weight.reshape((-1,))
    share = aten.where(is_inside, share, 0).to(dtypes.float64)
    blank = points.new_zeros((math.prod(counts),), dtype=dtypes.float64)
    hist = blank.scatter_add(0, places, share).reshape(counts)
    if density:
        hist = hist / hist.sum()
        for at, entry in enumerate(edges):
            hist = hist / entry.diff().reshape(
                [-1 if axis == at else 1 for axis in range(len(edges))]
            )
    return hist.to(points.dtype)


def histogram(level: VmapLevel, op: OpOverload, self: Any, bins: Any, *options: Any) -> Any:
    """One column of points; `bins` are their edges or how many there are."""
    if op.out_positions:
        return level.loop(op, (self, bins, *options))
    op.rule("shape")(self, bins, *options)
    weight, density = options[-2:]
    check_shares(self, weight)
    points = self.reshape((-1, 1))
    edges = [bins] if isinstance(bins, Tensor) else spaced_edges(points, [bins], options[0])
    return counted(points, edges, weight, density), edges[0].clone()


def histogram_of_points(
    level: VmapLevel, op: OpOverload, self: Any, bins: Any, *options: Any
) -> Any:
    """`histogramdd`, and the edges that it finds."""
    if op.out_positions:
        return level.loop(op, (self, bins, *options))
    op.rule("shape")(self, bins, *options)
    points = self.reshape((-1, self.shape[-1]))
    edges = bins if op.list_positions else spaced_edges(points, bins, options[0])
    return (
        edges if op.base_name == "_histogramdd_bin_edges" else counted(points, edges, *options[-2:])
    )
