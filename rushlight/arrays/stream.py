"""Random arrays from the Mersenne twister, by torch's recipes for its CPU generator.

Each function takes the words that torch takes, in its order, and turns them into the same numbers:
bit for bit where no transcendental function is involved. A single-precision uniform is the low 24
bits of a word, a double one the low 53 of two, the first being the high half. Arrays are
C-contiguous and filled in order; `sampling` checks what is given.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays import boxmuller
from rushlight.core.longdraws import native_draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from rushlight.core.rng import Generator, U32Array

    Array = NDArray[Any]
    F32Array = NDArray[np.float32]
    F64Array = NDArray[np.float64]
    Shape = int | Sequence[int]

MASK24, MASK53 = 0xFFFFFF, (1 << 53) - 1
SCALE24, SCALE53 = 2.0**-24, 2.0**-53
LOW_BITS = np.uint32(MASK24)
UNIT = np.float32(SCALE24)
# As a ufunc operand a 0-d array costs less than a NumPy scalar.
HALF, LOW_53 = np.array(32, np.uint64), np.array(MASK53, np.uint64)
# Words that are turned into numbers at once: whole blocks of the twister and of normals, which stay
# in the cache with all that is computed on the way.
LOT = 624 * 52
# From here on torch takes two words for an integer.
WIDE_SPAN = 1 << 28
# Below this torch shuffles from the front, with one word for each element.
LONG_PERMUTATION = 0xFFFFFFFF // 20
# From here on arrays beat a loop over the elements.
VECTORISED_SHUFFLE = 500
TWO_PI = 2.0 * math.pi


# -- uniforms --------------------------------------------------------------------------------------


def count_of(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def unit32(words: U32Array, out: F32Array) -> None:
    """24-bit uniforms in [0, 1)."""
    # Words of the generator's window are shared. The signed view is equal, and signed conversion is
    # the vectorised one.
    bits = np.bitwise_and(words, LOW_BITS, words if words.flags.writeable else None)
    out[...] = bits.view(np.int32)
    out *= UNIT


def unit64(words: U32Array) -> F64Array:
    """53-bit uniforms in [0, 1), of two words each."""
    bits = wide(words)
    bits &= LOW_53
    result = bits.view(np.int64).astype(np.float64)
    result *= SCALE53
    return result


def wide(words: U32Array) -> NDArray[np.uint64]:
    """64-bit numbers of two words each, the first being the high half."""
    # Two words of a little-endian machine are one number, the second its high half.
    pairs = words.view(np.uint64)
    high = pairs << HALF
    high |= pairs >> HALF
    return high


def lots(gen: Generator, count: int, width: int) -> Iterator[tuple[int, int, U32Array]]:
    """(begin, end, words) of parts of `count` elements of `width` words. Draws under the lock."""
    with gen.lock:
        if count * width <= LOT:
            yield 0, count, gen.take(count * width)
            return
        step = LOT // width
        for begin in range(0, count, step):
            end = min(begin + step, count)
            yield begin, end, gen.take((end - begin) * width)


def drawn_natively(gen: Generator, out: Array, name: str) -> bool:
    """Fill with words what a native loop then turns into numbers; False where there is none."""
    run = native_draw(name, out.shape[0])
    if run is None:
        return False
    words = out.view(np.uint32)
    with gen.lock:
        for begin in range(0, words.shape[0], LOT):
            part = words[begin : begin + LOT]
            gen.fill(part)
            run(part, part.shape[0] * 4 // out.itemsize)
    return True


def uniforms(gen: Generator, count: int) -> F32Array:
    out = np.empty(count, np.float32)
    if not drawn_natively(gen, out, "unit32"):
        for begin, end, words in lots(gen, count, 1):
            unit32(words, out[begin:end])
    return out


def doubles(gen: Generator, count: int) -> F64Array:
    if 2 * count <= LOT and native_draw("unit64", count) is None:
        with gen.lock:
            return unit64(gen.take(2 * count))
    out = np.empty(count, np.float64)
    if not drawn_natively(gen, out, "unit64"):
        for begin, end, words in lots(gen, count, 2):
            out[begin:end] = unit64(words)
    return out


def uniform(gen: Generator, shape: Shape, dtype: np.dtype[Any], low: float, high: float) -> Array:
    count = count_of(shape)
    if dtype == np.float32 and low == 0.0 and high == 1.0:
        return uniforms(gen, count).reshape(shape)
    if dtype == np.float64:
        values: Array = doubles(gen, count)
        if low != 0.0 or high != 1.0:
            values = multiply_add64(values, high - low, low)
    else:
        values = uniforms(gen, count)
        if low != 0.0 or high != 1.0:
            # torch: rounded once, and bounds have single precision for narrower types too.
            first, last = np.float32(low), np.float32(high)
            values = multiply_add32(values, last - first, first)
        values = values.astype(dtype, copy=False)
    # Rounding can reach the upper bound.
    end = np.asarray(high).astype(dtype)
    reached = values == end
    if reached.any():
        values[reached] = np.asarray(low).astype(dtype)
    return values.reshape(shape)


def multiply_add32(values: F32Array, factor: Any, term: Any) -> F32Array:
    """values * factor + term, rounded once: the product is exact in double precision. May be in
    place."""
    run = native_draw("affine32", values.shape[0])
    if run is not None:
        run(values, np.array([factor, term], np.float64), values.shape[0])
        return values
    product = values.astype(np.float64)
    product *= float(factor)
    product += float(term)
    return product.astype(np.float32)


def multiply_add64(values: F64Array, factor: float, term: float) -> F64Array:
    """values * factor + term, rounded once: with the errors of the product and of the sum."""
    if term == 0.0:
        return values * factor
    if not (math.isfinite(term) and math.isfinite(factor)):
        return values * factor + term
    product = values * factor
    high, low = split(values)
    factor_high, factor_low = split(np.float64(factor))
    error = ((high * factor_high - product) + high * factor_low + low * factor_high) + (
        low * factor_low
    )
    total = product + term
    part = total - product
    error += (product - (total - part)) + (term - part)
    total += error
    return total


def split(value: Any) -> tuple[Any, Any]:
    """A double as the sum of two with half the bits each, whose products are exact."""
    scaled = value * 134217729.0
    high = scaled - (scaled - value)
    return high, value - high


# -- normals ---------------------------------------------------------------------------------------


def normal(
    gen: Generator,
    shape: Shape,
    dtype: np.dtype[Any],
    mean: float,
    std: float,
    is_contiguous: bool,
) -> Array:
    count = count_of(shape)
    if count < 16 or not is_contiguous:
        return paired_normals(gen, count, mean, std).astype(dtype).reshape(shape)
    if dtype == np.float64:
        wide_values = normal_blocks64(gen, count)
        if std != 1.0 or mean != 0.0:
            wide_values = multiply_add64(wide_values, std, mean)
        return wide_values.reshape(shape)
    values = normal_blocks32(gen, count, dtype == np.float32)
    if mean != 0.0:
        values = multiply_add32(values, np.float32(std), np.float32(mean))
    elif std != 1.0:
        values *= np.float32(std)
    return values.astype(dtype, copy=False).reshape(shape)


def normal_blocks32(gen: Generator, count: int, takes_all: bool) -> F32Array:
    """Box and Muller's normals in blocks of sixteen: eight radii, then eight angles.

    What does not fill a block is drawn again, as the last sixteen values. torch: the narrow types
    do not draw it the first time.
    """
    out = np.empty(count, np.float32)
    whole = count & ~15
    rest = count - whole
    first = max(whole - 1, 0) // LOT * LOT
    run = native_draw("normals32", count)

    def draw(part: F32Array) -> None:
        if run is None:
            unit32(gen.take(part.shape[0]), part)
        else:
            gen.fill(part.view(np.uint32))

    def transform(part: F32Array) -> None:
        if run is None:
            boxmuller.transform32(part)
        else:
            run(part, part.shape[0])

    with gen.lock:
        for begin in range(0, first, LOT):
            part = out[begin : begin + LOT]
            draw(part)
            transform(part)
        last = np.empty(whole - first + (16 if rest else 0), np.float32)
        draw(last[: whole - first])
        if rest:
            if takes_all:
                gen.take(rest)
            draw(last[-16:])
        transform(last)
    out[first:whole] = last[: whole - first]
    if rest:
        out[-16:] = last[-16:]
    return out


def normal_blocks64(gen: Generator, count: int) -> F64Array:
    whole = count & ~15
    with gen.lock:
        out = doubles(gen, count)
        last = doubles(gen, 16 if count != whole else 0)
    for begin in range(0, whole, LOT):
        boxmuller.transform64(out[begin : min(begin + LOT, whole)])
    if count != whole:
        boxmuller.transform64(last)
        out[count - 16 :] = last
    return out


def paired_normals(gen: Generator, count: int, mean: float, std: float) -> F64Array:
    """Normals by pairs, in double precision; the second of a pair waits for the next draw."""
    out = np.empty(count, np.float64)
    with gen.lock:
        begin = 0
        if count and gen.kept_double is not None:
            out[0], gen.kept_double, begin = gen.kept_double, None, 1
        rest = count - begin
        if rest > 16:
            u = doubles(gen, rest + (rest & 1))
            radius = np.sqrt(-2.0 * np.log1p(-u[1::2]))
            angle = TWO_PI * u[0::2]
            out[begin::2] = radius * np.cos(angle)
            second = radius * np.sin(angle)
            out[begin + 1 :: 2] = second[: rest >> 1]
            if rest & 1:
                gen.kept_double = float(second[-1])
        elif rest:
            draws = doubles(gen, rest + (rest & 1)).tolist()
            values: list[float] = []
            for first, other in zip(draws[0::2], draws[1::2], strict=True):
                values += normal_pair(first, other)
            if rest & 1:
                gen.kept_double = values.pop()
            out[begin:] = values
    if std != 1.0 or mean != 0.0:
        return multiply_add64(out, std, mean)
    return out


def normal_pair(first: float, other: float) -> tuple[float, float]:
    radius = math.sqrt(-2.0 * math.log1p(-other))
    angle = TWO_PI * first
    return radius * math.cos(angle), radius * math.sin(angle)


def log_normal(
    gen: Generator, shape: Shape, dtype: np.dtype[Any], mean: float, std: float
) -> Array:
    values = paired_normals(gen, count_of(shape), mean, std)
    with np.errstate(over="ignore"):
        return np.exp(values, values).astype(dtype).reshape(shape)


# -- by inversion ----------------------------------------------------------------------------------


def exponential(gen: Generator, shape: Shape, dtype: np.dtype[Any], rate: float) -> Array:
    values = doubles(gen, count_of(shape))
    np.log1p(np.negative(values, values), values)
    values *= -1.0 / rate
    return values.astype(dtype, copy=False).reshape(shape)


def cauchy(
    gen: Generator, shape: Shape, dtype: np.dtype[Any], median: float, sigma: float
) -> Array:
    values = doubles(gen, count_of(shape))
    values -= 0.5
    values *= math.pi
    values = multiply_add64(np.tan(values, values), sigma, median)
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False).reshape(shape)


def geometric(gen: Generator, shape: Shape, dtype: np.dtype[Any], p: float) -> Array:
    """Integer types saturate."""
    values = doubles(gen, count_of(shape))
    with np.errstate(divide="ignore"):
        np.log(values, values)
    values /= math.log1p(-p)
    np.ceil(values, values)
    if dtype.kind in "iu":
        # The largest float64 that converts to the type without overflow.
        np.minimum(values, np.nextafter(float(np.iinfo(dtype).max) + 1.0, 0.0), values)
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False).reshape(shape)


# -- integers --------------------------------------------------------------------------------------


def integers(gen: Generator, shape: Shape, dtype: np.dtype[Any], low: int, span: int) -> Array:
    """The remainder of one word, or two, by the span."""
    width = 2 if span >= WIDE_SPAN else 1
    if span > 0xFFFFFFFFFFFFFFFF:
        low = 0  # torch: all of them are the bits as they come
    return remainders(gen, shape, dtype, low, span, width)


def full_range(gen: Generator, shape: Shape, dtype: np.dtype[Any], last: int) -> Array:
    width = 2 if dtype.itemsize == 8 else 1
    return remainders(gen, shape, dtype, 0, last + 1, width)


def remainders(
    gen: Generator, shape: Shape, dtype: np.dtype[Any], low: int, span: int, width: int
) -> Array:
    out = np.empty(shape, dtype)
    flat = out.reshape(-1)
    for begin, end, words in lots(gen, flat.shape[0], width):
        values: Array = words if width == 1 else wide(words)
        if span <= np.iinfo(values.dtype).max:
            # Division by a number is vectorised, and the remainder is not.
            divisor = values.dtype.type(span)
            values = values - values // divisor * divisor
        if low:
            values = values.astype(np.uint64)
            values += np.uint64(low & 0xFFFFFFFFFFFFFFFF)
            values = values if dtype == np.uint64 else values.view(np.int64)
        flat[begin:end] = values
    return out


# The native loops that compare with a probability, by the dtype of what they answer.
BELOW = {np.dtype(np.bool_): "below8", np.dtype(np.float32): "below32"}


def bernoulli(gen: Generator, p: float, shape: Shape, dtype: np.dtype[Any]) -> Array:
    out = np.empty(shape, dtype)
    flat = out.reshape(-1)
    # u < p for 53-bit uniforms u, asked of their bits.
    limit = math.ceil(math.ldexp(p, 53))
    run = native_draw(BELOW[dtype], flat.shape[0]) if dtype in BELOW else None
    if run is not None:
        memory = np.empty(min(2 * flat.shape[0], LOT), np.uint32)
        with gen.lock:
            for begin in range(0, flat.shape[0], LOT // 2):
                part = flat[begin : begin + LOT // 2]
                words = memory[: 2 * part.shape[0]]
                gen.fill(words)
                run(words, part, limit, part.shape[0])
        return out
    threshold = np.uint64(limit)
    for begin, end, words in lots(gen, flat.shape[0], 2):
        bits = wide(words)
        bits &= LOW_53
        np.less(bits, threshold, out=flat[begin:end], casting="unsafe")
    return out


def bernoulli_each(gen: Generator, p: Array, dtype: np.dtype[Any]) -> Array:
    if p.dtype == np.float64:
        return (doubles(gen, p.size).reshape(p.shape) < p).astype(dtype)
    return (uniforms(gen, p.size).reshape(p.shape) < p.astype(np.float32)).astype(dtype)


def permutation(gen: Generator, n: int, dtype: np.dtype[Any]) -> Array:
    """Fisher and Yates's shuffle."""
    if n < LONG_PERMUTATION:
        with gen.lock:
            words = gen.take(max(n - 1, 0))
        # A step costs NumPy as much as many words.
        run = native_draw("shuffle", 8 * n)
        if run is not None:
            shuffle = np.empty(n, np.int64)
            run(words, shuffle, n)
            return shuffle.astype(dtype, copy=False)
        steps = np.arange(max(n - 1, 0), dtype=np.uint32)
        partners = words % (np.uint32(n) - steps)
        partners += steps
        if n >= VECTORISED_SHUFFLE:
            return shuffled(partners, n).astype(dtype, copy=False)
        order = list(range(n))
        for i, j in enumerate(partners.tolist()):
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype)
    order = list(range(n))
    for begin, end, words in lots(gen, n, 2):
        places = wide(words) % np.arange(begin + 1, end + 1, dtype=np.uint64)
        for i, j in enumerate(places.tolist(), begin):
            order[i], order[j] = order[j], i
    return np.array(order, dtype)


