"""`quantized::` norms: statistics of integers, and results by a scale of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.tensor import values_of
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.numbers import from_floats, of_integers, per_tensor
from rushlight.subclasses.quantizedmath import quantized_batch_norm

__all__: list[str] = []

STATISTICS = (
    "Tensor qx, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps, "
    "float output_scale, int output_zero_point"
)


@quantized(*[f"batch_norm{form}({STATISTICS}) -> Tensor" for form in ("", "1d", "2d", "3d")])
def batch_norm(qx: Any, *given: Any) -> Any:
    return quantized_batch_norm(qx, *given)


@quantized(*[f"batch_norm{form}_relu({STATISTICS}) -> Tensor" for form in ("", "1d", "2d", "3d")])
def batch_norm_relu(qx: Any, *given: Any) -> Any:
    made = quantized_batch_norm(qx, *given)
    kept = values_of(made)
    return of_integers(np.maximum(kept, kept.dtype.type(made.quantizer.zero_point)), made.quantizer)


def normed(rows: Any, scale: float, eps: float) -> Any:
    """Rows of integers with their mean taken away, over their deviation: float32."""
    single = np.float32
    count = rows.shape[-1]
    whole = rows.astype(np.int64)
    sums = whole.sum(-1, keepdims=True)
    squares = (whole * whole).sum(-1, keepdims=True)
    means = sums.astype(single) / single(count)
    spread = np.maximum(squares.astype(single) / single(count) - means * means, single(0))
    step = single(scale)
    factor = step / np.sqrt(spread * step * step + single(eps))
    # The sum is rounded once, as processors compute it.
    shift = -(means * factor)
    return (rows * factor.astype(np.float64) + shift).astype(single)


def affine(numbers: Any, weight: Any, bias: Any, shape: Any) -> Any:
    if weight is not None:
        numbers = numbers * values_of(weight.detach()).reshape(shape)
    if bias is not None:
        numbers = numbers + values_of(bias.detach()).reshape(shape)
    return numbers


@quantized("layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, "
           "float eps, float output_scale, int output_zero_point) -> Tensor")  # fmt: skip
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, output_scale: float,
    output_zero_point: int,
) -> Any:  # fmt: skip
    count = int(np.prod(normalized_shape))
    rows = values_of(input).reshape(-1, count)
    made = affine(normed(rows, input.quantizer.scale, eps), weight, bias, (1, count))
    target = per_tensor(input.dtype, output_scale, output_zero_point)
    return from_floats(made.reshape(tuple(input.shape)), target)


def by_groups(
    input: Any, groups: int, weight: Any, bias: Any, eps: float, scale: float, zero_point: int
) -> Any:
    integers = values_of(input)
    samples, channels = integers.shape[:2]
    rows = integers.reshape(samples, groups, -1)
    made = normed(rows, input.quantizer.scale, eps).reshape(samples, channels, -1)
    made = affine(made, weight, bias, (1, channels, 1)).reshape(integers.shape)
    return from_floats(made, per_tensor(input.dtype, scale, zero_point))


@quantized("group_norm(Tensor input, int num_groups, Tensor? weight, Tensor? bias, float eps, "
           "float output_scale, int output_zero_point) -> Tensor")  # fmt: skip
def group_norm(
    input: Any, num_groups: int, weight: Any, bias: Any, eps: float, output_scale: float,
    output_zero_point: int,
) -> Any:  # fmt: skip
    return by_groups(input, num_groups, weight, bias, eps, output_scale, output_zero_point)


@quantized("instance_norm(Tensor input, Tensor? weight, Tensor? bias, float eps, "
           "float output_scale, int output_zero_point) -> Tensor")  # fmt: skip
def instance_norm(
    input: Any, weight: Any, bias: Any, eps: float, output_scale: float, output_zero_point: int
) -> Any:
    groups = input.shape[1]
    return by_groups(input, groups, weight, bias, eps, output_scale, output_zero_point)
