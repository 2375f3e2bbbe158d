"""Kullback-Leibler divergences KL(p || q), found by the classes of p and q.

Among the forms registered for superclasses the most special one counts, first by p and then by q;
where that order matters a warning says so."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from rushlight.base.errors import error
from rushlight.distributions.compound import Independent, TransformedDistribution
from rushlight.distributions.continuous import (
    Beta,
    Cauchy,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.distributions.derived import Gumbel, HalfNormal, Pareto
from rushlight.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    batch_mahalanobis,
    half_log_det,
    inverse_weighted,
    lowrank_mahalanobis,
)
from rushlight.distributions.relaxed import ContinuousBernoulli
from rushlight.distributions.utils import euler_constant, sum_rightmost
from rushlight.opset import functions
from rushlight.opset.creation.sizes import broadcast_shapes

__all__ = ["kl_divergence", "register_kl"]

Divergence = Callable[[Any, Any], Any]

# The forms by pair of classes, and what was found for pairs already asked for.
_KL_REGISTRY: dict[tuple[type, type], Divergence] = {}
_KL_MEMOIZE: dict[tuple[type, type], Divergence | None] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """A decorator: the function gives KL(p || q) for instances of these classes.

    Where a call would be ambiguous, register the pair of the more special classes as well.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        # torch: classes that only act as distributions are taken.
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {kind}")

    def decorator(form: Divergence) -> Divergence:
        _KL_REGISTRY[type_p, type_q] = form
        _KL_MEMOIZE.clear()
        return form

    return decorator


def most_special(matches: list[tuple[type, type]]) -> tuple[type, type]:
    """The pair whose first class, or where that is the same whose second, is below the others'."""
    best = matches[0]
    for pair in matches[1:]:
        first = pair[0] if pair[0] is not best[0] else pair[1]
        second = best[0] if pair[0] is not best[0] else best[1]
        if issubclass(first, second):
            best = pair
    return best


def dispatch_kl(type_p: type, type_q: type) -> Divergence | None:
    """The most special form for two classes, None where there is none."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return None
    by_p = most_special(matches)
    right_q, right_p = most_special([(q, p) for p, q in matches])
    form = _KL_REGISTRY[by_p]
    if form is not _KL_REGISTRY[right_p, right_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {right_q.__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return form


def kl_divergence(p: Any, q: Any) -> Any:
    """KL(p || q), one number per batch entry.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Normal, kl_divergence
    >>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    pair = type(p), type(q)
    if pair not in _KL_MEMOIZE:
        _KL_MEMOIZE[pair] = dispatch_kl(*pair)
    form = _KL_MEMOIZE[pair]
    if form is None:
        # torch: the words.
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type "
            f"{q.__class__.__name__}"
        )
    return form(p, q)


def infinite(like: Any) -> Any:
    return functions.full_like(like, math.inf)


def infinite_where(mask: Any, value: Any) -> Any:
    return functions.where(mask, math.inf, value)


def x_log_x(value: Any) -> Any:
    return functions.xlogy(value, value)


