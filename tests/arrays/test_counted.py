"""Distributions: moments and Kolmogorov-Smirnov at fixed seeds, ranges, errors, reproducibility."""

import math

import ml_dtypes
import numpy as np
import pytest

from rushlight.arrays import sampling
from rushlight.core import philox as rng
from rushlight.core.philox import PhiloxGenerator as Generator

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
N = 40_000


def seeded(seed=2024):
    return Generator().manual_seed(seed)


def erf(x):
    return np.array([math.erf(v) for v in x])


def normal_cdf(x):
    return 0.5 * (1 + erf(x / math.sqrt(2)))


def assert_follows(values, cdf):
    """Kolmogorov-Smirnov: the bound is exceeded by chance once in about 10**4."""
    x = np.sort(np.asarray(values, np.float64).reshape(-1))[::4]
    n = x.size
    theory = cdf(x)
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - theory), np.max(theory - steps[:-1]))
    assert distance < 2.3 / math.sqrt(n * 4) + 1 / n


def assert_counts(values, probabilities):
    """Chi-square over the given cells at about five standard deviations."""
    counts = np.bincount(values.astype(np.int64).reshape(-1), minlength=len(probabilities))
    assert counts.size == len(probabilities)
    expected = np.asarray(probabilities) * values.size
    assert not np.any(counts[expected == 0])
    used = expected > 5
    statistic = np.sum((counts[used] - expected[used]) ** 2 / expected[used])
    cells = int(used.sum())
    assert statistic < cells + 5 * math.sqrt(2 * cells)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform(dtype):
    values = sampling.uniform(seeded(), (N // 4, 4), dtype)
    assert values.shape == (N // 4, 4)
    assert values.dtype == dtype
    wide = values.astype(np.float64)
    assert wide.min() >= 0
    assert wide.max() < 1
    if dtype.itemsize > 2:
        assert_follows(wide, lambda x: x)
    else:
        step = 2.0 ** -sampling.SIGNIFICAND_BITS[dtype.name]
        assert abs(wide.mean() - (0.5 - step / 2)) < 0.01
        assert np.all(wide / step == np.round(wide / step))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("low", "high"), [(-3.0, 5.0), (10.0, 10.1), (0.0, 0.7), (2.0, 2.0)])
def test_uniform_stays_inside_its_bounds(dtype, low, high):
    values = sampling.uniform(seeded(), N, dtype, low, high)
    typed_low, typed_high = np.array([low, high]).astype(dtype)
    assert np.all(values >= typed_low)
    assert np.all(values < typed_high) or typed_low == typed_high
    if dtype.itemsize > 2 and high > low:
        assert_follows(values, lambda x: (x - low) / (high - low))


def test_uniform_uses_the_documented_bits():
    words = seeded().words(8)
    expected = (words >> np.uint32(8)).astype(np.float32) / np.float32(2**24)
    np.testing.assert_array_equal(sampling.uniform(seeded(), 8), expected)
    bits = words.view(np.uint64)
    expected64 = (bits >> np.uint64(11)).astype(np.float64) / 2.0**53
    np.testing.assert_array_equal(sampling.uniform(seeded(), 4, np.float64), expected64)


def test_uniform_complex():
    values = sampling.uniform(seeded(), (N, 1), np.complex64)
    assert values.shape == (N, 1)
    assert values.dtype == np.complex64
    assert_follows(values.real, lambda x: x)
    assert abs(np.corrcoef(values.real[:, 0], values.imag[:, 0])[0, 1]) < 0.03
    assert sampling.uniform(seeded(), (), np.complex128).shape == ()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal(dtype):
    values = sampling.normal(seeded(), N, dtype).astype(np.float64)
    assert abs(values.mean()) < 0.02
    assert abs(values.var() - 1) < 0.03
    assert abs((values**4).mean() - 3) < 0.25
    assert abs(np.corrcoef(values[0::2], values[1::2])[0, 1]) < 0.03
    if dtype.itemsize > 2:
        assert_follows(values[0::2], normal_cdf)
        assert_follows(values[1::2], normal_cdf)
    shifted = sampling.normal(seeded(), N, dtype, 3.0, 2.0).astype(np.float64)
    assert abs(shifted.mean() - 3) < 0.05
    assert abs(shifted.std() - 2) < 0.05


def test_normal_double_is_box_muller():
    bits = seeded().words(8).view(np.uint64).astype(object)
    u1, u2 = ((int(b) >> 11) * 2.0**-53 for b in bits[:2])
    radius, angle = math.sqrt(-2 * math.log(u1 + 2.0**-54)), 2 * math.pi * (u2 - 0.5)
    values = sampling.normal(seeded(), 4, np.float64)
    np.testing.assert_allclose(values[:2], [radius * math.cos(angle), radius * math.sin(angle)])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_normal_complex_splits_the_variance(dtype):
    values = sampling.normal(seeded(), (N,), dtype)
    assert values.dtype == dtype
    assert abs(values.real.var() - 0.5) < 0.02
    assert abs(values.imag.var() - 0.5) < 0.02
    near = sampling.normal(seeded(), 100, dtype, 5.0, 1e-3)
    np.testing.assert_allclose(near, 5 + 5j, rtol=2e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_continuous_distributions(dtype):
    assert_follows(sampling.exponential(seeded(), N, dtype, 2.0), lambda x: 1 - np.exp(-2 * x))
    assert sampling.exponential(seeded(), N, dtype).min() > 0
    assert_follows(
        sampling.cauchy(seeded(), N, dtype, 1.0, 3.0),
        lambda x: np.arctan((x - 1) / 3) / math.pi + 0.5,
    )
    assert_follows(
        sampling.log_normal(seeded(), N, dtype, 0.5, 0.25),
        lambda x: normal_cdf((np.log(x) - 0.5) / 0.25),
    )


def test_exponential_of_infinite_rate_is_zero():
    assert np.all(sampling.exponential(seeded(), 4, np.float32, math.inf) == 0)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.uint8])
def test_geometric(dtype):
    values = sampling.geometric(seeded(), N, dtype, 0.3)
    assert values.min() == 1
    shown = np.minimum(values, 12)
    cells = [0.0] + [0.3 * 0.7 ** (k - 1) for k in range(1, 12)] + [0.7**11]
    assert_counts(shown, cells)


def test_geometric_saturates_integers():
    assert sampling.geometric(seeded(), 200, np.uint8, 1e-6).max() == 255
    assert sampling.geometric(seeded(), 200, np.int64, 1e-18).min() > 0


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (0, 10), (-5, 8), (0, 256), (100, 100 + 3 * 2**15)],
)
def test_integers_small_spans(low, high):
    values = sampling.integers(seeded(), N, np.int64, low, high)
    assert values.min() >= low
    assert values.max() < high
    if high - low <= 256:
        assert_counts(values - low, [1 / (high - low)] * (high - low))
    else:
        assert_follows(values + 0.5, lambda x: (x - low) / (high - low))


