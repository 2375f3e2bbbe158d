"""Elementary functions: size and rounding, exponentials and logarithms, trigonometric and
hyperbolic functions, and the functions of two variables made of them.

Derivatives are those of holomorphic functions where an op admits complex numbers.
"""

from __future__ import annotations

import math
from typing import Any

from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.device import strided
from rushlight.core.dtype import (
    BOOL,
    COMPLEX,
    FLOAT,
    complex64,
    dtype,
    finfo,
    from_numpy,
    int32,
    unsupported,
)
from rushlight.core.tensor import strides_of
from rushlight.opset import functions
from rushlight.opset.elementwise import (
    COMPLEX_TO_FLOAT,
    INT_TO_FLOAT,
    NARROW,
    PAIRS,
    refuse_complex,
)
from rushlight.opset.exposure import method_alias
from rushlight.opset.kinds import Spec
from rushlight.opset.pointwise.arithmetic import (
    LN2,
    is_float,
    is_inexact,
    is_integer,
    is_number_type,
    is_real,
    sample_of,
    underivable,
    zeros_where,
)
from rushlight.opset.pointwise.comparison import WHOLE_NUMBERS, no_gradient, text_of
from rushlight.opset.registry import alias, find, op, pointwise
from rushlight.opset.rules import conj

LN10 = math.log(10.0)


def is_not_bool(dtype: dtype) -> bool:
    return dtype.category != BOOL


# -- size and sign --------------------------------------------------------------------------------


def check_abs_(self: Any) -> None:
    if self._dtype.is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors.")


abs = pointwise(
    "abs(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.abs(x),
    promote=COMPLEX_TO_FLOAT,
    dtypes=is_not_bool,
    inplace_check=check_abs_,
    narrow=NARROW,
    vjp=lambda grad, self: grad * self.sgn(),
    on_lists=True,
)
sign = pointwise(
    "sign(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.sign(x),
    dtypes=is_real,
    check=refuse_complex(
        "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use "
        "torch.sgn instead.",
        NotImplementedError,
    ),
    vjp=no_gradient,
    on_lists=True,
)


def sgn_gradient(grad: Any, self: Any, result: Any) -> Any:
    """Of z / |z|: what is left of the gradient across the direction of z."""
    if not self._dtype.is_complex:
        return functions.zeros_like(grad)
    size = self.abs()
    along = functions.real(conj(result) * grad) * result
    slope = (grad - along) / size
    return zeros_where(size == 0, slope)


sgn = pointwise(
    "sgn(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.sign(x),
    narrow=PAIRS,
    vjp=sgn_gradient,
)


# -- rounding -------------------------------------------------------------------------------------


def rounding(name: str, *, complex_check: bool = True) -> None:
    options: dict[str, Any] = {"dtypes": is_number_type, "kernel_name": f"{name}_vml_cpu"}
    if complex_check:
        options["check"] = refuse_complex(
            f"{name} is not supported for complex inputs", NotImplementedError
        )
    pointwise(
        f"{name}(Tensor self) -> Tensor",
        zero_preserving=True,
        on_lists=True,
        scalar=text_of(name),
        vjp=no_gradient,
        **options,
    )


rounding("floor")
rounding("ceil")
rounding("trunc")
rounding("round", complex_check=False)
for record in (find("floor"), find("ceil")):
    record.errors = lambda make: [(NotImplementedError, (make(2, dtype=complex64),))]


def round_text(m: Any, x: Any, decimals: int) -> Any:
    if decimals == 0:
        return m.round(x)
    scale = 10.0**-decimals if decimals < 0 else 10.0**decimals
    if decimals < 0:
        return m.multiply(m.round(m.divide(x, scale)), scale)
    return m.divide(m.round(m.multiply(x, scale)), scale)


pointwise(
    "round.decimals(Tensor self, *, int decimals) -> Tensor",
    scalar=round_text,
    dtypes=is_float,
    kernel_name="round_cpu",
    node_index=1,
    vjp=no_gradient,
    samples=lambda make: (
        sample_of(make(3, 4), decimals=1),
        sample_of(make(3), decimals=-1),
        sample_of(make(), decimals=0),
    ),
)
frac = pointwise(
    "frac(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.subtract(x, m.trunc(x)),
    dtypes=is_float,
    vjp=lambda grad: grad,
    on_lists=True,
)