# -- general forms ---------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def kl_exponential_families(p: Any, q: Any) -> Any:
    """The Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        # torch: the words.
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed "
            "using Bregman divergences"
        )
    params, normalizer, slopes = p._normalizer_and_slopes()
    wanted = q._natural_params
    result = q._log_normalizer(*wanted) - normalizer
    for ours, theirs, slope in zip(params, wanted, slopes):
        result = result - sum_rightmost((theirs - ours) * slope, len(q.event_shape))
    return result


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: Any, q: Any) -> Any:
    """The same bijection on both sides changes nothing."""
    if p.transforms != q.transforms:
        raise error(
            "RL1103",
            NotImplementedError,
            kind="TransformedDistributions",
            what="transforms",
            found="",
        )
    if p.event_shape != q.event_shape:
        raise error(
            "RL1103",
            NotImplementedError,
            kind="TransformedDistributions",
            what="event shapes",
            found=f", got {p.event_shape} and {q.event_shape}",
        )
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _(p: Any, q: Any) -> Any:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise error(
            "RL1103",
            NotImplementedError,
            kind="Independent distributions",
            what="reinterpreted_batch_ndims",
            found=f", got {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}",
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# -- within one family -----------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _(p: Any, q: Any) -> Any:
    ones = p.probs * (functions.softplus(-q.logits) - functions.softplus(-p.logits))
    ones = infinite_where(q.probs == 0, ones).masked_fill(p.probs == 0, 0.0)
    zeros = (1 - p.probs) * (functions.softplus(q.logits) - functions.softplus(p.logits))
    zeros = infinite_where(q.probs == 1, zeros).masked_fill(p.probs == 1, 0.0)
    return ones + zeros


@register_kl(Binomial, Binomial)
def _(p: Any, q: Any) -> Any:
    if (p.total_count < q.total_count).any():
        # torch: the words.
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    per_trial = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return infinite_where(p.total_count > q.total_count, p.total_count * per_trial)


@register_kl(Categorical, Categorical)
def kl_categorical(p: Any, q: Any) -> Any:
    terms = infinite_where(q.probs == 0, p.probs * (p.logits - q.logits))
    return terms.masked_fill(p.probs == 0, 0.0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: Any, q: Any) -> Any:
    return kl_categorical(p._categorical, q._categorical)


@register_kl(Poisson, Poisson)
def _(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Geometric, Geometric)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Beta, Beta)
def _(p: Any, q: Any) -> Any:
    return kl_dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def kl_dirichlet(p: Any, q: Any) -> Any:
    ours, theirs = p.concentration, q.concentration
    slope = ours.digamma() - ours.sum(-1, True).digamma()
    heights = q._log_normalizer(theirs) - p._log_normalizer(ours)
    return heights + ((ours - theirs) * slope).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    ours = p._cont_bern_log_norm() + (-p.probs).log1p()
    theirs = q._cont_bern_log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + ours - theirs


@register_kl(Exponential, Exponential)
def _(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _(p: Any, q: Any) -> Any:
    return (
        q.concentration * (p.rate / q.rate).log()
        + q.concentration.lgamma()
        - p.concentration.lgamma()
        + (p.concentration - q.concentration) * p.concentration.digamma()
        + (q.rate - p.rate) * (p.concentration / p.rate)
    )


@register_kl(Gumbel, Gumbel)
def _(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    tail = ((1 + ratio).lgamma() - shift).exp()
    return shift - ratio.log() + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(Laplace, Laplace)
def _(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return distance / q.scale - ratio.log() + ratio * (-distance / p.scale).exp() - 1


@register_kl(Normal, Normal)
def kl_normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    distance = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + distance - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _(p: Any, q: Any) -> Any:
    return kl_normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _(p: Any, q: Any) -> Any:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return infinite_where(p.scale < q.scale, result)


@register_kl(Uniform, Uniform)
def _(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return infinite_where((q.low > p.low) | (q.high < p.high), result)


@register_kl(Cauchy, Cauchy)
def _(p: Any, q: Any) -> Any:
    squared = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return squared.log() - (4 * p.scale * q.scale).log()


# -- normal vectors --------------------------------------------------------------------------------


def require_same_event(p: Any, q: Any, kind: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two {kind} Normals with different event shapes cannot be "
            f"computed, got {p.event_shape} and {q.event_shape}"
        )


def squared_sum(matrix: Any) -> Any:
    """The trace of M M^T."""
    return matrix.pow(2).sum((-2, -1))


def solved_sum(factor: Any, matrix: Any) -> Any:
    """The trace of N N^T for N = L^-1 M."""
    batch = broadcast_shapes(factor.shape[:-2], matrix.shape[:-2])
    factor, matrix = (m.expand(batch + m.shape[-2:]) for m in (factor, matrix))
    return squared_sum(functions.linalg_solve_triangular(factor, matrix, upper=False))


def lowrank_distance(q: Any, vector: Any) -> Any:
    return lowrank_mahalanobis(
        q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, vector, q._capacitance_tril
    )


def lowrank_trace(q: Any, factors: list[Any]) -> Any:
    """The trace of C^-1 S for q's covariance C and S the sum of M M^T over `factors`."""
    weighted = inverse_weighted(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag)
    inner = functions.linalg_solve_triangular(q._capacitance_tril, weighted, upper=False)
    root = q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    total: Any = 0
    for factor in factors:
        total = total + squared_sum(factor * root) - squared_sum(inner @ factor)
    return total