SPANS = [3 * 2**30, 2**32, 2**40, 10**12, 3 * 2**47, 3 * 2**61, 2**63 - 1, 2**63, 3 * 2**62, 2**64]


@pytest.mark.parametrize("span", SPANS)
def test_integers_wide_spans(span):
    low = -(2**63)
    values = sampling.integers(seeded(), N, np.int64, low, low + span)
    exact = [int(v) - low for v in values]
    assert min(exact) >= 0
    assert max(exact) < span
    assert_follows(np.array([v / span for v in exact]), lambda x: x)
    low_bits = np.array([v % 4 for v in exact])
    assert_counts(low_bits, [0.25] * 4)


def test_integers_multiply_is_exact():
    span = 2**63 - 25
    bits = seeded().words(400 * 4).view(np.uint64).astype(object)
    expected = [((int(hi) << 64 | int(lo)) * span) >> 128 for lo, hi in bits.reshape(-1, 2)]
    values = sampling.integers(seeded(), 400, np.int64, 0, span)
    assert [int(v) for v in values] == expected
    span = 10**9 + 7
    bits = seeded().words(400 * 2).view(np.uint64).astype(object)
    values = sampling.integers(seeded(), 400, np.int64, 0, span)
    assert [int(v) for v in values] == [(int(b) * span) >> 64 for b in bits]