def shuffled(partners: U32Array, n: int) -> NDArray[np.int64]:
    """range(n) after place i has changed with place partners[i], for each i in turn.

    A place is final after its own step. Step i finds there what the last step before it with the
    same partner left, which is what that one had found at its own place; or else the first value.
    """
    steps = np.arange(n - 1)
    partners = partners.astype(np.int64)
    # What place k holds before step k was brought by the last step whose partner it is, from there.
    brought_by = np.arange(n)
    is_other = partners != steps
    brought_by[partners[is_other]] = steps[is_other]
    while True:
        further = brought_by[brought_by]
        if np.array_equal(further, brought_by):
            break
        brought_by = further
    # Steps with the same partner follow one another, in order.
    keys = partners.astype(np.uint64) << np.uint64(32)
    keys |= steps.astype(np.uint64)
    keys.sort()
    ordered = (keys & np.uint64(0xFFFFFFFF)).view(np.int64)
    keys >>= np.uint64(32)
    follows = keys[1:] == keys[:-1]
    result = np.empty(n, np.int64)
    result[:-1] = partners
    result[ordered[1:][follows]] = brought_by[ordered[:-1][follows]]
    result[-1] = brought_by[-1]
    return result


def multinomial(gen: Generator, probs: Array, n: int, replacement: bool) -> Array:
    rows = probs.shape[0]
    if not replacement or n == 1:
        # An exponential race, run in the weights' own type.
        # torch: drawn in the order of the weights in memory.
        is_turned = abs(probs.strides[0]) < abs(probs.strides[1])
        race = exponential(gen, probs.shape[::-1] if is_turned else probs.shape, probs.dtype, 1.0)
        race = race.T if is_turned else race
        with np.errstate(divide="ignore", over="ignore"):
            score = probs / race
        if n == 1:
            return np.asarray(score.argmax(axis=-1, keepdims=True))
        return np.argsort(-score, axis=-1, kind="stable")[:, :n]
    weights = probs if probs.dtype.itemsize > 2 else probs.astype(np.float32)
    cumulative = np.cumsum(weights, axis=-1, dtype=weights.dtype)
    cumulative /= cumulative[:, -1:].copy()
    cumulative[:, -1] = 1
    draws = doubles(gen, rows * n).reshape(rows, n)
    result = np.empty((rows, n), np.int64)
    for row in range(rows):
        result[row] = np.searchsorted(cumulative[row].astype(np.float64), draws[row])
    return result