def lowrank_factors(p: Any) -> list[Any]:
    return [p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()]


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p: Any, q: Any) -> Any:
    require_same_event(p, q, "Multivariate")
    ours, theirs = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    volumes = half_log_det(theirs) - half_log_det(ours)
    distance = batch_mahalanobis(theirs, q.loc - p.loc)
    return volumes + 0.5 * (solved_sum(theirs, ours) + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: Any) -> Any:
    require_same_event(p, q, "Low Rank Multivariate")
    trace = lowrank_trace(q, lowrank_factors(p))
    distance = lowrank_distance(q, q.loc - p.loc)
    return 0.5 * (q._log_det() - p._log_det() + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: Any) -> Any:
    require_same_event(p, q, "(Low Rank) Multivariate")
    ours = p._unbroadcasted_scale_tril
    trace = lowrank_trace(q, [ours])
    distance = lowrank_distance(q, q.loc - p.loc)
    volumes = q._log_det() - 2 * half_log_det(ours)
    return 0.5 * (volumes + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _(p: Any, q: Any) -> Any:
    require_same_event(p, q, "(Low Rank) Multivariate")
    theirs = q._unbroadcasted_scale_tril
    first, second = lowrank_factors(p)
    trace = solved_sum(theirs, first) + solved_sum(theirs, second)
    distance = batch_mahalanobis(theirs, q.loc - p.loc)
    volumes = 2 * half_log_det(theirs) - p._log_det()
    return 0.5 * (volumes + trace + distance - p.event_shape[0])


# -- between families ------------------------------------------------------------------------------

# Where p gives weight to values that q excludes, by p: a parameter for the sizes, and the q.
EXCLUDED: tuple[tuple[type, str, tuple[type, ...]], ...] = (
    (Beta, "concentration1", (Pareto,)),
    (ContinuousBernoulli, "probs", (Pareto,)),
    (Exponential, "rate", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gamma, "concentration", (Beta, ContinuousBernoulli, Pareto, Uniform)),
    (Gumbel, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Laplace, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Normal, "loc", (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)),
    (Pareto, "scale", (Beta, ContinuousBernoulli, Uniform)),
    (Poisson, "rate", (Bernoulli, Binomial)),
)


def register_excluded() -> None:
    for kind, parameter, others in EXCLUDED:

        def form(p: Any, q: Any, parameter: str = parameter) -> Any:
            return infinite(getattr(p, parameter))

        for other in others:
            register_kl(kind, other)(form)


register_excluded()


def cross_normal(mean: Any, second_moment: Any, q: Any) -> Any:
    """-E[log q] for a normal q, from the moments of p."""
    squared = second_moment - 2 * q.loc * mean + q.loc.pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + squared / (2 * q.scale.pow(2))


def cross_gamma(mean: Any, mean_log: Any, q: Any) -> Any:
    """-E[log q] for a gamma q, from the means of x and log x under p."""
    shape = q.concentration
    return shape.lgamma() - shape * q.rate.log() - (shape - 1) * mean_log + q.rate * mean


def cross_continuous_bernoulli(mean: Any, q: Any) -> Any:
    """-E[log q] for a continuous Bernoulli q."""
    return -mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm()


@register_kl(Bernoulli, Poisson)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    return cross_continuous_bernoulli(p.mean, q) - p.entropy()


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
def _(p: Any, q: Any) -> Any:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Beta, Gamma)
def _(p: Any, q: Any) -> Any:
    total = p.concentration1 + p.concentration0
    mean_log = p.concentration1.digamma() - total.digamma()
    return cross_gamma(p.mean, mean_log, q) - p.entropy()


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Gamma, Normal)
@register_kl(Laplace, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Exponential, Normal)
@register_kl(Uniform, Normal)
def _(p: Any, q: Any) -> Any:
    return cross_normal(p.mean, p.variance + p.mean.pow(2), q) - p.entropy()


@register_kl(Beta, Uniform)
def _(p: Any, q: Any) -> Any:
    result = (q.high - q.low).log() - p.entropy()
    return infinite_where((q.low > 0) | (q.high < 1), result)


@register_kl(ContinuousBernoulli, Uniform)
def _(p: Any, q: Any) -> Any:
    result = (q.high - q.low).log() - p.entropy()
    # torch: infinite unless q reaches beyond 0 and 1, though touching them would do.
    return infinite_where((q.low >= 0) | (q.high <= 1), result)


@register_kl(Exponential, Gamma)
def _(p: Any, q: Any) -> Any:
    mean_log = -(p.rate.log() + euler_constant)
    return cross_gamma(p.mean, mean_log, q) - p.entropy()


