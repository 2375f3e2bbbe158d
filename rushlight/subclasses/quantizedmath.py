"""torch's functions that compute with quantised numbers: products of int8 matrices with what
they were scaled by, cells of recurrent layers, pooling, and ways to choose a scale.

Products are of whole numbers and exact: floats hold every sum that occurs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.opset.other.quantization import quantizer_of
from rushlight.subclasses.quantized import (
    INTEGERS,
    LIMITS,
    Quantizer,
    choose_qparams,
    with_integers,
)

__all__ = [
    "exact_product", "fbgemm_linear_fp16_weight",
    "fbgemm_linear_fp16_weight_fp32_activation", "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation", "fbgemm_linear_quantize_weight",
    "fbgemm_pack_gemm_matrix_fp16", "fbgemm_pack_quantized_matrix",
    "fused_moving_avg_obs_fake_quant", "quantized_batch_norm", "quantized_gru_cell",
    "quantized_lstm_cell", "quantized_max_pool1d", "quantized_max_pool2d", "quantized_max_pool3d",
    "quantized_rnn_relu_cell", "quantized_rnn_tanh_cell",
]  # fmt: skip

# Sums of this many products of an unsigned and a signed byte are numbers that float32 holds, and
# those of the other many are 32-bit integers.
EXACT_IN_SINGLE, EXACT_IN_WORDS = (1 << 24) // (255 * 128), (1 << 31) // (255 * 128) - 1


def exact_product(left: Any, right: Any) -> Any:
    """`left @ right` of an array of unsigned bytes and one of signed bytes, as integers.

    It is taken in parts that float32 holds, for which processors have quick products.
    """
    single, inner = dtypes.float32, left.shape[-1]
    whole = np.int32 if inner <= EXACT_IN_WORDS else np.int64
    made: Any = None
    for start in range(0, max(inner, 1), EXACT_IN_SINGLE):
        part = slice(start, start + EXACT_IN_SINGLE)
        pair = [np.ascontiguousarray(each, np.float32) for each in (left[:, part], right[part])]
        found = values_of(functions.mm(*[wrap(each, single) for each in pair])).astype(whole)
        made = found if made is None else np.add(made, found, out=made)
    return made


# -- matrices of int8, as torch's oldest quantised layers keep them --------------------------------


def fbgemm_linear_quantize_weight(input: Any) -> tuple[Any, Any, float, int]:
    """int8 weights, the sums of their rows less the zero point's share, scale and zero point."""
    scale, zero_point = choose_qparams(input.min().item(), input.max().item(), -128, 127)
    weights = Quantizer(dtypes.BY_NAME["qint8"], None, scale, zero_point).quantize(values_of(input))
    sums = weights.astype(np.int32).sum(1, dtype=np.int32) - np.int32(zero_point * input.shape[1])
    return (
        wrap(weights, dtypes.int8), wrap(sums.astype(np.int32), dtypes.int32),
        float(np.float32(scale)), zero_point,
    )  # fmt: skip


def fbgemm_pack_quantized_matrix(input: Any, K: int | None = None, N: int | None = None) -> Any:
    """An int8 matrix as products take it."""
    return input.clone()


def fbgemm_linear_int8_weight_fp32_activation(
    input: Any, weight: Any, packed: Any, col_offsets: Any, weight_scale: Any,
    weight_zero_point: Any, bias: Any,
) -> Any:  # fmt: skip
    """A linear layer whose input is quantised to bytes first, and whose product is of integers."""
    if input.requires_grad and input.grad_fn is not None:
        input = input.detach()
    numbers = values_of(input)
    scale, zero_point = choose_qparams(numbers.min(), numbers.max(), 0, 255)
    bytes_ = Quantizer(dtypes.BY_NAME["quint8"], None, scale, zero_point).quantize(numbers)
    rows = bytes_.reshape(-1, bytes_.shape[-1])
    sums = exact_product(rows, values_of(packed).T).astype(np.int64)
    # What the two zero points add to every product.
    sums -= zero_point * values_of(col_offsets).astype(np.int64)
    sums -= int(weight_zero_point) * rows.astype(np.int64).sum(1, keepdims=True)
    numbers = sums.astype(np.float32) * np.float32(np.float32(scale) * np.float32(weight_scale))
    numbers = numbers + values_of(bias)
    made = numbers.reshape(*bytes_.shape[:-1], numbers.shape[-1]).astype(np.float32)
    return wrap(made, dtypes.float32)


