"""Special functions: error function, gamma family, Bessel functions, and torch.special's names."""

from __future__ import annotations

import math
from typing import Any

from rushlight.base.errors import error
from rushlight.core.dtype import BOOL, bfloat16, complex64, dtype, finfo, float16, get_default_dtype
from rushlight.core.op import refuse
from rushlight.opset import functions
from rushlight.opset.elementwise import INT_TO_FLOAT
from rushlight.opset.exposure import attribute
from rushlight.opset.pointwise.arithmetic import is_real, one_operand, zeros_where
from rushlight.opset.pointwise.comparison import text_of
from rushlight.opset.pointwise.elementary import product_with
from rushlight.opset.registry import alias, composite, pointwise

SQRT_PI = math.sqrt(math.pi)
SQRT_2PI = math.sqrt(2.0 * math.pi)


def special(name: str, vjp: Any, argument: str = "self", **options: Any) -> Any:
    """A real function of one variable."""
    short = name.removeprefix("special_")
    options.setdefault("scalar", text_of(short))
    options.setdefault("dtypes", is_real)
    if short is not name:
        options.setdefault("kernel_name", f"{short}_cpu")
        options.setdefault("method", False)
        options.setdefault("inplace", False)
    schema = f"{name}(Tensor {argument}) -> Tensor"
    return pointwise(schema, promote=INT_TO_FLOAT, vjp=vjp, **options)


def is_wide(dtype: dtype) -> bool:
    """Real, and no half-precision float."""
    return is_real(dtype) and dtype not in (float16, bfloat16)


# -- the error function and the normal distribution -----------------------------------------------

erf = special(
    "erf",
    lambda grad, self: 2.0 / SQRT_PI * functions.exp(-(self.pow(2))) * grad,
    kernel_name="erf_vml_cpu",
    zero_preserving=True,
    errors=lambda make: [(NotImplementedError, (make(2, dtype=complex64),))],
    on_lists=True,
)
erfc = special(
    "erfc",
    lambda grad, self: -2.0 / SQRT_PI * functions.exp(-(self.pow(2))) * grad,
    kernel_name="erfc_vml_cpu",
    on_lists=True,
)
erfinv = special(
    "erfinv",
    lambda grad, self: 0.5 * SQRT_PI * functions.exp(self.erfinv().pow(2)) * grad,
    kernel_name="erfinv_vml_cpu",
    domain=(-0.9, 0.9),
    zero_preserving=True,
    errors=lambda make: [(NotImplementedError, (make(2, dtype=complex64),))],
)
special(
    "special_erfcx",
    lambda grad, self, result: (2.0 * self * result - 2.0 / SQRT_PI) * grad,
    dtypes=is_wide,
)
special(
    "special_ndtri",
    lambda grad, result: grad * SQRT_2PI * (result.square() / 2).exp(),
    dtypes=is_wide,
    domain=(0.1, 0.9),
)
special(
    "special_log_ndtr",
    lambda grad, self, result: grad / SQRT_2PI * (result + self.pow(2) / 2).neg().exp(),
    dtypes=is_wide,
)


@composite("special_ndtr(Tensor self) -> Tensor", method=False, samples=one_operand)
def special_ndtr(self: Any) -> Any:
    x = self * math.sqrt(0.5)
    z = x.abs()
    half = 0.5 * functions.erfc(z)
    near = 0.5 + 0.5 * functions.erf(x)
    return functions.where(z < math.sqrt(0.5), near, functions.where(x > 0, 1 - half, half))


def entr_text(m: Any, x: Any) -> Any:
    inside = m.negative(m.multiply(x, m.log(m.where(m.greater(x, 0), x, 1))))
    # A branch that is an array keeps the answer in its dtype.
    outside = m.where(m.equal(x, 0), m.multiply(x, x), -math.inf)
    answer = m.where(m.greater(x, 0), inside, outside)
    return m.where(m.isnan(x), x, answer)


special(
    "special_entr",
    lambda grad, self: grad * (-(1 + self.log())),
    scalar=entr_text,
    domain=(0.25, None),
)


# -- the gamma function ---------------------------------------------------------------------------

lgamma = special(
    "lgamma",
    lambda grad, self: grad * functions.digamma(self),
    kernel_name="lgamma_vml_cpu",
    domain=(0.25, None),
    errors=lambda make: [(NotImplementedError, (make(2, dtype=complex64),))],
    on_lists=True,
)
digamma = special(
    "digamma",
    lambda grad, self: grad * functions.polygamma(1, self),
    kernel_name="digamma",
    domain=(0.25, None),
)


def check_polygamma(common: dtype, args: tuple[Any, ...]) -> None:
    if args[0] < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")


