"""Discrete distributions: Bernoulli, Binomial, Categorical, Geometric, Multinomial,
NegativeBinomial, OneHotCategorical (also straight through) and Poisson."""

from __future__ import annotations

import math
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.dtype import finfo, int64
from rushlight.core.size import Size
from rushlight.distributions import constraints
from rushlight.distributions.continuous import Gamma
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    EMPTY,
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
    uniform_like,
)
from rushlight.opset import functions

__all__ = [
    "Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "NegativeBinomial",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson",
]  # fmt: skip


def require_one(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def coin_entropy(logits: Any, probs: Any) -> Any:
    """-p log p - (1 - p) log(1 - p), and for other targets the cross entropy."""
    return functions.binary_cross_entropy_with_logits(logits, probs, reduction=0)


class ByProbsOrLogits(Distribution):
    """What distributions share that are given either probabilities or logits: the one that was
    given is held, the other is computed when it is asked for."""

    _is_binary = True

    def _hold(self, name: str, value: Any) -> None:
        setattr(self, name, value)
        self._param = value

    @lazy_property
    def logits(self) -> Any:
        return probs_to_logits(self.probs, is_binary=self._is_binary)

    @lazy_property
    def probs(self) -> Any:
        return logits_to_probs(self.logits, is_binary=self._is_binary)

    @property
    def param_shape(self) -> Any:
        return self._param.size()

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._param.new(*args, **kwargs)


def hold_coin(self: Any, probs: Any, logits: Any) -> None:
    """Keep one number per event."""
    require_one(probs, logits)
    name = "logits" if probs is None else "probs"
    self._hold(name, *broadcast_all(logits if probs is None else probs))


def hold_counts(self: Any, total_count: Any, probs: Any, logits: Any) -> None:
    """Keep counts and one number per event, both of the latter's dtype."""
    require_one(probs, logits)
    name = "logits" if probs is None else "probs"
    counts, param = broadcast_all(total_count, logits if probs is None else probs)
    self.total_count = counts.type_as(param)
    self._hold(name, param)


class Bernoulli(ByProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, else 0.

    >>> import rushlight as torch
    >>> torch.distributions.Bernoulli(torch.tensor([0.25])).log_prob(torch.tensor([1.0]))
    tensor([-1.3863])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0
    _expands = "probs logits _param"

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        hold_coin(self, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    @property
    def mode(self) -> Any:
        return (self.probs >= 0.5).to(self.probs).masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            return functions.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return -coin_entropy(*broadcast_all(self.logits, value))

    def entropy(self) -> Any:
        return coin_entropy(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        param = self._param
        values = functions.arange(2, dtype=param.dtype, device=param.device)
        return self._enumerated(values, expand)

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (functions.logit(self.probs),)

    def _log_normalizer(self, x: Any) -> Any:
        return functions.log1p(functions.exp(x))


class Binomial(ByProbsOrLogits):
    """The number of successes in `total_count` trials."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    total_count: Any
    _expands = "total_count probs logits _param"

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        hold_counts(self, total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Any:
        return self.total_count * self.probs

    @property
    def mode(self) -> Any:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return functions.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        count, logits = self.total_count, self.logits
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        # log(1 + exp(logits)), with half of either slope where the logits are 0
        positive = (logits.clamp(min=0) + logits - logits.clamp(max=0)) / 2
        soft = positive + (-logits.abs()).exp().log1p()
        return value * logits + ways - count * soft

    def _common_count(self, caller: str) -> int:
        most = int(self.total_count.max())
        if self.total_count.min() != most:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{caller}`.")
        return most

    def entropy(self) -> Any:
        self._common_count("entropy")
        scores = self.log_prob(self.enumerate_support(False))
        return -(scores.exp() * scores).sum(0)

    def enumerate_support(self, expand: bool = True) -> Any:
        most, param = self._common_count("enumerate_support"), self._param
        values = functions.arange(1 + most, dtype=param.dtype, device=param.device)
        return self._enumerated(values, expand)


class Categorical(ByProbsOrLogits):
    """One of the numbers 0 ... K - 1; weights are normalised over the last dimension.

    >>> import rushlight as torch
    >>> torch.distributions.Categorical(torch.tensor([1.0, 3.0])).probs
    tensor([0.2500, 0.7500])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _is_binary = False
    _expands = "probs logits _param"
    _keeps = "_num_events"

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        require_one(probs, logits)
        if probs is not None:
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self._hold("probs", probs / probs.sum(-1, keepdim=True))
        else:
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self._hold("logits", logits - logits.logsumexp(-1, keepdim=True))
        self._num_events = self._param.size(-1)
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def _nothing(self) -> Any:
        return self._param.new_full(self._extended_shape(), math.nan)

    @property
    def mean(self) -> Any:
        return self._nothing()

    @property
    def mode(self) -> Any:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Any:
        return self._nothing()

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = Size(sample_shape)
        probs = self.probs.reshape(-1, self._num_events)
        drawn = functions.multinomial(probs, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        index, logits = functions.broadcast_tensors([value.long().unsqueeze(-1), self.logits])
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Any:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Any:
        values = functions.arange(self._num_events, dtype=int64, device=self._param.device)
        return self._enumerated(values, expand)


class AroundCategorical(Distribution):
    """What vectors share that stand for a choice: the Categorical inside and its parameters."""

    def _hold_categorical(self, categorical: Any, validate_args: bool | None) -> None:
        self._categorical = categorical
        shape = categorical.param_shape
        Distribution.__init__(self, shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def probs(self) -> Any:
        return self._categorical.probs

    @property
    def logits(self) -> Any:
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        return self._categorical.param_shape

    @property
    def _param(self) -> Any:
        return self._categorical._param

    def _new(self, *args: Any, **kwargs: Any) -> Any:
        return self._categorical._new(*args, **kwargs)


class OneHotCategorical(AroundCategorical):
    """A choice as a vector that has 1 at one place."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _expands = "_categorical"

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._hold_categorical(Categorical(probs, logits), validate_args)

    @property
    def mean(self) -> Any:
        return self.probs

    def _one_hot(self, index: Any) -> Any:
        return functions.one_hot(index, self._categorical._num_events).to(self.probs)

    @property
    def mode(self) -> Any:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Any:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n, param = self.event_shape[0], self._param
        values = functions.eye(n, dtype=param.dtype, device=param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradients are those of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Any = EMPTY) -> Any:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(AroundCategorical):
    """How often each of K values comes in `total_count` draws."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _expands = "_categorical"
    _keeps = "total_count"

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._hold_categorical(Categorical(probs=probs, logits=logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @lazy_property
    def _binomial(self) -> Any:
        """Each count on its own."""
        return Binomial(total_count=self.total_count, probs=self.probs)

    @property
    def mean(self) -> Any:
        return self.probs * self.total_count

    @property
    def variance(self) -> Any:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape).movedim(0, -1)
        counts = drawn.new_zeros(self._extended_shape(sample_shape))
        return counts.scatter_add_(-1, drawn, functions.ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Any:
        n = self.total_count
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(support).exp() * (support + 1).lgamma()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + weights.sum((0, -1))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        logits, value = broadcast_all(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -math.inf), 0.0)
        return ways + (logits * value).sum(-1)


class Poisson(ExponentialFamily):
    """The number of events where `rate` are expected."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _expands = "rate"

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.rate

    @property
    def mode(self) -> Any:
        return self.rate.floor()

    @property
    def variance(self) -> Any:
        return self.rate

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            return functions.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Any) -> Any:
        return x.exp()


class Geometric(ByProbsOrLogits):
    """The number of failures before the first success."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _expands = "probs logits _param"

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        hold_coin(self, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            valid = value > 0
            if not valid.all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{value.detach()[~valid]}"
                )

    @property
    def mean(self) -> Any:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Any:
        return functions.zeros_like(self.probs)

    @property
    def variance(self) -> Any:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            shape, tiny = self._extended_shape(sample_shape), finfo(self.probs.dtype).tiny
            drawn = uniform_like(self.probs, shape, tiny)
            return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 * log(0) counts as 0: certain success leaves no failures.
        probs = probs.masked_fill((probs == 1) & (value == 0), 0.0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        return coin_entropy(self.logits, self.probs) / self.probs


class NegativeBinomial(ByProbsOrLogits):
    """The number of successes before `total_count` failures, which need not be whole."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    total_count: Any
    _expands = "total_count probs logits _param"

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        hold_counts(self, total_count, probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    @property
    def mean(self) -> Any:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Any:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Any:
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Any:
        """The distribution of the rates whose Poisson draws are these."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Any = EMPTY) -> Any:
        with no_grad():
            return functions.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        self._check_sample(value)
        count, logits = self.total_count, self.logits
        powers = count * functions.log_sigmoid(-logits) + value * functions.log_sigmoid(logits)
        ways = (count + value).lgamma() - (1.0 + value).lgamma() - count.lgamma()
        return powers + ways.masked_fill(count + value == 0.0, 0.0)
