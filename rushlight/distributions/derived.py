"""Distributions that transform draws of others: Gumbel, HalfCauchy, HalfNormal, InverseGamma,
Kumaraswamy, LogNormal, LogisticNormal, Pareto and Weibull."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core.construct import as_tensor
from rushlight.core.dtype import finfo
from rushlight.distributions import constraints
from rushlight.distributions.compound import TransformedDistribution
from rushlight.distributions.continuous import (
    LOCATION_AND_SCALE,
    Cauchy,
    Exponential,
    Gamma,
    Normal,
    Uniform,
)
from rushlight.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
)
from rushlight.distributions.utils import broadcast_all, euler_constant
from rushlight.opset import functions

__all__ = [
    "Gumbel", "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal",
    "LogisticNormal", "Pareto", "Weibull",
]  # fmt: skip


class Derived(TransformedDistribution):
    """Expansion for distributions that hold parameters beside the base distribution's."""

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        cls = self._expanding_class()
        new = self._get_checked_instance(cls, _instance)
        for name in cls._expands.split():
            setattr(new, name, self.__dict__[name].expand(batch_shape))
        return super().expand(batch_shape, new)


class LogNormal(Derived):
    """exp of a normal draw.

    >>> import rushlight as torch
    >>> torch.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = LOCATION_AND_SCALE
    support = constraints.positive
    has_rsample = True
    _expands = ""

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Any:
        return self.base_dist.loc

    @property
    def scale(self) -> Any:
        return self.base_dist.scale

    @property
    def mean(self) -> Any:
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Any:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Any:
        squared = self.scale.pow(2)
        return squared.expm1() * (2 * self.loc + squared).exp()

    def entropy(self) -> Any:
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Points of the simplex from a normal vector that is one shorter, by stick breaking."""

    arg_constraints = LOCATION_AND_SCALE
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(LogisticNormal, _instance))

    @property
    def loc(self) -> Any:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Any:
        return self.base_dist.base_dist.scale


class Folded(Derived):
    """The absolute value of draws that are symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Any:
        return self.base_dist.scale

    @property
    def mode(self) -> Any:
        return functions.zeros_like(self.scale)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        scores = self.base_dist.log_prob(value) + math.log(2)
        return functions.where(value >= 0, scores, -math.inf)

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Any) -> Any:
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Any:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(Folded):
    """The absolute value of a normal draw."""

    _expands = ""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Any:
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(Folded):
    """The absolute value of a Cauchy draw."""

    _expands = ""

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return super().log_prob(as_tensor(value, dtype=self.scale.dtype, device=self.scale.device))

    @property
    def mean(self) -> Any:
        return self.scale.new_full(self._extended_shape(), math.inf)

    @property
    def variance(self) -> Any:
        return self.base_dist.variance


class InverseGamma(Derived):
    """The reciprocal of a gamma draw."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expands = ""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        reciprocal = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, reciprocal, validate_args=validate_args)

    @property
    def concentration(self) -> Any:
        return self.base_dist.concentration

    @property
    def rate(self) -> Any:
        return self.base_dist.rate

    @property
    def mean(self) -> Any:
        result = self.rate / (self.concentration - 1)
        return functions.where(self.concentration > 1, result, math.inf)

    @property
    def mode(self) -> Any:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Any:
        below = self.concentration - 1
        result = self.rate.square() / (below.square() * (below - 1))
        return functions.where(self.concentration > 2, result, math.inf)

    def entropy(self) -> Any:
        shape = self.concentration
        return shape + self.rate.log() + shape.lgamma() - (1 + shape) * shape.digamma()


class Gumbel(Derived):
    """The limit of the greatest of many draws."""

    arg_constraints = LOCATION_AND_SCALE
    support = constraints.real
    _expands = "loc scale"

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = finfo(self.loc.dtype)
        base = Uniform(
            functions.full_like(self.loc, limits.tiny),
            functions.full_like(self.loc, 1 - limits.eps),
            validate_args=validate_args,
        )
        steps = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-functions.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        # The closed form is finite where the transforms' steps are not.
        self._check_sample(value)
        distance = (self.loc - value) / self.scale
        return distance - distance.exp() - self.scale.log()

    @property
    def mean(self) -> Any:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def stddev(self) -> Any:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Any:
        return self.stddev.pow(2)

    def entropy(self) -> Any:
        return self.scale.log() + (1 + euler_constant)


class Weibull(Derived):
    """A power of an exponential draw."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _expands = "scale concentration concentration_reciprocal"

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(functions.ones_like(self.scale), validate_args=validate_args)
        steps = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Any:
        part = (self.concentration - 1) / self.concentration
        return self.scale * part**self.concentration_reciprocal

    @property
    def variance(self) -> Any:
        second = (1 + 2 * self.concentration_reciprocal).lgamma().exp()
        first = (2 * (1 + self.concentration_reciprocal).lgamma()).exp()
        return self.scale.pow(2) * (second - first)

    def entropy(self) -> Any:
        inverse = self.concentration_reciprocal
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(Derived):
    """Values above `scale` whose density falls as a power."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _expands = "scale alpha"

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        steps = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, steps, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Any:
        # infinite up to alpha 1
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Any:
        return self.scale

    @property
    def variance(self) -> Any:
        # infinite up to alpha 2
        alpha = self.alpha.clamp(min=2)
        return self.scale.pow(2) * alpha / ((alpha - 1).pow(2) * (alpha - 2))

    def entropy(self) -> Any:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(Derived):
    """Numbers of (0, 1), much like the beta distribution, with a closed distribution function."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True
    _expands = "concentration1 concentration0"

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            functions.zeros_like(self.concentration0),
            functions.ones_like(self.concentration0),
            validate_args=validate_args,
        )
        steps = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, steps, validate_args=validate_args)

    def _moment(self, order: int) -> Any:
        a, b = 1 + order / self.concentration1, self.concentration0
        return b * (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp()

    @property
    def mean(self) -> Any:
        return self._moment(1)

    @property
    def mode(self) -> Any:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return mode.masked_fill((b < 1) | (a < 1), math.nan)

    @property
    def variance(self) -> Any:
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Any:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
