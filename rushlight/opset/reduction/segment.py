"""Reductions of segments of one axis, and of bits: `segment_reduce`, `hash_tensor`.

Segments are given by their lengths or by the offsets between them, one list for every row that lies
outside the axis; what no segment covers is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.opset.kinds import OPAQUE, REDUCTION, Spec
from rushlight.opset.registry import op
from rushlight.opset.rules import aten, late, not_differentiable, sample

REDUCTIONS = {
    "max": "max", "amax": "max", "min": "min", "amin": "min", "mean": "mean", "sum": "sum",
    "prod": "prod",
}  # fmt: skip
STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}
JOINS: dict[str, Any] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def reduction_named(reduce: str) -> str:
    if reduce not in REDUCTIONS:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    return REDUCTIONS[reduce]


def checked_axis(data: Any, lengths: Any, offsets: Any, axis: int) -> int:
    """The axis counted from the front."""
    axis = int(geometry.wrap_dim(axis, len(data.shape)))
    given = offsets if lengths is None else lengths
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if len(data.shape) < len(given.shape) or not data.shape:
        raise RuntimeError(
            f"segment_reduce(): data has {len(data.shape)} dimensions, lengths or offsets "
            f"{len(given.shape)}; expected data.dim() >= lengths.dim()"
        )
    if axis != len(given.shape) - 1:
        name = "offsets" if lengths is None else "lengths"
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}."
        )
    return axis


class Segments:
    """Where every segment's elements are: rows of data laid out as (outer * axis, inner)."""

    def __init__(self, data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool) -> None:
        size = data.shape[axis]
        outer = data.shape[:axis]
        rows = int(np.prod(outer, dtype=np.int64))
        if lengths is None:
            bounds = offsets.reshape(rows, -1).astype(np.int64)
            counts, starts = np.diff(bounds, axis=1), bounds[:, :-1]
        else:
            counts = lengths.reshape(rows, -1).astype(np.int64)
            starts = np.cumsum(counts, 1) - counts
        self.check(counts, starts, size, lengths is None or unsafe)
        self.shape = (*outer, counts.shape[1], *data.shape[axis + 1 :])
        self.counts = counts.reshape(-1)
        self.total = self.counts.size
        self.owner = np.repeat(np.arange(self.total), self.counts)
        first = (starts + np.arange(rows)[:, None] * size).reshape(-1)
        within = np.arange(self.owner.size) - (np.cumsum(self.counts) - self.counts)[self.owner]
        self.place = first[self.owner] + within
        self.length = rows * size
        self.inner = int(np.prod(data.shape[axis + 1 :], dtype=np.int64))

    def check(self, counts: Any, starts: Any, size: int, unsafe: bool) -> None:
        if (counts < 0).any():
            raise RuntimeError("lengths contains negative value!")
        if not unsafe and (counts.sum(1) != size).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                "data.size(lengths.dim()-1) when !unsafe."
            )
        if counts.size and ((starts < 0) | (starts + counts > size)).any():
            raise RuntimeError(
                f"segment_reduce(): a segment ends beyond the {size} elements of data along axis"
            )

    def elements(self, data: Any) -> Any:
        return data.reshape(self.length, self.inner)[self.place]

    def reduced(self, join: Any, values: Any, start: Any) -> Any:
        result = np.full((self.total, self.inner), start, values.dtype)
        join.at(result, self.owner, values)
        return result

    def spread(self, values: Any, like: Any) -> Any:
        """Values of elements in the places of the data; 0 elsewhere."""
        result = np.zeros((self.length, self.inner), values.dtype)
        result[self.place] = values
        return result.reshape(like.shape).astype(like.dtype)


def check_dtypes(data: Any, given: Any) -> None:
    dtype = dtypes.from_numpy(data.dtype)
    if given.dtype not in (np.int32, np.int64):
        raise unsupported("_segment_reduce_lengths_cpu_kernel1", dtypes.from_numpy(given.dtype))
    if not dtype.is_floating_point:
        raise unsupported("_segment_reduce_cpu", dtype)


def slopes_of(
    result: Any, data: Any, reduce: str, lengths: Any, offsets: Any, axis: int, initial: Any
) -> Any:
    """How much each element of the data moves its segment's result."""
    return aten._segment_reduce_backward(
        aten.ones_like(result), result, data, reduce, lengths=lengths, offsets=offsets, axis=axis,
        initial=initial,
    )  # fmt: skip