def fbgemm_linear_int8_weight(*args: Any) -> Any:
    """torch's older name of `fbgemm_linear_int8_weight_fp32_activation`."""
    return fbgemm_linear_int8_weight_fp32_activation(*args)


def fbgemm_pack_gemm_matrix_fp16(input: Any) -> Any:
    """A matrix in half precision, as products take it; what no half holds becomes the largest."""
    most = float(np.finfo(np.float16).max)
    return input.detach().clamp(-most, most).to(dtypes.float16)


def fbgemm_linear_fp16_weight_fp32_activation(input: Any, packed_weight: Any, bias: Any) -> Any:
    """A linear layer whose weight was rounded to half precision."""
    made = functions.matmul(input, packed_weight.to(dtypes.float32).t())
    return made if bias is None else made + bias


def fbgemm_linear_fp16_weight(input: Any, packed_weight: Any, bias: Any) -> Any:
    """torch's older name of `fbgemm_linear_fp16_weight_fp32_activation`."""
    return fbgemm_linear_fp16_weight_fp32_activation(input, packed_weight, bias)


# -- cells of recurrent layers ---------------------------------------------------------------------


def gates(
    input: Any, hidden: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, packed_ih: Any,
    packed_hh: Any, col_offsets_ih: Any, col_offsets_hh: Any, scale_ih: Any, scale_hh: Any,
    zero_point_ih: Any, zero_point_hh: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """What input and hidden state give each gate, by int8 weights."""
    linear = fbgemm_linear_int8_weight_fp32_activation
    return (
        linear(input, w_ih, packed_ih, col_offsets_ih, scale_ih, zero_point_ih, b_ih),
        linear(hidden, w_hh, packed_hh, col_offsets_hh, scale_hh, zero_point_hh, b_hh),
    )


def quantized_lstm_cell(input: Any, hx: Any, *weights: Any, **named: Any) -> tuple[Any, Any]:
    """One step of an LSTM with int8 weights: the new hidden state and cell."""
    hidden, cell = hx
    of_input, of_hidden = gates(input, hidden, *weights, **named)
    into, forget, new, out = (of_input + of_hidden).chunk(4, 1)
    cell = forget.sigmoid() * cell + into.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


def quantized_gru_cell(input: Any, hx: Any, *weights: Any, **named: Any) -> Any:
    """One step of a GRU with int8 weights."""
    of_input, of_hidden = gates(input, hx, *weights, **named)
    reset_i, update_i, new_i = of_input.chunk(3, 1)
    reset_h, update_h, new_h = of_hidden.chunk(3, 1)
    new = (new_i + (reset_i + reset_h).sigmoid() * new_h).tanh()
    return (hx - new) * (update_i + update_h).sigmoid() + new


def quantized_rnn_tanh_cell(input: Any, hx: Any, *weights: Any, **named: Any) -> Any:
    """One step of a plain recurrent layer with int8 weights."""
    of_input, of_hidden = gates(input, hx, *weights, **named)
    return (of_input + of_hidden).tanh()


def quantized_rnn_relu_cell(input: Any, hx: Any, *weights: Any, **named: Any) -> Any:
    """One step of a plain recurrent layer with int8 weights and ReLU."""
    of_input, of_hidden = gates(input, hx, *weights, **named)
    return (of_input + of_hidden).relu()


# -- layers on quantised tensors -------------------------------------------------------------------


def max_pool(dims: int) -> Any:
    name, pool = f"quantized_max_pool{dims}d", getattr(functions, f"max_pool{dims}d")

    def function(
        input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        quantizer_of(name, input)
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = name
    return function


quantized_max_pool1d, quantized_max_pool2d, quantized_max_pool3d = map(max_pool, (1, 2, 3))


def quantized_batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float, output_scale: float,
    output_zero_point: int,
) -> Any:  # fmt: skip
    """Normalised by given statistics, and quantised by a scale of its own."""
    made = quantizer_of("quantized_batch_norm", input)
    shape = [1, -1] + [1] * (input.dim() - 2)
    factor = (var + eps).rsqrt()
    if weight is not None:
        factor = factor * weight
    shift = -mean * factor
    if bias is not None:
        shift = shift + bias
    # torch: rounds before the zero point is added.
    into = factor * (made.scale / output_scale)
    steps = (input.int_repr().to(dtypes.float32) - made.zero_point) * into.reshape(shape)
    steps = (steps + (shift / output_scale).reshape(shape)).round()
    target = Quantizer(
        made.dtype, schemes.per_tensor_affine, float(output_scale), int(output_zero_point)
    )
    least, most = LIMITS[made.dtype]
    kept = (steps + output_zero_point).clamp(least, most)
    return with_integers(kept.to(INTEGERS[made.dtype]), target)


# -- choosing scales -------------------------------------------------------------------------------


def fused_moving_avg_obs_fake_quant(
    input: Any, observer_on: Any, fake_quant_on: Any, running_min: Any, running_max: Any,
    scale: Any, zero_point: Any, averaging_const: float, quant_min: int, quant_max: int,
    ch_axis: int, per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> Any:  # fmt: skip
    """Observes the range of numbers, when asked to, and rounds them to what integers could hold."""
    if bool(observer_on.item()):
        observe(
            input.detach(), (running_min, running_max, scale, zero_point), averaging_const,
            (quant_min, quant_max), ch_axis if per_row_fake_quant else None, symmetric_quant,
        )  # fmt: skip
    if not bool(fake_quant_on.item()):
        return input.clone()
    if per_row_fake_quant:
        return functions.fake_quantize_per_channel_affine(
            input, scale, zero_point, ch_axis, quant_min, quant_max
        )
    return functions.fake_quantize_per_tensor_affine(input, scale, zero_point, quant_min, quant_max)


def observe(
    numbers: Any, state: Any, share: float, limits: tuple[int, int], axis: int | None,
    symmetric: bool,
) -> None:  # fmt: skip
    """Moves the running range towards that of `numbers`, and chooses scales by it."""
    running_min, running_max, scale, zero_point = state
    if axis is None:
        least, most = numbers.min().reshape((1,)), numbers.max().reshape((1,))
        # One number may be kept without a dimension.
        running_min, running_max = running_min.reshape((1,)), running_max.reshape((1,))
    else:
        rows = numbers.movedim(axis, 0).reshape(numbers.shape[axis], -1)
        least, most = rows.amin(1), rows.amax(1)
        for part, start in (
            (running_min, np.inf),
            (running_max, -np.inf),
            (scale, 1),
            (zero_point, 0),
        ):
            if part.numel() != least.numel():
                part.resize_(tuple(least.shape)).fill_(start)
    for running, seen in ((running_min, least), (running_max, most)):
        moved = running + share * (seen - running)
        running.copy_(functions.where(functions.isinf(running), seen, moved))
    chosen = [
        choose_qparams(low, high, *limits, preserve_zero=symmetric)
        for low, high in zip(running_min.tolist(), running_max.tolist(), strict=True)
    ]
    scale.copy_(wrap(np.array([each[0] for each in chosen], np.float32), dtypes.float32))
    zero_point.copy_(wrap(np.array([each[1] for each in chosen], np.int32), dtypes.int32))
