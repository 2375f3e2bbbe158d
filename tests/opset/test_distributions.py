"""What random ops draw: distribution functions, moments, and derivatives of samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl

COUNT = 20000
# Kolmogorov's bound for a chance of one in ten thousand.
BOUND = 2.23 / math.sqrt(COUNT)


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))


def gamma_cdf(alpha: float, x: float) -> float:
    term = math.exp(alpha * math.log(x) - x - math.lgamma(alpha + 1))
    total = term
    for n in range(1, 200):
        term *= x / (alpha + n)
        total += term
    return total


CONTINUOUS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "uniform_": (lambda x: x.uniform_(-1.0, 3.0), lambda v: (v + 1.0) / 4.0),
    "normal_": (lambda x: x.normal_(2.0, 3.0), lambda v: normal_cdf((v - 2.0) / 3.0)),
    "normal": (lambda x: rl.normal(x.fill_(1.0), 2.0), lambda v: normal_cdf((v - 1.0) / 2.0)),
    "randn_like": (rl.randn_like, normal_cdf),
    "exponential_": (lambda x: x.exponential_(2.0), lambda v: 1.0 - math.exp(-2.0 * v)),
    "cauchy_": (
        lambda x: x.cauchy_(1.0, 2.0),
        lambda v: 0.5 + math.atan((v - 1.0) / 2.0) / math.pi,
    ),
    "log_normal_": (
        lambda x: x.log_normal_(0.5, 0.25),
        lambda v: normal_cdf((math.log(v) - 0.5) / 0.25),
    ),
    "gamma 0.4": (lambda x: rl._standard_gamma(x.fill_(0.4)), lambda v: gamma_cdf(0.4, v)),
    "gamma 5": (lambda x: rl._standard_gamma(x.fill_(5.0)), lambda v: gamma_cdf(5.0, v)),
    "dirichlet": (
        lambda x: rl._sample_dirichlet(x.fill_(1.0).reshape(-1, 2))[:, 0].repeat(2),
        lambda v: v,
    ),
}


@pytest.mark.parametrize("kind", [rl.float32, rl.float64])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution_functions(name: str, kind: Any) -> None:
    draw, cdf = CONTINUOUS[name]
    rl.manual_seed(3)
    values = np.sort(draw(rl.empty(COUNT, dtype=kind)).numpy().astype(float))
    expected = np.array([cdf(float(value)) for value in values])
    steps = np.arange(COUNT + 1) / COUNT
    distance = max(np.abs(expected - steps[1:]).max(), np.abs(expected - steps[:-1]).max())
    # Half of the Dirichlet values repeat the others.
    assert distance < BOUND * (1.5 if name == "dirichlet" else 1.0)


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda x: x.bernoulli_(0.3), 0.3, 0.21),
        (lambda x: rl.bernoulli(x.fill_(0.7)), 0.7, 0.21),
        (lambda x: x.geometric_(0.25), 4.0, 12.0),
        (lambda x: x.random_(3, 9), 5.5, 35 / 12),
        (lambda x: rl.randint_like(x, 10), 4.5, 99 / 12),
        (lambda x: rl.randint_like(x, rl.tensor(10)), 4.5, 99 / 12),
        (lambda x: rl.poisson(x.fill_(3.5)), 3.5, 3.5),
        (lambda x: rl.poisson(x.fill_(40.0)), 40.0, 40.0),
        (lambda x: rl.binomial(x.fill_(12.0), rl.full_like(x, 0.25)), 3.0, 2.25),
        (lambda x: rl.binomial(x.fill_(200.0), rl.full_like(x, 0.5)), 100.0, 50.0),
        (lambda x: rl.multinomial(rl.tensor([1.0, 2.0, 1.0]), COUNT, True).float(), 1.0, 0.5),
    ],
)
def test_moments_of_counts(draw: Any, mean: float, variance: float) -> None:
    rl.manual_seed(5)
    values = draw(rl.empty(COUNT)).double()
    assert values.mean().item() == pytest.approx(mean, abs=4.5 * math.sqrt(variance / COUNT))
    assert values.var().item() == pytest.approx(variance, rel=0.08)


def test_draws_without_replacement() -> None:
    rl.manual_seed(1)
    weights = rl.tensor([1.0, 2.0, 3.0, 4.0])
    drawn = rl.multinomial(weights.expand(COUNT, 4), 4)
    assert (drawn.sort(1).values == rl.arange(4)).all()
    shares = [(drawn[:, 0] == i).double().mean().item() for i in range(4)]
    assert shares == pytest.approx([0.1, 0.2, 0.3, 0.4], abs=0.015)
    second = (drawn[:, 1] == 3).double().mean().item()
    assert second == pytest.approx(sum(w / 10 * 4 / (10 - w) for w in (1, 2, 3)), abs=0.015)


def beta_cdf(a: float, b: float, x: float) -> float:
    term = math.exp(
        math.lgamma(a + b) - math.lgamma(a + 1) - math.lgamma(b)
        + a * math.log(x) + b * math.log1p(-x)
    )  # fmt: skip
    total = term
    for n in range(3000):
        term *= x * (a + b + n) / (a + 1 + n)
        total += term
    return total


@pytest.mark.parametrize(
    ("a", "b", "x"), [(1.0, 1.0, 0.3), (0.3, 2.0, 0.9), (5.0, 3.0, 0.2), (40.0, 2.0, 0.97)]
)
def test_dirichlet_gradient_moves_along_a_quantile(a: float, b: float, x: float) -> None:
    step = 1e-5
    slope = (beta_cdf(a + step, b, x) - beta_cdf(a - step, b, x)) / (2 * step)
    density = (beta_cdf(a, b, x + 1e-6) - beta_cdf(a, b, x - 1e-6)) / 2e-6
    given = [rl.tensor([v], dtype=rl.float64) for v in (x, a, a + b)]
    found = rl._dirichlet_grad(*given).item()
    assert found == pytest.approx(-slope / density / (1 - x), rel=1e-5)


def test_dirichlet_gradient_at_the_ends() -> None:
    ends = rl.tensor([0.0, 1.0], dtype=rl.float64)
    found = rl._dirichlet_grad(ends, rl.full_like(ends, 2.0), rl.full_like(ends, 3.0))
    assert found.tolist() == pytest.approx([0.0, 0.5])


def test_random_slopes() -> None:
    rl.manual_seed(2)
    x = rl.randn(500, requires_grad=True)
    noise = rl.zeros(500)
    y = rl.ops.aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    negative = x.detach() <= 0
    assert type(y.grad_fn).__name__ == "RreluWithNoiseBackward0"
    assert (noise[~negative] == 1).all()
    assert ((noise[negative] >= 0.1) & (noise[negative] <= 0.3)).all()
    assert noise[negative].mean().item() == pytest.approx(0.2, abs=0.02)
    assert rl.equal(y.detach(), x.detach() * noise)
    y.sum().backward()
    assert rl.equal(x.grad, noise)
    rl.manual_seed(2)
    first = rl.rrelu(x, training=True)
    rl.manual_seed(2)
    assert rl.equal(first, rl.rrelu(x, training=True))
    assert type(rl.rrelu(x).grad_fn).__name__ == "RreluWithNoiseBackward0"
    with pytest.raises(RuntimeError, match="noise tensor shape must match"):
        rl.ops.aten.rrelu_with_noise(x, noise[:3])