segment_reduce = op(
    "segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
    "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor",
    kind=OPAQUE,
    method=False,
    differentiable=["data"],
    batch=late("reduction.batched:segment_reduce"),
    jvp=lambda data_t, result, data, reduce, lengths, offsets, axis, unsafe, initial: (
        aten.segment_reduce(
            data_t * slopes_of(result, data, reduce, lengths, offsets, axis, initial),
            "sum",
            lengths=lengths,
            offsets=offsets,
            axis=axis,
            unsafe=unsafe,
            initial=0,
        )
    ),
    vjp=lambda grad, result, data, reduce, lengths, offsets, axis, initial: (
        aten._segment_reduce_backward(
            grad.contiguous(),
            result,
            data,
            reduce,
            lengths=lengths,
            offsets=offsets,
            axis=axis,
            initial=initial,
        )
    ),
)


@segment_reduce.shape
def _(
    data: Any,
    reduce: str,
    lengths: Any,
    indices: Any,
    offsets: Any,
    axis: int,
    unsafe: bool,
    initial: Any,
) -> Any:
    reduction_named(reduce)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    axis = checked_axis(data, lengths, offsets, axis)
    count = offsets.shape[axis] - 1 if lengths is None else lengths.shape[axis]
    return Spec((*data.shape[:axis], count, *data.shape[axis + 1 :]), data._dtype)


@segment_reduce.kernel
def _(
    xp: Any,
    data: Any,
    reduce: str,
    lengths: Any,
    indices: Any,
    offsets: Any,
    axis: int,
    unsafe: bool,
    initial: Any,
) -> Any:
    name = reduction_named(reduce)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    axis = checked_axis(data, lengths, offsets, axis)
    check_dtypes(data, offsets if lengths is None else lengths)
    segments = Segments(data, lengths, offsets, axis, unsafe)
    start = STARTS[name] if initial is None else initial
    result = segments.reduced(JOINS[name], segments.elements(widen(data)), start)
    if name == "mean":
        counts = segments.counts[:, None].astype(result.dtype)
        empty = np.nan if initial is None else result
        result = xp.where(counts == 0, empty, result / xp.maximum(counts, 1))
    return result.reshape(segments.shape).astype(data.dtype)


segment_slopes = op(
    "_segment_reduce_backward(Tensor grad, Tensor output, Tensor data, str reduce, *, "
    "Tensor? lengths=None, Tensor? offsets=None, int axis=0, Scalar? initial=None) -> Tensor",
    kind=OPAQUE,
    method=False,
    node="torch::autograd::NotImplemented",
    batch=late("reduction.batched:segment_slopes"),
    vjp=dict.fromkeys(
        ("grad", "output", "data"), not_differentiable("aten::_segment_reduce_backward")
    ),
    shape=lambda grad, output, data, *rest: Spec(data.shape, data._dtype),
)


@segment_slopes.kernel
def _(
    xp: Any,
    grad: Any,
    output: Any,
    data: Any,
    reduce: str,
    lengths: Any,
    offsets: Any,
    axis: int,
    initial: Any,
) -> Any:
    name = reduction_named(reduce)
    axis = checked_axis(data, lengths, offsets, axis)
    check_dtypes(data, offsets if lengths is None else lengths)
    segments = Segments(data, lengths, offsets, axis, True)
    values = segments.elements(widen(data))
    owner = segments.owner
    share = widen(grad).reshape(segments.total, segments.inner)[owner]
    whole = widen(output).reshape(segments.total, segments.inner)[owner]
    if name == "mean":
        share = share / segments.counts[owner][:, None].astype(values.dtype)
    elif name in ("max", "min"):
        chosen = (values == whole) | xp.isnan(values)
        ties = segments.reduced(np.add, chosen.astype(values.dtype), 0)
        share = xp.where(chosen, share / xp.maximum(ties[owner], 1), 0)
    elif name == "prod":
        share = share * products_of_others(segments, values, whole, initial)
    return segments.spread(share, data)


