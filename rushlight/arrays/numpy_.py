"""NumPy as the array module of CPU kernels, and the math namespace that `scalar` texts read.

A `scalar` text calls functions of `Math` and uses operators on what they return, so that another
namespace can make expressions of the same text. Arrays come in one computing dtype; a function
must answer for every dtype its op admits, and for a Python number in place of a later operand.
Floating-point warnings are off for our own calls: a tensor program expects inf and nan as values.
"""

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as np

__all__ = ["MATH", "Math", "as_array", "in_blocks", "is_narrow"]

np.seterr(all="ignore")
# Other threads start with NumPy's own setting; what they raise inside the package is silenced here.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"rushlight\.")


def as_array(value: Any) -> Any:
    """A NumPy result as an ndarray; 0-d results come back as NumPy scalars."""
    return value if type(value) is np.ndarray else np.asarray(value)


def kind_of(x: Any) -> str:
    """NumPy's letter for the category of an array or number: b, i, u, f, c."""
    return np.asarray(x).dtype.kind if not hasattr(x, "dtype") else x.dtype.kind


# NumPy numbers the types that other packages add from here on.
FIRST_ADDED = 256


def is_narrow(dtype: Any) -> bool:
    """Whether arrays of this NumPy dtype are best computed in float32: half, bfloat16, float8."""
    return bool(dtype == np.float16 or dtype.num >= FIRST_ADDED)


def refuse_zero(x: Any, divisor: Any) -> None:
    if np.size(x) and np.any(np.equal(divisor, 0)):
        raise RuntimeError("ZeroDivisionError")


def floor_divide(x: Any, y: Any) -> Any:
    if kind_of(x) in "iub":
        refuse_zero(x, y)
    elif is_narrow_array(x):
        return narrow_floor_divide(x, y)
    if not are_singles(x, y):
        return np.floor_divide(x, y)
    # NumPy's steps, with a remainder that is found sooner.
    with np.errstate(all="ignore"):
        rest = single_fmod(x, y)
        quotient = (x - rest) / y
        quotient -= as_single(is_across(rest, y))
        found = np.floor(quotient)
        found += as_single(quotient - found > 0.5)
        found = where(quotient == 0, np.copysign(np.float32(0), x / y), found)
        ends = ~np.isfinite(quotient)
        if ends.any():
            found[ends] = np.floor_divide(x[ends], y[ends])
    return found


def are_singles(x: Any, y: Any) -> bool:
    """Whether both are float32 arrays of one shape, with elements enough for several passes."""
    return (
        type(x) is np.ndarray
        and type(y) is np.ndarray
        and x.dtype == np.float32 == y.dtype
        and x.shape == y.shape
        and x.size >= FEW
    )


def single_fmod(x: Any, y: Any) -> Any:
    """np.fmod of float32 arrays, exactly: a quotient of up to 29 bits times 24 bits is no more than
    float64 holds, and no quotient is so near a whole number that float64 takes it for one."""
    wide, by = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        count = wide / by
        np.trunc(count, out=count)
        by *= count
        wide -= by
        found = wide.astype(np.float32)
        np.copysign(found, x, out=found)
        np.abs(count, out=count)
        # An infinite divisor makes no number of `wide`.
        beyond = ~((count < 2.0**29) & (wide == wide))
        if beyond.any():
            found[beyond] = np.fmod(x[beyond], y[beyond])
    return found


def as_single(mask: Any) -> Any:
    return mask.view(np.int8).astype(np.float32)


def is_across(rest: Any, y: Any) -> Any:
    """Where a remainder does not have the divisor's sign."""
    found = (rest < 0) != (y < 0)
    found &= rest != 0
    return found


def is_narrow_array(x: Any) -> bool:
    return hasattr(x, "dtype") and is_narrow(x.dtype)


