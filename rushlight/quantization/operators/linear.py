"""`quantized::linear` and its kin: products of bytes, exact, and then scaled."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.numbers import of_integers, per_tensor, rounded
from rushlight.quantization.operators.packed import CLASSES, PackedParams
from rushlight.subclasses.quantized import QINT8, QUINT8, QuantizedTensor, choose_qparams
from rushlight.subclasses.quantizedmath import exact_product

__all__ = ["LinearPackedParamsBase", "LinearPackedParamsBaseFP16"]

PACKED = CLASSES + "quantized.LinearPackedParamsBase"


# Sums of this many products, and what zero points take from them, are 32-bit numbers.
MOST_IN_WORDS = (1 << 31) // (2 * 255 * 128)


def per_row(weight: Any) -> tuple[Any, Any]:
    """Scales and zero points of a weight's rows, or one of each, as arrays."""
    made = weight.quantizer
    if made.axis is None:
        return np.float32([made.scale]), np.int64([made.zero_point])
    if made.axis != 0:
        raise RuntimeError("Weights are quantised along their first dimension.")
    return values_of(made.scale).astype(np.float32), values_of(made.zero_point).astype(np.int64)


class LinearPackedParamsBase(PackedParams, name="quantized.LinearPackedParamsBase"):
    """The int8 weight of a linear layer, with the sums of its rows."""

    def __init__(self, weight: Any, bias: Any) -> None:
        super().__init__(weight, bias)
        if not isinstance(weight, QuantizedTensor) or weight.dtype is not QINT8:
            raise RuntimeError("The weight of a quantised linear layer should be of torch.qint8")
        if weight.dim() != 2:
            raise RuntimeError("The weight tensor for quantized::linear_prepack (fbgemm) should "
                               "be 2-dimensional.")  # fmt: skip
        if weight.quantizer.axis is None:
            # torch: packed with a scale in single precision.
            scale = float(np.float32(weight.quantizer.scale))
            start = weight.quantizer.zero_point
            self.kept_weight = of_integers(values_of(weight), per_tensor(QINT8, scale, start))
        self.columns = np.ascontiguousarray(values_of(weight).T)
        self.totals = self.columns.sum(0, dtype=np.int64)
        self.scales, self.zero_points = per_row(weight)
        if bias is not None and bias.shape[0] != weight.shape[0]:
            raise RuntimeError(
                f"bias should be a vector of {weight.shape[0]} elements, got {list(bias.shape)}"
            )

    @classmethod
    def from_contents(cls, contents: Any) -> Any:
        weight, bias = contents
        made = cls if isinstance(weight, QuantizedTensor) else LinearPackedParamsBaseFP16
        return made(weight, bias)

    def sums(self, rows: Any, zero_point: int) -> Any:
        """The products of what the rows' bytes stand for, in steps: whole numbers."""
        found = exact_product(rows, self.columns)
        if self.columns.shape[0] > MOST_IN_WORDS or self.zero_points.any():
            found = found.astype(np.int64)
        if zero_point:
            found -= (zero_point * self.totals).astype(found.dtype)
        if self.zero_points.any():
            count = self.columns.shape[0]
            ends = rows.astype(np.int64).sum(1, keepdims=True) - count * zero_point
            found -= self.zero_points * ends
        return found


@quantized(f"linear_prepack(Tensor W, Tensor? B=None) -> {PACKED}")
def linear_prepack(W: Any, B: Any = None) -> Any:
    return LinearPackedParamsBase(W, B)


@quantized(f"linear_unpack({PACKED} W_prepack) -> (Tensor W_origin, Tensor? B_origin)")
def linear_unpack(W_prepack: Any) -> Any:
    return W_prepack.unpack()


def product(X: Any, packed: Any, scale: float, zero_point: int, relu: bool) -> Any:
    if not isinstance(X, QuantizedTensor):
        # torch: the class of the error.
        raise NotImplementedError(
            "Could not run 'quantized::linear' with arguments from the 'CPU' backend. Quantise "
            "the input, or use a dynamic layer."
        )
    made = X.quantizer
    if made.dtype is not QUINT8:
        raise RuntimeError(
            f"expected the input of a quantised linear layer in quint8, got {X.dtype}"
        )
    rows = values_of(X).reshape(-1, X.shape[-1])
    numbers = packed.sums(rows, made.zero_point).astype(np.float32)
    single = np.float32
    unit = single(made.scale) * packed.scales
    if packed.kept_bias is not None:
        bias = values_of(packed.kept_bias).astype(np.float32)
        # One scale: its inverse is multiplied by. Several: they divide.
        numbers = numbers + (bias * (single(1) / unit) if unit.size == 1 else bias / unit)
    target = per_tensor(made.dtype, scale, zero_point)
    found = rounded(numbers * (unit / single(scale)), target)
    integers = values_of(found).reshape(*X.shape[:-1], -1)
    if relu:
        integers = np.maximum(integers, integers.dtype.type(zero_point))
    return of_integers(integers, target)


SCALED = f"Tensor X, {PACKED} W_prepack, float Y_scale_i, int Y_zero_point_i"


