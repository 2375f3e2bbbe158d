"""Draws: their sizes, their distribution with fixed seeds, and the gradients through them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as torch
from rushlight import distributions as dist
from tests.distributions import cases

DRAWS = 4000


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(20)
    yield
    torch.set_default_dtype(before)


ROWS = {title: (kind, parameters) for title, kind, parameters, _ in cases.SIMPLE}
CONTINUOUS = (
    "Normal LogNormal HalfNormal HalfCauchy Uniform Laplace Cauchy Gumbel Exponential Gamma "
    "InverseGamma Chi2 Weibull Pareto GeneralizedPareto Kumaraswamy ContinuousBernoulli"
)
WITH_MOMENTS = (
    "Normal Uniform Laplace Gumbel Exponential Gamma Chi2 Kumaraswamy Beta ContinuousBernoulli "
    "Bernoulli Binomial Geometric Poisson NegativeBinomial OneHotCategorical Multinomial Dirichlet "
    "MultivariateNormal LowRankMultivariateNormal HalfNormal Wishart"
)


@pytest.mark.parametrize("title", CONTINUOUS.split())
def test_draws_follow_the_distribution_function(title: str) -> None:
    d, _ = cases.built(torch, *ROWS[title])
    drawn = d.sample((DRAWS,))
    assert not drawn.requires_grad
    below = d.cdf(drawn).sort(0).values.detach()
    steps = torch.arange(DRAWS).reshape(-1, 1) / DRAWS
    farthest = torch.maximum((below - steps).abs(), (below - steps - 1 / DRAWS).abs()).amax(0)
    # Kolmogorov's statistic is above 1.95 with a probability of 0.001.
    assert (farthest * math.sqrt(DRAWS) < 1.95).all(), farthest


@pytest.mark.parametrize("title", WITH_MOMENTS.split())
def test_draws_have_the_moments(title: str) -> None:
    d, _ = cases.built(torch, *ROWS[title])
    drawn = d.sample((DRAWS,))
    assert drawn.shape == (DRAWS, *d.batch_shape, *d.event_shape)
    assert d.support.check(drawn).all()
    deviation = d.stddev.detach() / math.sqrt(DRAWS)
    assert ((drawn.mean(0) - d.mean.detach()).abs() < 4.5 * deviation + 1e-12).all()
    spread = (drawn - d.mean.detach()).pow(2)
    error = spread.std(0) / math.sqrt(DRAWS)
    assert ((spread.mean(0) - d.variance.detach()).abs() < 5 * error + 1e-12).all()


def test_student_and_fisher() -> None:
    t = dist.StudentT(5.0, 1.0, 2.0).sample((DRAWS,))
    assert abs(t.mean().item() - 1.0) < 0.2
    assert abs(t.var().item() - 4 * 5 / 3) < 0.8
    f = dist.FisherSnedecor(6.0, 12.0)
    assert abs(f.sample((DRAWS,)).mean().item() - f.mean.item()) < 0.06


def test_angles() -> None:
    d = dist.VonMises(torch.tensor([0.5, 3.0]), torch.tensor([2.0, 1e-7]))
    drawn = d.sample((DRAWS,))
    assert ((drawn >= -math.pi) & (drawn < math.pi)).all()
    turned = drawn - d.loc
    assert ((turned.cos().mean(0) - (1 - d.variance)).abs() < 0.05).all()
    assert (turned.sin().mean(0).abs() < 0.05).all()


def test_categories() -> None:
    d = dist.Categorical(torch.tensor(cases.WEIGHTS))
    drawn = d.sample((DRAWS,))
    assert drawn.dtype is torch.int64
    for value in range(3):
        share = (drawn == value).double().mean(0)
        assert ((share - d.probs[:, value]).abs() < 0.035).all()
    assert d.sample().shape == (2,)
    assert d.sample((3, 1)).shape == (3, 1, 2)


def test_correlation_factors() -> None:
    d = dist.LKJCholesky(3, torch.tensor([0.7, 3.0]))
    factor = d.sample((DRAWS,))
    assert factor.shape == (DRAWS, 2, 3, 3)
    assert dist.constraints.corr_cholesky.check(factor).all()
    # An entry of the matrix is 2 Beta(c + (n - 2) / 2, same) - 1, whose variance is 1 / (2 a + 1).
    matrix = factor @ factor.mT
    wanted = 1 / (2 * (d.concentration + 0.5) + 1)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert ((matrix[..., i, j].pow(2).mean(0) - wanted).abs() < 0.03).all()


def test_mixture_draws() -> None:
    weights = dist.Categorical(torch.tensor([0.25, 0.75]))
    d = dist.MixtureSameFamily(weights, dist.Normal(torch.tensor([-5.0, 5.0]), 0.5))
    drawn = d.sample((DRAWS,))
    assert abs((drawn < 0).double().mean().item() - 0.25) < 0.03
    parts = dist.Independent(dist.Normal(torch.zeros(4, 2, 3), 1.0), 1)
    batch = dist.MixtureSameFamily(dist.Categorical(torch.ones(4, 2)), parts)
    assert batch.sample((5,)).shape == (5, 4, 3)


def test_logistic_normal_draws_lie_on_the_simplex() -> None:
    d = dist.LogisticNormal(torch.zeros(4, 2), torch.ones(4, 2))
    assert (d.batch_shape, d.event_shape) == ((4,), (3,))
    assert dist.constraints.simplex.check(d.rsample((7,))).all()
    assert d.expand((2, 4)).sample().shape == (2, 4, 3)


# -- gradients -------------------------------------------------------------------------------------

REPARAMETERISED = [
    title
    for title in ROWS
    if title not in ("Pareto", "GeneralizedPareto")
    and getattr(dist, ROWS[title][0]).has_rsample is True
]


@pytest.mark.parametrize("title", REPARAMETERISED)
def test_every_parameter_gets_a_gradient(title: str) -> None:
    d, leaves = cases.built(torch, *ROWS[title])
    assert d.has_rsample
    drawn = d.rsample((3,))
    assert drawn.requires_grad
    grads = torch.autograd.grad((drawn * torch.rand_like(drawn)).sum(), list(leaves.values()))
    assert all(torch.isfinite(grad).all() and grad.abs().sum() > 0 for grad in grads)


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("Normal", {"loc": lambda x, p: x * 0 + 1, "scale": lambda x, p: (x - p[0]) / p[1]}),
        ("Laplace", {"loc": lambda x, p: x * 0 + 1, "scale": lambda x, p: (x - p[0]) / p[1]}),
        ("Cauchy", {"loc": lambda x, p: x * 0 + 1, "scale": lambda x, p: (x - p[0]) / p[1]}),
        ("Gumbel", {"loc": lambda x, p: x * 0 + 1, "scale": lambda x, p: (x - p[0]) / p[1]}),
        ("Exponential", {"rate": lambda x, p: -x / p[0]}),
        ("Gamma", {"rate": lambda x, p: -x / p[1]}),
        ("Weibull", {"scale": lambda x, p: x / p[0]}),
    ],
)
def test_gradients_of_scaled_draws(title: str, wanted: dict[str, Any]) -> None:
    d, leaves = cases.built(torch, *ROWS[title])
    drawn = d.rsample()
    parameters = list(leaves.values())
    for name, formula in wanted.items():
        (grad,) = torch.autograd.grad(drawn.sum(), leaves[name], retain_graph=True)
        assert torch.allclose(grad, formula(drawn, parameters))


def test_gamma_draws_move_at_a_fixed_quantile() -> None:
    shape = torch.tensor([0.4, 1.0, 3.0, 20.0], requires_grad=True)
    drawn = dist.Gamma(shape, torch.tensor(1.0)).rsample((50,))
    (grad,) = torch.autograd.grad(drawn.sum(), shape)
    x, a, h = drawn.detach(), shape.detach(), 1e-5
    raised = torch.special.gammainc(a + h, x) - torch.special.gammainc(a - h, x)
    slope = -raised / (2 * h) / dist.Gamma(a, torch.tensor(1.0)).log_prob(x).exp()
    assert torch.allclose(grad, slope.sum(0), rtol=1e-4)


@pytest.mark.parametrize("kind", ["Beta", "Dirichlet"])
def test_simplex_draws_move_the_mean(kind: str) -> None:
    counts = torch.tensor([1.5, 3.0], requires_grad=True)
    d = dist.Beta(counts[0], counts[1]) if kind == "Beta" else dist.Dirichlet(counts)
    drawn = d.rsample((20000,))
    first = drawn if kind == "Beta" else drawn[..., 0]
    (grad,) = torch.autograd.grad(first.mean(), counts)
    (wanted,) = torch.autograd.grad(counts[0] / counts.sum(), counts)
    assert torch.allclose(grad, wanted, atol=3e-3)


def test_straight_through_gradients_are_those_of_the_probabilities() -> None:
    logits = torch.tensor([0.3, -1.0, 0.5], requires_grad=True)
    weights = torch.tensor([1.0, 2.0, -1.0])
    d = dist.OneHotCategoricalStraightThrough(logits=logits)
    drawn = d.rsample()
    assert torch.allclose(drawn.sum(), torch.tensor(1.0))
    (grad,) = torch.autograd.grad((drawn * weights).sum(), logits)
    (wanted,) = torch.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    assert torch.allclose(grad, wanted)


def test_relaxed_draws_go_to_corners_as_it_gets_cold() -> None:
    cold = dist.RelaxedOneHotCategorical(torch.tensor(0.01), probs=torch.tensor([0.2, 0.8]))
    drawn = cold.rsample((2000,))
    assert ((drawn > 0.99) | (drawn < 0.01)).double().mean().item() > 0.97
    assert abs((drawn[:, 1] > 0.5).double().mean().item() - 0.8) < 0.04
    coin = dist.RelaxedBernoulli(torch.tensor(0.05), probs=torch.tensor(0.3)).sample((2000,))
    assert abs((coin > 0.5).double().mean().item() - 0.3) < 0.04


def test_single_precision_and_small_shapes_stay_positive() -> None:
    drawn = dist.Gamma(torch.full((1000,), 1e-3, dtype=torch.float32), 1.0).sample()
    assert drawn.dtype is torch.float32
    assert (drawn > 0).all()
    assert torch.isfinite(dist.Gumbel(torch.zeros(10000, dtype=torch.float32), 1.0).sample()).all()
    assert torch.isfinite(dist.Laplace(torch.zeros(10000, dtype=torch.float32), 1.0).sample()).all()


def test_seeds_repeat_draws() -> None:
    d = dist.Normal(torch.zeros(3), 1.0)
    torch.manual_seed(5)
    first = d.sample((2,))
    torch.manual_seed(5)
    assert torch.equal(first, d.sample((2,)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_simplex_draws_keep_off_the_border(dtype: Any) -> None:
    shape = torch.full((2,), 0.01, dtype=dtype)
    for d in (dist.Beta(shape, shape), dist.Dirichlet(shape)):
        drawn = d.sample((DRAWS,))
        assert (drawn > 0).all() and (drawn < 1).all()
        assert torch.isfinite(d.log_prob(drawn)).all()
