"""Continuous distributions of numbers that stand on their own: Cauchy, Chi2,
Exponential, FisherSnedecor, Gamma, GeneralizedPareto, Laplace, Normal, StudentT, Uniform and
VonMises; and Beta and Dirichlet on the simplex."""

from __future__ import annotations

import math
from typing import Any

from rushlight.autograd.function import Function, once_differentiable
from rushlight.autograd.grad_mode import no_grad
from rushlight.core.construct import as_tensor, tensor
from rushlight.core.dtype import finfo, float64
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    EMPTY,
    broadcast_all,
    is_number,
    lazy_property,
    standard_normal,
    uniform_like,
)
from rushlight.opset import functions

__all__ = [
    "Beta", "Cauchy", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Laplace", "Normal", "StudentT", "Uniform", "VonMises",
]  # fmt: skip

LOCATION_AND_SCALE = {"loc": constraints.real, "scale": constraints.positive}


class LocationScale(Distribution):
    """Draws of one fixed distribution, stretched by `scale` and moved by `loc`."""

    arg_constraints = LOCATION_AND_SCALE
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc


class Normal(LocationScale, ExponentialFamily):
    """The normal distribution of mean `loc` and standard deviation `scale`.

    >>> import rushlight as torch
    >>> torch.distributions.Normal(0.0, 1.0).cdf(torch.tensor(0.0))
    tensor(0.5000)
    """

    _mean_carrier_measure = 0
    _expands = "loc scale"

    @property
    def stddev(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return functions.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.loc + standard_normal(shape, self.loc.dtype, self.loc.device) * self.scale

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        squared = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -squared - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return 0.5 * (1 + ((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)).erf())

    def icdf(self, value: Any) -> Any:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Any:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        precision = self.scale.pow(2).reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class Uniform(Distribution):
    """Every value from `low` up to `high` is as likely."""

    has_rsample = True
    _expands = "low high"

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Any:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Any:
        return math.nan * self.high

    @property
    def stddev(self) -> Any:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Any:
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        part = uniform_like(self.low, self._extended_shape(sample_shape))
        return self.low + part * (self.high - self.low)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        inside = (self.low.le(value) & self.high.gt(value)).type_as(self.low)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Any) -> Any:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Any:
        return (self.high - self.low).log()


class Laplace(LocationScale):
    """Densities that fall exponentially on both sides of `loc`."""

    _expands = "loc scale"

    @property
    def stddev(self) -> Any:
        return 2**0.5 * self.scale

    @property
    def variance(self) -> Any:
        return 2 * self.scale.pow(2)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        # The open interval (-1, 1), so that no logarithm is taken of 0.
        low = finfo(self.loc.dtype).eps - 1
        drawn = uniform_like(self.loc, self._extended_shape(sample_shape), low)
        return self.loc - self.scale * drawn.sign() * (-drawn.abs()).log1p()

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        distance = value - self.loc
        return 0.5 - 0.5 * distance.sign() * (-distance.abs() / self.scale).expm1()

    def icdf(self, value: Any) -> Any:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Any:
        return 1 + (2 * self.scale).log()


class Cauchy(LocationScale):
    """The ratio of two normal draws, moved and stretched; it has no mean."""

    _expands = "loc scale"

    @property
    def mean(self) -> Any:
        return self.loc.new_full(self._extended_shape(), math.nan)

    @property
    def variance(self) -> Any:
        return self.loc.new_full(self._extended_shape(), math.inf)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + drawn * self.scale

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        distance = (value - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (distance**2).log1p()

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Any) -> Any:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Any:
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(ExponentialFamily):
    """The time to the first of events that come at `rate`."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = "rate"

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Any:
        return functions.zeros_like(self.rate)

    @property
    def stddev(self) -> Any:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Any:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        return self.rate.new_empty(shape).exponential_() / self.rate

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Any) -> Any:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Any:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Any) -> Any:
        return -(-x).log()


class Gamma(ExponentialFamily):
    """The gamma distribution by shape `concentration` and inverse scale `rate`.

    >>> import rushlight as torch
    >>> torch.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _expands = "concentration rate"

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.concentration / self.rate

    @property
    def mode(self) -> Any:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Any:
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = functions._standard_gamma(self.concentration.expand(shape))
        value = drawn / self.rate.expand(shape)
        # Draws that underflow become the least positive number; their gradients stay.
        value.detach().clamp_(min=finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Any) -> Any:
        value = as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check_sample(value)
        shape, rate = self.concentration, self.rate
        return shape.xlogy(rate) + (shape - 1).xlogy(value) - rate * value - shape.lgamma()

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return functions.special_gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Any:
        shape = self.concentration
        return shape - self.rate.log() + shape.lgamma() + (1.0 - shape) * shape.digamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of `df` squared normal draws."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(Chi2, _instance))

    @property
    def df(self) -> Any:
        return self.concentration * 2


