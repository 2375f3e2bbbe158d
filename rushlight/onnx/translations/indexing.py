"""Ops that read and write at places that are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.onnx.building import BOOL, INT64, Builder, Value, translates
from rushlight.onnx.refusals import refuse
from rushlight.onnx.translations.pointwise import chosen, common_type
from rushlight.onnx.translations.shapes import LARGEST


@translates("embedding.default")
def embedding(b: Builder, weight: Value, indices: Value, *options: Any) -> Value:
    return b.op("Gather", weight, indices, axis=0)


@translates("index_select.default")
def index_select(b: Builder, x: Value, dim: int, index: Value) -> Value:
    if x.rank == 0:
        return b.op("Identity", x)
    if index.rank == 0:
        index = b.reshape(index, [1])
    return b.op("Gather", x, index, axis=dim)


@translates("gather.default")
def gather(b: Builder, x: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    if x.rank and index.rank:
        return b.op("GatherElements", x, index, axis=dim)
    sizes = [b.size(index, each) for each in range(index.rank)]
    return b.reshape(b.op("GatherElements", row(b, x), row(b, index), axis=0), sizes)


def row(b: Builder, x: Value) -> Value:
    """A tensor without dims as one with one."""
    return x if x.rank else b.reshape(x, [1])


@translates("take_along_dim.default")
def take_along_dim(b: Builder, x: Value, index: Value, dim: int | None) -> Value:
    if dim is None:
        raise refuse("take_along_dim without a dim")
    dim %= x.rank
    sizes = [tuple(map(str, (*v.shape[:dim], *v.shape[dim + 1 :]))) for v in (x, index)]
    if sizes[0] != sizes[1]:
        raise refuse("take_along_dim of tensors that broadcast")
    return b.op("GatherElements", x, index, axis=dim)


@translates("scatter.src")
def scatter(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    return scattered(b, x, dim, index, fitting(b, source, index))


def scattered(
    b: Builder, x: Value, dim: int, index: Value, source: Value, how: str | None = None
) -> Value:
    if how is not None and x.dtype is BOOL:
        raise refuse("a scatter that reduces truth values")
    if x.rank:
        given = [row(b, each) for each in (index, source)]
        return b.op("ScatterElements", x, *given, axis=dim, reduction=how)
    parts = [row(b, each) for each in (x, index, source)]
    return b.reshape(b.op("ScatterElements", *parts, axis=0, reduction=how), [])


def fitting(b: Builder, source: Value, index: Value) -> Value:
    """The part of a source that an index reads; ONNX wants equal sizes."""
    for dim in range(index.rank):
        if str(source.shape[dim]) != str(index.shape[dim]):
            like = source.like
            source = b.slice(source, dim, 0, b.size(index, dim))
            source.like = like
    return source


@translates("scatter.value")
def scatter_value(b: Builder, x: Value, dim: int, index: Value, value: Any) -> Value:
    filler = b.op("Expand", b.number(value, x.dtype), b.op("Shape", index, dtype=INT64))
    filler.like = index.like
    return scattered(b, x, dim, index, filler)


@translates("scatter_add.default")
def scatter_add(b: Builder, x: Value, dim: int, index: Value, source: Value) -> Value:
    source = fitting(b, source, index)
    return scattered(b, x, dim, index, source, "add")


@translates("scatter_reduce.two")
def scatter_reduce(
    b: Builder, x: Value, dim: int, index: Value, source: Value, how: str, with_self: bool
) -> Value:
    known = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}
    if how not in known or not with_self:
        raise refuse(f"scatter_reduce of {how!r}, include_self={with_self}")
    source = fitting(b, source, index)
    return scattered(b, x, dim, index, source, known[how])


# -- several indices ----------------------------------------------------------------------------


def joined(b: Builder, indices: Sequence[Value]) -> Value:
    """Indices, made equally large, side by side in a last dim."""
    if len(indices) == 1:
        return b.unsqueeze(indices[0], -1)
    shape = b.op("Shape", indices[0], dtype=INT64)
    if any(str(each.shape) != str(indices[0].shape) for each in indices):
        total = b.op("Add", *[b.cast(each, INT64) for each in indices[:2]])
        for each in indices[2:]:
            total = b.op("Add", total, b.cast(each, INT64))
        shape = b.op("Shape", total, dtype=INT64)
    wide = [b.op("Expand", b.cast(each, INT64), shape) for each in indices]
    return b.op("Concat", *[b.unsqueeze(each, -1) for each in wide], axis=-1)


def rank_of(indices: Sequence[Value]) -> int:
    return max([index.rank for index in indices])


def places_of(indices: Sequence[Value | None]) -> list[int]:
    return [dim for dim, index in enumerate(indices) if index is not None]


@translates("index.Tensor", "_unsafe_index.Tensor")
def index(b: Builder, x: Value, indices: Sequence[Value | None]) -> Value:
    dims = places_of(indices)
    given = [each for each in indices if each is not None]
    if any(each.dtype is BOOL for each in given):
        return masked(b, x, given, dims)
    if len(dims) == 1:
        return b.op("Gather", x, given[0], axis=dims[0])
    order = [*dims, *[dim for dim in range(x.rank) if dim not in dims]]
    found = b.op("GatherND", b.transpose(x, order), joined(b, given))
    if dims != list(range(dims[0], dims[-1] + 1)) or dims[0] == 0:
        return found
    # torch: where the indexed dims stand together, the result has theirs in their place.
    taken, rest = rank_of(given), x.rank - len(dims)
    before = list(range(taken, taken + dims[0]))
    back = [*before, *range(taken), *range(taken + dims[0], taken + rest)]
    return b.transpose(found, back)


def masked(b: Builder, x: Value, given: Sequence[Value], dims: Sequence[int]) -> Value:
    mask = given[0]
    if len(given) != 1 or dims[0] != 0:
        raise refuse("an index by a mask beside other indices")
    places = b.op("Transpose", b.op("NonZero", mask, dtype=INT64), perm=[1, 0])
    return b.op("GatherND", x, places)


@translates("index_put.default", "_unsafe_index_put.default", "index_put_.default")
def index_put(
    b: Builder,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    dims = places_of(indices)
    given = [each for each in indices if each is not None]
    values = b.cast(values, x.dtype)
    if any(each.dtype is BOOL for each in given):
        if len(given) != 1 or dims[0] != 0 or values.rank != 0 or accumulate:
            raise refuse("a write by a mask of other values than one")
        mask = given[0]
        if x.rank > mask.rank:
            mask = b.unsqueeze(mask, *range(mask.rank, x.rank))
        return chosen(b, mask, values, x)
    order = [*dims, *[dim for dim in range(x.rank) if dim not in dims]]
    moved = b.transpose(x, order)
    places = joined(b, given)
    count, first = rank_of(given), dims[0]
    if dims == list(range(first, first + len(dims))) and first and values.rank > count:
        # The indices' dims stand where the indexed ones were; here they come first.
        total = x.rank - len(dims) + count
        if values.rank < total:
            values = b.unsqueeze(values, *range(total - values.rank))
        block = list(range(first, first + count))
        rest = [dim for dim in range(total) if dim not in block]
        values = b.transpose(values, [*block, *rest])
    shape = b.op("Shape", b.op("GatherND", moved, places), dtype=INT64)
    found = b.op(
        "ScatterND",
        moved,
        places,
        b.op("Expand", values, shape),
        reduction="add" if accumulate else None,
    )
    back = [order.index(dim) for dim in range(x.rank)]
    return b.transpose(found, back)


@translates("slice_scatter.default")
def slice_scatter(
    b: Builder, x: Value, source: Value, dim: int = 0, start: Any = None, end: Any = None,
    step: int = 1,
) -> Value:  # fmt: skip
    start = 0 if start is None else start
    end = LARGEST if end is None else end
    every = b.op("Range", b.number(0, INT64), b.number(b.size(x, dim), INT64), b.number(1, INT64))
    places = b.slice(every, 0, start, end, step)
    return written(b, x, source, dim, places)


@translates("select_scatter.default")
def select_scatter(b: Builder, x: Value, source: Value, dim: int, place: Any) -> Value:
    return written(b, x, b.unsqueeze(source, dim), dim, b.ints([place]))


def written(b: Builder, x: Value, source: Value, dim: int, places: Value) -> Value:
    """`x` with `source` at some places of a dim."""
    dim %= x.rank
    order = [dim, *[each for each in range(x.rank) if each != dim]]
    moved = b.transpose(x, order)
    updates = b.transpose(b.cast(source, x.dtype), order)
    found = b.op("ScatterND", moved, b.unsqueeze(places, -1), updates)
    return b.transpose(found, [order.index(each) for each in range(x.rank)])


@translates("masked_select.default")
def masked_select(b: Builder, x: Value, mask: Value) -> Value:
    if str(x.shape) != str(mask.shape):
        x = b.op("Expand", x, b.op("Shape", mask, dtype=INT64))
        mask = b.op("Expand", mask, b.op("Shape", x, dtype=INT64))
    return b.op("Compress", b.reshape(x, [-1]), b.reshape(mask, [-1]), axis=0)


@translates("bucketize.Tensor")
def bucketize(
    b: Builder, x: Value, bounds: Value, small: bool = False, right: bool = False
) -> Value:
    """How many bounds lie below each value."""
    dtype = common_type(x, bounds)
    values = b.unsqueeze(b.cast(x, dtype), -1)
    below = "LessOrEqual" if right else "Less"
    found = b.op(below, b.cast(bounds, dtype), values, dtype=BOOL)
    return b.reduce("ReduceSum", b.cast(found, INT64), [-1], False)


@translates("searchsorted.Tensor")
def searchsorted(
    b: Builder, bounds: Value, x: Value, small: bool, right: bool, side: str | None, sorter: Any
) -> Value:
    if bounds.rank != 1 or sorter is not None:
        raise refuse("searchsorted of several rows, or with a sorter")
    return bucketize(b, x, bounds, small, right or side == "right")


@translates("scatter.reduce")
def scatter_with(b: Builder, x: Value, dim: int, index: Value, source: Value, how: str) -> Value:
    word = {"add": "add", "multiply": "mul"}[how]
    return scattered(b, x, dim, index, fitting(b, source, index), word)


@translates("nonzero.default")
def nonzero(b: Builder, x: Value) -> Value:
    if x.rank == 0:
        raise refuse("nonzero of a tensor without dims")
    return b.op("Transpose", b.op("NonZero", x, dtype=INT64), perm=[1, 0])


@translates("unfold.default")
def unfold(b: Builder, x: Value, dim: int, size: int, step: int) -> Value:
    """Windows along a dim: where each begins, and the places in it; they become the last dim."""
    dim = dim % x.rank
    length = b.number(b.size(x, dim), INT64)
    stop = b.op("Sub", length, b.number(size - 1, INT64))
    begins = b.op("Range", b.number(0, INT64), stop, b.number(step, INT64))
    begins = b.reshape(begins, [-1, 1])
    places = b.op("Add", begins, b.array(np.arange(size).reshape(1, -1), INT64))
    found = b.op("Gather", x, places, axis=dim)
    order = [axis for axis in range(x.rank + 1) if axis != dim + 1]
    return b.op("Transpose", found, perm=[*order, dim + 1])


@translates("_unique2.default")
def unique2(
    b: Builder, x: Value, is_sorted: bool, return_inverse: bool, return_counts: bool
) -> list[Value]:
    given = b.cast(x, INT64) if x.dtype is BOOL else x
    found, _, inverse, counts = b.many(
        "Unique", [given], [given.dtype, INT64, INT64, INT64], sorted=1
    )
    sizes = [b.size(x, dim) for dim in range(x.rank)]
    places = b.reshape(inverse, sizes) if return_inverse else b.ints([])
    return [b.cast(found, x.dtype), places, counts if return_counts else b.ints([])]