# -- by rejection ----------------------------------------------------------------------------------


class Uniforms:
    """Double uniforms one by one. Words that are not used go back to the generator on leaving."""

    def __init__(self, gen: Generator) -> None:
        self.gen = gen
        self.words: list[int] = []
        self.place = 0

    def __enter__(self) -> Uniforms:
        self.gen.lock.acquire()
        return self

    def __exit__(self, *exception: object) -> None:
        self.gen.put_back(len(self.words) - self.place)
        self.gen.lock.release()

    def draw(self) -> float:
        place = self.place
        words = self.words
        if place + 1 >= len(words):
            # A block at a time: what is left of it can be put back.
            words = self.words = words[place:] + self.gen.take_block().tolist()
            if len(words) < 2:
                words += self.gen.take_block().tolist()
            place = 0
        self.place = place + 2
        return ((words[place] << 32 | words[place + 1]) & MASK53) * SCALE53

    def normal(self) -> float:
        kept = self.gen.kept_double
        if kept is not None:
            self.gen.kept_double = None
            return kept
        first = self.draw()
        value, self.gen.kept_double = normal_pair(first, self.draw())
        return value


def poisson(gen: Generator, lam: F64Array) -> F64Array:
    with Uniforms(gen) as source:
        draw = source.draw
        counts = [poisson_count(rate, draw) for rate in lam.tolist()]
    return np.array(counts, np.float64)


