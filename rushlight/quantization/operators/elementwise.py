"""`quantized::` sums, products, activations and what else goes element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.numbers import (
    elementwise,
    floats,
    from_floats,
    from_integers,
    of_integers,
    per_tensor,
)
from rushlight.subclasses.quantized import LIMITS, QuantizedTensor, copy_

__all__: list[str] = []


def check_same(one: Any, other: Any, name: str) -> None:
    for each in (one, other):
        if not isinstance(each, QuantizedTensor) or each.quantizer.axis is not None:
            raise RuntimeError(f"Only per tensor quantization is supported in {name}.")
    if one.dtype is not other.dtype:
        raise RuntimeError(f"{name} operands should have same data type.")


def positive(tensor: Any) -> Any:
    """What of a quantised tensor is not negative."""
    made = tensor.quantizer
    return of_integers(np.maximum(values_of(tensor), np.int64(made.zero_point)).astype(
        values_of(tensor).dtype), made)  # fmt: skip


# -- sums ------------------------------------------------------------------------------------------


@quantized("add(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def add(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    check_same(qa, qb, "Add")
    return elementwise(np.add, per_tensor(qa.dtype, scale, zero_point), qa, qb)


@quantized("add_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def add_relu(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    check_same(qa, qb, "Add")
    target = per_tensor(qa.dtype, scale, zero_point)
    return elementwise(lambda a, b: np.maximum(a + b, np.float32(0)), target, qa, qb)


def into(out: Any, made: Any) -> Any:
    copy_(out, made)
    return out


@quantized("add.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
           "add_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")  # fmt: skip
def add_out(qa: Any, qb: Any, out: Any) -> Any:
    return into(out, add(qa, qb, out.quantizer.scale, out.quantizer.zero_point))


@quantized("add_relu.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
           "add_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")  # fmt: skip
def add_relu_out(qa: Any, qb: Any, out: Any) -> Any:
    return into(out, add_relu(qa, qb, out.quantizer.scale, out.quantizer.zero_point))


def number(value: Any) -> float:
    """A number, of which some programs make a tensor."""
    return float(value.item() if hasattr(value, "item") else value)


def shifted(qa: Any, b: float) -> Any:
    """`qa + b`: the zero point moves, and where it would leave its range the scale grows."""
    made = qa.quantizer
    least, most = LIMITS[made.dtype]
    single = np.float32
    # torch: the steps are counted in float64, the new scale is computed in float32.
    steps = int(np.rint(b / made.scale))
    start = made.zero_point - steps
    if least <= start <= most:
        return of_integers(values_of(qa), per_tensor(made.dtype, made.scale, start))
    if start < least:
        widened = float((single(most) - single(start)) / (single(most) - single(least)))
        target = per_tensor(made.dtype, widened * made.scale, least)
    else:
        widened = float((single(start) - single(least)) / (single(most) - single(least)))
        target = per_tensor(made.dtype, widened * made.scale, most)
    whole = values_of(qa).astype(np.int64) - made.zero_point + steps
    multiplier = single(made.scale) * (single(1) / single(target.scale))
    return from_integers(whole, multiplier, target)


@quantized("add_scalar(Tensor qa, Scalar b) -> Tensor qc",
           "add_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
           "add.Scalar(Tensor qa, Scalar b) -> Tensor qc")  # fmt: skip
def add_scalar(qa: Any, b: Any) -> Any:
    return shifted(qa, number(b))


@quantized("add_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
           "add_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
           "add_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc")  # fmt: skip
def add_scalar_relu(qa: Any, b: Any) -> Any:
    return positive(shifted(qa, number(b)))


# -- products --------------------------------------------------------------------------------------


def product(qa: Any, qb: Any, scale: float, zero_point: int, relu: bool) -> Any:
    check_same(qa, qb, "Mul")
    one, other = [values_of(each).astype(np.int64) - each.quantizer.zero_point for each in (qa, qb)]
    whole = one * other
    if relu:
        whole = np.maximum(whole, 0)
    single = np.float32
    step = single(qa.quantizer.scale) * single(qb.quantizer.scale) * (single(1) / single(scale))
    return from_integers(whole, step, per_tensor(qa.dtype, scale, zero_point))


@quantized("mul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def mul(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    return product(qa, qb, scale, zero_point, relu=False)


@quantized("mul_relu(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def mul_relu(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    return product(qa, qb, scale, zero_point, relu=True)


@quantized("mul.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
           "mul_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")  # fmt: skip
def mul_out(qa: Any, qb: Any, out: Any) -> Any:
    return into(out, mul(qa, qb, out.quantizer.scale, out.quantizer.zero_point))


@quantized("mul_relu.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
           "mul_relu_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")  # fmt: skip
def mul_relu_out(qa: Any, qb: Any, out: Any) -> Any:
    return into(out, mul_relu(qa, qb, out.quantizer.scale, out.quantizer.zero_point))


def scaled(qa: Any, b: float, relu: bool = False) -> Any:
    """`qa * b`: the integers stay, or are mirrored, and the scale is multiplied."""
    made = qa.quantizer
    least, most = LIMITS[made.dtype]
    if b == 0:
        nothing = np.zeros_like(values_of(qa))
        return of_integers(nothing, per_tensor(made.dtype, 1.0, 0))
    if b > 0:
        found = of_integers(values_of(qa), per_tensor(made.dtype, b * made.scale, made.zero_point))
    else:
        mirrored = (most + least - values_of(qa).astype(np.int64)).astype(values_of(qa).dtype)
        start = most - (made.zero_point - least)
        found = of_integers(mirrored, per_tensor(made.dtype, abs(b) * made.scale, start))
    return positive(found) if relu else found


@quantized("mul_scalar(Tensor qa, Scalar b) -> Tensor qc",
           "mul_scalar.Tensor(Tensor qa, Tensor b) -> Tensor qc",
           "mul.Scalar(Tensor qa, Scalar b) -> Tensor qc")  # fmt: skip
def mul_scalar(qa: Any, b: Any) -> Any:
    return scaled(qa, number(b))


@quantized("mul_scalar_relu(Tensor qa, Scalar b) -> Tensor qc",
           "mul_scalar_relu.Tensor(Tensor qa, Tensor b) -> Tensor qc",
           "mul_relu.Scalar(Tensor qa, Scalar b) -> Tensor qc")  # fmt: skip
def mul_scalar_relu(qa: Any, b: Any) -> Any:
    return scaled(qa, number(b), relu=True)


@quantized("matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def matmul(qa: Any, qb: Any, scale: float, zero_point: int) -> Any:
    check_same(qa, qb, "MatMul")
    made = functions.matmul(wrap(floats(qa), dtypes.float32), wrap(floats(qb), dtypes.float32))
    return from_floats(values_of(made), per_tensor(qa.dtype, scale, zero_point))


# -- forms with a number first, and with a result that is there ------------------------------------


def define_forms(name: str, by_number: Any) -> None:
    plain, relu = name.partition("_")[0], "_relu" if name.endswith("_relu") else ""

    @quantized(f"{name}.Scalar2(Scalar b, Tensor qa) -> Tensor qc")
    def number_first(b: Any, qa: Any) -> Any:
        return by_number(qa, b)

    @quantized(
        f"{name}.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
        f"{plain}_scalar{relu}_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
        f"{plain}_scalar{relu}_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out",
    )
    def number_into(qa: Any, b: Any, out: Any) -> Any:
        return into(out, by_number(qa, b))


for _name, _by_number in {
    "add": add_scalar, "add_relu": add_scalar_relu, "mul": mul_scalar, "mul_relu": mul_scalar_relu,
}.items():  # fmt: skip
    define_forms(_name, _by_number)


# -- several in a row ------------------------------------------------------------------------------


def joined(tensors: Any, dim: int, scale: Any, zero_point: Any, relu: bool) -> Any:
    first = tensors[0].quantizer
    if any(each.quantizer.axis is not None or each.dtype is not first.dtype for each in tensors):
        raise RuntimeError("All dtypes must be the same, and all scales of whole tensors.")
    target = per_tensor(
        first.dtype, first.scale if scale is None else scale,
        first.zero_point if zero_point is None else zero_point,
    )  # fmt: skip
    made = functions.cat([each.dequantize() for each in tensors], dim)
    found = of_integers(target.quantize(values_of(made)), target)
    return positive(found) if relu else found


@quantized("cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor")
def cat(qx: Any, dim: int, scale: Any, zero_point: Any) -> Any:
    return joined(qx, dim, scale, zero_point, relu=False)


@quantized("cat_relu(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor")
def cat_relu(qx: Any, dim: int, scale: Any, zero_point: Any) -> Any:
    return joined(qx, dim, scale, zero_point, relu=True)


@quantized("cat_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)")
def cat_out(qx: Any, dim: int, out: Any) -> Any:
    return into(out, cat(qx, dim, out.quantizer.scale, out.quantizer.zero_point))


@quantized("cat_relu_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)")
def cat_relu_out(qx: Any, dim: int, out: Any) -> Any:
    return into(out, cat_relu(qx, dim, out.quantizer.scale, out.quantizer.zero_point))


# -- activations -----------------------------------------------------------------------------------


@quantized("relu6(Tensor qx, bool inplace=False) -> Tensor")
def relu6(qx: Any, inplace: bool = False) -> Any:
    return functions.hardtanh_(qx, 0.0, 6.0) if inplace else functions.hardtanh(qx, 0.0, 6.0)


@quantized("leaky_relu(Tensor qx, Scalar negative_slope, bool inplace, float output_scale, "
           "int output_zero_point) -> Tensor")  # fmt: skip
def leaky_relu(
    qx: Any, negative_slope: Any, inplace: bool, output_scale: float, output_zero_point: int
) -> Any:
    slope = np.float32(negative_slope)
    target = per_tensor(qx.dtype, output_scale, output_zero_point)
    found = elementwise(lambda x: np.where(x > 0, x, x * slope), target, qx)
    return into(qx, found) if inplace else found


def apply(function: Any, qx: Any, scale: float, zero_point: int) -> Any:
    """A function of floats, quantised by a scale of its own."""

    def of_array(numbers: Any) -> Any:
        return values_of(function(wrap(np.asarray(numbers, order="C"), dtypes.float32)))

    return elementwise(of_array, per_tensor(qx.dtype, scale, zero_point), qx)


@quantized("elu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1, "
           "Scalar scale=1, Scalar input_scale=1) -> Tensor")  # fmt: skip
def elu(
    self: Any, output_scale: float, output_zero_point: int, alpha: Any = 1, scale: Any = 1,
    input_scale: Any = 1,
) -> Any:  # fmt: skip
    single = np.float32
    above, factor, within = single(scale), single(alpha) * single(scale), single(input_scale)

    def of_array(numbers: Any) -> Any:
        below = np.expm1(np.minimum(numbers, single(0)) * within) * factor
        return np.where(numbers > 0, numbers * above, below)

    return elementwise(of_array, per_tensor(self.dtype, output_scale, output_zero_point), self)


@quantized("celu(Tensor self, float output_scale, int output_zero_point, Scalar alpha=1) -> Tensor")
def celu(self: Any, output_scale: float, output_zero_point: int, alpha: Any = 1) -> Any:
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return elu(self, output_scale, output_zero_point, alpha, 1, 1.0 / number(alpha))


@quantized("hardswish(Tensor input, float output_scale, int output_zero_point) -> Tensor")
def hardswish(input: Any, output_scale: float, output_zero_point: int) -> Any:
    single = np.float32

    def of_array(x: Any) -> Any:
        return x * np.clip(x + single(3), single(0), single(6)) * single(1 / 6)

    return elementwise(of_array, per_tensor(input.dtype, output_scale, output_zero_point), input)


@quantized("sigmoid(Tensor qx, float output_scale, int output_zero_point) -> Tensor")
def sigmoid(qx: Any, output_scale: float, output_zero_point: int) -> Any:
    return apply(functions.sigmoid, qx, output_scale, output_zero_point)


@quantized("softmax(Tensor qx, int dim, float output_scale, int output_zero_point) -> Tensor")
def softmax(qx: Any, dim: int, output_scale: float, output_zero_point: int) -> Any:
    made = functions.softmax(qx.dequantize(), dim)
    return from_floats(values_of(made), per_tensor(qx.dtype, output_scale, output_zero_point))


@quantized("threshold(Tensor qx, Scalar threshold, Scalar value) -> Tensor")
def threshold(qx: Any, threshold: Any, value: Any) -> Any:
    least, instead = np.float32(threshold), np.float32(value)
    return elementwise(lambda x: np.where(x > least, x, instead), qx.quantizer, qx)


@quantized("clamp(Tensor qx, Scalar? min=None, Scalar? max=None) -> Tensor qy")
def clamp(qx: Any, min: Any = None, max: Any = None) -> Any:
    return functions.clamp(qx, min, max)


@quantized("prelu(Tensor qx, Tensor weight, float output_scale, int output_zero_point) -> Tensor")
def prelu(qx: Any, weight: Any, output_scale: float, output_zero_point: int) -> Any:
    target = per_tensor(qx.dtype, output_scale, output_zero_point)
    single = np.float32
    slopes = values_of(weight).astype(np.int64).reshape(-1) - weight.quantizer.zero_point
    if slopes.size > 1:
        slopes = slopes.reshape((1, -1) + (1,) * (qx.dim() - 2))
    steps = values_of(qx).astype(np.int64) - qx.quantizer.zero_point
    # torch: what is positive is multiplied by 1 as a slope is quantised, which may be less.
    one = int(weight.quantizer.quantize(np.float32([1.0]))[0]) - weight.quantizer.zero_point
    unit = single(qx.quantizer.scale) * single(weight.quantizer.scale)
    whole = steps * np.where(steps > 0, one, slopes)
    return from_integers(whole, unit * (single(1) / single(output_scale)), target)


@quantized("dropout(Tensor self, float output_scale, int output_zero_point, Scalar p=0.5, "
           "bool training=False) -> Tensor")  # fmt: skip
def dropout(
    self: Any, output_scale: float, output_zero_point: int, p: Any = 0.5, training: bool = False
) -> Any:
    return self


# -- pooling ---------------------------------------------------------------------------------------


@quantized("max_pool1d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
           "bool ceil_mode) -> Tensor")  # fmt: skip
def max_pool1d(
    qx: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    return functions.max_pool1d(qx, kernel_size, stride, padding, dilation, ceil_mode)


@quantized("max_pool2d(Tensor qx, int[] kernel_size, int[] stride, int[] padding, int[] dilation, "
           "bool ceil_mode) -> Tensor")  # fmt: skip
def max_pool2d(
    qx: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    return functions.max_pool2d(qx, kernel_size, stride, padding, dilation, ceil_mode)