nan_to_num = op(
    "nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
    zero_preserving=True,
    batch="straight",
    exact_out=True,
    layout="like",
    inplace=True,
    vjp=lambda grad, self: grad * self.isfinite(),
    jvp="elementwise",
    samples=lambda make: (
        (make.special(3, 4),),
        sample_of(make.special(5), nan=1.0, posinf=2.0, neginf=-2.0),
        (make(),),
    ),
)


@nan_to_num.shape
def _(self: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    return Spec(self.shape, self._dtype, geometry.like_strides(self.shape, strides_of(self)))


@nan_to_num.kernel
def _(xp: Any, self: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    dtype = from_numpy(self.dtype)
    if dtype.category < FLOAT:
        return self.copy()
    if dtype.category == COMPLEX:
        answer = xp.empty(self.shape, self.dtype)
        answer.real = finite_part(xp, self.real, dtype.real, nan, posinf, neginf)
        answer.imag = finite_part(xp, self.imag, dtype.real, nan, posinf, neginf)
        return answer
    return finite_part(xp, self, dtype, nan, posinf, neginf)


def finite_part(xp: Any, x: Any, dtype: dtype, nan: Any, posinf: Any, neginf: Any) -> Any:
    answer = xp.array(x, order="C")
    if xp.isfinite(x).all():
        return answer
    number = dtype.np.type
    for value, given in zip((math.inf, -math.inf), replaced(dtype, posinf, neginf), strict=True):
        xp.copyto(answer, number(given), where=x == number(value))
    xp.copyto(answer, number(0.0 if nan is None else nan), where=x != x)
    return answer


def replaced(dtype: dtype, posinf: Any, neginf: Any) -> tuple[Any, Any]:
    """What stands for the infinities."""
    largest = finfo(dtype).max
    return largest if posinf is None else posinf, -largest if neginf is None else neginf


@nan_to_num.lower
def _(build: Any, op: Any, self: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if self.dtype.category != FLOAT:
        build.refuse(f"{self.dtype}")
    m, x = build.m, build.widen(self)
    above, below = replaced(self.dtype, posinf, neginf)
    found = m.where(m.equal(x, math.inf), above, m.where(m.equal(x, -math.inf), below, x))
    return build.cast(m.where(m.isnan(x), 0.0 if nan is None else nan, found), self.dtype)


def check_frexp(common: dtype, args: tuple[Any, ...]) -> None:
    if not is_float(common):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")


frexp = pointwise(
    "frexp.Tensor(Tensor self) -> (Tensor mantissa, Tensor exponent)",
    scalar=lambda m, x: m.frexp(x),
    inplace=False,
    dtypes=is_float,
    check=check_frexp,
    non_differentiable=(1,),
    vjp=lambda grad, exponent: grad / exponent.exp2(),
    jvp=lambda self_t, exponent: (self_t / exponent.exp2(), None),
)


@frexp.shape
def _(self: Any) -> Any:
    strides = geometry.like_strides(self.shape, strides_of(self))
    return Spec(self.shape, self._dtype, strides), Spec(self.shape, int32, strides)


rad2deg = pointwise(
    "rad2deg(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.multiply(x, 180.0 / math.pi),
    promote=INT_TO_FLOAT,
    dtypes=is_real,
    check=refuse_complex("rad2deg is not supported for complex tensors."),
    vjp=lambda grad: grad * (180.0 / math.pi),
)
deg2rad = pointwise(
    "deg2rad(Tensor self) -> Tensor",
    zero_preserving=True,
    scalar=lambda m, x: m.multiply(x, math.pi / 180.0),
    promote=INT_TO_FLOAT,
    dtypes=is_real,
    check=refuse_complex("deg2rad is not supported for complex tensors."),
    vjp=lambda grad: grad * (math.pi / 180.0),
)


# -- exponentials and logarithms ------------------------------------------------------------------


def floating(name: str, vjp: Any, **options: Any) -> Any:
    """A function of one variable that integers enter as floats."""
    options.setdefault("scalar", text_of(name))
    return pointwise(f"{name}(Tensor self) -> Tensor", promote=INT_TO_FLOAT, vjp=vjp, **options)


exp = floating("exp", lambda grad, result: grad * conj(result), on_lists=True)
exp2 = floating("exp2", lambda grad, result: grad * conj(result) * LN2)
expm1 = floating(
    "expm1", lambda grad, result: grad * (conj(result) + 1), zero_preserving=True, on_lists=True
)
log = floating("log", lambda grad, self: grad.div(conj(self)), domain=(0.25, None), on_lists=True)
log2 = floating(
    "log2", lambda grad, self: grad / (conj(self) * LN2), domain=(0.25, None), on_lists=True
)
log10 = floating(
    "log10", lambda grad, self: grad / (conj(self) * LN10), domain=(0.25, None), on_lists=True
)


def log1p_grad(grad: Any, self: Any) -> Any:
    if self.layout is strided:
        return grad / conj(self + 1)
    # A sum with one is dense; a product with a sparse gradient has its pattern.
    return grad * conj(self.to_dense() + 1).reciprocal()


log1p = floating(
    "log1p",
    lambda grad, self: log1p_grad(grad, self),
    domain=(-0.5, None),
    zero_preserving=True,
    on_lists=True,
)
sqrt = floating(
    "sqrt",
    lambda grad, result: grad / (2 * conj(result)),
    domain=(0.25, None),
    zero_preserving=True,
    on_lists=True,
)
rsqrt = floating(
    "rsqrt",
    lambda grad, result: -0.5 * grad * conj(result.pow(3)),
    domain=(0.25, None),
    on_lists=True,
)


# -- trigonometric and hyperbolic -----------------------------------------------------------------

sin = floating(
    "sin", lambda grad, self: grad * conj(self.cos()), zero_preserving=True, on_lists=True
)
cos = floating("cos", lambda grad, self: grad * conj(-self.sin()), on_lists=True)
tan = floating(
    "tan",
    lambda grad, result: grad * conj(1 + result.pow(2)),
    domain=(-1.4, 1.4),
    zero_preserving=True,
    on_lists=True,
)
asin = floating(
    "asin",
    lambda grad, self: grad * conj((-self * self + 1).rsqrt()),
    domain=(-0.9, 0.9),
    zero_preserving=True,
    on_lists=True,
)
acos = floating(
    "acos",
    lambda grad, self: grad * conj(-((-self * self + 1).rsqrt())),
    domain=(-0.9, 0.9),
    on_lists=True,
)
atan = floating(
    "atan", lambda grad, self: grad / conj(self * self + 1), zero_preserving=True, on_lists=True
)
sinh = floating(
    "sinh", lambda grad, self: grad * conj(self.cosh()), zero_preserving=True, on_lists=True
)
cosh = floating("cosh", lambda grad, self: grad * conj(self.sinh()), on_lists=True)
asinh = floating(
    "asinh", lambda grad, self: grad * conj((self.pow(2) + 1).rsqrt()), zero_preserving=True
)


def acosh_gradient(grad: Any, self: Any) -> Any:
    if self._dtype.is_complex:
        return grad * conj((self + 1).rsqrt() * (self - 1).rsqrt())
    return grad * (self * self - 1).rsqrt()


acosh = floating("acosh", acosh_gradient, domain=(1.25, None))
atanh = floating(
    "atanh",
    lambda grad, self: grad * 1 / conj(1 - self.pow(2)),
    domain=(-0.9, 0.9),
    zero_preserving=True,
)
tanh = floating(
    "tanh",
    lambda grad, result: functions.tanh_backward(grad, result),
    zero_preserving=True,
    on_lists=True,
)
sigmoid = floating(
    "sigmoid", lambda grad, result: functions.sigmoid_backward(grad, result), on_lists=True
)
tanh_backward = pointwise(
    "tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
    dtypes=is_inexact,
    scalar=lambda m, grad, y: m.multiply(grad, m.conj(1 - y * y)),
    numbers=False,
    inplace=False,
    method=False,
    vjp={
        "grad_output": lambda grad, output: functions.tanh_backward(grad, conj(output)),
        "output": lambda grad, grad_output, output: conj(grad) * (-2 * conj(output) * grad_output),
    },
)
sigmoid_backward = pointwise(
    "sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor",
    dtypes=is_inexact,
    scalar=lambda m, grad, y: m.multiply(grad, m.conj((1 - y) * y)),
    numbers=False,
    inplace=False,
    method=False,
    vjp={
        "grad_output": lambda grad, output: functions.sigmoid_backward(grad, conj(output)),
        "output": lambda grad, grad_output, output: (
            conj(grad) * grad_output * (-2 * conj(output) + 1)
        ),
    },
)


def sinc_gradient(grad: Any, self: Any) -> Any:
    angle = self * math.pi
    square = self * self * math.pi
    slope = grad * conj((angle * angle.cos() - angle.sin()) / square)
    return functions.where(square == 0, 0, slope)


def sinc_text(m: Any, x: Any) -> Any:
    angle = m.multiply(x, math.pi)
    nonzero = m.where(m.equal(x, 0), 1, angle)
    return m.where(m.equal(x, 0), 1, m.divide(m.sin(nonzero), nonzero))


sinc = floating("sinc", sinc_gradient, scalar=sinc_text)


def logit_text(m: Any, x: Any, eps: Any) -> Any:
    if eps is not None:
        # Bounds in conflict: torch looks at the lower one first, and it wins.
        x = m.where(m.less(x, eps), eps, m.minimum(x, 1 - eps))
    return m.log(m.divide(x, m.subtract(1, x)))


def logit_gradient(grad: Any, self: Any, eps: Any) -> Any:
    slope = grad / (self * (1.0 - self))
    if eps is None:
        outside = (self < 0.0).logical_or(self > 1.0)
        return functions.where(outside, math.nan, slope)
    return functions.where((self < eps).logical_or(self > 1.0 - eps), 0.0, slope)


logit = pointwise(
    "logit(Tensor self, float? eps=None) -> Tensor",
    scalar=logit_text,
    promote=INT_TO_FLOAT,
    dtypes=is_real,
    kernel_name="logit_cpu",
    vjp=logit_gradient,
    samples=lambda make: (
        (make(3, 4, low=0.1, high=0.9),),
        (make(3, low=0.1, high=0.9), 0.25),
        (make(low=0.1, high=0.9), 1e-3),
    ),
)


# -- two variables --------------------------------------------------------------------------------


def copysign_gradient(grad: Any, self: Any, result: Any) -> Any:
    ratio = result / self
    return grad * zeros_where(self == 0, ratio)


copysign = pointwise(
    "copysign.Tensor(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.copysign(x, y),
    promote=INT_TO_FLOAT,
    numbers=False,
    dtypes=is_real,
    vjp={
        "self": copysign_gradient,
        "other": lambda other: functions.zeros_like(other),
    },
)
pointwise(
    "copysign.Scalar(Tensor self, Scalar other) -> Tensor",
    scalar=copysign.options["scalar"],
    promote=INT_TO_FLOAT,
    promoted_scalars=(1,),
    dtypes=is_real,
    node_index=1,
    vjp=copysign_gradient,
    samples=lambda make: ((make(3, 4), -1), (make(), 2.0)),
)


def no_derivative(name: str) -> Any:
    def refuse_gradient(grad: Any) -> Any:
        raise error("RL0603", NotImplementedError, name=name)

    return refuse_gradient


nextafter = pointwise(
    "nextafter(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(NotImplementedError, (make.ints(2), make.ints(2)))],
    scalar=lambda m, x, y: m.nextafter(x, y),
    numbers=False,
    dtypes=is_float,
    native_halves=True,
    kernel_name="nextafter_cpu",
    # torch: has had a derivative since 2.6 only.
    vjp={name: no_derivative("nextafter") for name in ("self", "other")},
)
hypot = pointwise(
    "hypot(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(NotImplementedError, (make(2), make(2, dtype=complex64)))],
    scalar=lambda m, x, y: m.hypot(x, y),
    numbers=False,
    dtypes=is_float,
    kernel_name="hypot_cpu",
    vjp={
        "self": lambda grad, self, result: grad * self / result,
        "other": lambda grad, other, result: grad * other / result,
    },
)


def atan2_share(grad: Any, self: Any, other: Any) -> Any:
    square = (self * self + other * other).reciprocal()
    return grad * zeros_where((self == 0) & (other == 0), square)


atan2 = pointwise(
    "atan2(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(NotImplementedError, (make(2, dtype=complex64), make(2)))],
    scalar=lambda m, x, y: m.atan2(x, y),
    promote=INT_TO_FLOAT,
    numbers=False,
    dtypes=is_real,
    vjp={
        "self": lambda grad, self, other: atan2_share(grad, self, other) * other,
        "other": lambda grad, self, other: atan2_share(grad, self, other) * -self,
    },
)
logaddexp = pointwise(
    "logaddexp(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.logaddexp(x, y),
    numbers=False,
    inplace=False,
    dtypes=lambda dtype: dtype.category >= FLOAT,
    vjp={
        "self": lambda grad, self, other: grad / conj(1 + functions.exp(other - self)),
        "other": lambda grad, self, other: grad / conj(1 + functions.exp(self - other)),
    },
)
logaddexp2 = pointwise(
    "logaddexp2(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.logaddexp2(x, y),
    numbers=False,
    inplace=False,
    dtypes=is_float,
    vjp={
        "self": lambda grad, self, other: grad / (1 + functions.pow(2, other - self)),
        "other": lambda grad, self, other: grad / (1 + functions.pow(2, self - other)),
    },
)


def product_with(function: str) -> Any:
    """x * f(y), which is 0 where x is, whatever f(y) is, unless y is nan."""

    def text(m: Any, x: Any, y: Any) -> Any:
        product = m.multiply(x, getattr(m, function)(y))
        zero = m.logical_and(m.equal(x, 0), m.logical_not(m.isnan(y)))
        return m.where(zero, 0, product)

    return text


xlogy = pointwise(
    "xlogy.Tensor(Tensor self, Tensor other) -> Tensor",
    scalar=product_with("log"),
    promote=INT_TO_FLOAT,
    numbers=False,
    dtypes=is_real,
    domain=(0.25, None),
    vjp={
        "self": lambda grad, self, other: zeros_where(
            (self == 0.0) & (other <= 0.0), functions.xlogy(grad, other)
        ),
        "other": lambda grad, self, other: grad * self / other,
    },
)
pointwise(
    "xlogy.Scalar_Self(Scalar self, Tensor other) -> Tensor",
    scalar=xlogy.options["scalar"],
    promote=INT_TO_FLOAT,
    promoted_scalars=(0,),
    numbers=False,
    dtypes=is_real,
    inplace=False,
    method=False,
    node_index=1,
    vjp=lambda grad, self, other: grad * self / other,
    samples=lambda make: ((2.0, make.positive(3, 4)), (0, make.positive())),
)
pointwise(
    "xlogy.Scalar_Other(Tensor self, Scalar other) -> Tensor",
    scalar=xlogy.options["scalar"],
    promote=INT_TO_FLOAT,
    promoted_scalars=(1,),
    dtypes=is_real,
    node_index=2,
    vjp=lambda grad, self, other: (
        functions.xlogy(grad, other)
        if other > 0
        else zeros_where(self == 0.0, functions.xlogy(grad, other))
    ),
    samples=lambda make: ((make(3, 4), 2.0), (make(), 3)),
)


def check_ldexp(common: dtype, args: tuple[Any, ...]) -> None:
    if args[1]._dtype.category == BOOL and args[0]._dtype.category == FLOAT:
        raise unsupported("ldexp_cpu_exp", args[1]._dtype)


ldexp = pointwise(
    "ldexp.Tensor(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2), make(3)))],
    scalar=lambda m, x, y: m.multiply(x, m.exp2(y)),
    promote=INT_TO_FLOAT,
    check=check_ldexp,
    numbers=False,
    vjp={
        "self": lambda grad, other: grad * conj(functions.pow(2.0, other)),
        "other": lambda grad, result: grad * conj(result) * LN2,
    },
    samples=lambda make: (
        (make(3, 4), make(3, 4)),
        (make(2, 3), make.ints(3, low=0, high=4)),
        (make.strided(3, 4), make(4)),
        (make(), make()),
    ),
)
gcd = pointwise(
    "gcd(Tensor self, Tensor other) -> Tensor",
    errors=lambda make: [(NotImplementedError, (make(2), make(2)))],
    scalar=lambda m, x, y: m.gcd(x, y),
    numbers=False,
    dtypes=is_integer,
    vjp=WHOLE_NUMBERS,
)
lcm = pointwise(
    "lcm(Tensor self, Tensor other) -> Tensor",
    scalar=lambda m, x, y: m.lcm(x, y),
    numbers=False,
    dtypes=is_integer,
    vjp=WHOLE_NUMBERS,
)


def check_heaviside(common: dtype, args: tuple[Any, ...]) -> None:
    if COMPLEX in (args[0]._dtype.category, args[1]._dtype.category):
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if args[0]._dtype is not args[1]._dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


heaviside = pointwise(
    "heaviside(Tensor self, Tensor values) -> Tensor",
    exact_out=True,
    scalar=lambda m, x, values: m.heaviside(x, values),
    numbers=False,
    dtypes=is_real,
    check=check_heaviside,
    node="torch::autograd::NotImplemented",
    vjp={name: underivable("aten::heaviside") for name in ("self", "values")},
)

for second, first in (
    ("absolute", "abs"),
    ("fix", "trunc"),
    ("arcsin", "asin"),
    ("arccos", "acos"),
    ("arctan", "atan"),
    ("arcsinh", "asinh"),
    ("arccosh", "acosh"),
    ("arctanh", "atanh"),
    ("arctan2", "atan2"),
):
    alias(second, first)
    method_alias(second + "_", first + "_")