def poisson_count(rate: float, draw: Callable[[], float]) -> float:
    """Multiplied uniforms, or from 10 on transformed rejection (PTRS, W. Hoermann 1993)."""
    if rate == 0.0 or rate == math.inf:
        return rate
    if rate < 10.0:
        limit, product, count = math.exp(-rate), draw(), 0
        while product > limit:
            count += 1
            product *= draw()
        return count
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    log_rate = math.log(rate)
    log_inverse_alpha = math.log(1.1239 + 1.1328 / (b - 3.4))
    tight = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= tight:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        log_v = math.log(v) if v else -math.inf
        ratio = log_v + log_inverse_alpha - math.log(a / (us * us) + b)
        if ratio <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


STIRLING_TAILS = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def stirling_tail(k: float) -> float:
    """log(k!) - [log(2 pi) / 2 + (k + 1/2) log(k + 1) - (k + 1)]."""
    if k < 10:
        return STIRLING_TAILS[int(k)]
    square = (k + 1) * (k + 1)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


def binomial(gen: Generator, n: F64Array, p: F64Array) -> F64Array:
    with Uniforms(gen) as source:
        draw = source.draw
        counts = [
            binomial_count(count, prob, draw)
            for count, prob in zip(n.tolist(), p.tolist(), strict=True)
        ]
    return np.array(counts, np.float64)


