"""Ops that make tensors from numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.onnx.building import INT64, Builder, Value, translates
from rushlight.onnx.translations.pointwise import out_type

RANGES = frozenset(("int16", "int32", "int64", "float32", "float64"))


def filled(b: Builder, sizes: Sequence[Any], value: Any) -> Value:
    if not sizes:
        return b.op("Identity", b.number(value, out_type(b)))
    return b.op("Expand", b.number(value, out_type(b)), b.ints(sizes))


def filled_like(b: Builder, x: Value, value: Any) -> Value:
    shape = b.op("Shape", x, dtype=INT64)
    return b.op("Expand", b.number(value, out_type(b)), shape)


@translates("full.default")
def full(b: Builder, sizes: Sequence[Any], value: Any, *options: Any) -> Value:
    return filled(b, sizes, value)


@translates(
    "zeros.default", "empty.memory_format", "new_zeros.default", "new_empty.default",
    "empty_strided.default", "new_empty_strided.default", "empty_permuted.default",
)  # fmt: skip
def zeros(b: Builder, *args: Any) -> Value:
    return filled(b, sizes_among(args), 0)


@translates("ones.default", "new_ones.default")
def ones(b: Builder, *args: Any) -> Value:
    return filled(b, sizes_among(args), 1)


def sizes_among(args: Sequence[Any]) -> Sequence[Any]:
    """The sizes are the first list: new_zeros has a tensor before them."""
    return next(arg for arg in args if isinstance(arg, (list, tuple)))


@translates("new_full.default")
def new_full(b: Builder, x: Value, sizes: Sequence[Any], value: Any, *options: Any) -> Value:
    return filled(b, sizes, value)


@translates("full_like.default")
def full_like(b: Builder, x: Value, value: Any, *options: Any) -> Value:
    return filled_like(b, x, value)


@translates("zeros_like.default", "empty_like.default")
def zeros_like(b: Builder, x: Value, *options: Any) -> Value:
    return filled_like(b, x, 0)


@translates("ones_like.default")
def ones_like(b: Builder, x: Value, *options: Any) -> Value:
    return filled_like(b, x, 1)


@translates("scalar_tensor.default")
def scalar_tensor(b: Builder, value: Any, *options: Any) -> Value:
    return b.op("Identity", b.number(value, out_type(b)))


@translates("arange.default")
def arange(b: Builder, end: Any, *options: Any) -> Value:
    return stepped(b, 0, end, 1)


@translates("arange.start")
def arange_start(b: Builder, start: Any, end: Any, *options: Any) -> Value:
    return stepped(b, start, end, 1)


@translates("arange.start_step")
def arange_step(b: Builder, start: Any, end: Any, step: Any, *options: Any) -> Value:
    return stepped(b, start, end, step)


def stepped(b: Builder, start: Any, end: Any, step: Any) -> Value:
    dtype = out_type(b)
    # Range has few dtypes; others are converted to.
    counted = dtype if dtype.name in RANGES else INT64
    return b.cast(b.op("Range", *[b.number(each, counted) for each in (start, end, step)]), dtype)


@translates("eye.default", "eye.m")
def eye(b: Builder, *sizes: Any) -> Value:
    rows, columns = b.result.shape
    dtype = out_type(b)
    return b.op("Identity", b.array(np.eye(rows, columns, dtype=dtype.np), dtype))


# -- numbers that are drawn ------------------------------------------------------------------------


def drawn(op: str) -> Any:
    """Numbers from a distribution, in the sizes of a tensor."""

    def like(b: Builder, x: Value, *options: Any) -> Value:
        return b.op(op, b.cast(x, b.result.dtype))

    return like


def drawn_in(op: str) -> Any:
    def of_sizes(b: Builder, sizes: Sequence[Any], *options: Any) -> Value:
        return b.op(op, filled(b, sizes, 0))

    return of_sizes


for kind, word in (("rand", "RandomUniformLike"), ("randn", "RandomNormalLike")):
    translates(f"{kind}_like.default")(drawn(word))
    translates(f"{kind}.default")(drawn_in(word))
