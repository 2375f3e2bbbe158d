"""The arithmetic of normalisation on arrays: what the ops of `norm` share.

`Layout` says which picture of the input an op looks at; statistics run over some of its dims, and
parameters are broadcast over others. Large pictures go to native loops, where there are any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.opset.kinds import Spec
from rushlight.opset.large import LARGE, LoopRule

__all__ = [
    "Layout", "backward_kernel", "channel_layout", "group_layout", "lower_gradients",
    "lower_normalised", "normalised", "product", "row_layout", "scaled", "statistics",
]  # fmt: skip


class Layout:
    """How to look at the input: its shape, the dims of statistics, the parameters' shape."""

    __slots__ = ("parameter", "shape", "stats", "sums")

    def __init__(self, shape: Any, stats: tuple[int, ...], parameter: Any) -> None:
        self.shape = tuple(shape)
        self.stats = stats
        self.parameter = tuple(parameter)
        # Dims that a parameter is broadcast over.
        self.sums = tuple(i for i, size in enumerate(self.parameter) if size is None)

    def broadcast(self, value: Any) -> Any:
        """A parameter, ready to be multiplied with the picture."""
        shape = [1 if i in self.sums else self.shape[i] for i in range(len(self.shape))]
        return value.reshape(shape)

    def parameter_array(self, value: Any, dtype: Any) -> Any:
        """A parameter's array in the dtype to compute in, ready for the picture."""
        return None if value is None else self.broadcast(widen(value)).astype(dtype, copy=False)

    def statistic(self, value: Any) -> Any:
        """Saved statistics, ready to be multiplied with the picture."""
        shape = [1 if i in self.stats else size for i, size in enumerate(self.shape)]
        return value.reshape(shape)


def product(sizes: Any) -> Any:
    count: Any = 1
    for size in sizes:
        count = count * size
    return count


def channel_layout(sizes: Any) -> Layout:
    """Batch norm: one mean per channel."""
    rest = product(sizes[2:])
    return Layout((sizes[0], sizes[1], rest), (0, 2), (None, sizes[1], None))


def row_layout(sizes: Any, normalized: Any) -> Layout:
    """Layer norm: one mean per row of the trailing dims."""
    inner = product(normalized)
    outer = product(sizes[: len(sizes) - len(normalized)])
    return Layout((outer, inner), (1,), (None, inner))


def group_layout(batch: Any, channels: Any, inner: Any, groups: int) -> Layout:
    """Group norm: one mean per sample and group of channels."""
    each = channels // groups
    return Layout((batch, groups, each, inner), (2, 3), (None, groups, each, None))


# -- kernels ---------------------------------------------------------------------------------------


def lower_normalised(
    build: Any, picture: Any, stats: tuple[int, ...], weight: Any, bias: Any, eps: float
) -> Any:
    m, shape, x = build.m, picture.shape, build.floating(picture)
    mean = build.mean(x, shape, stats)
    centred = m.subtract(x, mean)
    variance = build.mean(m.multiply(centred, centred), shape, stats)
    rstd = m.reciprocal(m.sqrt(m.add(variance, m.const(eps, x.dtype))))
    result = m.multiply(centred, rstd)
    if weight is not None:
        result = m.multiply(result, build.spread(weight, shape, x.dtype))
    if bias is not None:
        result = m.add(result, build.spread(bias, shape, x.dtype))
    return result, mean, variance, rstd


def lower_gradients(
    build: Any, grad: Any, picture: Any, weight: Any, mean: Any, rstd: Any,
    stats: tuple[int, ...], sums: tuple[int, ...], moves: bool, mask: tuple[bool, ...],
) -> Any:  # fmt: skip
    m, shape = build.m, picture.shape
    g, x = build.floating(grad), build.floating(picture)
    scale = build.spread(rstd, shape, x.dtype)
    normal = m.multiply(m.subtract(x, build.spread(mean, shape, x.dtype)), scale)
    found: list[Any] = [None, None, None]
    if mask[0]:
        slope = g if weight is None else m.multiply(g, build.spread(weight, shape, x.dtype))
        if moves:
            common = build.mean(slope, shape, stats)
            share = build.mean(m.multiply(slope, normal), shape, stats)
            slope = m.subtract(m.subtract(slope, common), m.multiply(normal, share))
        found[0] = m.multiply(slope, scale)
    if mask[1]:
        found[1] = build.fold("sum", m.multiply(g, normal), shape, sums)
    if mask[2]:
        found[2] = build.fold("sum", g, shape, sums)
    return tuple(found)


