"""Random arrays from a `PhiloxGenerator`: the transforms from its words to distributions.

Every function reserves its words once and fills a C-contiguous array in logical element order;
element i depends on (seed, offset, i) alone. `sampling` checks what is given.
Words per element: 1 for results of at most 32 bits, 2 for 64 bits, 4 for wide odd integer spans;
rejection samplers own one counter per element and step its attempt word.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays.sampling import significand_bits
from rushlight.core.philox import blocks_at

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from rushlight.core.philox import PhiloxGenerator, U32Array, U64Array

    Array = NDArray[Any]
    F64Array = NDArray[np.float64]
    Shape = int | Sequence[int]
    Transform = Callable[[U32Array, Array], None]

TWO_PI = 2.0 * math.pi
HALF_LOG_TWO_PI = 0.5 * math.log(TWO_PI)

SMALLEST_BFLOAT16 = 1.1754943508222875e-38


def _smallest_normal(dtype: np.dtype[Any]) -> float:
    return SMALLEST_BFLOAT16 if dtype.name == "bfloat16" else float(np.finfo(dtype).tiny)


def _width(dtype: np.dtype[Any]) -> int:
    return 2 if dtype == np.float64 else 1


def _draw(
    gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], width: int, transform: Transform
) -> Array:
    out = np.empty(shape, dtype)
    count = out.size
    if count:
        flat = out.reshape(-1)
        for begin, end, words in gen.word_chunks(count, width):
            transform(words, flat[begin:end])
    return out


def _unit64(bits: U64Array) -> F64Array:
    """53-bit uniforms in [0, 1)."""
    result = (bits >> np.uint64(11)).view(np.int64).astype(np.float64)
    result *= 2.0**-53
    return result


def _unit64_open(bits: U64Array) -> F64Array:
    """Uniforms in (0, 1], for logarithms: the smallest is 2**-54."""
    result = _unit64(bits)
    result += 2.0**-54
    return result


def _unit32(words: U32Array) -> NDArray[np.float32]:
    """24-bit uniforms in [0, 1)."""
    # Below 2**24 the signed view is equal, and signed conversion is the vectorised one.
    result = (words >> np.uint32(8)).view(np.int32).astype(np.float32)
    result *= np.float32(2.0**-24)
    return result


def _unit32_open(words: U32Array) -> NDArray[np.float32]:
    """Uniforms in (0, 1], for logarithms: 32 bits near zero, the smallest is 2**-33."""
    result = words.astype(np.float32)
    result *= np.float32(2.0**-32)
    result += np.float32(2.0**-33)
    return result


def _unit(words: U32Array, out: Array) -> Array:
    """Uniforms in [0, 1) for a chunk, at the precision of `out`; at least float32."""
    count = out.shape[0]
    if out.dtype == np.float64:
        return _unit64(words[: 2 * count].view(np.uint64))
    bits = significand_bits(out.dtype)
    if bits == 24:
        return _unit32(words[:count])
    result = (words[:count] >> np.uint32(32 - bits)).view(np.int32).astype(np.float32)
    result *= np.float32(2.0**-bits)
    return result


def _unit_open(words: U32Array, out: Array) -> Array:
    """Uniforms in (0, 1] for a chunk: float64 for float64 results, else float32."""
    count = out.shape[0]
    if out.dtype == np.float64:
        return _unit64_open(words[: 2 * count].view(np.uint64))
    return _unit32_open(words[:count])


def uniform(
    gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], low: float = 0.0, high: float = 1.0
) -> Array:
    """Uniform on [low, high)."""
    if low == 0.0 and high == 1.0:
        fill_unit = _fill_unit32 if dtype == np.float32 else _fill_unit
        return _draw(gen, shape, dtype, _width(dtype), fill_unit)
    typed_low, typed_high = np.asarray(low).astype(dtype), np.asarray(high).astype(dtype)
    below_high = np.nextafter(typed_high, typed_low)

    def fill(words: U32Array, out: Array) -> None:
        values = _unit(words, out)
        values *= high - low
        values += low
        out[...] = values
        # Rounding can reach `high` itself, and `low` when it is not representable.
        np.maximum(out, typed_low, out=out)
        np.minimum(out, below_high, out=out)

    return _draw(gen, shape, dtype, _width(dtype), fill)


def _fill_unit32(words: U32Array, out: Array) -> None:
    bits = (words[: out.shape[0]] >> np.uint32(8)).view(np.int32)
    np.multiply(bits, np.float32(2.0**-24), out, casting="unsafe", dtype=np.float32)


def _fill_unit(words: U32Array, out: Array) -> None:
    out[...] = _unit(words, out)


def _log_radius(u: Array) -> Array:
    np.log(u, u)
    u *= -2.0
    return np.sqrt(u, u)


def _box_muller(words: U32Array, count: int, double: bool) -> Array:
    """`count` standard normals; elements 2j and 2j + 1 are the two values of pair j."""
    pairs = (count + 1) >> 1
    result: Array
    if double:
        bits = words[: 4 * pairs].view(np.uint64)
        radius = _log_radius(_unit64_open(bits[0::2]))
        # The tangent of the half angle gives both values; NumPy's float64 sin and cos are five
        # times slower than its tan.
        tangent = _unit64(bits[1::2])
        tangent -= 0.5
        tangent *= math.pi
        np.tan(tangent, tangent)
        scale = tangent * tangent
        scale += 1.0
        np.divide(2.0, scale, scale)
        result = np.empty((pairs, 2), np.float64)
        tangent *= scale
        scale -= 1.0
        np.multiply(radius, scale, result[:, 0])
        np.multiply(radius, tangent, result[:, 1])
    else:
        words = words[: 2 * pairs]
        radius = _log_radius(_unit32_open(words[0::2]))
        angle = _unit32(words[1::2])
        angle *= TWO_PI
        result = np.empty((pairs, 2), np.float32)
        np.multiply(radius, np.cos(angle), result[:, 0])
        np.multiply(radius, np.sin(angle, angle), result[:, 1])
    return result.reshape(-1)[:count]


def normal(
    gen: PhiloxGenerator,
    shape: Shape,
    dtype: np.dtype[Any],
    mean: float,
    std: float,
    is_contiguous: bool,
) -> Array:
    double = dtype == np.float64

    def fill(words: U32Array, out: Array) -> None:
        values = _box_muller(words, out.shape[0], double)
        if std != 1.0:
            values *= std
        if mean != 0.0:
            values += mean
        out[...] = values

    return _draw(gen, shape, dtype, _width(dtype), fill)


def log_normal(
    gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], mean: float, std: float
) -> Array:
    double = dtype == np.float64

    def fill(words: U32Array, out: Array) -> None:
        values = _box_muller(words, out.shape[0], double)
        values *= std
        values += mean
        with np.errstate(over="ignore"):
            out[...] = np.exp(values, values)

    return _draw(gen, shape, dtype, _width(dtype), fill)


def exponential(gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], rate: float) -> Array:
    """Never exactly zero, unless the rate is infinite."""
    # The mean of the values that round to zero.
    floor = 2.0**-54 if dtype == np.float64 else 2.0**-25

    def fill(words: U32Array, out: Array) -> None:
        values = _unit_open(words, out)
        np.log(values, values)
        np.negative(values, values)
        np.maximum(values, floor, out=values)
        values /= rate
        out[...] = values

    return _draw(gen, shape, dtype, _width(dtype), fill)


def cauchy(
    gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], median: float, sigma: float
) -> Array:
    """Through the tangent; computed in float64, since float32 angles miss the tails."""

    def fill(words: U32Array, out: Array) -> None:
        count = out.shape[0]
        if out.dtype == np.float64:
            values = _unit64_open(words[: 2 * count].view(np.uint64))
        else:
            values = words[:count].astype(np.float64)
            values += 0.5
            values *= 2.0**-32
        values -= 0.5
        values *= math.pi
        np.tan(values, values)
        values *= sigma
        values += median
        with np.errstate(over="ignore"):
            out[...] = values

    return _draw(gen, shape, dtype, _width(dtype), fill)


def geometric(gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], p: float) -> Array:
    """Integer types saturate."""
    scale = 1.0 / math.log1p(-p)
    # The largest float64 that converts to the type without overflow.
    limit = np.nextafter(float(np.iinfo(dtype).max) + 1.0, 0.0) if dtype.kind in "iu" else np.inf

    def fill(words: U32Array, out: Array) -> None:
        values = _unit64_open(words[: 2 * out.shape[0]].view(np.uint64))
        np.log(values, values)
        values *= scale
        np.ceil(values, values)
        np.clip(values, 1.0, limit, values)
        out[...] = values

    return _draw(gen, shape, dtype, 2, fill)


def _wide_product(a: U64Array, b: int) -> tuple[U64Array, U64Array]:
    """The 128-bit product of an array and a 64-bit scalar, as (high, low) halves."""
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    b_low, b_high = np.uint64(b & 0xFFFFFFFF), np.uint64(b >> 32)
    a_low, a_high = a & low, a >> half
    middle = a_low * b_low
    middle >>= half
    middle += a_high * b_low
    carry = middle >> half
    middle &= low
    middle += a_low * b_high
    middle >>= half
    high = a_high * b_high
    high += carry
    high += middle
    return high, a * np.uint64(b)


def integers(
    gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], low: int, span: int
) -> Array:
    """Integers on [low, low + span), of any span up to 2**64.

    Unless the span is a power of two, at least 16 more bits than it needs are multiplied by it,
    so no outcome's probability is off by more than one part in 2**16.
    """
    unsigned = dtype == np.uint64
    power_of_two = span & (span - 1) == 0
    exponent = span.bit_length() - 1
    width = 1 if span <= 1 << (32 if power_of_two else 16) else 2
    if span > 1 << 48 and not power_of_two:
        width = 4
    shift = np.uint64(32)
    low_bits = np.uint64(low & 0xFFFFFFFFFFFFFFFF)

    def fill(words: U32Array, out: Array) -> None:
        count = out.shape[0]
        if width == 1:
            values = words[:count].astype(np.uint64)
            values *= np.uint64(span)
            values >>= shift
        elif width == 2:
            bits = words[: 2 * count].view(np.uint64)
            if power_of_two:
                values = bits >> np.uint64(64 - exponent)
            elif span > 1 << 32:
                values = _wide_product(bits, span)[0]
            else:
                values = bits & np.uint64(0xFFFFFFFF)
                values *= np.uint64(span)
                values >>= shift
                values += (bits >> shift) * np.uint64(span)
                values >>= shift
        else:
            bits = words[: 4 * count].view(np.uint64)
            values, product = _wide_product(bits[1::2], span)
            carried = product + _wide_product(bits[0::2], span)[0]
            values += carried < product
        if low:
            values += low_bits
        out[...] = values if unsigned else values.view(np.int64)

    return _draw(gen, shape, dtype, width, fill)


def full_range(gen: PhiloxGenerator, shape: Shape, dtype: np.dtype[Any], last: int) -> Array:
    return integers(gen, shape, dtype, 0, last + 1)


def bernoulli(gen: PhiloxGenerator, p: float, shape: Shape, dtype: np.dtype[Any]) -> Array:
    # 32 bits make p exact to 2**-33; small ones need finer steps.
    wide = 0.0 < p < 2.0**-12
    threshold = min(round(p * 2.0 ** (64 if wide else 32)), 0xFFFFFFFFFFFFFFFF)

    def fill(words: U32Array, out: Array) -> None:
        count = out.shape[0]
        if wide:
            out[...] = words[: 2 * count].view(np.uint64) < np.uint64(threshold)
        elif threshold >> 32:
            out[...] = 1
        else:
            out[...] = words[:count] < np.uint32(threshold)

    return _draw(gen, shape, dtype, 2 if wide else 1, fill)


def bernoulli_each(gen: PhiloxGenerator, p: Array, dtype: np.dtype[Any]) -> Array:
    u = uniform(gen, p.shape, np.dtype(np.float64))
    return (u < p.astype(np.float64, copy=False)).astype(dtype)


def permutation(gen: PhiloxGenerator, n: int, dtype: np.dtype[Any]) -> Array:
    # Random high bits above the index in one word: sorting words is far quicker than sorting
    # indices by key, and equal keys keep a defined order on every machine.
    low = np.uint64((1 << max(n - 1, 1).bit_length()) - 1)
    keys = integers(gen, n, np.dtype(np.uint64), 0, 1 << 64)
    keys |= low
    keys ^= low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low
    return keys.astype(dtype)


def multinomial(gen: PhiloxGenerator, probs: Array, n: int, replacement: bool) -> Array:
    rows, categories = probs.shape
    # Scaled by the largest weight, sums cannot overflow.
    weights = probs.astype(np.float64)
    weights /= weights.max(axis=-1, keepdims=True, initial=0.0)
    double = np.dtype(np.float64)
    if replacement:
        return _first_above(np.cumsum(weights, axis=-1), uniform(gen, (rows, n), double))
    # An exponential race: the order of arrivals at rates `weights` is sequential sampling.
    with np.errstate(divide="ignore", over="ignore"):
        arrival = exponential(gen, (rows, categories), double, 1.0) / weights
    if n == 1:
        return np.asarray(arrival.argmin(axis=-1, keepdims=True))
    return np.argsort(arrival, axis=-1, kind="stable")[:, :n]


def _first_above(cumulative: F64Array, u: F64Array) -> NDArray[np.int64]:
    """Per row, the first index whose cumulative weight exceeds u times the total. A category of
    weight zero never rises above its predecessor, so it is never found."""
    rows, categories = cumulative.shape
    total = cumulative[:, -1:]
    target = np.minimum(u * total, np.nextafter(total, 0.0))
    if rows == 1:
        found: NDArray[np.int64] = np.searchsorted(cumulative[0], target[0], side="right")
        return found.reshape(1, -1)
    first = np.zeros(u.shape, np.int64)
    last = np.full(u.shape, categories - 1, np.int64)
    for _ in range(categories.bit_length()):
        middle = (first + last) >> 1
        above = np.take_along_axis(cumulative, middle, axis=-1) > target
        last = np.where(above, middle, last)
        first = np.where(above, first, np.minimum(middle + 1, last))
    return first


class _Trials:
    """Rejection sampling over shrinking masks: element i owns counter offset + i, and trial t of
    it reads the block whose attempt word is t."""

    def __init__(self, gen: PhiloxGenerator, count: int) -> None:
        self.seed, offset = gen.claim(count)
        with np.errstate(over="ignore"):
            self.counters = np.arange(count, dtype=np.uint64) + np.uint64(offset)

    def bits(self, index: NDArray[np.intp], attempt: int, lane: int = 0) -> U64Array:
        return blocks_at(self.seed, self.counters[index], attempt, lane)


# The inversion loops stop here: with a mean below 10, more is rarer than 2**-64.
INVERSION_LIMIT = 64
INVERSION_MEAN = 10.0


def _invert(
    u: F64Array, first: F64Array, ratio: Callable[[NDArray[np.intp], int], F64Array]
) -> F64Array:
    """Discrete inversion by summing probabilities from zero: P(k) = P(k - 1) * ratio(., k)."""
    result = np.zeros(u.shape, np.float64)
    index = np.flatnonzero(u >= first)
    mass, u = first[index], u[index]
    rest = u - mass
    for k in range(1, INVERSION_LIMIT):
        if not index.size:
            break
        result[index] = k
        mass = mass * ratio(index, k)
        keep = rest >= mass
        index, rest, mass = index[keep], (rest - mass)[keep], mass[keep]
    return result


@lru_cache(maxsize=1)
def _small_tails() -> F64Array:
    return np.array(
        [
            math.lgamma(k + 1) - HALF_LOG_TWO_PI - (k + 0.5) * math.log(k + 1) + (k + 1)
            for k in range(10)
        ]
    )


def _stirling_tail(k: F64Array) -> F64Array:
    """log(k!) - [log(2 pi) / 2 + (k + 1/2) log(k + 1) - (k + 1)], for integral k >= 0."""
    square = 1.0 / ((k + 1) * (k + 1))
    series = (1 / 12 - (1 / 360 - square / 1260) * square) / (k + 1)
    table = _small_tails()[np.clip(k, 0, 9).astype(np.intp)]
    return np.where(k < 10, table, series)


def poisson(gen: PhiloxGenerator, lam: F64Array) -> F64Array:
    trials = _Trials(gen, lam.size)
    result = lam.copy()  # an infinite rate is its own count
    small = np.flatnonzero(lam < INVERSION_MEAN)
    if small.size:
        rate = lam[small]
        u = _unit64(trials.bits(small, 0)[:, 0])
        result[small] = _invert(u, np.exp(-rate), lambda index, k: rate[index] / k)
    large = np.flatnonzero((lam >= INVERSION_MEAN) & (lam < np.inf))
    if large.size:
        _poisson_by_rejection(trials, lam, large, result)
    return result


def _poisson_by_rejection(
    trials: _Trials, lam: F64Array, pending: NDArray[np.intp], result: F64Array
) -> None:
    """Transformed rejection with squeeze (PTRS, W. Hoermann 1993)."""
    attempt = 0
    while pending.size:
        rate = lam[pending]
        b = 0.931 + 2.53 * np.sqrt(rate)
        a = -0.059 + 0.02483 * b
        bits = trials.bits(pending, attempt)
        u = _unit64_open(bits[:, 0]) - 0.5
        v = _unit64_open(bits[:, 1])
        us = np.maximum(0.5 - np.abs(u), 2.0**-54)
        k = np.floor((2 * a / us + b) * u + rate + 0.43)
        accept = (us >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        exact = ~accept & (k >= 0) & ((us >= 0.013) | (v <= us))
        k1 = np.maximum(k, 0.0) + 1
        # k log(rate) - rate - log(k!), arranged so that large terms cancel before they round.
        log_mass = (
            -(k1 - 1) * np.log1p((k1 - rate) / rate)
            + (k1 - rate)
            - 0.5 * np.log(k1)
            - HALF_LOG_TWO_PI
            - _stirling_tail(k1 - 1)
        )
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        accept |= exact & (np.log(v * inverse_alpha / (a / (us * us) + b)) <= log_mass)
        result[pending[accept]] = k[accept]
        pending = pending[~accept]
        attempt += 1


def binomial(gen: PhiloxGenerator, n: F64Array, p: F64Array) -> F64Array:
    """torch: a negative count gives 0, a probability outside [0, 1] counts as its nearer end, and
    nan gives nan."""
    n = np.maximum(np.floor(n), 0.0)
    p = np.clip(p, 0.0, 1.0)
    flip = p > 0.5
    q = np.where(flip, 1.0 - p, p)
    result = np.where(q == 0.0, 0.0, n * q)
    trials = _Trials(gen, n.size)
    active = (q > 0) & (n > 0) & (n < np.inf)
    small = np.flatnonzero(active & (n * q < INVERSION_MEAN))
    if small.size:
        ns, qs = n[small], q[small]
        odds = qs / (1.0 - qs)
        u = _unit64(trials.bits(small, 0)[:, 0])
        first = np.exp(ns * np.log1p(-qs))
        counts = _invert(u, first, lambda i, k: odds[i] * np.maximum(ns[i] - (k - 1), 0.0) / k)
        result[small] = np.minimum(counts, ns)
    large = np.flatnonzero(active & (n * q >= INVERSION_MEAN))
    if large.size:
        _binomial_by_rejection(trials, n, q, large, result)
    return np.where(flip, n - result, result)


def _binomial_by_rejection(
    trials: _Trials, n_all: F64Array, p_all: F64Array, pending: NDArray[np.intp], result: F64Array
) -> None:
    """Transformed rejection with squeeze (BTRS, W. Hoermann 1993), for p <= 1/2."""
    attempt = 0
    while pending.size:
        n, p = n_all[pending], p_all[pending]
        deviation = np.sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        bits = trials.bits(pending, attempt)
        u = _unit64_open(bits[:, 0]) - 0.5
        v = _unit64_open(bits[:, 1])
        us = np.maximum(0.5 - np.abs(u), 2.0**-54)
        k = np.floor((2 * a / us + b) * u + n * p + 0.5)
        accept = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
        inside = (k >= 0) & (k <= n)
        kc = np.clip(k, 0.0, n)
        odds = p / (1 - p)
        alpha = (2.83 + 5.1 / b) * deviation
        mode = np.floor((n + 1) * p)
        bound = (
            (mode + 0.5) * np.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * np.log((n - mode + 1) / (n - kc + 1))
            + (kc + 0.5) * np.log(odds * (n - kc + 1) / (kc + 1))
            + _stirling_tail(mode)
            + _stirling_tail(n - mode)
            - _stirling_tail(kc)
            - _stirling_tail(n - kc)
        )
        accept |= inside & (np.log(v * alpha / (a / (us * us) + b)) <= bound)
        accept &= inside
        result[pending[accept]] = k[accept]
        pending = pending[~accept]
        attempt += 1


def gamma(gen: PhiloxGenerator, shape: F64Array, dtype: np.dtype[Any]) -> F64Array:
    """Standard gamma of the given shapes, at least the smallest normal number of a type.

    G. Marsaglia and W. W. Tsang 2000; a shape below 1 is drawn at shape + 1 and scaled back.
    """
    trials = _Trials(gen, shape.size)
    result = np.where(np.isnan(shape), np.nan, np.where(shape == np.inf, np.inf, 0.0))
    boosted = shape < 1.0
    d_all = np.where(boosted, shape + 1.0, shape) - 1.0 / 3.0
    pending = np.flatnonzero((shape > 0) & (shape < np.inf))
    attempt = 0
    while pending.size:
        d = d_all[pending]
        bits = trials.bits(pending, attempt)
        more = trials.bits(pending, attempt, lane=1)
        x = np.sqrt(-2.0 * np.log(_unit64_open(bits[:, 0])))
        x *= np.cos(TWO_PI * _unit64(bits[:, 1]))
        v = 1.0 + x / np.sqrt(9.0 * d)
        positive = v > 0
        v = np.where(positive, v, 1.0)
        v = v * v * v
        log_u = np.log(_unit64_open(more[:, 0]))
        accept = positive & (log_u < 0.5 * x * x + d * (1.0 - v + np.log(v)))
        chosen = pending[accept]
        log_value = np.log(d[accept] * v[accept])
        boost = np.log(_unit64_open(more[accept, 1])) / shape[chosen]
        result[chosen] = np.exp(log_value + np.where(boosted[chosen], boost, 0.0))
        pending = pending[~accept]
        attempt += 1
    return np.maximum(result, _smallest_normal(dtype))