def narrow_floor_divide(x: Any, y: Any) -> Any:
    """torch: quotients of half precision are rounded at every step on the way to the floor."""
    dtype = x.dtype
    x, y = x.astype(np.float32), y.astype(np.float32)

    def rounded(value: Any) -> Any:
        return value.astype(dtype).astype(np.float32)

    rest = rounded(np.fmod(x, y))
    quotient = rounded(rounded(x - rest) / y)
    quotient = np.where((rest != 0) & ((y < 0) != (rest < 0)), rounded(quotient - 1), quotient)
    found = np.floor(quotient)
    found = np.where(rounded(quotient - found) > 0.5, found + 1, found)
    found = np.where(quotient != 0, found, np.copysign(np.float32(0), x / y))
    return np.where(y == 0, x / y, found).astype(dtype)


def trunc_divide(x: Any, y: Any) -> Any:
    kind = kind_of(x)
    if kind == "u":
        return floor_divide(x, y)
    if kind == "i":
        refuse_zero(x, y)
        quotient = np.floor_divide(x, y)
        inexact = np.not_equal(np.multiply(quotient, y), x)
        return quotient + (inexact & (np.less(x, 0) != np.less(y, 0))).astype(x.dtype)
    if is_narrow_array(x):
        # torch: the quotient is rounded to half precision first.
        quotient = (x.astype(np.float32) / y.astype(np.float32)).astype(x.dtype)
        return np.trunc(quotient.astype(np.float32)).astype(x.dtype)
    return np.trunc(np.true_divide(x, y))


def log1p(x: Any) -> Any:
    """log(1 + x); for complex numbers NumPy forms the sum, which loses a small real part."""
    if kind_of(x) != "c":
        return np.log1p(x)
    wide = x.astype(np.complex128)
    real, imag = wide.real, wide.imag
    near = 0.5 * np.log1p(real * (2 + real) + imag * imag)
    is_near = (np.abs(real) < 0.5) & (np.abs(imag) < 0.5)
    result = np.log1p(wide)
    return as_complex(
        np.where(is_near, near, result.real),
        np.where(is_near, np.arctan2(imag, 1 + real), result.imag),
    ).astype(x.dtype)


def fmod(x: Any, y: Any) -> Any:
    if kind_of(x) in "iub":
        refuse_zero(x, y)
    return single_fmod(x, y) if are_singles(x, y) else np.fmod(x, y)


def remainder(x: Any, y: Any) -> Any:
    """The remainder that has the divisor's sign; a zero keeps the dividend's."""
    if kind_of(x) in "iub":
        refuse_zero(x, y)
        return np.remainder(x, y)
    if are_singles(x, y):
        with np.errstate(all="ignore"):
            rest = single_fmod(x, y)
            return where(is_across(rest, y), rest + y, rest)
    rest = np.remainder(x, y)
    return rest if rest.all() else np.where(rest == 0, np.copysign(rest, x), rest)


def whole_power(x: Any, number: int) -> Any:
    """A float32 to an integer, by products in float64, which NumPy's `power` takes far longer for
    where the base is negative."""
    square = np.array(x, np.float64)
    result: Any = None
    rest = abs(number)
    while rest:
        if rest & 1:
            result = square.copy() if result is None else np.multiply(result, square, result)
        rest >>= 1
        if rest:
            square = np.multiply(square, square, square)
    return (np.reciprocal(result) if number < 0 else result).astype(np.float32)


def power(x: Any, y: Any) -> Any:
    """x to the y. Integers wrap around; a negative integer power of an integer truncates to 0,
    unless the base is 1 or -1."""
    kind = kind_of(x)
    number = y.item() if type(y) is np.ndarray and y.ndim == 0 else y
    if type(number) is int or type(number) is float:
        if number == 2:
            return np.multiply(x, x)
        if kind == "f":
            if number == 1:
                return np.positive(x)
            if number == 0.5:
                return np.sqrt(x)
            if number == -1:
                return np.reciprocal(x)
            if number == 3:
                return np.multiply(np.multiply(x, x), x)
            if x.dtype == np.float32 and 3 < abs(number) < 65 and number == int(number):
                return whole_power(x, int(number))
    if kind in "iu":
        y = np.asarray(y)
        if y.dtype.kind == "i" and np.any(y < 0):
            odd = (y & 1) == 1
            ones = np.where((x == -1) & odd, -1, np.where((x == 1) | (x == -1), 1, 0))
            return np.where(y < 0, ones.astype(x.dtype), np.power(x, np.maximum(y, 0)))
    if kind == "b":
        return np.logical_or(x, np.logical_not(y))
    return single_power(x, y) if are_singles(x, y) else np.power(x, y)