@quantized(f"linear({SCALED}) -> Tensor Y")
def linear(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return product(X, W_prepack, Y_scale_i, Y_zero_point_i, relu=False)


@quantized(f"linear_relu({SCALED}) -> Tensor Y")
def linear_relu(X: Any, W_prepack: Any, Y_scale_i: float, Y_zero_point_i: int) -> Any:
    return product(X, W_prepack, Y_scale_i, Y_zero_point_i, relu=True)


# -- inputs that are quantised as they come --------------------------------------------------------


def dynamic(X: Any, packed: Any, reduce_range: bool) -> Any:
    """`X @ weight.T + bias` in floats, with X as bytes over the range that it has."""
    if X.dim() < 2:
        raise RuntimeError("The dimension of input tensor should be larger than or equal to 2")
    numbers = values_of(X.detach())
    if not numbers.size:
        return X.new_zeros((*X.shape[:-1], packed.columns.shape[1]))
    scale, zero_point = choose_qparams(
        numbers.min(), numbers.max(), 0, 127 if reduce_range else 255
    )
    made = per_tensor(QUINT8, scale, zero_point)
    return to_floats(X, made.quantize(numbers), made, packed)


def to_floats(X: Any, integers: Any, made: Any, packed: Any) -> Any:
    """What bytes of an input, read by a quantiser, and a packed weight give: float32."""
    sums = packed.sums(integers.reshape(-1, integers.shape[-1]), made.zero_point)
    found = sums.astype(np.float32) * (np.float32(made.scale) * packed.scales)
    if packed.kept_bias is not None:
        found = found + values_of(packed.kept_bias)
    found = found.astype(np.float32).reshape(*X.shape[:-1], found.shape[-1])
    return wrap(found, dtypes.float32)


@quantized(f"linear_dynamic(Tensor X, {PACKED} W_prepack, bool reduce_range=False) -> Tensor Y")
def linear_dynamic(X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
    return dynamic(X, W_prepack, reduce_range)


@quantized(
    f"linear_relu_dynamic(Tensor X, {PACKED} W_prepack, bool reduce_range=False) -> Tensor Y"
)
def linear_relu_dynamic(X: Any, W_prepack: Any, reduce_range: bool = False) -> Any:
    return dynamic(X, W_prepack, reduce_range).relu()


# -- weights in half precision ---------------------------------------------------------------------


class LinearPackedParamsBaseFP16(PackedParams):
    """A weight that was rounded to half precision, cut where no half is as large."""

    def __init__(self, weight: Any, bias: Any) -> None:
        most = float(np.finfo(np.float16).max)
        halves = weight.detach().clamp(-most, most).to(dtypes.float16)
        super().__init__(halves, bias)
        self.name = PACKED
        self.rounded = halves.to(dtypes.float32)

    def unpack(self) -> tuple[Any, Any]:
        return self.rounded, self.kept_bias


@quantized(f"linear_prepack_fp16(Tensor W, Tensor? B=None) -> {PACKED}")
def linear_prepack_fp16(W: Any, B: Any = None) -> Any:
    return LinearPackedParamsBaseFP16(W, B)


@quantized(f"linear_unpack_fp16({PACKED} W_prepack) -> (Tensor W_origin, Tensor? B_origin)")
def linear_unpack_fp16(W_prepack: Any) -> Any:
    return W_prepack.unpack()


@quantized(f"linear_dynamic_fp16(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def linear_dynamic_fp16(X: Any, W_prepack: Any) -> Any:
    weight, bias = W_prepack.unpack()
    made = functions.matmul(X, weight.t())
    return made if bias is None else made + bias


@quantized(f"linear_relu_dynamic_fp16(Tensor X, {PACKED} W_prepack) -> Tensor Y")
def linear_relu_dynamic_fp16(X: Any, W_prepack: Any) -> Any:
    return linear_dynamic_fp16(X, W_prepack).relu()


@quantized("linear_dynamic_fp16_unpacked_weight(Tensor X, Tensor weight, Tensor? bias) -> Tensor Y")
def linear_dynamic_fp16_unpacked_weight(X: Any, weight: Any, bias: Any) -> Any:
    return linear_dynamic_fp16(X, LinearPackedParamsBaseFP16(weight, bias))


# -- inputs by a scale that was chosen before, results in floats -----------------------------------

GIVEN = f"Tensor X, float X_scale, int X_zero_point, {PACKED} W_prepack"


@quantized(f"linear_with_input_q_dq_qweight_dq_output_fp32({GIVEN}) -> Tensor Y")
def linear_of_scaled(X: Any, X_scale: float, X_zero_point: int, W_prepack: Any) -> Any:
    given = per_tensor(QUINT8, X_scale, X_zero_point)
    return to_floats(X, given.quantize(values_of(X.detach())), given, W_prepack)


@quantized(f"linear_with_input_q_dq_qweight_dq_relu_output_fp32({GIVEN}) -> Tensor Y")
def linear_relu_of_scaled(X: Any, X_scale: float, X_zero_point: int, W_prepack: Any) -> Any:
    return linear_of_scaled(X, X_scale, X_zero_point, W_prepack).relu()


# -- what only other engines have ------------------------------------------------------------------


@quantized(f"linear_leaky_relu({SCALED}, float negative_slope) -> Tensor Y",
           f"linear_tanh({SCALED}) -> Tensor Y")  # fmt: skip
def of_another_engine(*given: Any) -> Any:
    # torch: oneDNN's engine has them, and that of x86 does not.
    raise MissingFeature("a quantised linear layer fused with this activation", code="RL0012")