polygamma = pointwise(
    "polygamma(int n, Tensor self) -> Tensor",
    errors=lambda make: [(RuntimeError, (-1, make(2)))],
    scalar=lambda m, n, x: m.polygamma(n, x),
    promote=INT_TO_FLOAT,
    inplace=False,
    method=False,
    dtypes=is_real,
    check=check_polygamma,
    vjp=lambda grad, n, self: grad * functions.polygamma(n + 1, self),
    samples=lambda make: ((0, make.positive(3, 4)), (1, make.positive(3)), (2, make.positive())),
)


def polygamma_method(self: Any, n: int) -> Any:
    """`x.polygamma(n)`: the order comes second."""
    return functions.polygamma(n, self)


def polygamma_inplace(self: Any, n: int) -> Any:
    return self.copy_(functions.polygamma(n, self.clone()))


for function, name in ((polygamma_method, "polygamma"), (polygamma_inplace, "polygamma_")):
    function.__name__ = function.__qualname__ = name
    attribute(name, function)


def check_mvlgamma(common: dtype, args: tuple[Any, ...]) -> None:
    if common.category == BOOL:
        raise RuntimeError("The input tensor may not be a boolean tensor.")
    if args[1] < 1:
        raise RuntimeError("p has to be greater than or equal to 1")


def mvlgamma_text(m: Any, x: Any, p: int) -> Any:
    total = m.lgamma(x)
    for j in range(1, p):
        total = m.add(total, m.lgamma(m.subtract(x, j / 2)))
    return m.add(total, p * (p - 1) / 4 * math.log(math.pi))


def mvlgamma_gradient(grad: Any, self: Any, p: int) -> Any:
    slope = functions.digamma(self)
    for j in range(1, p):
        slope = slope + functions.digamma(self - j / 2)
    return grad * slope


mvlgamma = pointwise(
    "mvlgamma(Tensor self, int p) -> Tensor",
    errors=lambda make: [(RuntimeError, (make.positive(2), 0))],
    scalar=mvlgamma_text,
    layout="contiguous",
    promote=INT_TO_FLOAT,
    dtypes=is_real,
    check=check_mvlgamma,
    vjp=mvlgamma_gradient,
    samples=lambda make: ((make(3, 4, low=3, high=6), 2), (make(low=3, high=6), 1)),
)


def power_density(grad: Any, self: Any, other: Any) -> Any:
    return grad * functions.exp((self - 1) * functions.log(other) - other - functions.lgamma(self))


def no_gradient_in_order(name: str) -> Any:
    def refuse(grad: Any) -> Any:
        raise error("RL0603", NotImplementedError, name=f"{name}: input")

    return refuse


def incomplete_gamma(name: str, sign: int) -> None:
    pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        scalar=text_of(name),
        numbers=False,
        dtypes=lambda dtype: dtype.is_floating_point,
        vjp={
            "self": no_gradient_in_order(name),
            "other": lambda grad, self, other: power_density(grad, self, other) * sign,
        },
        samples=lambda make: (
            (make.positive(3, 4), make.positive(3, 4)),
            (make.positive(3), make.positive()),
        ),
    )


incomplete_gamma("igamma", 1)
incomplete_gamma("igammac", -1)


# -- Bessel functions -----------------------------------------------------------------------------


def i1_gradient(grad: Any, self: Any, result: Any) -> Any:
    # Around zero i1(x) / x is 1/2, which the quotient cannot tell.
    tiny = (self.abs() > spacing_at_one(self)).logical_not()
    safe = functions.where(tiny, 1.0, self)
    return grad * functions.where(tiny, 0.5, functions.i0(safe) - result * safe.reciprocal())


def i1e_gradient(grad: Any, self: Any, result: Any) -> Any:
    tiny = (self.abs() > spacing_at_one(self)).logical_not()
    safe = functions.where(tiny, 1.0, self)
    slope = functions.special_i0e(safe) - result * (safe.sgn() + safe.reciprocal())
    return grad * functions.where(tiny, 0.5, slope)


def spacing_at_one(self: Any) -> float:
    dtype = self._dtype if self._dtype.is_floating_point else get_default_dtype()
    return finfo(dtype).eps


i0 = special("i0", lambda grad, self: grad * functions.special_i1(self), kernel_name="i0_vml_cpu")
special(
    "special_i0e",
    lambda grad, self, result: grad * (functions.special_i1e(self) - self.sgn() * result),
)
special("special_i1", i1_gradient)
special("special_i1e", i1e_gradient)