def single_power(x: Any, y: Any) -> Any:
    """np.power of float32 arrays, which is slow where bases are negative."""
    negative = np.signbit(x)
    if not negative.any():
        return np.power(x, y)
    with np.errstate(all="ignore"):
        found = np.power(np.abs(x), y)
        whole = np.trunc(y) == y
        half = y * np.float32(0.5)
        odd = whole & (np.trunc(half) != half)
        np.negative(found, out=found, where=negative & odd)
        found[(x < 0) & ~whole & np.isfinite(x)] = np.nan
    return found


def hypot(x: Any, y: Any) -> Any:
    """The length of (x, y); float64 holds the squares of float32."""
    if not are_singles(x, y):
        return np.hypot(x, y)
    wide, other = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        wide *= wide
        other *= other
        wide += other
        found = np.sqrt(wide, out=wide).astype(np.float32)
        if not (found == found).all():
            found[np.isinf(x) | np.isinf(y)] = np.inf
    return found


def logaddexp2(x: Any, y: Any) -> Any:
    if not are_singles(x, y):
        return np.logaddexp2(x, y)
    return single_logaddexp(x, y, np.exp2, 1 / math.log(2))


def single_logaddexp(x: Any, y: Any, exp: Any, scale: float) -> Any:
    """The logarithm of a sum of powers, by the larger and the difference."""
    with np.errstate(all="ignore"):
        gap = np.abs(x - y)
        np.negative(gap, out=gap)
        found = np.log1p(exp(gap, out=gap), out=gap)
        found *= np.float32(scale)
        found += np.maximum(x, y)
    # Equal infinities have no difference.
    same = np.equal(x, y)
    if same.any():
        found[same] = x[same] + np.float32(scale * math.log(2))
    return found


def nextafter(x: Any, y: Any) -> Any:
    """The next number towards another: the next integer, where numbers are read as such."""
    if not are_singles(x, y):
        return np.nextafter(x, y)
    bits = x.view(np.int32)
    # Away from zero, or towards it.
    less = x < y
    step = (less == (bits >= 0)).view(np.int8).astype(np.int32)
    step += step
    step -= 1
    step += bits
    found = step.view(np.float32)
    less |= x > y
    less &= x != 0
    ends = ~less
    if ends.any():
        found[ends] = np.nextafter(x[ends], y[ends])
    return found


def reciprocal(x: Any) -> Any:
    # torch: a complex zero gives inf + nan j, as dividing does and np.reciprocal does not.
    return np.true_divide(1, x) if kind_of(x) == "c" else np.reciprocal(x)


def sign(x: Any) -> Any:
    kind = kind_of(x)
    if kind == "b":
        return x.copy()
    if kind == "c":
        size = np.absolute(x)
        return np.where(size == 0, 0, np.divide(x, np.where(size == 0, 1, size)))
    return np.greater(x, 0).astype(x.dtype) - np.less(x, 0).astype(x.dtype)


def rounded(name: str) -> Any:
    """A rounding function that leaves integers alone."""
    function = getattr(np, name)

    def call(x: Any) -> Any:
        return x.copy() if kind_of(x) in "iub" else function(x)

    call.__name__ = name
    return call


def signbit(x: Any) -> Any:
    kind = kind_of(x)
    if kind == "f":
        return np.signbit(x)
    return np.zeros(np.shape(x), np.bool_) if kind in "bu" else np.less(x, 0)