@pytest.mark.parametrize(
    ("dtype", "last"),
    [
        (np.bool_, 1),
        (np.uint8, 255),
        (np.int8, 127),
        (np.int16, 2**15 - 1),
        (np.int32, 2**31 - 1),
        (np.int64, 2**63 - 1),
        (np.uint64, 2**64 - 1),
        (np.float16, 2**11),
        (BFLOAT16, 2**8),
        (np.float32, 2**24),
        (np.float64, 2**53),
    ],
)
def test_full_range(dtype, last):
    values = sampling.full_range_bits(seeded(), N, dtype)
    assert values.dtype == dtype
    wide = values.astype(np.float64)
    assert wide.min() >= 0
    assert wide.max() <= last
    assert wide.max() > 0.99 * last
    assert abs(wide.mean() / last - 0.5) < 0.01


@pytest.mark.parametrize("p", [0.0, 0.3, 0.999, 1.0])
def test_bernoulli_number(p):
    values = sampling.bernoulli(seeded(), p, (N,), np.float32)
    assert values.dtype == np.float32
    assert set(np.unique(values)) <= {0.0, 1.0}
    assert abs(values.mean() - p) < 0.01
    if p in (0.0, 1.0):
        assert np.all(values == p)


def test_bernoulli_small_probability_is_not_rounded_up():
    p = 2.0**-40
    assert not sampling.bernoulli(seeded(), p, 1_000_000).any()
    assert 5 < sampling.bernoulli(seeded(), 1e-4, 200_000).sum() < 45


def test_bernoulli_array():
    p = np.array([0.0, 0.25, 0.75, 1.0], np.float32)
    values = sampling.bernoulli(seeded(), p, (N, 4))
    assert values.dtype == np.bool_
    np.testing.assert_allclose(values.mean(axis=0), p, atol=0.015)
    assert sampling.bernoulli(seeded(), p).shape == (4,)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000, 70_000])
def test_permutation(n):
    values = sampling.permutation(seeded(), n)
    assert values.dtype == np.int64
    np.testing.assert_array_equal(np.sort(values), np.arange(n))
    if n >= 1000:
        assert abs(np.corrcoef(values, np.arange(n))[0, 1]) < 0.15


def test_permutation_is_uniform():
    gen = seeded()
    codes = [
        int(a * 9 + b * 3 + c) for a, b, c in (sampling.permutation(gen, 3) for _ in range(3000))
    ]
    _, counts = np.unique(codes, return_counts=True)
    assert counts.size == 6
    assert np.all(np.abs(counts - 500) < 110)


def test_permutation_types():
    assert sampling.permutation(seeded(), 5, np.int8).dtype == np.int8
    assert sampling.permutation(seeded(), 5, np.float16).dtype == np.float16
    with pytest.raises(RuntimeError, match="without overflow"):
        sampling.permutation(seeded(), 300, np.uint8)
    with pytest.raises(RuntimeError, match="n cannot be greater than 2049 for Half type"):
        sampling.permutation(seeded(), 5000, np.float16)
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        sampling.permutation(seeded(), -1)


@pytest.mark.parametrize("rate", [0.0, 0.5, 4.0, 9.9, 10.0, 33.0])
def test_poisson(rate):
    values = sampling.poisson(seeded(), np.full(N, rate, np.float32))
    assert values.dtype == np.float32
    cells = [math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) if rate else float(k == 0)
             for k in range(int(values.max()) + 1)]  # fmt: skip
    assert_counts(values, cells)