NO_DERIVATIVE = refuse("no derivative is defined for it")
for name in ("j0", "j1", "y0", "y1"):
    special(f"special_bessel_{name}", NO_DERIVATIVE, dtypes=is_wide)
for name in ("i0", "i1", "k0", "k1"):
    special(f"special_modified_bessel_{name}", NO_DERIVATIVE, dtypes=is_wide)
for name in ("scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0"):
    special(f"special_{name}", NO_DERIVATIVE, argument="x", dtypes=is_wide)


# -- two variables --------------------------------------------------------------------------------


def two_variables(
    name: str,
    text: Any,
    gradients: dict[str, Any],
    number_gradient: Any,
    admits: Any = is_real,
) -> None:
    """A function of two real variables, either of which may be a number."""
    options: dict[str, Any] = {
        "promote": INT_TO_FLOAT,
        "dtypes": admits,
        "scalar": text,
        "kernel_name": f"{name.removeprefix('special_')}_cpu",
        "method": False,
        "inplace": False,
    }
    pointwise(
        f"{name}(Tensor self, Tensor other) -> Tensor",
        numbers=False,
        vjp=gradients,
        domain=(1.25, None),
        **options,
    )
    pointwise(
        f"{name}.self_scalar(Scalar self, Tensor other) -> Tensor",
        promoted_scalars=(0,),
        numbers=False,
        node_index=1,
        vjp=gradients["other"],
        samples=lambda make: ((2.0, make.positive(3, 4)), (3, make.positive())),
        **options,
    )
    pointwise(
        f"{name}.other_scalar(Tensor self, Scalar other) -> Tensor",
        promoted_scalars=(1,),
        node_index=2,
        vjp=number_gradient,
        samples=lambda make: ((make(3, 4, low=1.5, high=4), 2.0), (make(low=1.5, high=4), 3)),
        **options,
    )


two_variables(
    "special_xlog1py",
    product_with("log1p"),
    {
        "self": lambda grad, self, other: zeros_where(
            (self == 0.0) & (other <= -1.0), functions.special_xlog1py(grad, other)
        ),
        "other": lambda grad, self, other: grad * self / (other + 1),
    },
    lambda grad, self, other: (
        functions.special_xlog1py(grad, other)
        if other > -1
        else zeros_where(self == 0.0, functions.special_xlog1py(grad, other))
    ),
)


def refuse_zeta(grad: Any) -> Any:
    raise error("RL0603", NotImplementedError, name="zeta")


two_variables(
    "special_zeta",
    lambda m, x, q: m.zeta(x, q),
    {
        "self": refuse_zeta,
        "other": lambda grad, self, other: grad * -self * functions.special_zeta(self + 1.0, other),
    },
    refuse_zeta,
    is_wide,
)


# -- torch.special's names for ops that have another ----------------------------------------------

for second, first in (
    ("special_erf", "erf"),
    ("special_erfc", "erfc"),
    ("special_erfinv", "erfinv"),
    ("special_exp2", "exp2"),
    ("special_expit", "sigmoid"),
    ("special_expm1", "expm1"),
    ("special_gammaln", "lgamma"),
    ("special_digamma", "digamma"),
    ("special_psi", "digamma"),
    ("special_polygamma", "polygamma"),
    ("special_multigammaln", "mvlgamma"),
    ("special_gammainc", "igamma"),
    ("special_gammaincc", "igammac"),
    ("special_i0", "i0"),
    ("special_log1p", "log1p"),
    ("special_logit", "logit"),
    ("special_round", "round"),
    ("special_sinc", "sinc"),
    ("special_xlogy", "xlogy"),
):
    alias(second, first, method=False)


# -- along a dim ----------------------------------------------------------------------------------


def dim_samples(make: Any) -> Any:
    return [(make(3, 4), 1), (make.strided(3, 4), 0), (make(), 0)]


def dim_errors(make: Any) -> Any:
    return [(IndexError, (make(3, 4), 5))]


@composite(
    "special_logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    method=False,
    samples=lambda make: [*dim_samples(make), (make(2, 3, 2), (0, -1), True)],
    errors=dim_errors,
)
def special_logsumexp(self: Any, dim: Any, keepdim: bool) -> Any:
    return functions.logsumexp(self, dim, keepdim)


@composite(
    "special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
    method=False,
    out=False,
    samples=dim_samples,
    errors=dim_errors,
)
def special_softmax(self: Any, dim: int, dtype: Any) -> Any:
    return functions.softmax(self, dim, dtype)


@composite(
    "special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
    method=False,
    out=False,
    samples=dim_samples,
    errors=dim_errors,
)
def special_log_softmax(self: Any, dim: int, dtype: Any) -> Any:
    return functions.log_softmax(self, dim, dtype)