def cross_gumbel(mean: Any, mean_exp: Any, q: Any) -> Any:
    """-E[log q] for a Gumbel q; `mean_exp` is E[exp(-x / scale)] under p."""
    return q.scale.log() + (mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp


@register_kl(Exponential, Gumbel)
def _(p: Any, q: Any) -> Any:
    product = p.rate * q.scale
    return cross_gumbel(p.mean, product / (product + 1), q) - p.entropy()


@register_kl(Gamma, Gumbel)
def _(p: Any, q: Any) -> Any:
    mean_exp = (1 + (p.rate * q.scale).reciprocal()).pow(-p.concentration)
    return cross_gumbel(p.mean, mean_exp, q) - p.entropy()


@register_kl(Normal, Gumbel)
def _(p: Any, q: Any) -> Any:
    mean_exp = (0.5 * (p.scale / q.scale).pow(2) - p.loc / q.scale).exp()
    return cross_gumbel(p.mean, mean_exp, q) - p.entropy()


@register_kl(Uniform, Gumbel)
def _(p: Any, q: Any) -> Any:
    fall = (-p.low / q.scale).exp() - (-p.high / q.scale).exp()
    return cross_gumbel(p.mean, fall * q.scale / (p.high - p.low), q) - p.entropy()


@register_kl(Normal, Laplace)
def _(p: Any, q: Any) -> Any:
    distance = p.loc - q.loc
    ratio = distance / p.scale
    folded = math.sqrt(2 / math.pi) * p.scale * (-0.5 * ratio.pow(2)).exp()
    folded = folded + distance * (math.sqrt(0.5) * ratio).erf()
    return (2 * q.scale).log() + folded / q.scale - p.entropy()


@register_kl(Pareto, Exponential)
def _(p: Any, q: Any) -> Any:
    mean = p.alpha * p.scale / (p.alpha - 1)
    return infinite_where(p.alpha <= 1, q.rate * mean - q.rate.log() - p.entropy())


@register_kl(Pareto, Gamma)
def _(p: Any, q: Any) -> Any:
    mean = p.alpha * p.scale / (p.alpha - 1)
    mean_log = p.scale.log() + p.alpha.reciprocal()
    return infinite_where(p.alpha <= 1, cross_gamma(mean, mean_log, q) - p.entropy())


@register_kl(Pareto, Normal)
def _(p: Any, q: Any) -> Any:
    mean = p.alpha * p.scale / (p.alpha - 1)
    second_moment = p.alpha * p.scale.pow(2) / (p.alpha - 2)
    return infinite_where(p.alpha <= 2, cross_normal(mean, second_moment, q) - p.entropy())


def uniform_mean_log(low: Any, high: Any) -> Any:
    """E[log x] for x uniform between `low` and `high`."""
    return (x_log_x(high) - x_log_x(low)) / (high - low) - 1


@register_kl(Uniform, Beta)
def _(p: Any, q: Any) -> Any:
    log_x = uniform_mean_log(p.low, p.high)
    log_rest = uniform_mean_log(1 - p.high, 1 - p.low)
    normalizer = q._log_normalizer(q.concentration1, q.concentration0)
    cross = normalizer - (q.concentration1 - 1) * log_x - (q.concentration0 - 1) * log_rest
    return infinite_where((p.high > 1) | (p.low < 0), cross - p.entropy())


@register_kl(Uniform, ContinuousBernoulli)
def _(p: Any, q: Any) -> Any:
    result = cross_continuous_bernoulli(p.mean, q) - p.entropy()
    # torch: infinite where p touches 0 or 1, too.
    return infinite_where((p.high >= 1) | (p.low <= 0), result)


@register_kl(Uniform, Exponential)
def _(p: Any, q: Any) -> Any:
    return infinite_where(p.low < 0, q.rate * p.mean - q.rate.log() - p.entropy())


@register_kl(Uniform, Gamma)
def _(p: Any, q: Any) -> Any:
    result = cross_gamma(p.mean, uniform_mean_log(p.low, p.high), q) - p.entropy()
    return infinite_where(p.low < 0, result)


@register_kl(Uniform, Pareto)
def _(p: Any, q: Any) -> Any:
    mean_log = uniform_mean_log(p.low, p.high)
    cross = (q.alpha + 1) * mean_log - q.alpha.log() - q.alpha * q.scale.log()
    return infinite_where(p.low < q.scale, cross - p.entropy())