def heaviside(x: Any, values: Any) -> Any:
    values = np.asarray(values)
    one = values.dtype.type(1)
    zero = values.dtype.type(0)
    answer = np.where(np.equal(x, 0), values, np.where(np.greater(x, 0), one, zero))
    return np.where(np.isnan(x), zero, answer) if kind_of(x) == "f" else answer


def shift(function: Any) -> Any:
    """A shift as torch defines it for counts outside the width: to the left nothing is left, to
    the right only the sign."""

    def call(x: Any, y: Any) -> Any:
        x = np.asarray(x)
        bits = x.dtype.itemsize * 8
        outside = np.less(y, 0) | np.greater_equal(y, bits)
        if not np.any(outside):
            return function(x, y)
        shifted = function(x, np.where(outside, 0, y).astype(x.dtype))
        far = np.zeros_like(x) if function is np.left_shift else np.where(x < 0, -1, 0)
        return np.where(outside, far.astype(x.dtype), shifted)

    return call


def gcd(x: Any, y: Any) -> Any:
    return np.gcd(x, y)


def lcm(x: Any, y: Any) -> Any:
    """torch: |x / gcd * y| in the operands' own width."""
    common = np.gcd(x, y)
    return np.absolute(np.floor_divide(x, np.where(common == 0, 1, common)) * y)


def logaddexp(x: Any, y: Any) -> Any:
    if are_singles(x, y):
        return single_logaddexp(x, y, np.exp, 1.0)
    if kind_of(x) != "c":
        return np.logaddexp(x, y)
    first = np.where(np.real(x) >= np.real(y), x, y)
    second = np.where(np.real(x) >= np.real(y), y, x)
    # Two zeros' logarithms have no difference.
    nothing = np.isneginf(np.real(first))
    gap = np.where(nothing, 0, second - first)
    return np.where(nothing, first, first + np.log1p(np.exp(gap)))


def angle(x: Any) -> Any:
    """The argument of a complex number; 0, pi or nan of a real one."""
    kind = kind_of(x)
    if kind == "c":
        return np.arctan2(np.imag(x), np.real(x))
    if kind == "f":
        answer = np.less(x, 0).astype(x.dtype) * x.dtype.type(np.pi)
        missing = np.not_equal(x, x)
        return np.where(missing, x, answer) if missing.any() else answer
    return np.where(np.less(x, 0), np.pi, 0.0)


