"""Random arrays from a generator: what may be asked for, in torch's words.

Every function checks its parameters and leaves the numbers to the recipes of the generator's
algorithm: `stream` for the Mersenne twister, `counted` for Philox. Arrays are C-contiguous and
filled in order. Nothing is drawn when parameters are refused.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.arrays import stream
from rushlight.core.dtype import from_numpy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from rushlight.core.rng import Generator

    Array = NDArray[Any]
    Shape = int | Sequence[int]

# Significand bits, hidden one included: consecutive integers are exact up to 2**bits.
SIGNIFICAND_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
LARGEST_BFLOAT16 = 3.3895313892515355e38


def recipes(gen: Generator) -> Any:
    """The module that draws from this generator."""
    if gen.algorithm == "mt19937":
        return stream
    from rushlight.arrays import counted

    return counted


# Reading `dtype.name` costs a microsecond, so facts about types are looked up once.
@lru_cache(maxsize=64)
def significand_bits(dtype: np.dtype[Any]) -> int:
    """0 for types that are not floating point, or that random kernels do not serve."""
    return SIGNIFICAND_BITS.get(dtype.name, 0)


@lru_cache(maxsize=16)
def largest_value(dtype: np.dtype[Any]) -> float:
    return LARGEST_BFLOAT16 if dtype.name == "bfloat16" else float(np.finfo(dtype).max)


def _scalar_type(dtype: np.dtype[Any]) -> str:
    return from_numpy(dtype).scalar_type_name


def _cpp_type(dtype: np.dtype[Any]) -> str:
    return from_numpy(dtype).cpp_name


def _require_floating(kernel: str, dtype: np.dtype[Any]) -> None:
    if not significand_bits(dtype):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{_scalar_type(dtype)}'")


def _require_continuous(distribution: str, dtype: np.dtype[Any]) -> None:
    if not significand_bits(dtype):
        raise RuntimeError(
            f"{distribution} distribution is a continuous probability distribution. "
            f"dtype must be a floating point but you specified {_scalar_type(dtype)}"
        )


def _as_tuple(shape: Shape) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def uniform(
    gen: Generator,
    shape: Shape,
    dtype: DTypeLike = np.float32,
    low: float = 0.0,
    high: float = 1.0,
) -> Array:
    """Uniform on [low, high); complex types draw both parts."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c" or dtype.fields is not None:
        parts = (*_as_tuple(shape), 2)
        real = uniform(gen, parts, f"f{dtype.itemsize // 2}", low, high)
        return np.asarray(real.view(dtype)[..., 0])
    _require_floating("check_uniform_bounds", dtype)
    if low != 0.0 or high != 1.0:
        _check_uniform_bounds(dtype, low, high)
    return recipes(gen).uniform(gen, shape, dtype, low, high)  # type: ignore[no-any-return]


def _check_uniform_bounds(dtype: np.dtype[Any], low: float, high: float) -> None:
    limit = largest_value(dtype)
    for name, bound in (("from", low), ("to", high)):
        if not -limit <= bound <= limit:
            raise RuntimeError(f"{name} is out of bounds for {_cpp_type(dtype)}")
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > limit:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{_scalar_type(dtype)}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def normal(
    gen: Generator,
    shape: Shape,
    dtype: DTypeLike = np.float32,
    mean: float = 0.0,
    std: float = 1.0,
    is_contiguous: bool = True,
) -> Array:
    """Normal; a complex type has variance std**2 split between its parts, `mean` in both.

    `is_contiguous` tells of the tensor that is filled: torch has another recipe where it is not.
    """
    dtype = np.dtype(dtype)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if dtype.kind == "c" or dtype.fields is not None:
        part = f"f{dtype.itemsize // 2}"
        # torch: a real mean is added to the imaginary part too.
        real = normal(gen, (*_as_tuple(shape), 2), part, mean, std / math.sqrt(2.0), is_contiguous)
        return np.asarray(real.view(dtype)[..., 0])
    _require_floating("normal_kernel_cpu", dtype)
    found: Array = recipes(gen).normal(gen, shape, dtype, mean, std, is_contiguous)
    return found


