"""Random slopes of rectifiers, and derivatives of Dirichlet samples.

`rrelu_with_noise` writes the slopes that it drew into its argument `noise`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays import sampling
from rushlight.arrays.numpy_ import where
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.dtype import unsupported
from rushlight.core.history import check_inplace
from rushlight.core.op import OpOverload, refuse
from rushlight.core.state import LOCAL
from rushlight.opset import functions
from rushlight.opset.creation.copy import preserved
from rushlight.opset.creation.random import (
    SEEDED,
    SEEDED_FUNCTION,
    SERIES_LIMIT,
    SERIES_PRECISION,
    digamma,
    drawn_from,
    is_single_or_double,
    refuse_dtype,
)
from rushlight.opset.kinds import RANDOM, Spec, common_device
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import not_differentiable, sample

# -- rrelu -----------------------------------------------------------------------------------------

SLOPES = "Scalar lower=0.125, Scalar upper=0.33333333333333331, bool training=False"


def check_noise(self: Any, noise: Any) -> None:
    if not geometry.same_sizes(self.shape, noise.shape):
        raise RuntimeError(
            f"noise tensor shape must match self tensor shape. Got self.shape = "
            f"{list(self.shape)} noise.shape = {list(noise.shape)}"
        )
    if not self._dtype.is_floating_point:
        raise unsupported("rrelu_with_noise_out_cpu", self._dtype)


rrelu_with_noise_functional: OpOverload = op(
    f"rrelu_with_noise_functional(Tensor self, Tensor noise, {SLOPES}, "
    "Generator? generator=None) -> (Tensor, Tensor noise_out)",
    kind=RANDOM,
    method=False,
    function=False,
    layout="shape",
    tags=SEEDED,
    node="RreluWithNoiseBackward0",
    differentiable=["self"],
    non_differentiable=(1,),
)


@rrelu_with_noise_functional.shape
def _(self: Any, noise: Any, lower: Any, upper: Any, training: bool, generator: Any) -> Any:
    check_noise(self, noise)
    first = Spec(self.shape, self._dtype, preserved(self, None))
    return first, Spec(noise.shape, noise._dtype, preserved(noise, None))


@rrelu_with_noise_functional.kernel
def _(
    xp: Any, self: Any, noise: Any, lower: Any, upper: Any, training: bool, generator: Any
) -> Any:
    wide = np.float32 if self.dtype.itemsize == 2 else self.dtype.type
    if not training:
        slope = np.asarray((float(lower) + float(upper)) / 2, wide)
        values = self.astype(wide)
        return where(self <= 0, values * slope, values).astype(self.dtype), noise.copy()
    # torch: a slope is drawn for what is not positive only, in double precision, and rounded to a
    # narrow type when it is kept only.
    chosen = self <= 0
    slopes = xp.ones(self.shape, wide)
    drawn = sampling.uniform(drawn_from(generator), (int(chosen.sum()),), xp.float64)
    first, last = float(wide(lower)), float(wide(upper))
    slopes[chosen] = drawn * (last - first) + first
    return (self.astype(wide) * slopes).astype(self.dtype), slopes.astype(noise.dtype)


@composite(
    f"rrelu_with_noise(Tensor self, Tensor(b!) noise, {SLOPES}, Generator? generator=None) "
    "-> Tensor",
    **SEEDED_FUNCTION,
    function=False,
)
def rrelu_with_noise(
    self: Any, noise: Any, lower: Any, upper: Any, training: bool, generator: Any
) -> Any:
    common_device(rrelu_with_noise_functional, [self, noise])
    # Slopes are written in training only, but the argument must always be fit for it.
    check_inplace(noise, LOCAL.state.grad, False)
    result, slopes = call(
        rrelu_with_noise_functional, (self, noise, lower, upper, training, generator)
    )
    if training:
        noise.copy_(slopes)
    # torch: only the functional form keeps strides.
    return result.contiguous()


@composite(
    f"rrelu_with_noise_(Tensor(a!) self, Tensor(b!) noise, {SLOPES}, Generator? generator=None) "
    "-> Tensor(a!)",
    **SEEDED_FUNCTION,
    function=False,
)
def rrelu_with_noise_(
    self: Any, noise: Any, lower: Any, upper: Any, training: bool, generator: Any
) -> Any:
    # What is saved for the gradient must survive the write.
    source = self.clone() if self.requires_grad else self
    return self.copy_(functions.rrelu_with_noise(source, noise, lower, upper, training, generator))


@composite(
    "rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, "
    "Scalar upper, bool training, bool self_is_result) -> Tensor",
    method=False,
    function=False,
)
def rrelu_with_noise_backward(
    grad_output: Any, self: Any, noise: Any, lower: Any, upper: Any, training: bool,
    self_is_result: bool,
) -> Any:  # fmt: skip
    if training and upper - lower > 1e-6:
        return grad_output.mul(noise)
    slope = (lower + upper) / 2
    return functions.leaky_relu_backward(grad_output, self, slope, self_is_result)


@rrelu_with_noise_functional.vjp
def _(grad: Any, self: Any, noise_out: Any, lower: Any, upper: Any, training: bool) -> Any:
    return rrelu_with_noise_backward(grad, self, noise_out, lower, upper, training, False)


def slope_samples(make: Any) -> Any:
    # Without training nothing is random.
    yield make(2, 3), make(2, 3)
    yield make.strided(2, 3), make(2, 3), 0.25, 0.5
    yield make(), make()


def slope_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3), make(2))


for record in (rrelu_with_noise_functional, rrelu_with_noise):
    record.samples = slope_samples
    record.errors = slope_errors
rrelu_with_noise_.samples = refuse("its functional form has them")
rrelu_with_noise_backward.samples = lambda make: [
    (make(2, 3), make(2, 3), make(2, 3), 0.25, 0.5, True, False),
    (make(2, 3), make(2, 3), make(2, 3), 0.25, 0.5, False, False),
]


# -- the derivative of Dirichlet samples -----------------------------------------------------------


def series(argument: Any, first: Any, start: Any, weight: Any, falling: Any) -> Any:
    """The sum over n of t_n * (weight + psi(start + n) - psi(falling + n)), or without the last
    term where `falling` is None; t_n is argument**n (start)_n / (first)_n."""
    term = np.ones_like(argument)
    level = weight + digamma(start)
    if falling is not None:
        level = level - digamma(falling)
    total = term * level
    for n in range(SERIES_LIMIT):
        term = term * argument * (start + n) / (first + n)
        level = level + 1.0 / (start + n)
        if falling is not None:
            level = level - 1.0 / (falling + n)
        total = total + term * level
        if not bool(np.any((term > SERIES_PRECISION) & (term > SERIES_PRECISION * abs(total)))):
            break
    return total


def beta_shape_derivative(x: Any, alpha: Any, total: Any) -> Any:
    """dx / d alpha at a fixed quantile over 1 - x, of x from Beta(alpha, total - alpha).

    Minus the derivative of the distribution function by alpha, over the density: both are x**alpha
    (1 - x)**beta / B times a series, in x where x is below the mean and else in 1 - x.
    """
    x, alpha, total = np.broadcast_arrays(*[v.astype(np.float64) for v in (x, alpha, total)])
    beta = total - alpha
    log_x = np.log(np.where(x > 0, x, 1.0))
    low = x * (total + 2.0) < alpha + 1.0
    result = np.zeros(x.shape)
    if low.any():
        a, b, at = alpha[low], beta[low], x[low]
        result[low] = -at / a * series(at, a + 1.0, a + b, log_x[low], a + 1.0)
    high = ~low
    if high.any():
        a, b, at = alpha[high], beta[high], x[high]
        weight = log_x[high] - digamma(a)
        result[high] = at / b * series(1.0 - at, b + 1.0, a + b, weight, None)
    return result


dirichlet_grad: OpOverload = op(
    "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor",
    method=False,
    node="torch::autograd::NotImplemented",
    vjp={name: not_differentiable("aten::_dirichlet_grad") for name in ("x", "alpha", "total")},
    samples=refuse("it has no derivative, and torch's values are approximate"),
)


@dirichlet_grad.shape
def _(x: Any, alpha: Any, total: Any) -> Any:
    shape = geometry.broadcast_shapes(*[tuple(t.shape) for t in (x, alpha, total)])
    return Spec(shape, x._dtype)


@dirichlet_grad.kernel
def _(xp: Any, x: Any, alpha: Any, total: Any) -> Any:
    refuse_dtype("_dirichlet_grad_cpu", x, is_single_or_double)
    return beta_shape_derivative(x, alpha, total).astype(x.dtype)
