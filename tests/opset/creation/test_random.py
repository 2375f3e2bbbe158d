"""Random ops: reproducible, of the right dtype and layout, with torch's gradients and errors."""

from __future__ import annotations

import math

import pytest

import rushlight as rl

BACKWARD = {
    "uniform_()": "UniformBackward0",
    "normal_()": "NormalBackward0",
    "random_(3)": "RandomBackward1",
    "exponential_()": "ExponentialBackward0",
    "geometric_(0.5)": "GeometricBackward0",
    "cauchy_()": "CauchyBackward0",
    "log_normal_()": "LogNormalBackward0",
    "bernoulli_(0.5)": "BernoulliBackward2",
    "bernoulli_(rl.full((4,), 0.5))": "BernoulliBackward1",
}


@pytest.mark.parametrize(("call", "name"), BACKWARD.items())
def test_filling_cuts_the_gradient(call: str, name: str) -> None:
    x = rl.ones(4, requires_grad=True)
    y = eval(f"x.clone().{call}", {"x": x, "rl": rl})
    assert type(y.grad_fn).__name__ == name
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 4


def test_seed_and_state() -> None:
    rl.manual_seed(7)
    first = rl.rand(5)
    assert rl.initial_seed() == 7
    state = rl.get_rng_state()
    second = rl.randn(3)
    rl.set_rng_state(state)
    assert rl.randn(3).tolist() == second.tolist()
    rl.manual_seed(7)
    assert rl.rand(5).tolist() == first.tolist()


def test_generators_are_apart() -> None:
    rl.manual_seed(1)
    a = rl.Generator().manual_seed(3)
    b = rl.Generator().manual_seed(3)
    assert rl.rand(4, generator=a).tolist() == rl.rand(4, generator=b).tolist()
    saved = a.get_state()
    expected = rl.randint(10, (4,), generator=a).tolist()
    a.set_state(saved)
    assert rl.randint(10, (4,), generator=a).tolist() == expected
    with rl.random.fork_rng():
        inside = rl.rand(2).tolist()
    assert rl.rand(2).tolist() == inside


def test_elements_are_drawn_in_the_order_of_memory() -> None:
    rl.manual_seed(0)
    dense = rl.zeros(4, 3).uniform_()
    rl.manual_seed(0)
    assert rl.zeros(4, 3).t().uniform_().t().tolist() == dense.tolist()
    rl.manual_seed(0)
    assert rl.rand_like(rl.zeros(4, 3).t()).t().tolist() == dense.tolist()


def test_dtypes_and_shapes() -> None:
    assert rl.randint(5, (2,)).dtype is rl.int64
    assert rl.randint(2, 5, (50,)).min().item() >= 2
    assert sorted(rl.randperm(6).tolist()) == [0, 1, 2, 3, 4, 5]
    assert rl.rand_like(rl.ones(2, 3).t()).stride() == (1, 3)
    assert rl.randint_like(rl.ones(2), 5).dtype is rl.float32
    assert rl.normal(rl.ones(2, 1), rl.ones(3)).shape == (2, 3)
    assert rl.normal(0.0, 1.0, (2,)).shape == (2,)
    assert rl.multinomial(rl.ones(2, 4), 3).shape == (2, 3)
    assert rl.rand(2, device="meta").is_meta


def test_errors() -> None:
    with pytest.raises(RuntimeError, match="normal expects std >= 0.0, but found std -1"):
        rl.normal(0.0, -1.0, (2,))
    with pytest.raises(RuntimeError, match="'from' to be less than 'to', but got from=5 >= to=2"):
        rl.randint(5, 2, (3,))
    with pytest.raises(NotImplementedError, match="check_uniform_bounds"):
        rl.rand(2, dtype=rl.int64)
    with pytest.raises(RuntimeError, match="expects p to be in"):
        rl.ones(2).bernoulli_(2.0)
    with pytest.raises(RuntimeError, match="dropout probability"):
        rl.dropout(rl.ones(2), 2.0, True)


def test_dropout() -> None:
    x = rl.ones(1000, requires_grad=True)
    assert rl.dropout(x, 0.5, False) is x
    y = rl.dropout(x, 0.75, True)
    assert set(y.tolist()) == {0.0, 4.0}
    kept, mask = rl.native_dropout(x, 0.5, True)
    assert mask.dtype is rl.bool
    kept.sum().backward()
    assert x.grad.tolist() == [2.0 if keep else 0.0 for keep in mask.tolist()]
    assert rl.dropout(x, 1.0, True).sum().item() == 0.0


def gamma_cdf(alpha: float, x: float) -> float:
    term = math.exp(alpha * math.log(x) - x - math.lgamma(alpha + 1))
    total = term
    for n in range(1, 400):
        term *= x / (alpha + n)
        total += term
    return total


def gamma_quantile(alpha: float, probability: float) -> float:
    low, high = 1e-12, 200.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gamma_cdf(alpha, middle) < probability else (low, middle)
    return low


@pytest.mark.parametrize(("alpha", "x"), [(1.0, 0.7), (5.0, 4.2), (0.3, 0.02), (30.0, 35.0)])
def test_gamma_gradient_moves_along_a_quantile(alpha: float, x: float) -> None:
    probability, step = gamma_cdf(alpha, x), 1e-4
    above, below = (gamma_quantile(alpha + sign * step, probability) for sign in (1, -1))
    found = rl._standard_gamma_grad(
        rl.tensor(alpha, dtype=rl.float64), rl.tensor(x, dtype=rl.float64)
    )
    assert found.item() == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_parameters_of_one_kind() -> None:
    with pytest.raises(RuntimeError, match="Found dtype Float but expected Double"):
        rl.binomial(rl.ones(3).double(), rl.ones(3))
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match"):
        rl.binomial(rl.ones(3), rl.ones(2))
    with pytest.raises(NotImplementedError, match="normal_kernel_cpu.*'Long'"):
        rl.normal(rl.ones(3, dtype=rl.int64), rl.ones(3))


def test_permutations_fill_a_small_dtype():
    assert sorted(rl.randperm(256, dtype=rl.uint8).tolist()) == list(range(256))
    assert sorted(rl.randperm(128, dtype=rl.int8).tolist()) == list(range(128))
    with pytest.raises(RuntimeError, match="without overflow"):
        rl.randperm(257, dtype=rl.uint8)


@pytest.mark.parametrize(
    "parameters", [(rl.zeros(3), 3), (rl.zeros(3), rl.ones(3)), (3.0, rl.ones(3))]
)
def test_normal_of_tensors_is_written_into_out(parameters):
    out = rl.empty(3)
    rl.manual_seed(0)
    assert rl.normal(*parameters, out=out) is out
    rl.manual_seed(0)
    assert rl.equal(out, rl.normal(*parameters))


def test_infinite_means():
    inf = float("inf")
    for dtype in (rl.float32, rl.float64):
        assert rl.empty(1, dtype=dtype).cauchy_(inf, 0.5).tolist() == [inf]
        assert rl.empty(20, dtype=dtype).normal_(-inf, 0.5).tolist() == [-inf] * 20


def test_draws_of_zero_and_one_fill_out_of_any_dtype():
    for dtype in (rl.bool, rl.int64, rl.float64):
        out = rl.ones(3, dtype=dtype)
        assert rl.bernoulli(rl.tensor([0.0, 1.0, 0.0]), out=out) is out
        assert out.tolist() == [0, 1, 0]