def binomial_count(count: float, prob: float, draw: Callable[[], float]) -> float:
    if math.isnan(count) or math.isnan(prob):
        return math.nan
    if count <= 0.0 or prob <= 0.0:
        return 0.0
    if prob >= 1.0 or count == math.inf:
        return count
    if prob > 0.5:
        return count - successes(count, 1.0 - prob, draw)
    return successes(count, prob, draw)


def successes(count: float, prob: float, draw: Callable[[], float]) -> float:
    """Waiting times, or from a mean of 10 on transformed rejection (BTRS, W. Hoermann 1993)."""
    if count * prob < 10.0:
        log_miss, waited, found = math.log1p(-prob), 0.0, 0
        while True:
            u = draw()
            waited += math.ceil(math.log(u) / log_miss) if u else math.inf
            if waited > count:
                return found
            found += 1
    deviation = math.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    odds = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    tight = 0.92 - 4.2 / b
    mode = math.floor((count + 1) * prob)
    while True:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - abs(u)
        if us == 0.0:
            continue
        k = math.floor((2 * a / us + b) * u + (count * prob + 0.5))
        if k < 0 or k > count:
            continue
        if us >= 0.07 and v <= tight:
            return k
        scaled = v * alpha / (a / (us * us) + b)
        bound = (
            (mode + 0.5) * math.log((mode + 1) / (odds * (count - mode + 1)))
            + (count + 1) * math.log((count - mode + 1) / (count - k + 1))
            + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
            + stirling_tail(mode)
            + stirling_tail(count - mode)
            - stirling_tail(k)
            - stirling_tail(count - k)
        )
        if scaled == 0.0 or math.log(scaled) <= bound:
            return k