def without_axes(picture: Any, axes: tuple[int, ...]) -> Spec:
    """What is left of a picture where some dims are folded."""
    sizes = [1 if axis in axes else size for axis, size in enumerate(picture.shape)]
    return Spec(sizes, picture.dtype)


native_normalised = LoopRule(
    "normalised",
    lower_normalised,
    lambda picture, stats, *rest: (
        Spec(picture.shape, picture.dtype), *[without_axes(picture, stats)] * 3
    ),
)  # fmt: skip
native_gradients = LoopRule(
    "gradients of normalised",
    lower_gradients,
    lambda grad, picture, weight, mean, rstd, stats, sums, *rest: (
        Spec(picture.shape, picture.dtype), *[without_axes(picture, sums)] * 2
    ),
)  # fmt: skip


def normalised(
    picture: Any, layout: Layout, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any, Any]:
    """(values times weight plus bias, mean, biased variance, 1 / standard deviation)."""
    if is_plain(picture):
        given = [layout.parameter_array(value, picture.dtype) for value in (weight, bias)]
        found = native_normalised(picture, layout.stats, *given, eps)
        if found is not None:
            return found  # type: ignore[no-any-return]
    mean, variance, rstd = statistics(picture, layout.stats, eps)
    return scaled(picture, layout, mean, rstd, weight, bias), mean, variance, rstd


def is_plain(picture: Any) -> bool:
    """Whether there may be native code for it."""
    return bool(picture.size >= LARGE and picture.dtype.kind == "f")


def statistics(picture: Any, stats: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """(mean, biased variance, 1 / standard deviation), summed in double precision."""
    mean = picture.mean(axis=stats, keepdims=True, dtype=np.float64)
    spread = picture - mean.astype(picture.dtype)
    spread *= spread
    variance = spread.mean(axis=stats, keepdims=True, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean, variance, 1 / np.sqrt(variance + eps)


def scaled(picture: Any, layout: Layout, mean: Any, rstd: Any, weight: Any, bias: Any) -> Any:
    """Normalised values times weight plus bias, in the picture's precision."""
    dtype = picture.dtype
    result = picture - mean.astype(dtype)
    result *= rstd.astype(dtype)
    if weight is not None:
        result *= layout.parameter_array(weight, dtype)
    if bias is not None:
        result += layout.parameter_array(bias, dtype)
    return result


def backward_kernel(
    layout: Layout, grad: Any, input: Any, weight: Any, mean: Any, rstd: Any, stats: bool, mask: Any
) -> Any:
    """Gradients of input, weight and bias; `stats` tells whether mean and rstd depend on input."""
    if input.dtype.kind in "iubc":
        name = dtypes.from_numpy(input.dtype).scalar_type_name
        raise NotImplementedError(f"\"norm_backward\" not implemented for '{name}'")
    g = widen(grad).reshape(layout.shape)
    picture = widen(input).reshape(layout.shape)
    scale = None if weight is None else layout.parameter_array(weight, picture.dtype)
    given = g, picture, scale, mean.astype(picture.dtype), rstd.astype(picture.dtype)
    found: Any = None
    if is_plain(picture) and g.dtype == picture.dtype:
        found = native_gradients(*given, layout.stats, layout.sums, stats, tuple(mask))
    if found is None:
        found = gradients(*given, layout.stats, layout.sums, stats, mask)
    dtype = input.dtype if weight is None else weight.dtype
    size = product([s for i, s in enumerate(layout.shape) if i not in layout.sums])
    return (
        None if found[0] is None
        else found[0].reshape(input.shape).astype(input.dtype, copy=False),
        *[None if sums is None else sums.reshape(size).astype(dtype, copy=False)
          for sums in found[1:]],
    )  # fmt: skip


def gradients(
    g: Any, picture: Any, weight: Any, mean: Any, rstd: Any, stats: tuple[int, ...],
    sums: tuple[int, ...], moves: bool, mask: Any,
) -> list[Any]:  # fmt: skip
    """Those of a picture, and of weight and bias where they are asked for."""
    normal = picture - mean
    normal *= rstd
    found: list[Any] = [None, None, None]
    if mask[1]:
        found[1] = (g * normal).sum(axis=sums)
    if mask[2]:
        found[2] = g.sum(axis=sums)
    if mask[0]:
        slope = g.copy() if weight is None else g * weight
        if moves:
            along: dict[str, Any] = {"axis": stats, "keepdims": True}
            common, share = slope.mean(**along), (slope * normal).mean(**along)
            normal *= share
            slope -= normal
            slope -= common
        slope *= rstd
        found[0] = slope
    return found