def as_complex(real: Any, imag: Any) -> Any:
    real, imag = np.broadcast_arrays(real, imag)
    answer = np.empty(real.shape, np.complex64 if real.dtype.itemsize == 4 else np.complex128)
    answer.real, answer.imag = real, imag
    return answer


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)): exp overflows to inf on the far left, which gives the limit 0."""
    answer = np.negative(x)
    if type(answer) is not np.ndarray:
        return np.reciprocal(np.exp(answer) + 1)
    np.exp(answer, out=answer)
    answer += 1
    return np.reciprocal(answer, out=answer)


def special(name: str, module: str = "special") -> Any:
    """A special function, whose module is imported when the first of them runs."""

    def call(*operands: Any) -> Any:
        from importlib import import_module

        return getattr(import_module(f"rushlight.arrays.{module}"), name)(*operands)

    call.__name__ = name
    return staticmethod(call)


def where(mask: Any, x: Any, y: Any) -> Any:
    """np.where, which takes a branch for each element: where masks are no runs it goes wrong half
    of the time, and exchanging bits does not."""
    one = x if type(x) is np.ndarray and x.ndim else y
    if type(one) is not np.ndarray or one.size < FEW or type(mask) is not np.ndarray:
        return np.where(mask, x, y)
    if one.dtype != np.float32 or mask.dtype != np.bool_ or mask.shape != one.shape:
        return np.where(mask, x, y)
    if not mask.flags.c_contiguous:
        return np.where(mask, x, y)
    sides = []
    for side in (x, y):
        if type(side) is float or type(side) is int:
            side = np.array(side, one.dtype)
        if type(side) is not np.ndarray or side.dtype != one.dtype:
            return np.where(mask, x, y)
        if side.ndim and (side.shape != one.shape or not side.flags.c_contiguous):
            return np.where(mask, x, y)
        sides.append(side.view(np.int32))
    chosen = np.negative(mask.view(np.int8)).astype(np.int32)
    chosen &= np.bitwise_xor(*sides)
    chosen ^= sides[1]
    return chosen.view(one.dtype)


class Math:
    """What a `scalar` text may call: NumPy's functions under torch-like names."""

    __slots__ = ()

    add = np.add
    subtract = np.subtract
    multiply = np.multiply
    divide = np.true_divide
    floor_divide = staticmethod(floor_divide)
    trunc_divide = staticmethod(trunc_divide)
    fmod = staticmethod(fmod)
    remainder = staticmethod(remainder)
    negative = np.negative
    positive = np.positive
    reciprocal = staticmethod(reciprocal)
    power = staticmethod(power)
    maximum = np.maximum
    minimum = np.minimum
    fmax = np.fmax
    fmin = np.fmin
    copysign = np.copysign
    nextafter = staticmethod(nextafter)
    hypot = staticmethod(hypot)
    atan2 = np.arctan2
    logaddexp = staticmethod(logaddexp)
    logaddexp2 = staticmethod(logaddexp2)
    gcd = staticmethod(gcd)
    lcm = staticmethod(lcm)
    heaviside = staticmethod(heaviside)

    equal = np.equal
    not_equal = np.not_equal
    less = np.less
    less_equal = np.less_equal
    greater = np.greater
    greater_equal = np.greater_equal
    logical_and = np.logical_and
    logical_or = np.logical_or
    logical_xor = np.logical_xor
    logical_not = np.logical_not
    bitwise_and = np.bitwise_and
    bitwise_or = np.bitwise_or
    bitwise_xor = np.bitwise_xor
    bitwise_not = np.invert
    left_shift = staticmethod(shift(np.left_shift))
    right_shift = staticmethod(shift(np.right_shift))
    where = staticmethod(where)

    abs = np.absolute
    sign = staticmethod(sign)
    signbit = staticmethod(signbit)
    isnan = np.isnan
    isinf = np.isinf
    isfinite = np.isfinite
    floor = staticmethod(rounded("floor"))
    ceil = staticmethod(rounded("ceil"))
    trunc = staticmethod(rounded("trunc"))
    round = staticmethod(rounded("rint"))
    frexp = np.frexp

    real = staticmethod(np.real)
    imag = staticmethod(np.imag)
    conj = np.conjugate
    angle = staticmethod(angle)
    complex = staticmethod(as_complex)

    exp = np.exp
    exp2 = np.exp2
    expm1 = np.expm1
    log = np.log
    log2 = np.log2
    log10 = np.log10
    log1p = staticmethod(log1p)
    sqrt = np.sqrt
    rsqrt = staticmethod(lambda x: np.true_divide(1, np.sqrt(x)))
    sin = np.sin
    cos = np.cos
    tan = np.tan
    asin = np.arcsin
    acos = np.arccos
    atan = np.arctan
    sinh = np.sinh
    cosh = np.cosh
    tanh = np.tanh
    asinh = np.arcsinh
    acosh = np.arccosh
    atanh = np.arctanh
    sigmoid = staticmethod(sigmoid)

    erf = special("erf")
    erfc = special("erfc")
    erfcx = special("erfcx")
    erfinv = special("erfinv")
    ndtr = special("ndtr")
    ndtri = special("ndtri")
    log_ndtr = special("log_ndtr")
    lgamma = special("lgamma")
    digamma = special("digamma")
    polygamma = special("polygamma")
    zeta = special("zeta")
    igamma = special("igamma")
    igammac = special("igammac")
    i0 = special("i0")
    i0e = special("i0e")
    i1 = special("i1")
    i1e = special("i1e")
    bessel_j0 = special("bessel_j0", "bessel")
    bessel_j1 = special("bessel_j1", "bessel")
    bessel_y0 = special("bessel_y0", "bessel")
    bessel_y1 = special("bessel_y1", "bessel")
    modified_bessel_i0 = special("i0")
    modified_bessel_i1 = special("i1")
    modified_bessel_k0 = special("modified_bessel_k0", "bessel")
    modified_bessel_k1 = special("modified_bessel_k1", "bessel")
    scaled_modified_bessel_k0 = special("scaled_modified_bessel_k0", "bessel")
    scaled_modified_bessel_k1 = special("scaled_modified_bessel_k1", "bessel")
    spherical_bessel_j0 = special("spherical_bessel_j0", "bessel")
    chebyshev_polynomial_t = special("chebyshev_polynomial_t", "polynomials")
    chebyshev_polynomial_u = special("chebyshev_polynomial_u", "polynomials")
    chebyshev_polynomial_v = special("chebyshev_polynomial_v", "polynomials")
    chebyshev_polynomial_w = special("chebyshev_polynomial_w", "polynomials")
    hermite_polynomial_h = special("hermite_polynomial_h", "polynomials")
    hermite_polynomial_he = special("hermite_polynomial_he", "polynomials")
    laguerre_polynomial_l = special("laguerre_polynomial_l", "polynomials")
    legendre_polynomial_p = special("legendre_polynomial_p", "polynomials")
    shifted_chebyshev_polynomial_t = special("shifted_chebyshev_polynomial_t", "polynomials")
    shifted_chebyshev_polynomial_u = special("shifted_chebyshev_polynomial_u", "polynomials")
    shifted_chebyshev_polynomial_v = special("shifted_chebyshev_polynomial_v", "polynomials")
    shifted_chebyshev_polynomial_w = special("shifted_chebyshev_polynomial_w", "polynomials")
    airy_ai = special("airy_ai", "polynomials")

    @staticmethod
    def zero_where(mask: Any, x: Any) -> Any:
        """Zero where the mask holds, x elsewhere."""
        bits = BITS.get(x.dtype)
        if bits is None or x.size < FEW:
            return np.where(mask, ZEROS.get(x.dtype, 0), x)
        # A branch for each element goes wrong half of the time; zero bits and one bits do not.
        keep = (mask.view(np.int8) - ONE).astype(bits)
        return np.bitwise_and(keep, x.view(bits)).view(x.dtype)