@pytest.mark.parametrize("rate", [1e3, 1e6, 1e12])
def test_poisson_large(rate):
    values = sampling.poisson(seeded(), np.full(N, rate))
    if rate > 1e4:
        assert_follows((values + 0.5 - rate) / math.sqrt(rate), normal_cdf)
    assert abs(values.mean() - rate) < 5 * math.sqrt(rate / N)
    assert abs(values.var() / rate - 1) < 0.04


def test_poisson_mixed_rates_and_shape():
    rates = np.array([[0.0, 2.0, 50.0, np.inf]])
    values = sampling.poisson(seeded(), np.repeat(rates, 2000, axis=0))
    assert values.shape == (2000, 4)
    np.testing.assert_allclose(values[:, :3].mean(axis=0), rates[0, :3], rtol=0.05)
    assert np.all(values[:, 3] == np.inf)


@pytest.mark.parametrize(("n", "p"), [(1, 0.4), (20, 0.2), (20, 0.9), (60, 0.5), (200, 0.93)])
def test_binomial(n, p):
    values = sampling.binomial(seeded(), np.full(N, n, np.float32), np.full(N, p, np.float32))
    assert values.dtype == np.float32
    p = float(np.float32(p))
    cells = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    padded = np.append(values, np.float32(n))
    assert values.max() <= n
    counts = np.bincount(padded.astype(int), minlength=n + 1)
    counts[n] -= 1
    used = np.array(cells) * N > 5
    expected = np.array(cells)[used] * N
    statistic = np.sum((counts[used] - expected) ** 2 / expected)
    assert statistic < used.sum() + 5 * math.sqrt(2 * used.sum())


def test_binomial_edges():
    count = np.array([-1.0, 10.0, 10.0, 10.0, 10.0, np.nan, 0.0, 1e7])
    prob = np.array([0.5, 1.5, -1.0, 1.0, np.nan, 0.5, 0.5, 1e-9])
    values = sampling.binomial(seeded(), count, prob)
    np.testing.assert_array_equal(values, [0, 10, 0, 10, np.nan, np.nan, 0, 0])


def erlang_cdf(x, k):
    return 1 - np.exp(-x) * sum(x**j / math.factorial(j) for j in range(k))


def test_gamma():
    def draw(alpha, dtype=np.float64):
        return sampling.gamma(seeded(), np.full(N, alpha, dtype))

    assert_follows(draw(1.0), lambda x: 1 - np.exp(-x))
    assert_follows(draw(3.0), lambda x: erlang_cdf(x, 3))
    assert_follows(draw(0.5), lambda x: erf(np.sqrt(x)))
    for alpha in (0.1, 0.9, 40.0):
        values = draw(alpha)
        assert abs(values.mean() - alpha) < 5 * math.sqrt(alpha / N)
        assert abs(values.var() / alpha - 1) < 0.15
    assert draw(1e-4, np.float32).min() > 0
    assert draw(2.0, np.float32).dtype == np.float32


