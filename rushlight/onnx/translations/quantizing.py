"""Quantisation that keeps floats: values rounded to those that integers stand for."""

from __future__ import annotations

from typing import Any

from rushlight.onnx.building import BOOL, FLOAT, Builder, Value, translates

__all__: list[str] = []


def rounded(
    b: Builder, x: Value, scale: Value, zero_point: Value, low: int, high: int
) -> tuple[Value, Value]:
    """(values, whether each lies within the limits)."""
    steps = b.op("Mul", x, b.op("Reciprocal", b.cast(scale, x.dtype)))
    zero = b.cast(zero_point, x.dtype)
    # A shifted value is rounded, as in PyTorch.
    number = b.op("Round", b.op("Add", steps, zero))
    limits = b.number(float(low), x.dtype), b.number(float(high), x.dtype)
    inside = b.op(
        "And",
        b.op("GreaterOrEqual", number, limits[0], dtype=BOOL),
        b.op("LessOrEqual", number, limits[1], dtype=BOOL),
        dtype=BOOL,
    )
    kept = b.op("Min", b.op("Max", number, limits[0]), limits[1])
    return b.op("Mul", b.op("Sub", kept, zero), b.cast(scale, x.dtype)), inside


@translates("fake_quantize_per_tensor_affine_cachemask.default")
def per_tensor(
    b: Builder, x: Value, scale: float, zero_point: int, low: int, high: int
) -> tuple[Value, Value]:
    given = b.number(scale, FLOAT), b.number(float(zero_point), FLOAT)
    return rounded(b, x, *given, low, high)


@translates("fake_quantize_per_channel_affine_cachemask.default")
def per_channel(
    b: Builder, x: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int
) -> tuple[Value, Value]:
    after = range(1, x.rank - axis % x.rank)
    if after:
        scale, zero_point = b.unsqueeze(scale, *after), b.unsqueeze(zero_point, *after)
    return rounded(b, x, scale, zero_point, low, high)


@translates("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default")
def by_tensors(
    b: Builder, x: Value, scale: Value, zero_point: Value, enabled: Any, low: int, high: int
) -> tuple[Value, Value]:
    values, inside = rounded(b, x, scale, zero_point, low, high)
    is_on = b.op("Equal", b.cast(enabled, FLOAT), b.number(1.0, FLOAT), dtype=BOOL)
    is_off = b.op("Not", is_on, dtype=BOOL)
    return b.op("Where", is_on, values, x, dtype=x.dtype), b.op("Or", inside, is_off, dtype=BOOL)