# NumPy takes a 0-d array of the right dtype with less ado than a Python number.
ZEROS = {np.dtype(name): np.zeros((), name) for name in ("float32", "float64")}
# The integers as wide as floats; from this many elements on, working on bits is quicker.
BITS = {np.dtype("float32"): np.dtype("int32"), np.dtype("float64"): np.dtype("int64")}
FEW = 2048
ONE = np.int8(1)

MATH = Math()

# Elements taken at a time: a handful of temporaries stays in the second-level cache.
BLOCK = 32768


def in_blocks(text: Any) -> Any:
    """A `scalar` text of many steps, on large arrays worked out a piece at a time.

    Temporaries as large as the operands would cost more time in memory than the arithmetic.
    """

    @functools.wraps(text)
    def blocked(m: Any, *args: Any) -> Any:
        first = args[0]
        if m is not MATH or type(first) is not np.ndarray or first.size < 2 * BLOCK:
            return text(m, *args)
        places = [i for i, arg in enumerate(args) if type(arg) is np.ndarray and arg.ndim]
        flat = list(args)
        for i in places:
            if args[i].shape != first.shape or not args[i].flags.c_contiguous:
                return text(m, *args)
            flat[i] = args[i].reshape(-1)
        piece = list(args)
        result: Any = None
        for start in range(0, first.size, BLOCK):
            for i in places:
                piece[i] = flat[i][start : start + BLOCK]
            part = text(m, *piece)
            if result is None:
                result = np.empty(first.size, part.dtype)
            result[start : start + BLOCK] = part
        return result.reshape(first.shape)

    return blocked
