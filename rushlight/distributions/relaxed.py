"""Continuous stand-ins for discrete draws: ContinuousBernoulli, and the relaxed Bernoulli and
one-hot distributions with a temperature."""

from __future__ import annotations

import math
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.distributions import constraints
from rushlight.distributions.compound import TransformedDistribution
from rushlight.distributions.discrete import (
    AroundCategorical,
    ByProbsOrLogits,
    Categorical,
    coin_entropy,
    hold_coin,
)
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.transforms import ExpTransform, SigmoidTransform
from rushlight.distributions.utils import (
    EMPTY,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    uniform_like,
)
from rushlight.opset import functions

__all__ = [
    "ContinuousBernoulli", "ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]  # fmt: skip


class ContinuousBernoulli(ByProbsOrLogits, ExponentialFamily):
    """Numbers of [0, 1] with densities proportional to p ** x * (1 - p) ** (1 - x).

    Formulas that divide by 1 - 2 p give way to Taylor series for p inside `lims`.
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _expands = "probs logits _param"
    _keeps = "_lims"

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        hold_coin(self, probs, logits)
        if probs is not None:
            if validate_args is not None and not constraints.unit_interval.check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self._hold("probs", clamp_probs(self.probs))
        self._lims = lims
        super().__init__(self._param.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Any:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Any:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Any:
        return functions.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _cont_bern_log_norm(self) -> Any:
        """The logarithm of the factor that makes the densities integrate to 1."""
        probs = self._cut_probs()
        is_low = probs <= 0.5
        low = functions.where(is_low, probs, 0.0)
        high = functions.where(probs >= 0.5, probs, 1.0)
        width = functions.where(is_low, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        exact = ((-probs).log1p() - probs.log()).abs().log() - width
        x = (self.probs - 0.5) ** 2
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return functions.where(self._outside_unstable_region(), exact, series)

    @property
    def mean(self) -> Any:
        probs = self._cut_probs()
        exact = probs / (2.0 * probs - 1.0) + 1.0 / ((-probs).log1p() - probs.log())
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x
        return functions.where(self._outside_unstable_region(), exact, series)

    @property
    def variance(self) -> Any:
        probs = self._cut_probs()
        exact = probs * (probs - 1.0) / (1.0 - 2.0 * probs) ** 2
        exact = exact + 1.0 / ((-probs).log1p() - probs.log()) ** 2
        x = (self.probs - 0.5) ** 2
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return functions.where(self._outside_unstable_region(), exact, series)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        return self.icdf(uniform_like(self.probs, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return -coin_entropy(*broadcast_all(self.logits, value)) + self._cont_bern_log_norm()

    def cdf(self, value: Any) -> Any:
        self._check_sample(value)
        probs = self._cut_probs()
        exact = probs**value * (1.0 - probs) ** (1.0 - value) + probs - 1.0
        inside = functions.where(
            self._outside_unstable_region(), exact / (2.0 * probs - 1.0), value
        )
        above = functions.where(value >= 1.0, functions.ones_like(value), inside)
        return functions.where(value <= 0.0, functions.zeros_like(value), above)

    def icdf(self, value: Any) -> Any:
        probs = self._cut_probs()
        log_rest = (-probs).log1p()
        exact = (-probs + value * (2.0 * probs - 1.0)).log1p() - log_rest
        return functions.where(
            self._outside_unstable_region(), exact / (probs.log() - log_rest), value
        )

    def entropy(self) -> Any:
        log_rest = (-self.probs).log1p()
        return self.mean * (log_rest - self.probs.log()) - self._cont_bern_log_norm() - log_rest

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        is_outside = (x <= low) | (x > high)
        cut = functions.where(is_outside, x, low)
        exact = cut.expm1().abs().log() - cut.abs().log()
        series = 0.5 * x + x**2 / 24.0 - x**4 / 2880.0
        return functions.where(is_outside, exact, series)


class LogitRelaxedBernoulli(ByProbsOrLogits):
    """The logits of relaxed coin throws."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _expands = "probs logits _param"
    _keeps = "temperature"

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        hold_coin(self, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        drawn = clamp_probs(uniform_like(probs, shape))
        return (drawn.log() - (-drawn).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        distance = logits - value.mul(self.temperature)
        return self.temperature.log() + distance - 2 * distance.exp().log1p()


class RelaxedDistribution(TransformedDistribution):
    """What relaxed draws share: the parameters of the distribution that they transform."""

    has_rsample = True

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Any:
        return self.base_dist.logits

    @property
    def probs(self) -> Any:
        return self.base_dist.probs


class RelaxedBernoulli(RelaxedDistribution):
    """Numbers of (0, 1) that go to coin throws as the temperature goes to 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(batch_shape, self._get_checked_instance(RelaxedBernoulli, _instance))


class ExpRelaxedCategorical(AroundCategorical):
    """The logarithms of relaxed one-hot vectors."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    # torch: the logarithms' region is not told apart from all real vectors.
    support = constraints.real_vector
    has_rsample = True
    _expands = "_categorical"
    _keeps = "temperature"

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._hold_categorical(Categorical(probs, logits), validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        drawn = clamp_probs(uniform_like(self.logits, self._extended_shape(sample_shape)))
        scores = (self.logits - (-drawn.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        n = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        scores = logits - value.mul(self.temperature)
        scores = (scores - scores.logsumexp(-1, keepdim=True)).sum(-1)
        return scores + math.lgamma(n) + (n - 1) * self.temperature.log()


class RelaxedOneHotCategorical(RelaxedDistribution):
    """Points of the simplex that go to one-hot vectors as the temperature goes to 0."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        return super().expand(
            batch_shape, self._get_checked_instance(RelaxedOneHotCategorical, _instance)
        )
