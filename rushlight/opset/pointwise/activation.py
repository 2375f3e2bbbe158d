"""Activation functions and their backward ops, split as autograd records them.

A backward op (`threshold_backward`, `gelu_backward` ...) is an op of its own, differentiable
again; at a kink it takes the side that torch takes.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.arrays.numpy_ import in_blocks
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import BOOL, FLOAT, INTEGER, dtype, unsupported
from rushlight.core.state import LOCAL
from rushlight.core.tensor import strides_of
from rushlight.opset import functions as aten
from rushlight.opset.kinds import Spec
from rushlight.opset.pointwise.arithmetic import is_float, is_inexact, one_operand
from rushlight.opset.pointwise.choice import check_bound, check_held
from rushlight.opset.pointwise.comparison import no_gradient
from rushlight.opset.registry import composite, op, pointwise
from rushlight.opset.rules import conj, late, sample

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def activation(schema: str, **options: Any) -> Any:
    """An elementwise op of the nn namespace: a function, not a method."""
    options.setdefault("method", False)
    options.setdefault("numbers", False)
    options.setdefault("dtypes", is_float)
    return pointwise(schema, **options)


def backward_op(schema: str, **options: Any) -> Any:
    options.setdefault("inplace", False)
    return activation(schema, **options)


def same_dtype_as(position: int) -> Any:
    """A check that every operand has the dtype of the one at `position`."""

    def check(common: dtype, args: tuple[Any, ...]) -> None:
        wanted = args[position]._dtype
        for operand in args:
            if operand._dtype is not wanted:
                raise RuntimeError(
                    f"Found dtype {operand._dtype.scalar_type_name} but expected "
                    f"{wanted.scalar_type_name}"
                )

    return check


def two_operands(make: Any) -> Any:
    return ((make(3, 4), make(3, 4)), (make.strided(3, 4), make(3, 4)), (make(), make()))


# -- rectifiers -----------------------------------------------------------------------------------


def check_relu(common: dtype, args: tuple[Any, ...]) -> None:
    if common.category == BOOL:
        raise RuntimeError("Boolean inputs not supported for relu")
    check_bound(common, args)


relu = pointwise(
    "relu(Tensor self) -> Tensor",
    functional_inplace=True,
    zero_preserving=True,
    # torch: of two zeros the second operand's is kept, so that -0.0 stays.
    scalar=lambda m, x: m.maximum(0, x),
    dtypes=lambda dtype: dtype.category in (INTEGER, FLOAT),
    check=check_relu,
    vjp=lambda grad, result: aten.threshold_backward(grad, result, 0),
)
threshold = activation(
    "threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
    functional_inplace=True,
    errors=lambda make: [(NotImplementedError, (make.mask(2), 0, 0))],
    exact_out=False,
    scalar=lambda m, x, threshold, value: m.where(m.less_equal(x, threshold), value, x),
    cast_scalars=(1, 2),
    dtypes=lambda dtype: dtype.category in (INTEGER, FLOAT),
    kernel_name="threshold_cpu",
    check=check_held,
    vjp=lambda grad, self, threshold: aten.threshold_backward(grad, self, threshold),
    inplace_vjp=lambda grad, self, threshold: aten.threshold_backward(grad, self, threshold),
    samples=lambda make: ((make(3, 4), 1, 2), (make.strided(3, 4), -1, 0), (make(), 0, 5)),
)
threshold_backward = backward_op(
    "threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor",
    sparse=late("sparse.math:threshold_backward"),
    scalar=lambda m, grad, x, threshold: m.zero_where(m.less_equal(x, threshold), grad),
    cast_scalars=(2,),
    dtypes=lambda dtype: dtype.category in (INTEGER, FLOAT),
    kernel_name="threshold_cpu",
    vjp={
        "grad_output": lambda grad, self, threshold: aten.threshold_backward(grad, self, threshold),
        "self": no_gradient,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), 0), (make(), make(), 1)),
)


@composite("relu6(Tensor self) -> Tensor", method=False, function=None, samples=one_operand)
def relu6(self: Any) -> Any:
    return aten.hardtanh(self, 0, 6)


@composite(
    "relu6_(Tensor(a!) self) -> Tensor(a!)", method=False, function=False, samples=one_operand
)
def relu6_(self: Any) -> Any:
    return aten.hardtanh_(self, 0, 6)


leaky_relu = activation(
    "leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
    functional_inplace=True,
    scalar=lambda m, x, slope: m.where(m.greater(x, 0), x, m.multiply(x, slope)),
    kernel_name="leaky_relu_cpu",
    inplace_vjp=lambda grad, result, negative_slope: aten.leaky_relu_backward(
        grad, result, negative_slope, True
    ),
    vjp=lambda grad, self, negative_slope: aten.leaky_relu_backward(
        grad, self, negative_slope, False
    ),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 0.2), (make(), -0.5)),
)


def check_slope(what: str, slope: Any, is_result: bool, more: str = "") -> None:
    """A result tells the sign of its input only where the slope is not negative."""
    if is_result and slope < 0:
        raise RuntimeError(
            f"In-place {what} backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            f"please call out-of-place version instead.{more}"
        )


def check_leaky_relu(common: dtype, args: tuple[Any, ...]) -> None:
    more = (
        " File an issue at https://github.com/pytorch/pytorch if you do require supporting "
        "in-place leakRelu backward calculation with negative slope"
    )
    check_slope("leakyReLu", args[2], args[3], more)


leaky_relu_backward = backward_op(
    "leaky_relu_backward(Tensor grad_output, Tensor self, Scalar negative_slope, "
    "bool self_is_result) -> Tensor",
    scalar=lambda m, grad, x, slope, self_is_result: m.where(
        m.greater(x, 0), grad, m.multiply(grad, slope)
    ),
    check=check_leaky_relu,
    vjp={
        "grad_output": lambda grad, self, negative_slope: aten.leaky_relu_backward(
            grad, self, negative_slope, False
        ),
        "self": no_gradient,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), 0.1, False), (make(), make(), 0.1, False)),
)


def check_hardtanh(common: dtype, args: tuple[Any, ...]) -> None:
    if common.category == BOOL:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    check_bound(common, args)
    if common is dtypes.uint8 and (args[1] < 0 or args[2] < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    check_held(common, args)


hardtanh = activation(
    "hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
    functional_inplace=True,
    errors=lambda make: [(RuntimeError, (make.mask(2),))],
    scalar=lambda m, x, low, high: m.minimum(m.maximum(x, low), high),
    cast_scalars=(1, 2),
    dtypes=lambda dtype: dtype.category in (INTEGER, FLOAT),
    check=check_hardtanh,
    vjp=lambda grad, self, min_val, max_val: aten.hardtanh_backward(grad, self, min_val, max_val),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 0, 1), (make(), -2, 2)),
)
hardtanh_backward = backward_op(
    "hardtanh_backward(Tensor grad_output, Tensor self, Scalar min_val, Scalar max_val) -> Tensor",
    kernel_name="hardshrink_backward_cpu",
    scalar=lambda m, grad, x, low, high: m.where(
        m.logical_or(m.less_equal(x, low), m.greater_equal(x, high)), 0, grad
    ),
    vjp={
        "grad_output": lambda grad, self, min_val, max_val: aten.hardtanh_backward(
            grad, self, min_val, max_val
        ),
        "self": no_gradient,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), -1, 1), (make(), make(), -1, 1)),
)
hardsigmoid = activation(
    "hardsigmoid(Tensor self) -> Tensor",
    function=None,
    scalar=lambda m, x: m.divide(m.minimum(m.maximum(m.add(x, 3), 0), 6), 6),
    vjp=lambda grad, self: aten.hardsigmoid_backward(grad, self),
)
hardsigmoid_backward = backward_op(
    "hardsigmoid_backward(Tensor grad_output, Tensor self) -> Tensor",
    kernel_name="hardsigmoid_backward",
    scalar=lambda m, grad, x: m.where(
        m.logical_and(m.greater(x, -3), m.less(x, 3)), m.multiply(grad, 1 / 6), 0
    ),
    vjp={
        "grad_output": lambda grad, self: aten.hardsigmoid_backward(grad, self),
        "self": no_gradient,
    },
)
hardswish = activation(
    "hardswish(Tensor self) -> Tensor",
    function=None,
    scalar=lambda m, x: m.divide(m.multiply(x, m.minimum(m.maximum(m.add(x, 3), 0), 6)), 6),
    vjp=lambda grad, self: aten.hardswish_backward(grad, self),
)


def hardswish_backward_text(m: Any, grad: Any, x: Any) -> Any:
    inside = m.multiply(grad, m.add(m.divide(x, 3), 0.5))
    return m.where(m.less_equal(x, -3), 0, m.where(m.less(x, 3), inside, grad))


hardswish_backward = backward_op(
    "hardswish_backward(Tensor grad_output, Tensor self) -> Tensor",
    scalar=hardswish_backward_text,
    vjp={
        "grad_output": lambda grad, self: aten.hardswish_backward(grad, self),
        "self": lambda grad, grad_output, self: aten.where(
            (self > -3.0).logical_and(self < 3.0), grad * grad_output / 3.0, 0.0
        ),
    },
)
hardshrink = pointwise(
    "hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    rounded_scalars=(1,),
    functional=True,
    scalar=lambda m, x, lambd: m.where(
        m.logical_and(m.greater_equal(x, -lambd), m.less_equal(x, lambd)), 0, x
    ),
    inplace=False,
    dtypes=is_float,
    vjp=lambda grad, self, lambd: aten.hardshrink_backward(grad, self, lambd),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 1.0), (make(), 0.1)),
)
hardshrink_backward = backward_op(
    "hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor",
    rounded_scalars=(2,),
    kernel_name="shrink_backward_cpu",
    scalar=lambda m, grad, x, lambd: m.where(
        m.logical_and(m.greater_equal(x, -lambd), m.less_equal(x, lambd)), 0, grad
    ),
    vjp={
        "grad_out": lambda grad, self, lambd: aten.hardshrink_backward(grad, self, lambd),
        "self": no_gradient,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), 0.5), (make(), make(), 1)),
)


def softshrink_text(m: Any, x: Any, lambd: Any) -> Any:
    below = m.where(m.less(x, -lambd), m.add(x, lambd), m.multiply(x, 0))
    return m.where(m.greater(x, lambd), m.subtract(x, lambd), below)


def check_softshrink(common: dtype, args: tuple[Any, ...]) -> None:
    if is_float(common) and not 0 <= args[1] <= dtypes.finfo(common).max:
        raise RuntimeError(
            f"lambda must be in range [0, {dtypes.finfo(common).max:g}] for input dtype "
            f"{common.scalar_type_name}, but found {args[1]:g}"
        )


softshrink = activation(
    "softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
    functional=True,
    kernel_name="softshrink_check",
    scalar=softshrink_text,
    inplace=False,
    check=check_softshrink,
    vjp=lambda grad, self, lambd: aten.softshrink_backward(grad, self, lambd),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 1.0), (make(), 0)),
    errors=lambda make: [(RuntimeError, (make(3), -1)), (RuntimeError, (make(2), -1.0))],
)
softshrink_backward = backward_op(
    "softshrink_backward(Tensor grad_output, Tensor self, Scalar lambd) -> Tensor",
    rounded_scalars=(2,),
    kernel_name="shrink_backward_cpu",
    scalar=hardshrink_backward.options["scalar"],
    vjp={
        "grad_output": lambda grad, self, lambd: aten.softshrink_backward(grad, self, lambd),
        "self": no_gradient,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), 0.5), (make(), make(), 1)),
)


# -- exponential units ----------------------------------------------------------------------------


def elu_text(m: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    low = m.multiply(m.expm1(m.multiply(m.minimum(x, 0), input_scale)), alpha * scale)
    return m.where(m.less_equal(x, 0), low, m.multiply(x, scale))


elu = activation(
    "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
    functional_inplace=True,
    scalar=elu_text,
    kernel_name="elu_cpu",
    vjp=lambda grad, self, alpha, scale, input_scale: aten.elu_backward(
        grad, alpha, scale, input_scale, False, self
    ),
    inplace_vjp=lambda grad, result, alpha, scale, input_scale: aten.elu_backward(
        grad, alpha, scale, input_scale, True, result
    ),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 0.5, 2, 1.5), (make(), 2)),
)


def elu_backward_text(
    m: Any, grad: Any, alpha: Any, scale: Any, input_scale: Any, is_result: bool, x: Any
) -> Any:
    steep = input_scale * alpha * scale
    if is_result:
        low = m.multiply(grad, m.multiply(m.add(x, alpha * scale), input_scale))
    else:
        low = m.multiply(grad, m.multiply(m.exp(m.multiply(m.minimum(x, 0), input_scale)), steep))
    return m.where(m.less_equal(x, 0), low, m.multiply(grad, scale))


def elu_curvature(
    grad: Any,
    grad_output: Any,
    alpha: Any,
    scale: Any,
    input_scale: Any,
    is_result: bool,
    self_or_result: Any,
) -> Any:
    product = grad * grad_output
    if is_result:
        bend = product * input_scale
    else:
        steep = input_scale * input_scale * alpha * scale
        bend = product * (self_or_result * input_scale).exp() * steep
    return aten.where(self_or_result < 0, bend, 0.0)


elu_backward = backward_op(
    "elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, "
    "bool is_result, Tensor self_or_result) -> Tensor",
    scalar=elu_backward_text,
    check=lambda common, args: check_slope("elu", args[1], args[4]),
    vjp={
        "grad_output": lambda grad, alpha, scale, input_scale, is_result, self_or_result: (
            aten.elu_backward(grad, alpha, scale, input_scale, is_result, self_or_result)
        ),
        "self_or_result": elu_curvature,
    },
    samples=lambda make: (
        (make(3, 4), 1, 1, 1, False, make(3, 4)),
        (make(3), 0.5, 2.0, 1.5, False, make(3)),
        (make(), 1, 1, 1, True, make()),
    ),
)


def check_celu(common: dtype, args: tuple[Any, ...]) -> None:
    if args[1] == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")


celu = pointwise(
    "celu(Tensor self, Scalar alpha=1.0) -> Tensor",
    functional_inplace=True,
    scalar=lambda m, x, alpha: elu_text(m, x, alpha, 1, 1.0 / alpha),
    method=False,
    dtypes=is_float,
    kernel_name="elu_cpu",
    check=check_celu,
    vjp=lambda grad, self, alpha: aten.elu_backward(grad, alpha, 1, 1.0 / alpha, False, self),
    inplace_vjp=lambda grad, result, alpha: aten.elu_backward(
        grad, alpha, 1, 1.0 / alpha, True, result
    ),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 0.5), (make(), 2)),
)


@composite("selu(Tensor self) -> Tensor", method=False, samples=one_operand)
def selu(self: Any) -> Any:
    return aten.elu(self, SELU_ALPHA, SELU_SCALE)


@composite(
    "selu_(Tensor(a!) self) -> Tensor(a!)", functional=True, method=False, samples=one_operand
)
def selu_(self: Any) -> Any:
    return aten.elu_(self, SELU_ALPHA, SELU_SCALE)


# -- smooth units ---------------------------------------------------------------------------------

ROOT_HALF = math.sqrt(0.5)
TANH_SCALE = math.sqrt(2.0 / math.pi)
TANH_CUBE = 0.044715


def check_gelu(common: dtype, args: tuple[Any, ...]) -> None:
    if args[-1] not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")


@in_blocks
def gelu_text(m: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        inner = m.multiply(
            m.add(x, m.multiply(m.multiply(x, m.multiply(x, x)), TANH_CUBE)), TANH_SCALE
        )
        return m.multiply(m.multiply(x, 0.5), m.add(m.tanh(inner), 1))
    return m.multiply(m.multiply(x, 0.5), m.add(m.erf(m.multiply(x, ROOT_HALF)), 1))


@in_blocks
def gelu_backward_text(m: Any, grad: Any, x: Any, approximate: str) -> Any:
    square = m.multiply(x, x)
    if approximate == "tanh":
        inner = m.multiply(m.multiply(x, m.add(m.multiply(square, TANH_CUBE), 1)), TANH_SCALE)
        t = m.tanh(inner)
        slope = m.multiply(m.add(m.multiply(square, 3 * TANH_CUBE), 1), TANH_SCALE)
        bent = m.multiply(m.multiply(m.multiply(x, 0.5), m.subtract(1, m.multiply(t, t))), slope)
        return m.multiply(grad, m.add(m.multiply(m.add(t, 1), 0.5), bent))
    cdf = m.multiply(m.add(m.erf(m.multiply(x, ROOT_HALF)), 1), 0.5)
    pdf = m.multiply(m.exp(m.multiply(square, -0.5)), 1 / math.sqrt(2 * math.pi))
    return m.multiply(grad, m.add(cdf, m.multiply(x, pdf)))


def gelu_curvature(grad: Any, grad_output: Any, self: Any, approximate: str) -> Any:
    if approximate == "none":
        pdf = (-0.5 * self * self).exp() * (1 / math.sqrt(2 * math.pi))
        return grad * grad_output * pdf * (2 - self * self)
    square = self * self
    t = (TANH_SCALE * self * (1 + TANH_CUBE * square)).tanh()
    sech2 = 1 - t * t
    slope = TANH_SCALE * (1 + 3 * TANH_CUBE * square)
    bend = TANH_SCALE * 6 * TANH_CUBE * self
    curve = sech2 * slope + 0.5 * self * (sech2 * bend - 2 * t * sech2 * slope * slope)
    return grad * grad_output * curve


gelu = activation(
    "gelu(Tensor self, *, str approximate='none') -> Tensor",
    functional=True,
    scalar=gelu_text,
    kernel_name="GeluKernelImpl",
    check=check_gelu,
    vjp=lambda grad, self, approximate: aten.gelu_backward(grad, self, approximate=approximate),
    samples=lambda make: (
        (make(3, 4),),
        sample(make.strided(3, 4), approximate="tanh"),
        (make(),),
    ),
    errors=lambda make: [
        (RuntimeError, sample(make(3), approximate="cubic")),
        (RuntimeError, sample(make(2), approximate="fast")),
        (NotImplementedError, (make.ints(2),)),
    ],
)
gelu_backward = backward_op(
    "gelu_backward(Tensor grad_output, Tensor self, *, str approximate='none') -> Tensor",
    scalar=gelu_backward_text,
    kernel_name="GeluBackwardKernelImpl",
    check=check_gelu,
    vjp={
        "grad_output": lambda grad, self, approximate: aten.gelu_backward(
            grad, self, approximate=approximate
        ),
        "self": gelu_curvature,
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4)),
        sample(make(3, 4), make(3, 4), approximate="tanh"),
    ),
)


def silu_gradient(grad: Any, self: Any) -> Any:
    if LOCAL.state.grad or self._dtype.is_complex:
        gate = self.sigmoid()
        return grad * conj(gate * (1.0 + self * (1.0 - gate)))
    return aten.silu_backward(grad, self)


def silu_curvature(grad: Any, grad_output: Any, self: Any) -> Any:
    gate = self.sigmoid()
    return grad * conj(grad_output * gate * (1 - gate) * (2 + self * (1 - 2 * gate)))


@in_blocks
def silu_backward_text(m: Any, grad: Any, x: Any) -> Any:
    gate = m.sigmoid(x)
    slope = m.multiply(gate, m.add(m.multiply(x, m.subtract(1, gate)), 1))
    return m.multiply(grad, slope)


silu = activation(
    "silu(Tensor self) -> Tensor",
    function=None,
    scalar=in_blocks(lambda m, x: m.divide(x, m.add(m.exp(m.negative(x)), 1))),
    dtypes=is_inexact,
    vjp=silu_gradient,
)
silu_backward = backward_op(
    "silu_backward(Tensor grad_output, Tensor self) -> Tensor",
    scalar=silu_backward_text,
    dtypes=is_inexact,
    vjp={
        "grad_output": lambda grad, self: silu_gradient(grad, self),
        "self": silu_curvature,
    },
    samples=two_operands,
)


def softplus_of(m: Any, x: Any) -> Any:
    """log(1 + exp(x)) without overflow."""
    return m.add(m.maximum(x, 0), m.log1p(m.exp(m.negative(m.abs(x)))))


def mish_gradient(grad: Any, self: Any) -> Any:
    if LOCAL.state.grad:
        gate = self.sigmoid()
        t = aten.softplus(self).tanh()
        return grad * (t + self * gate * (1 - t * t))
    return aten.mish_backward(grad, self)


def mish_curvature(grad: Any, grad_output: Any, self: Any) -> Any:
    gate = self.sigmoid()
    t = aten.softplus(self).tanh()
    slope = gate * (1 - t * t)
    return grad * grad_output * slope * (2 + self * (1 - gate - 2 * t * gate))


@in_blocks
def mish_backward_text(m: Any, grad: Any, x: Any) -> Any:
    t = m.tanh(softplus_of(m, x))
    bent = m.multiply(m.multiply(x, m.sigmoid(x)), m.subtract(1, m.multiply(t, t)))
    return m.multiply(grad, m.add(t, bent))


mish = activation(
    "mish(Tensor self) -> Tensor",
    function=None,
    scalar=in_blocks(lambda m, x: m.multiply(x, m.tanh(softplus_of(m, x)))),
    vjp=mish_gradient,
)
mish_backward = backward_op(
    "mish_backward(Tensor grad_output, Tensor self) -> Tensor",
    scalar=mish_backward_text,
    vjp={
        "grad_output": lambda grad, self: mish_gradient(grad, self),
        "self": mish_curvature,
    },
    samples=two_operands,
)


def softplus_text(m: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = m.multiply(x, beta)
    return m.where(m.greater(z, threshold), x, m.divide(m.log1p(m.exp(z)), beta))


def softplus_backward_text(m: Any, grad: Any, x: Any, beta: Any, threshold: Any) -> Any:
    z = m.multiply(x, beta)
    return m.where(m.greater(z, threshold), grad, m.multiply(grad, m.sigmoid(z)))


def softplus_curvature(grad: Any, grad_output: Any, self: Any, beta: Any, threshold: Any) -> Any:
    gate = (self * beta).sigmoid()
    bend = grad * grad_output * beta * gate * (1 - gate)
    return aten.where(self * beta > threshold, 0.0, bend)


softplus = activation(
    "softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
    functional=True,
    scalar=softplus_text,
    inplace=False,
    vjp=lambda grad, self, beta, threshold: aten.softplus_backward(grad, self, beta, threshold),
    samples=lambda make: ((make(3, 4),), (make.strided(3, 4), 2, 1), (make(), 0.5)),
)
softplus_backward = backward_op(
    "softplus_backward(Tensor grad_output, Tensor self, Scalar beta, Scalar threshold) -> Tensor",
    scalar=softplus_backward_text,
    vjp={
        "grad_output": lambda grad, self, beta, threshold: aten.softplus_backward(
            grad, self, beta, threshold
        ),
        "self": softplus_curvature,
    },
    samples=lambda make: ((make(3, 4), make(3, 4), 1, 20), (make(), make(), 2, 1)),
)


@composite(
    "log_sigmoid(Tensor self) -> Tensor",
    exact_out=True,
    method=False,
    function=False,
    samples=one_operand,
)
def log_sigmoid(self: Any) -> Any:
    return aten.log_sigmoid_forward(self)[0]


def log_sigmoid_text(m: Any, x: Any) -> Any:
    small = m.exp(m.negative(m.abs(x)))
    return m.subtract(m.minimum(x, 0), m.log1p(small)), small


log_sigmoid_forward = activation(
    "log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)",
    function=False,
    scalar=log_sigmoid_text,
    inplace=False,
    layout="contiguous",
    kernel_name="log_sigmoid_cpu",
    node="LogSigmoidBackward0",
    non_differentiable=(1,),
    jvp=lambda self_t, self, buffer: (
        aten.log_sigmoid_backward(self_t, self, buffer),
        None,
    ),
    vjp=lambda grad, self, buffer: aten.log_sigmoid_backward(grad, self, buffer),
)


def log_sigmoid_backward_text(m: Any, grad: Any, x: Any, buffer: Any) -> Any:
    negative = m.less(x, 0)
    share = m.divide(buffer, m.add(buffer, 1))
    return m.multiply(grad, m.where(negative, m.subtract(1, share), share))


def log_sigmoid_curvature(grad: Any, grad_output: Any, self: Any) -> Any:
    gate = self.sigmoid()
    return grad * grad_output * (gate - 1) * gate


log_sigmoid_backward = backward_op(
    "log_sigmoid_backward(Tensor grad_output, Tensor self, Tensor buffer) -> Tensor",
    scalar=log_sigmoid_backward_text,
    check=same_dtype_as(1),
    vjp={
        "grad_output": lambda grad, self, buffer: aten.log_sigmoid_backward(grad, self, buffer),
        "self": log_sigmoid_curvature,
    },
    samples=lambda make: ((make(3, 4), x := make(3, 4), (-x.abs()).exp()),),
)


# -- learned and random slopes --------------------------------------------------------------------


@composite(
    "prelu(Tensor self, Tensor weight) -> Tensor",
    functional=True,
    autocast="lower",
    samples=lambda make: (
        (make(2, 3), make(3)),
        (make(2, 3, 2), make(1)),
        (make(4), make(1)),
        (make(2, 3), make()),
    ),
    errors=lambda make: [(RuntimeError, (make(2, 3), make(2))), (RuntimeError, (make(), make(2)))],
)
def prelu(self: Any, weight: Any) -> Any:
    if self._dtype is not weight._dtype:
        raise RuntimeError(
            "prelu: Type promoting not supported. Got "
            f"{self._dtype.scalar_type_name} and {weight._dtype.scalar_type_name}"
        )
    dims, count = self.dim(), weight.numel()
    if geometry.decided(count != 1):
        if dims == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self.shape[1] if dims > 1 else 1
        if channels != count:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}."
            )
    if weight.dim() > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}"
        )
    if geometry.is_size(count, 1):
        weight = weight.reshape([1] * dims) if dims else weight.reshape([])
    else:
        weight = weight.reshape([1, count, *([1] * (dims - 2))] if dims > 1 else [count])
    return aten._prelu_kernel(self, weight)


prelu_kernel = activation(
    "_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
    scalar=lambda m, x, weight: m.where(m.greater(x, 0), x, m.multiply(x, weight)),
    inplace=False,
    check=same_dtype_as(0),
    kernel_name="prelu_cpu",
    node="PreluKernelBackward0",
    vjp=lambda grad, self, weight: aten._prelu_kernel_backward(grad, self, weight),
)


def prelu_backward_text(m: Any, grad: Any, x: Any, weight: Any) -> Any:
    positive = m.greater(x, 0)
    return (
        m.where(positive, grad, m.multiply(grad, weight)),
        m.where(positive, 0, m.multiply(grad, x)),
    )


def prelu_curvature(grads: Any, grad_output: Any, self: Any, weight: Any) -> Any:
    first, second = grads
    positive = self >= 0
    to_grad: Any = None
    to_self, to_weight = aten.zeros_like(self), aten.zeros_like(weight)
    if first is not None:
        to_grad = aten.where(positive, first, first * weight)
        to_weight = aten.where(positive, 0.0, grad_output * first)
    if second is not None:
        share = aten.where(positive, 0.0, second * self)
        to_grad = share if to_grad is None else to_grad + share
        to_self = aten.where(positive, 0.0, grad_output * second)
    return to_grad, to_self, to_weight


prelu_kernel_backward = backward_op(
    "_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, Tensor)",
    scalar=prelu_backward_text,
    kernel_name="prelu_backward_cpu",
    node="PreluKernelBackwardBackward0",
    vjp=prelu_curvature,
)


@composite(
    "rrelu(Tensor self, Scalar lower=0.125, Scalar upper=0.3333333333333333, "
    "bool training=False, Generator? generator=None) -> Tensor",
    functional_inplace=True,
    method=False,
    inplace=True,
    tags=("nondeterministic_seeded", "pointwise"),
    samples=lambda make: ((make(3, 4),), (make(3), 0.1, 0.2), (make(),)),
    errors=lambda make: [(RuntimeError, (make(3), 0.5, 0.1)), (RuntimeError, (make(2), 0.5, 0.1))],
)
def rrelu(self: Any, lower: Any, upper: Any, training: bool, generator: Any) -> Any:
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    noise = aten.empty_like(self)
    return aten.rrelu_with_noise(self, noise, lower, upper, training, generator)


# -- gating ---------------------------------------------------------------------------------------


def halves(self: Any, dim: int) -> tuple[Any, Any]:
    half = self.shape[dim] // 2
    return self.narrow(dim, 0, half), self.narrow(dim, half, half)


def check_glu(sizes: tuple[Any, ...], dtype: dtype, dim: int, backward: bool = False) -> int:
    if not sizes:
        what = "0-dimensional tensors" if backward else "scalars because halving size must be even"
        raise RuntimeError(f"glu does not support {what}")
    if not is_float(dtype):
        if backward and dtype.category < FLOAT:
            name = dtype.scalar_type_name
            raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
        raise unsupported("glu_backward_cpu" if backward else "glu_cpu", dtype)
    dim = geometry.wrap_dim(dim, len(sizes))
    if geometry.decided(sizes[dim] % 2 != 0):
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {sizes[dim]}"
        )
    return dim


def array_halves(xp: Any, x: Any, dim: int) -> Any:
    return xp.split(x, 2, axis=dim)


def sigmoid_array(xp: Any, x: Any) -> Any:
    return 1 / (1 + xp.exp(-x))


glu = op(
    "glu(Tensor self, int dim=-1) -> Tensor",
    batch="along",
    layout="shape",
    function=None,
    method=False,
    vjp=lambda grad, self, dim: aten.glu_backward(grad, self, dim),
    samples=lambda make: ((make(4, 6),), (make(4, 3), 0), (make(2, 4, 2), 1)),
    errors=lambda make: ((RuntimeError, sample(make(3))), (RuntimeError, sample(make()))),
)


@glu.shape
def _(self: Any, dim: int) -> Any:
    dim = check_glu(self.shape, self._dtype, dim)
    sizes = tuple([size // 2 if at == dim else size for at, size in enumerate(self.shape)])
    half = (sizes, strides_of(self))
    return Spec(sizes, self._dtype, geometry.elementwise_strides(sizes, (half, half)))


@glu.kernel
def _(xp: Any, self: Any, dim: int) -> Any:
    check_glu(self.shape, dtypes.from_numpy(self.dtype), dim)
    working = self.astype(xp.float32) if self.dtype.itemsize == 2 else self
    value, gate = array_halves(xp, working, dim)
    return (value * sigmoid_array(xp, gate)).astype(self.dtype)


def glu_tangent(self: Any, tangent: Any, dim: int) -> Any:
    value, gate = halves(self, dim)
    value_tangent, gate_tangent = halves(tangent, dim)
    open_ = gate.sigmoid()
    return value_tangent * open_ + value * open_ * (1 - open_) * gate_tangent


def glu_curvature(grad: Any, grad_output: Any, self: Any, dim: int) -> Any:
    value, gate = halves(self, dim)
    to_value, to_gate = halves(grad, dim)
    open_ = gate.sigmoid()
    slope = open_ * (1 - open_)
    first = to_gate * grad_output * slope
    second = grad_output * slope * (to_value + to_gate * value * (1 - 2 * open_))
    return aten.cat([first, second], dim)


glu_backward = op(
    "glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor",
    batch="along",
    method=False,
    vjp={
        "grad_output": lambda grad, self, dim: glu_tangent(self, grad, dim),
        "self": glu_curvature,
    },
    samples=lambda make: ((make(4, 3), make(4, 6), -1), (make(2, 3), make(4, 3), 0)),
)


def check_glu_backward(grad_sizes: Any, sizes: Any, dtype: dtype, dim: int) -> None:
    """The gradient broadcasts against one half."""
    dim = check_glu(sizes, dtype, dim, backward=True)
    half = tuple([size // 2 if at == dim else size for at, size in enumerate(sizes)])
    found = geometry.broadcast_shapes(half, tuple(grad_sizes))
    if found != half:
        raise RuntimeError(
            f"output with shape {list(half)} doesn't match the broadcast shape {list(found)}"
        )


@glu_backward.shape
def _(grad_output: Any, self: Any, dim: int) -> Any:
    check_glu_backward(grad_output.shape, self.shape, self._dtype, dim)
    return Spec(self.shape, self._dtype)


@glu_backward.kernel
def _(xp: Any, grad_output: Any, self: Any, dim: int) -> Any:
    check_glu_backward(grad_output.shape, self.shape, dtypes.from_numpy(self.dtype), dim)
    narrow = self.dtype.itemsize == 2
    x = self.astype(xp.float32) if narrow else self
    grad = grad_output.astype(xp.float32) if narrow else grad_output
    value, gate = array_halves(xp, x, dim)
    open_ = sigmoid_array(xp, gate)
    parts = (grad * open_, grad * value * open_ * (1 - open_))
    return xp.concatenate(parts, axis=dim).astype(self.dtype)


for record in (elu, hardsigmoid, hardswish, silu, mish):
    record.errors = lambda make: [(NotImplementedError, (make.ints(2),))]
relu6.errors = lambda make: [
    (RuntimeError, (make.mask(2),)),
    (NotImplementedError, (make(2, dtype=dtypes.complex64),)),
]