def log_normal(
    gen: Generator,
    shape: Shape,
    dtype: DTypeLike = np.float32,
    mean: float = 1.0,
    std: float = 2.0,
) -> Array:
    """exp of a normal with the given mean and std."""
    dtype = np.dtype(dtype)
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    _require_floating("log_normal_cpu", dtype)
    return recipes(gen).log_normal(gen, shape, dtype, mean, std)  # type: ignore[no-any-return]


def exponential(
    gen: Generator, shape: Shape, dtype: DTypeLike = np.float32, rate: float = 1.0
) -> Array:
    """Exponential with the given rate."""
    dtype = np.dtype(dtype)
    if not rate > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    _require_continuous("Exponential", dtype)
    return recipes(gen).exponential(gen, shape, dtype, rate)  # type: ignore[no-any-return]


def cauchy(
    gen: Generator,
    shape: Shape,
    dtype: DTypeLike = np.float32,
    median: float = 0.0,
    sigma: float = 1.0,
) -> Array:
    """Cauchy with the given median and scale."""
    dtype = np.dtype(dtype)
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    _require_continuous("Cauchy", dtype)
    return recipes(gen).cauchy(gen, shape, dtype, median, sigma)  # type: ignore[no-any-return]


def geometric(gen: Generator, shape: Shape, dtype: DTypeLike, p: float) -> Array:
    """The number of trials up to the first success, from 1."""
    dtype = np.dtype(dtype)
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if dtype.kind not in "iu" and not significand_bits(dtype):
        raise NotImplementedError(f"\"geometric_cpu\" not implemented for '{_scalar_type(dtype)}'")
    return recipes(gen).geometric(gen, shape, dtype, p)  # type: ignore[no-any-return]


def integers(
    gen: Generator, shape: Shape, dtype: DTypeLike = np.int64, low: int = 0, high: int = 2
) -> Array:
    """Integers on [low, high), of any span up to 2**64."""
    dtype = np.dtype(dtype)
    low, high = int(low), int(high)
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    _check_integer_bounds(dtype, low, high - 1)
    return recipes(gen).integers(gen, shape, dtype, low, high - low)  # type: ignore[no-any-return]


def _check_integer_bounds(dtype: np.dtype[Any], low: int, last: int) -> None:
    if dtype.kind in "iub":
        least, most = _integer_range(dtype)
        if dtype.kind == "i":
            least = -most - 1
    elif significand_bits(dtype):
        most = int(largest_value(dtype))
        least = -most
    else:
        raise RuntimeError(
            "check_random_bounds handles only integral, floating-point and boolean types, "
            f"but got {_scalar_type(dtype)}"
        )
    for name, bound in (("from", low), ("to - 1", last)):
        if not least <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {_cpp_type(dtype)}")
        bits = significand_bits(dtype)
        if bits and abs(bound) > 1 << bits:
            import warnings

            warnings.warn(
                f"{name} is out of bounds [-(2^{bits}), 2^{bits}]. Due to precision limitations "
                f"{_cpp_type(dtype)} can support discrete uniform distribution only within "
                "this range.",
                stacklevel=4,
            )


def integer_range(dtype: DTypeLike) -> tuple[int, int]:
    """First and last value of an unbounded `random_()`: all non-negative integers of an integer
    type, and those a floating type holds exactly up to 2**significand bits, that included."""
    return _integer_range(np.dtype(dtype))


@lru_cache(maxsize=64)
def _integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        return 0, int(np.iinfo(dtype).max)
    if significand_bits(dtype):
        return 0, 1 << significand_bits(dtype)
    raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{_scalar_type(dtype)}'")


def full_range_bits(gen: Generator, shape: Shape, dtype: DTypeLike) -> Array:
    """Integers over the whole `integer_range` of the type."""
    dtype = np.dtype(dtype)
    last = integer_range(dtype)[1]
    return recipes(gen).full_range(gen, shape, dtype, last)  # type: ignore[no-any-return]