class StudentT(Distribution):
    """A normal draw over the root of a chi-squared one per degree of freedom."""

    arg_constraints = {
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    _expands = "df loc scale _chi2"

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.loc.masked_fill(self.df <= 1, math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        is_finite = self.df > 2
        df = self.df.masked_fill(~is_finite, 3.0)
        result = self.scale.pow(2) * df / (df - 2)
        return result.masked_fill(~is_finite, math.inf).masked_fill(self.df <= 1, math.nan)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        drawn = standard_normal(shape, self.df.dtype, self.df.device)
        spread = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * drawn * (spread / self.df).rsqrt()

    def _log_beta(self) -> Any:
        """log B(df / 2, 1 / 2)."""
        half = 0.5 * self.df
        return half.lgamma() + 0.5 * math.log(math.pi) - (half + 0.5).lgamma()

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        distance = (value - self.loc) / self.scale
        height = self.scale.log() + 0.5 * self.df.log() + self._log_beta()
        return -0.5 * (self.df + 1.0) * (distance**2.0 / self.df).log1p() - height

    def entropy(self) -> Any:
        half = 0.5 * (self.df + 1)
        steps = half * (half.digamma() - (0.5 * self.df).digamma())
        return self.scale.log() + steps + 0.5 * self.df.log() + self._log_beta()


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared draws, each per degree of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expands = "df1 df2 _gamma1 _gamma2"

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        df2 = self.df2.masked_fill(self.df2 <= 2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Any:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, math.nan)

    @property
    def variance(self) -> Any:
        df1, df2 = self.df1, self.df2.masked_fill(self.df2 <= 4, math.nan)
        return 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        tiny = finfo(self.df1.dtype).tiny
        above = self._gamma1.rsample(sample_shape)
        below = self._gamma2.rsample(sample_shape).clamp(min=tiny)
        return (above / below).clamp(min=tiny)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        height = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        rise = half1 * ratio.log() + (half1 - 1) * value.log()
        return height + rise - (half1 + half2) * (ratio * value).log1p()


class GeneralizedPareto(Distribution):
    """What exceeds a high threshold `loc`; negative `concentration` bounds it above."""

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _expands = "loc scale concentration"

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(
            self.loc, functions.where(self.concentration < 0, end, math.inf)
        )

    def _flat(self) -> tuple[Any, Any]:
        """Where the concentration counts as 0, and concentrations by which one may divide."""
        flat = functions.isclose(self.concentration, functions.zeros_like(self.concentration))
        return flat, self.concentration.masked_fill(flat, 1.0)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.icdf(uniform_like(self.loc, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        excess = (value - self.loc) / self.scale
        flat, shape = self._flat()
        power = 1 / shape + functions.ones_like(excess)
        fall = functions.where(power == 0, power, power * (shape * excess).log1p())
        return -self.scale.log() - functions.where(flat, excess, fall)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of draws above `value`."""
        self._check_sample(value)
        excess = (value - self.loc) / self.scale
        flat, shape = self._flat()
        return functions.where(flat, -excess, -(shape * excess).log1p() / shape)

    def log_cdf(self, value: Any) -> Any:
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Any) -> Any:
        return self.log_cdf(value).exp()

    def icdf(self, value: Any) -> Any:
        flat, shape = self._flat()
        log_left = (-value).log1p()
        curved = self.loc + self.scale / shape * (-shape * log_left).expm1()
        return functions.where(flat, self.loc - self.scale * log_left, curved)

    @property
    def mean(self) -> Any:
        exists = self.concentration < 1
        shape = functions.where(exists, self.concentration, 0.5)
        return functions.where(exists, self.loc + self.scale / (1 - shape), math.nan)

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        exists = self.concentration < 0.5
        shape = functions.where(exists, self.concentration, 0.25)
        result = self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape))
        return functions.where(exists, result, math.nan)

    def entropy(self) -> Any:
        return self.scale.log() + self.concentration + 1


class VonMises(Distribution):
    """Angles around `loc`, the closer the greater the `concentration`.

    Draws lie in [-pi, pi); the variance is the circular one.
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    _expands = "loc concentration"

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        # log I0 by the scaled Bessel function, which stays finite
        log_bessel = functions.special_i0e(self.concentration).log() + self.concentration
        turned = self.concentration * (value - self.loc).cos()
        return turned - math.log(2 * math.pi) - log_bessel

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        """Rejection from a wrapped Cauchy envelope (Best and Fisher, 1979), in float64."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            kappa = self.concentration.to(float64)
            tau = 1 + (1 + 4 * kappa**2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            envelope = functions.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))
            angle = kappa.new_zeros(shape)
            open_ = angle == 0
            while open_.any():
                first, second, third = uniform_like(kappa, (3, *shape)).unbind()
                turned = (math.pi * first).cos()
                cosine = (1 + envelope * turned) / (envelope + turned)
                excess = kappa * (envelope - cosine)
                accepted = (excess * (2 - excess) > second) | (
                    (excess / second).log() + 1 - excess >= 0
                )
                drawn = (third - 0.5).sign() * cosine.clamp(-1, 1).acos()
                # torch: angles found before are replaced too.
                angle = functions.where(accepted, drawn, angle)
                open_ = open_ & ~accepted
            turned = (angle + math.pi + self.loc.to(float64)) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        kappa = self.concentration
        return 1 - functions.special_i1e(kappa) / functions.special_i0e(kappa)


# -- the simplex -----------------------------------------------------------------------------------


class DirichletDraw(Function):
    """Draws with the derivative by the concentration at fixed quantiles."""

    generate_vmap_rule = True

    @staticmethod
    def forward(concentration: Any) -> Any:
        return functions._sample_dirichlet(concentration)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output, *inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        value, concentration = ctx.saved_tensors
        total = concentration.sum(-1, True).expand_as(concentration)
        slope = functions._dirichlet_grad(value, concentration, total)
        return slope * (grad - (value * grad).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """Points of the simplex; `concentration` counts how often each entry was seen."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _expands = "concentration"

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        sizes = concentration.shape
        super().__init__(sizes[:-1], sizes[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return DirichletDraw.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return (self.concentration - 1.0).xlogy(value).sum(-1) - self._log_normalizer(
            self.concentration
        )

    @property
    def mean(self) -> Any:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Any:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = functions.one_hot(mode.argmax(-1), above.shape[-1]).to(mode)
        return functions.where((self.concentration < 1).all(-1, True), corner, mode)

    @property
    def variance(self) -> Any:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        counts = self.concentration
        total = counts.sum(-1)
        spread = (counts.size(-1) - total) * total.digamma()
        return self._log_normalizer(counts) - spread - ((counts - 1.0) * counts.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """Probabilities; the first entry of a Dirichlet draw of two."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _expands = "_dirichlet"

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        if is_number(concentration1) and is_number(concentration0):
            both = tensor([float(concentration1), float(concentration0)])
        else:
            both = functions.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Any:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Any:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Any:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Any:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Any:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return self._dirichlet.log_prob(functions.stack([value, 1.0 - value], -1))

    def entropy(self) -> Any:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()