def test_gamma_edges():
    alpha = np.array([-1.0, 0.0, np.nan, np.inf], np.float32)
    values = sampling.gamma(seeded(), alpha)
    tiny = np.finfo(np.float32).tiny
    np.testing.assert_array_equal(values, np.array([tiny, tiny, np.nan, np.inf], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multinomial_with_replacement(dtype):
    weights = np.array([0.0, 1.0, 0.0, 2.0, 5.0, 0.0], dtype)
    values = sampling.multinomial(seeded(), weights, N, True)
    assert values.dtype == np.int64
    assert values.shape == (N,)
    assert_counts(values, weights.astype(np.float64) / 8)
    rows = sampling.multinomial(seeded(), np.stack([weights, weights[::-1]]), N, True)
    assert rows.shape == (2, N)
    assert_counts(rows[0], weights.astype(np.float64) / 8)
    assert_counts(rows[1], weights[::-1].astype(np.float64) / 8)


@pytest.mark.parametrize("categories", [1, 2, 3, 7, 8, 9, 100])
def test_multinomial_rows_agree_with_a_search_by_row(categories):
    weights = sampling.uniform(seeded(1), (3, categories), np.float64)
    rows = sampling.multinomial(seeded(), weights, 500, True)
    u = sampling.uniform(seeded(), (3, 500), np.float64)
    scaled = np.cumsum(weights / weights.max(axis=-1, keepdims=True), axis=-1)
    for row in range(3):
        expected = np.searchsorted(scaled[row], u[row] * scaled[row, -1], side="right")
        np.testing.assert_array_equal(rows[row], expected)


def test_multinomial_without_replacement():
    weights = np.tile(np.array([1.0, 2.0, 5.0, 0.0], np.float32), (N, 1))
    first = sampling.multinomial(seeded(), weights, 1)
    assert first.shape == (N, 1)
    assert_counts(first, [1 / 8, 2 / 8, 5 / 8, 0.0])
    order = sampling.multinomial(seeded(), weights, 4)
    np.testing.assert_array_equal(np.sort(order, axis=-1), np.tile(np.arange(4), (N, 1)))
    assert np.all(order[:, 3] == 3)
    assert_counts(order[:, 0], [1 / 8, 2 / 8, 5 / 8, 0.0])
    second_given_last = order[order[:, 0] == 2, 1]
    assert_counts(second_given_last, [1 / 3, 2 / 3, 0.0, 0.0])


def test_multinomial_of_huge_weights_does_not_overflow():
    values = sampling.multinomial(seeded(), np.full(4, 1e308), 1000, True)
    assert set(values) == {0, 1, 2, 3}


def test_multinomial_of_no_rows():
    assert sampling.multinomial(seeded(), np.ones((0, 3)), 2).shape == (0, 2)


F32 = np.float32
ERRORS = [
    (lambda g: sampling.uniform(g, 3, F32, 2, 1), RuntimeError,
     r"uniform_ expects to return a \[from, to\) range, but found from=2 > to=1"),
    (lambda g: sampling.uniform(g, 3, F32, 0, 1e39), RuntimeError, "to is out of bounds for float"),
    (lambda g: sampling.uniform(g, 3, F32, math.nan, 1), RuntimeError, "from is out of bounds"),
    (lambda g: sampling.uniform(g, 3, F32, -3e38, 3e38), RuntimeError, "to exceed the limit"),
    (lambda g: sampling.uniform(g, 3, np.int64), NotImplementedError,
     "\"check_uniform_bounds\" not implemented for 'Long'"),
    (lambda g: sampling.normal(g, 3, F32, 0, -1), RuntimeError,
     r"normal expects std >= 0.0, but found std -1"),
    (lambda g: sampling.normal(g, 3, np.int64), NotImplementedError, "normal_kernel_cpu"),
    (lambda g: sampling.log_normal(g, 3, F32, 0, 0), RuntimeError, "log_normal_ expects std > 0.0"),
    (lambda g: sampling.exponential(g, 3, F32, 0), RuntimeError,
     "exponential_ expects lambda > 0.0, but found lambda=0"),
    (lambda g: sampling.exponential(g, 3, np.int64), RuntimeError, "you specified Long"),
    (lambda g: sampling.cauchy(g, 3, F32, 0, 0), RuntimeError, "cauchy_ expects sigma > 0.0"),
    (lambda g: sampling.geometric(g, 3, F32, 1.0), RuntimeError,
     r"geometric_ expects p to be in \(0, 1\), but got p=1"),
    (lambda g: sampling.geometric(g, 3, np.bool_, 0.5), NotImplementedError, "geometric_cpu"),
    (lambda g: sampling.integers(g, 3, np.int64, 3, 3), RuntimeError,
     "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
    (lambda g: sampling.integers(g, 3, np.uint8, 0, 300), RuntimeError,
     "to - 1 is out of bounds for unsigned char"),
    (lambda g: sampling.integers(g, 3, np.uint8, -1, 3), RuntimeError,
     "from is out of bounds for unsigned char"),
    (lambda g: sampling.integers(g, 3, np.complex64, 0, 3), RuntimeError, "check_random_bounds"),
    (lambda g: sampling.full_range_bits(g, 3, np.complex64), NotImplementedError, "ComplexFloat"),
    (lambda g: sampling.bernoulli(g, 1.5, 3), RuntimeError,
     r"bernoulli_ expects p to be in \[0, 1\], but got p=1.5"),
    (lambda g: sampling.bernoulli(g, np.array([1.5])), RuntimeError, "Expected p_in >= 0"),
    (lambda g: sampling.poisson(g, np.array([-1.0])), RuntimeError, "invalid Poisson rate"),
    (lambda g: sampling.poisson(g, np.array([1])), NotImplementedError, "poisson_cpu"),
    (lambda g: sampling.binomial(g, np.array([1]), np.array([0.5])), ValueError,
     "binomial only supports floating-point dtypes for count, got: Long"),
    (lambda g: sampling.multinomial(g, np.array([-1.0, 2]), 1), RuntimeError, "element < 0"),
    (lambda g: sampling.multinomial(g, np.array([0.0, np.inf]), 1), RuntimeError, "`inf`"),
    (lambda g: sampling.multinomial(g, np.array([0.0, 0]), 1), RuntimeError, "sum of probab"),
    (lambda g: sampling.multinomial(g, np.array([0.0, 1]), 3), RuntimeError, "without replacement"),
    (lambda g: sampling.multinomial(g, np.array([0.0, 1]), 0), RuntimeError, "n_sample <= 0"),
    (lambda g: sampling.multinomial(g, np.array([0, 1]), 1), RuntimeError, "got: Long"),
    (lambda g: sampling.multinomial(g, np.ones((2, 2, 2)), 1), RuntimeError, "1 or 2 dim"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors_leave_the_generator_alone(call, error, message):
    gen = seeded()
    with pytest.raises(error, match=message):
        call(gen)
    assert gen.get_offset() == 0


def test_integers_beyond_a_floats_precision_warn():
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        sampling.integers(seeded(), 3, np.float32, 0, 2**40)


SAMPLERS = {
    "uniform": lambda g, n: sampling.uniform(g, n),
    "uniform64": lambda g, n: sampling.uniform(g, n, np.float64, -1, 3),
    "normal": lambda g, n: sampling.normal(g, n),
    "normal64": lambda g, n: sampling.normal(g, n, np.float64),
    "integers": lambda g, n: sampling.integers(g, n, np.int64, 0, 2**62 + 3),
    "exponential": lambda g, n: sampling.exponential(g, n),
    "cauchy": lambda g, n: sampling.cauchy(g, n),
    "geometric": lambda g, n: sampling.geometric(g, n, np.int64, 0.1),
    "bernoulli": lambda g, n: sampling.bernoulli(g, 0.5, n),
    "poisson": lambda g, n: sampling.poisson(g, np.full(n, 20.0)),
    "gamma": lambda g, n: sampling.gamma(g, np.full(n, 0.7)),
    "binomial": lambda g, n: sampling.binomial(g, np.full(n, 80.0), np.full(n, 0.3)),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_element_depends_on_its_index_alone(name, monkeypatch):
    draw = SAMPLERS[name]
    whole = draw(seeded(), 5000)
    for n in (1, 2, 3, 100, 1999):
        np.testing.assert_allclose(draw(seeded(), n), whole[:n], rtol=1e-5)
    chunked = rng.PhiloxGenerator.word_chunks
    monkeypatch.setattr(
        rng.PhiloxGenerator, "word_chunks", lambda gen, count, width: chunked(gen, count, width, 64)
    )
    np.testing.assert_allclose(draw(seeded(), 5000), whole, rtol=1e-5)


@pytest.mark.parametrize("name", SAMPLERS)
def test_empty_draws(name):
    gen = seeded()
    assert SAMPLERS[name](gen, 0).shape == (0,)
    assert gen.get_offset() == 0


def test_scalar_shape():
    assert sampling.uniform(seeded(), ()).shape == ()
    assert sampling.normal(seeded(), ()).shape == ()
    assert sampling.integers(seeded(), ()).shape == ()
