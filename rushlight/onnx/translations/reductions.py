"""Ops that fold dims, and those that order or accumulate along one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.onnx.building import BOOL, INT32, INT64, Builder, Value, translates
from rushlight.onnx.refusals import refuse
from rushlight.onnx.translations.pointwise import chosen, out_type, truth


def dims_of(x: Value, dim: Any) -> list[int]:
    """The dims that are meant; all of them for None and for an empty list."""
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return list(range(x.rank))
    dims = [dim] if isinstance(dim, int) else list(dim)
    return [each % max(x.rank, 1) for each in dims]


def reduced(b: Builder, op: str, x: Value, dim: Any, keep: bool) -> Value:
    """A reduction; that of a tensor without dims is the tensor."""
    if x.rank == 0:
        return b.op("Identity", x)
    return b.reduce(op, x, dims_of(x, dim), keep)


def with_sizes(x: Value, like: Any) -> Value:
    """A converted value that still knows its sizes."""
    x.like = like
    return x


def converted(b: Builder, x: Value) -> Value:
    return with_sizes(b.cast(x, out_type(b)), x.like)


@translates("sum.dim_IntList")
def sum_dims(b: Builder, x: Value, dim: Any, keep: bool, dtype: Any) -> Value:
    return reduced(b, "ReduceSum", converted(b, x), dim, keep)


@translates("sum.default")
def sum_all(b: Builder, x: Value, dtype: Any) -> Value:
    return reduced(b, "ReduceSum", converted(b, x), None, False)


@translates("mean.dim")
def mean_dims(b: Builder, x: Value, dim: Any, keep: bool, dtype: Any) -> Value:
    return reduced(b, "ReduceMean", converted(b, x), dim, keep)


@translates("mean.default")
def mean_all(b: Builder, x: Value, dtype: Any) -> Value:
    return reduced(b, "ReduceMean", converted(b, x), None, False)


@translates("prod.default")
def prod_all(b: Builder, x: Value, dtype: Any) -> Value:
    return reduced(b, "ReduceProd", converted(b, x), None, False)


@translates("prod.dim_int")
def prod_dim(b: Builder, x: Value, dim: int, keep: bool, dtype: Any) -> Value:
    return reduced(b, "ReduceProd", converted(b, x), dim, keep)


@translates("amax.default")
def amax(b: Builder, x: Value, dim: Any, keep: bool) -> Value:
    return reduced(b, "ReduceMax", x, dim, keep)


@translates("amin.default")
def amin(b: Builder, x: Value, dim: Any, keep: bool) -> Value:
    return reduced(b, "ReduceMin", x, dim, keep)


@translates("max.default")
def max_all(b: Builder, x: Value) -> Value:
    return reduced(b, "ReduceMax", x, None, False)


@translates("min.default")
def min_all(b: Builder, x: Value) -> Value:
    return reduced(b, "ReduceMin", x, None, False)


@translates("max.dim")
def max_dim(b: Builder, x: Value, dim: int, keep: bool) -> list[Value]:
    return extreme(b, "Max", x, dim, keep)


@translates("min.dim")
def min_dim(b: Builder, x: Value, dim: int, keep: bool) -> list[Value]:
    return extreme(b, "Min", x, dim, keep)


def extreme(b: Builder, word: str, x: Value, dim: int, keep: bool) -> list[Value]:
    values = reduced(b, f"Reduce{word}", x, dim, keep)
    places = b.op(f"Arg{word}", x, dtype=INT64, axis=dim, keepdims=int(keep))
    return [values, places]


@translates("argmax.default")
def argmax(b: Builder, x: Value, dim: int | None, keep: bool) -> Value:
    return place_of(b, "ArgMax", x, dim, keep)


@translates("argmin.default")
def argmin(b: Builder, x: Value, dim: int | None, keep: bool) -> Value:
    return place_of(b, "ArgMin", x, dim, keep)


def place_of(b: Builder, op: str, x: Value, dim: int | None, keep: bool) -> Value:
    if dim is None:
        flat = b.reshape(x, [-1])
        found = b.op(op, flat, dtype=INT64, axis=0, keepdims=0)
        return b.reshape(found, [1] * x.rank) if keep else found
    return b.op(op, x, dtype=INT64, axis=dim, keepdims=int(keep))


def folded_truth(b: Builder, op: str, x: Value, dim: Any, keep: bool) -> Value:
    if isinstance(dim, Sequence) and not dim:
        # torch: of no dims, not of all.
        return b.op("Identity", truth(b, x))
    numbers = with_sizes(b.cast(truth(b, x), INT32), x.like)
    return b.cast(reduced(b, op, numbers, dim, keep), BOOL)


@translates("any")
def any_of(b: Builder, x: Value, dim: Any = None, keep: bool = False) -> Value:
    return folded_truth(b, "ReduceMax", x, dim, keep)


@translates("all")
def all_of(b: Builder, x: Value, dim: Any = None, keep: bool = False) -> Value:
    return folded_truth(b, "ReduceMin", x, dim, keep)


# -- statistics ---------------------------------------------------------------------------------


def variance(b: Builder, x: Value, dim: Any, correction: Any, keep: bool) -> tuple[Value, Value]:
    """(variance, mean) over some dims."""
    dims = dims_of(x, dim)
    mean = b.reduce("ReduceMean", x, dims, True)
    distance = b.op("Sub", x, mean)
    total = b.reduce("ReduceSum", b.op("Mul", distance, distance), dims, keep)
    count: Any = 1
    for each in dims:
        size = b.size(x, each)
        if isinstance(size, int) and isinstance(count, int):
            count *= size
        else:
            count = b.op("Mul", b.number(count, INT64), b.number(size, INT64))
    taken = 1 if correction is None else correction
    if isinstance(count, int):
        divisor = b.number(float(max(count - taken, 0)), x.dtype)
    else:
        divisor = b.op("Sub", b.cast(count, x.dtype), b.number(float(taken), x.dtype))
    if not keep:
        mean = b.squeeze(mean, *dims)
    return b.op("Div", total, divisor), mean


@translates("var.correction")
def var(b: Builder, x: Value, dim: Any, correction: Any, keep: bool) -> Value:
    return variance(b, x, dim, correction, keep)[0]


@translates("var.dim")
def var_dim(b: Builder, x: Value, dim: Any, unbiased: bool, keep: bool) -> Value:
    return variance(b, x, dim, int(unbiased), keep)[0]


@translates("std.correction")
def std(b: Builder, x: Value, dim: Any, correction: Any, keep: bool) -> Value:
    return b.op("Sqrt", variance(b, x, dim, correction, keep)[0])


@translates("var_mean.correction")
def var_mean(b: Builder, x: Value, dim: Any, correction: Any, keep: bool) -> list[Value]:
    return list(variance(b, x, dim, correction, keep))


@translates("linalg_vector_norm.default")
def vector_norm(b: Builder, x: Value, order: Any, dim: Any, keep: bool, dtype: Any) -> Value:
    x = converted(b, x)
    if order == 2:
        return reduced(b, "ReduceL2", x, dim, keep)
    if order == 1:
        return reduced(b, "ReduceL1", x, dim, keep)
    size = with_sizes(b.op("Abs", x), x.like)
    if order in (math.inf, -math.inf):
        return reduced(b, "ReduceMax" if order > 0 else "ReduceMin", size, dim, keep)
    powers = with_sizes(b.op("Pow", size, b.number(order, x.dtype)), x.like)
    total = reduced(b, "ReduceSum", powers, dim, keep)
    return b.op("Pow", total, b.number(1 / order, x.dtype))


@translates("logsumexp.default")
def logsumexp(b: Builder, x: Value, dim: Any, keep: bool) -> Value:
    return reduced(b, "ReduceLogSumExp", converted(b, x), dim, keep)


# -- along one dim ------------------------------------------------------------------------------


@translates("_safe_softmax.default")
def safe_softmax(b: Builder, x: Value, dim: int, *options: Any) -> Value:
    """Zeros where there is nothing to choose from."""
    x = converted(b, x)
    found = along(b, "Softmax", x, dim)
    most = b.reduce("ReduceMax", x, dims_of(x, dim), True) if x.rank else x
    nothing = b.op("Equal", most, b.number(-math.inf, x.dtype), dtype=BOOL)
    return chosen(b, nothing, b.number(0, x.dtype), found)


@translates("_softmax.default", "softmax.int")
def softmax(b: Builder, x: Value, dim: int, *options: Any) -> Value:
    return along(b, "Softmax", x, dim)


@translates("_log_softmax.default", "log_softmax.int")
def log_softmax(b: Builder, x: Value, dim: int, *options: Any) -> Value:
    return along(b, "LogSoftmax", x, dim)


def along(b: Builder, op: str, x: Value, dim: int) -> Value:
    if x.rank == 0:
        return b.squeeze(b.op(op, b.unsqueeze(converted(b, x), 0), axis=0), 0)
    return b.op(op, converted(b, x), axis=dim)


@translates("cumsum.default")
def cumsum(b: Builder, x: Value, dim: int, dtype: Any) -> Value:
    if x.rank == 0:
        return b.op("Identity", converted(b, x))
    return b.op("CumSum", converted(b, x), b.number(dim % x.rank, INT64))


@translates("topk.default")
def topk(b: Builder, x: Value, k: Any, dim: int, largest: bool, ordered: bool) -> list[Value]:
    return b.many(
        "TopK",
        [x, b.ints([k])],
        [x.dtype, INT64],
        axis=dim,
        largest=int(largest),
        sorted=int(ordered),
    )


@translates("sort.default")
def sort(b: Builder, x: Value, dim: int = -1, descending: bool = False) -> list[Value]:
    if x.rank == 0:
        raise refuse("sort of a tensor without dims")
    return topk(b, x, b.size(x, dim), dim, descending, True)


@translates("sort.stable")
def sort_stable(b: Builder, x: Value, stable: Any, dim: int, descending: bool) -> list[Value]:
    return sort(b, x, dim, descending)


@translates("kthvalue.default")
def kthvalue(b: Builder, x: Value, k: int, dim: int, keep: bool) -> list[Value]:
    found = topk(b, x, k, dim, False, True)
    last = b.number(k - 1, INT64) if not keep else b.ints([k - 1])
    return [b.op("Gather", each, last, axis=dim) for each in found]


@translates("median.dim")
def median_dim(b: Builder, x: Value, dim: int, keep: bool) -> list[Value]:
    if x.rank == 0 or not isinstance(x.shape[dim], int):
        raise refuse("a median over a size that is not known")
    return kthvalue(b, x, (x.shape[dim] - 1) // 2 + 1, dim, keep)


@translates("median.default")
def median(b: Builder, x: Value) -> Value:
    total = math.prod(x.shape)
    if not isinstance(total, int) or not total:
        raise refuse("a median over a size that is not known")
    return kthvalue(b, b.reshape(x, [-1]), (total - 1) // 2 + 1, 0, False)[0]


@translates("argsort.default")
def argsort(b: Builder, x: Value, dim: int, descending: bool) -> Value:
    return sort(b, x, dim, descending)[1]