# torch: constants of single precision, in sums of double precision.
THIRD, SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))


def gamma(gen: Generator, shape: F64Array, dtype: np.dtype[Any]) -> F64Array:
    """G. Marsaglia and W. W. Tsang 2000; a shape below 1 is drawn at shape + 1 and scaled back.

    torch: sums of shapes and constants have the shapes' own precision.
    """
    own = shape.astype(dtype)
    one, third = dtype.type(1), dtype.type(THIRD)
    boosted = own < 1
    with np.errstate(divide="ignore", invalid="ignore"):
        inverses = (one / own).astype(np.float64).tolist()
    d_all = (np.where(boosted, own + one, own) - third).astype(np.float64).tolist()
    values = []
    with Uniforms(gen) as source:
        for alpha, d, inverse in zip(shape.tolist(), d_all, inverses, strict=True):
            if alpha > 0 and alpha < math.inf:
                scale = (1.0 - source.draw()) ** inverse if alpha < 1.0 else 1.0
                values.append(gamma_value(d, scale, source))
            else:
                values.append(alpha if alpha == math.inf or math.isnan(alpha) else 0.0)
    return np.maximum(np.array(values, np.float64), float(np.finfo(dtype).tiny))


def gamma_value(d: float, scale: float, source: Uniforms) -> float:
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = source.normal()
        y = 1.0 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1.0 - source.draw()
        square = x * x
        if u < 1.0 - SQUEEZE * square * square or math.log(u) < 0.5 * square + d * (
            1.0 - v + math.log(v)
        ):
            return scale * d * v