def products_of_others(segments: Segments, values: Any, whole: Any, initial: Any) -> Any:
    """For every element the product of the rest of its segment, without dividing by 0 or NaN."""
    owner = segments.owner
    is_zero, is_nan = values == 0, np.isnan(values)
    plain = np.where(is_zero | is_nan, 1, values).astype(values.dtype)
    rest = segments.reduced(np.multiply, plain, 1 if initial is None else initial)[owner]
    zeros = segments.reduced(np.add, is_zero.astype(np.int64), 0)[owner] - is_zero
    missing = segments.reduced(np.add, is_nan.astype(np.int64), 0)[owner] - is_nan
    others = np.where(is_zero | is_nan, rest, whole / plain)
    return np.where(missing > 0, np.nan, np.where(zeros > 0, 0, others)).astype(values.dtype)


def cuts(make: Any, *values: Any) -> Any:
    return make.ints(len(values)).new_tensor(values)


@segment_reduce.samples
def _(make: Any) -> Any:
    if not make.dtype.is_floating_point:
        return
    for name in ("sum", "mean", "max", "min", "prod"):
        yield sample(make.distinct(6), name, lengths=cuts(make, 2, 0, 3, 1), initial=2)
        yield sample(make.distinct(6, 2), name, lengths=cuts(make, 2, 4))
        yield sample(
            make.strided(2, 3), name, lengths=cuts(make, [1, 2], [3, 0]), axis=1, initial=1
        )
        yield sample(make.distinct(6), name, offsets=cuts(make, 0, 2, 6))
    yield sample(make(4), "sum", lengths=cuts(make, 2, 1), unsafe=True)


@segment_reduce.errors
def _(make: Any) -> Any:
    data, lengths = make(4), cuts(make, 2, 2)
    yield RuntimeError, sample(data, "median", lengths=lengths)
    yield RuntimeError, sample(data, "sum")
    yield RuntimeError, sample(data, "sum", lengths=cuts(make, 2, 1))
    yield RuntimeError, sample(data, "sum", lengths=cuts(make, -2, 6))
    yield RuntimeError, sample(data, "sum", lengths=lengths, indices=lengths)
    yield RuntimeError, sample(make(2, 4), "sum", lengths=lengths, axis=1)
    yield IndexError, sample(data, "sum", lengths=lengths, axis=1)
    yield NotImplementedError, sample(make.ints(4), "sum", lengths=lengths)


@segment_slopes.samples
def _(make: Any) -> Any:
    if not make.dtype.is_floating_point:
        return
    for name in ("sum", "mean", "max", "min", "prod"):
        data, lengths = make.distinct(6, 2), cuts(make, 2, 4)
        result = aten.segment_reduce(data, name, lengths=lengths)
        yield sample(make(2, 2), result, data, name, lengths=lengths)


# -- bits -----------------------------------------------------------------------------------------

hash_tensor = op(
    "hash_tensor(Tensor self, int[1] dim=[], *, bool keepdim=False, int mode=0) -> Tensor",
    kind=REDUCTION,
    answers=lambda dtype, given: dtypes.uint64,
    requires=lambda self, dim, mode: check_hash(self.shape, dim, mode),
    non_differentiable=(0,),
)


def check_hash(shape: Any, dim: Any, mode: int) -> None:
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if not dim and geometry.is_size(geometry.numel(shape), 0):
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    for position in geometry.wrap_dims(dim, len(shape)) if shape else ():
        if geometry.is_size(shape[position], 0):
            raise IndexError(
                f"hash_tensor: Expected reduction dim {position} to have non-zero size."
            )


@hash_tensor.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool, mode: int) -> Any:
    check_hash(self.shape, dim, mode)
    dtype = dtypes.from_numpy(self.dtype)
    if dtype.is_complex and self.size:
        raise unsupported("xor_sum_cpu", dtype)
    # torch: floats are hashed as the bits of their float64 values, whole numbers as int64.
    wide = xp.float64 if dtype.is_floating_point else xp.int64
    bits = self.astype(wide).view(xp.uint64) if self.ndim else xp.atleast_1d(self).astype(wide)
    bits = bits.view(xp.uint64).reshape(self.shape)
    axes = tuple(geometry.wrap_dims(dim, self.ndim)) if dim and self.ndim else None
    return xp.bitwise_xor.reduce(bits, axis=axes, keepdims=keepdim)


hash_tensor.samples = lambda make: [
    (make(3, 4),),
    (make.strided(3, 4), 1),
    sample(make(2, 3, 2), (0, -1), keepdim=True),
    (make(),),
    (make(0, 3), 1),
]
hash_tensor.errors = lambda make: [
    (RuntimeError, sample(make(2), mode=1)),
    (RuntimeError, sample(make(0))),
    (IndexError, sample(make(2, 0), 1)),
]
