"""Tensors of random values for tests."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import finfo, iinfo
from rushlight.opset import functions
from rushlight.opset.creation.create import get_default_device

__all__ = ["make_tensor"]


def limits(dtype: Any) -> tuple[float, float]:
    """Lowest and highest value that `dtype` can hold."""
    if dtype is dtypes.bool_:
        return 0, 1
    info = iinfo(dtype) if dtype.category == dtypes.INTEGER else finfo(dtype)
    return info.min, info.max


def bounds(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The range to draw from, checked, clamped to what `dtype` holds."""
    if dtype is dtypes.bool_:
        defaults: tuple[float, float] = (0, 2)
    elif dtype.category == dtypes.INTEGER:
        defaults = (-9, 10) if dtype.is_signed else (0, 10)
    else:
        defaults = (-9, 9)
    lowest, highest = limits(dtype)
    chosen_low = defaults[0] if low is None else low
    chosen_high = defaults[1] if high is None else high
    if chosen_low != chosen_low or chosen_high != chosen_high:
        raise ValueError(
            f"Neither `low` nor `high` can be NaN, but got low={low!r} and high={high!r}"
        )
    whole = dtype.category < dtypes.FLOAT
    # torch: floats of one value are drawn from the empty interval [x, x).
    single = chosen_low == chosen_high and low is not None and not whole
    if chosen_low >= chosen_high and not single:
        raise ValueError(f"`low` must be less than `high`, but got {chosen_low} >= {chosen_high}")
    if chosen_high <= lowest or (chosen_low > highest if whole else chosen_low >= highest):
        shown = f"[{lowest}, {highest + 1})" if whole else f"[{lowest}, {highest}]"
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{chosen_low}, {chosen_high}), "
            f"but {dtype} only supports {shown}"
        )
    if not whole:
        return max(chosen_low, lowest), min(chosen_high, highest)
    from math import ceil

    return ceil(max(chosen_low, lowest)), ceil(min(chosen_high, highest + 1))


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor with values drawn evenly from [low, high).

    Without bounds: -9 to 9 for signed kinds, 0 to 9 for unsigned, both values for bool.
    """
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    if requires_grad and dtype.category < dtypes.FLOAT:
        raise ValueError(
            "`requires_grad=True` is only supported for floating point and complex dtypes, but "
            f"got dtype={dtype!r}"
        )
    device = get_default_device() if device is None else device
    real = dtype.to_real() if dtype.is_complex else dtype
    start, stop = bounds(real, low, high)
    numel = 1
    for size in shape:
        numel *= size
    spread = noncontiguous and numel >= 2
    drawn = (*shape, 2) if dtype.is_complex else tuple(shape)
    if spread:
        # Every second element of a tensor twice as long.
        drawn = (*drawn[:-1], 2 * drawn[-1]) if drawn else drawn
    if real.category < dtypes.FLOAT:
        result = functions.randint(int(start), int(stop), drawn, device=device, dtype=dtype)
    else:
        result = functions.rand(drawn, device=device, dtype=dtypes.float64)
        result = (result * (stop - start) + start).to(real)
        if stop > start:
            # Rounding to a narrow dtype may reach the excluded bound.
            result = functions.where(result >= stop, functions.full_like(result, start), result)
    if dtype.is_complex:
        result = (
            functions.view_as_complex(result[..., ::2].contiguous())
            if spread
            else functions.view_as_complex(result).clone()
        )
        if spread:
            doubled = functions.empty((*shape[:-1], 2 * shape[-1]), dtype=dtype, device=device)
            doubled[..., ::2] = result
            result = doubled[..., ::2]
    elif spread:
        result = result[..., ::2]
    if exclude_zero:
        smallest = 1 if real.category < dtypes.FLOAT else finfo(real).tiny
        result[result == 0] = smallest
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_() if requires_grad else result