def bernoulli(
    gen: Generator,
    p: float | Array,
    shape: Shape | None = None,
    dtype: DTypeLike = np.bool_,
) -> Array:
    """Ones with probability p, given as a number or as an array that broadcasts to `shape`."""
    dtype = np.dtype(dtype)
    if isinstance(p, np.ndarray):
        if not bool(np.all((p >= 0) & (p <= 1))):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        each = np.broadcast_to(p, p.shape if shape is None else _as_tuple(shape))
        return recipes(gen).bernoulli_each(gen, each, dtype)  # type: ignore[no-any-return]
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    found: Array = recipes(gen).bernoulli(gen, p, () if shape is None else shape, dtype)
    return found


def permutation(gen: Generator, n: int, dtype: DTypeLike = np.int64) -> Array:
    """A random permutation of range(n)."""
    dtype = np.dtype(dtype)
    n = int(n)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if dtype.kind not in "iu" and not significand_bits(dtype):
        raise NotImplementedError(f"\"randperm\" not implemented for '{_scalar_type(dtype)}'")
    if n > 0:
        if dtype.kind in "iu" and n - 1 > np.iinfo(dtype).max:
            raise RuntimeError(
                f"value cannot be converted to type {dtype.name}_t without overflow: n={n}"
            )
        limit = (1 << significand_bits(dtype)) + 1
        if dtype.kind not in "iu" and n > limit:
            raise RuntimeError(f"n cannot be greater than {limit} for {_scalar_type(dtype)} type.")
    return recipes(gen).permutation(gen, n, dtype)  # type: ignore[no-any-return]


def multinomial(gen: Generator, probs: Array, n: int, replacement: bool = False) -> Array:
    """Indices drawn from the weights in the last axis of a 1-D or 2-D array; int64 [..., n]."""
    if probs.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, but got {probs.ndim} dims")
    if not significand_bits(probs.dtype):
        raise RuntimeError(
            "multinomial only supports floating-point dtypes for input, "
            f"got: {_scalar_type(probs.dtype)}"
        )
    if n <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, but got n_sample={n}")
    categories = probs.shape[-1]
    if not replacement and n > categories:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement, "
            f"but got n_sample={n} and prob_dist.size(-1)={categories}"
        )
    weights = probs.reshape(-1, categories)
    if not bool(np.all((weights >= 0) & (weights < np.inf))):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if weights.shape[0] and not bool(np.all((weights > 0).any(axis=-1))):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    result = recipes(gen).multinomial(gen, weights, n, replacement)
    return np.ascontiguousarray(result, dtype=np.int64).reshape(*probs.shape[:-1], n)


def poisson(gen: Generator, rates: Array) -> Array:
    """Poisson counts of the given rates, in their floating type."""
    _require_floating("poisson_cpu", rates.dtype)
    lam = rates.astype(np.float64).reshape(-1)
    if not bool(np.all(lam >= 0)):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    found: Array = recipes(gen).poisson(gen, lam)
    return found.astype(rates.dtype).reshape(rates.shape)


def binomial(gen: Generator, count: Array, prob: Array) -> Array:
    """Successes in floor(count) trials of probability prob, in `count`'s floating type."""
    for name, value in (("count", count), ("prob", prob)):
        if not significand_bits(value.dtype):
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, "
                f"got: {_scalar_type(value.dtype)}"
            )
    shape = np.broadcast_shapes(count.shape, prob.shape)
    n = np.broadcast_to(count, shape).astype(np.float64).reshape(-1)
    p = np.broadcast_to(prob, shape).astype(np.float64).reshape(-1)
    found: Array = recipes(gen).binomial(gen, n, p)
    return found.astype(count.dtype).reshape(shape)


def gamma(gen: Generator, alpha: Array) -> Array:
    """Standard gamma of the given shapes, at least the type's smallest normal number."""
    _require_floating("_standard_gamma", alpha.dtype)
    flat = alpha.astype(np.float64).reshape(-1)
    found: Array = recipes(gen).gamma(gen, flat, alpha.dtype)
    return found.astype(alpha.dtype).reshape(alpha.shape)
