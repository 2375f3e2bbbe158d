"""Special functions on arrays, vectorised in NumPy.

float64 in, float64 out, accurate to a few units in the last place where the function is well
conditioned; float32 is computed in float64 and rounded, the most used functions by shorter
formulas. Smooth parts are Chebyshev sums, which `chebyshev` evaluates by Clenshaw's recurrence.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

LOG_SQRT_2PI = 0.91893853320467274178
SQRT_PI = math.sqrt(math.pi)

# erf(x) / x for |x| < 1, in u = 2 x x - 1.
ERF_SMALL = (
    0.9754769393826541, -0.14226120510371365, 0.010035582187599796, -0.0005768764699767485,
    2.741993125219606e-05, -1.1043175507344507e-06, 3.8488755420345036e-08,
    -1.1808582533875466e-09, 3.2334215826050907e-11, -7.991015947004549e-13,
    1.7990725113961456e-14, -3.718635487818693e-16, 7.103599003714253e-18,
)  # fmt: skip
# erfcx(x) / t in u = 2 t - 1, where t = 2 / (2 + x).
ERFCX = (
    0.5770337386164697, 0.3554369212704985, 0.06509515882878653, 0.003671142395836639,
    -0.0011128447433526325, -0.0001607582991537808, 3.278031574173137e-05, 5.442441645505016e-06,
    -1.5154665553171482e-06, -1.4297608181169865e-07, 8.234608827419493e-08,
    -1.2962846852306563e-09, -4.154721631015199e-09, 6.347058278362811e-10,
    1.4320822712256225e-10, -6.160390105204585e-11, 2.0612138554721698e-12,
    3.5714931488477042e-12, -8.586422843251796e-13, -6.14560021379063e-14, 7.418725748596617e-14,
    -1.2895042755032325e-14, -2.358726385710632e-15, 1.5729349381685912e-15,
    -2.2782966239546465e-16, -6.31233045075643e-17, 3.5916763531814925e-17,
    -5.049809149847729e-18, -1.5324541113154899e-18,
)  # fmt: skip
# lgamma(x) / ((x - 1) (x - 2)) for x in [1, 2], in u = 2 x - 3.
LGAMMA_12 = (
    0.49141539302938714, -0.07611416167043585, 0.008432324965932778, -0.001079493726328608,
    0.00014900748003692963, -2.1512399888556784e-05, 3.1979329860862186e-06,
    -4.851693012139927e-07, 7.47148782116316e-08, -1.1638296700170518e-08, 1.829400437118668e-09,
    -2.8969180607129607e-10, 4.61570140620909e-11, -7.392810230497983e-12, 1.1894280008333085e-12,
    -1.9212068676522805e-13, 3.113975526387164e-14, -5.0628432984486114e-15,
    8.254150281631144e-16, -1.3490578987574844e-16, 2.209876116782623e-17,
    -3.6274129549239766e-18,
)  # fmt: skip
# exp(-x) I0(x) for x in [0, 8], in u = x / 4 - 1; beyond, times sqrt(x), in u = 16 / x - 1.
I0E_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165, -5.754195010082104e-05,
    1.6448448070728896e-05, -4.4167383584587505e-06, 1.1173875391201037e-06,
    -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08, 2.6598237246823866e-09,
    -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14, 1.715391285555133e-15,
    -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
I0E_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10,
    1.1889147107846439e-11, -3.1499165279632416e-11, -1.3215811840447713e-11,
    -1.7941785315068062e-12, 7.180124451383666e-13, 3.8527783827421426e-13, 1.54008621752141e-14,
    -4.150569347287222e-14, -9.554846698828307e-15, 3.8116806693526224e-15,
    1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
    9.921475412173699e-19, 1.193650890845982e-18,
)  # fmt: skip
# exp(-x) I1(x) / x for x in [0, 8], and as above beyond.
I1E_NEAR = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
I1E_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09,
    -5.589743462196584e-10, -1.8974958123505413e-11, 3.2526035830154884e-11,
    1.4125807436613782e-11, 2.0356285441470896e-12, -7.198551776245908e-13,
    -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15,
    3.3082023109209285e-16, 2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17,
    4.414348323071708e-18, 7.517296310842105e-18, -9.314178867326884e-19, -1.242193275194891e-18,
)  # fmt: skip


def chebyshev(u: Any, coefficients: tuple[float, ...]) -> Any:
    """The Chebyshev sum at u in [-1, 1]."""
    twice = 2.0 * u
    if type(twice) is not np.ndarray:
        return chebyshev_of(u, coefficients)
    later, before = np.full_like(twice, coefficients[-1]), np.zeros_like(twice)
    for c in coefficients[-2:0:-1]:
        # `before` becomes twice * later - before + c.
        np.subtract(twice * later, before, out=before)
        before += c
        later, before = before, later
    return u * later - before + coefficients[0]


def chebyshev_of(u: Any, coefficients: tuple[float, ...]) -> Any:
    """The same of one number, or of what stands for one."""
    twice = 2.0 * u
    later, before = coefficients[-1], 0.0
    for c in coefficients[-2:0:-1]:
        later, before = twice * later - before + c, later
    return u * later - before + coefficients[0]


def every(mask: Any) -> bool:
    """Whether a mask holds everywhere, so that what else there is need not be computed."""
    return bool(np.all(mask))


def in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compute in float64, answer in the operands' dtype."""

    def call(*operands: Any) -> Any:
        arrays = [np.asarray(x) for x in operands]
        dtype = np.result_type(*[a.dtype for a in arrays])
        formula = function
        if dtype == np.float32:
            formula = short_formulas().get(function.__name__, function)
        with np.errstate(all="ignore"):
            answer = formula(*[a.astype(np.float64) for a in arrays])
        return answer.astype(dtype) if dtype != np.float64 else answer

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    call.__dict__["formula"] = function
    return call


def formulas(changes: dict[str, Any]) -> dict[str, Any]:
    """The functions of this module and of `bessel` as they compute in float64, over other meanings
    of some of the names that they use."""
    from rushlight.arrays import bessel

    scope: dict[str, Any] = {**globals(), **vars(bessel)}
    for name, value in list(scope.items()):
        value = vars(value).get("formula", value) if isinstance(value, FunctionType) else value
        if isinstance(value, FunctionType) and value.__closure__ is None:
            scope[name] = FunctionType(value.__code__, scope, name, value.__defaults__)
    scope.update(changes)
    return scope


@functools.cache
def short_formulas() -> dict[str, Any]:
    """Formulas as exact as float32 needs them: Chebyshev sums end sooner."""
    return formulas({**short_sums(), "SERIES_END": 1e-10, "FRACTION_END": 1e-10})


@functools.cache
def short_sums() -> dict[str, tuple[float, ...]]:
    """The coefficients that float32 needs, by name."""
    sums = {name: value for name, value in formulas({}).items() if is_sum(name, value)}
    return {name: shortened(value) for name, value in sums.items()}


def is_sum(name: str, value: Any) -> bool:
    return name.isupper() and isinstance(value, tuple) and name.endswith(("_NEAR", "_FAR"))


def shortened(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    rest = 0.0
    for count in range(len(coefficients), 2, -1):
        rest += abs(coefficients[count - 1])
        if rest > 1e-10 * abs(coefficients[0]):
            return coefficients[:count]
    return coefficients[:2]


def by_precision(single: Callable[[Any], Any], double: Callable[[Any], Any]) -> Any:
    """A function that has a formula of its own for float32."""

    def call(x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype != np.float32:
            return double(x)
        return single(x) if x.ndim else single(x.reshape(1)).reshape(())

    call.__name__ = single.__name__.removesuffix("_single")
    call.__dict__["formula"] = vars(double).get("formula", double)
    return call


# -- the error function ---------------------------------------------------------------------------

# erf(x) / x as a quotient of polynomials in x * x, for |x| below the point where float32 rounds
# erf to 1.
ERF_TOP = (1.1283791461946593, 0.19040543937769924, 0.05274858607796593, 0.0037655714911916413,
           0.000284881502188295, 2.050093289761559e-06)  # fmt: skip
ERF_BOTTOM = (1.0, 0.5020751684935275, 0.11410868562927254, 0.014969127140234344,
              0.0011625240219514882, 3.8091711596902705e-05)  # fmt: skip


def polynomial(z: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule, lowest coefficient first."""
    answer = z * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        answer += c
        answer *= z
    answer += coefficients[0]
    return answer


def erf(x: Any) -> Any:
    x = np.asarray(x)
    if x.dtype == np.float32:
        near = np.clip(x, np.float32(-3.92), np.float32(3.92)).astype(np.float64)
        z = near * near
        near *= polynomial(z, ERF_TOP)
        near /= polynomial(z, ERF_BOTTOM)
        return np.clip(near, -1.0, 1.0).astype(np.float32)
    return erf_double(x)


def erf_double(x: Any) -> Any:
    small = np.abs(x) < 1.0
    inner = np.where(small, x, 0.0)
    near = inner * chebyshev(2.0 * inner * inner - 1.0, ERF_SMALL)
    if every(small):
        return near
    far = np.copysign(1.0 - erfc_positive(np.abs(np.where(small, 1.0, x))), x)
    return np.where(np.isnan(x), x, np.where(small, near, far))


def erfcx_positive(x: Any) -> Any:
    """exp(x * x) * erfc(x) for x >= 0."""
    t = 2.0 / (2.0 + x)
    return t * chebyshev(2.0 * t - 1.0, ERFCX)


def exp_minus_square(x: Any) -> Any:
    """exp(-x * x) without the loss that squaring a large x brings."""
    high = np.trunc(x * 16.0) / 16.0
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def erfc_positive(x: Any) -> Any:
    bounded = np.minimum(x, 28.0)
    return exp_minus_square(bounded) * erfcx_positive(bounded)


# exp(x * x) * erfc(x) for x in [0, 10.3], beyond which float32 rounds erfc to 0, to 6e-9: a
# quotient of polynomials whose highest coefficient is 1, times a factor given by its logarithm.
ERFCX_TOP = (30.31973731895914, 37.60156554707984, 22.23796451922256, 6.976549240126165)
ERFCX_BOTTOM = (
    17.10627585334387,
    40.51703024571233,
    41.15870311942609,
    22.73102320289633,
    6.977066513688222,
)
ERFCX_LOG_FACTOR = -0.5723534859875856
SIGN_BIT = np.uint32(0x80000000)


def monic(z: Any, coefficients: tuple[float, ...]) -> Any:
    """Horner's rule, lowest coefficient first; the highest is 1 and not among them."""
    answer = z + coefficients[-1]
    for c in coefficients[-2::-1]:
        answer *= z
        answer += c
    return answer


def erfc_single(x: Any) -> Any:
    size = np.abs(x).astype(np.float64)
    with np.errstate(all="ignore"):
        tail = monic(size, ERFCX_TOP)
        tail /= monic(size, ERFCX_BOTTOM)
        size *= size
        np.subtract(ERFCX_LOG_FACTOR, size, out=size)
        tail *= np.exp(size, out=size)
        answer = tail.astype(np.float32)
    ends = np.isinf(x)
    if ends.any():
        answer[ends] = 0.0
    # `2 - answer` where x is negative: its sign moves to the answer, and one place to the right the
    # sign bit alone is the number 2.
    sign = x.view(np.uint32) & SIGN_BIT
    bits = answer.view(np.uint32)
    bits ^= sign
    sign >>= 1
    answer += sign.view(np.float32)
    return answer


@in_double
def erfc_double(x: Any) -> Any:
    far = erfc_positive(np.abs(x))
    tail = np.where(x < 0, 2.0 - far, far)
    return np.where(np.isnan(x), x, np.where(np.abs(x) < 0.5, 1.0 - erf_double(x), tail))


erfc = by_precision(erfc_single, erfc_double)


@in_double
def erfcx(x: Any) -> Any:
    right = np.where(np.isinf(x), 0.0, erfcx_positive(np.abs(x)))
    left = 2.0 * np.exp(x * x) - right
    return np.where(np.isnan(x), x, np.where(x < 0, left, right))


def inverse_of_tail(q: Any) -> Any:
    """y with erfc(y) = q, for q in (0, 1]: Winitzki's guess, then Halley's or Newton's method."""
    w = np.log(q * (2.0 - q))
    shift = 2.0 / (math.pi * 0.147) + w / 2.0
    y = np.sqrt(np.maximum(np.sqrt(shift * shift - w / 0.147) - shift, 0.0))
    remote = q < 0.1
    logarithm = np.log(q)
    for _ in range(4):
        scaled = erfcx_positive(y)
        # In units of exp(-y * y), so that small tails keep their digits; far out by logarithms.
        step = (scaled - q * np.exp(np.where(remote, 0.0, y * y))) * SQRT_PI / 2.0
        near = step / (1.0 + y * step)
        far = (np.log(scaled) - y * y - logarithm) * SQRT_PI * scaled / 2.0
        y = np.maximum(y + np.where(remote, far, near), 0.0)
    return y


def inverse_of_centre(x: Any) -> Any:
    """y with erf(y) = x for |x| < 0.5, from erf itself, which is exact around zero."""
    y = x * SQRT_PI / 2.0 * (1.0 + x * x * (math.pi / 12.0))
    for _ in range(4):
        step = (erf_double(y) - x) * np.exp(y * y) * SQRT_PI / 2.0
        y = y - step / (1.0 + y * step)
    return y


# erfinv(x) / x as a factor times a quotient of polynomials in log(1 - x * x), whose highest
# coefficient is 1, for all x that float32 has between 0 and 1, to 2e-8.
ERFINV_FACTOR = 18.859117054217776
ERFINV_TOP = (
    -36564.39956395588,
    12653.669124935095,
    -2460.1724152263623,
    320.61287234672346,
    -26.579992306847206,
)
ERFINV_BOTTOM = (
    -778098.9970156491,
    65567.51155993866,
    -25045.960154928827,
    1463.6211921552583,
    -139.47048447220266,
)


def erfinv_single(x: Any) -> Any:
    answer = x.astype(np.float64)
    with np.errstate(all="ignore"):
        w = answer * answer
        np.subtract(1.0, w, out=w)
        np.log(w, out=w)
        answer *= ERFINV_FACTOR
        answer *= monic(w, ERFINV_TOP)
        answer /= monic(w, ERFINV_BOTTOM)
        found = answer.astype(np.float32)
        ends = np.isinf(w)
        return np.where(ends, np.copysign(np.float32(np.inf), x), found) if ends.any() else found


@in_double
def erfinv_double(x: Any) -> Any:
    size = np.abs(x)
    y = inverse_of_centre(np.where(size < 0.5, x, 0.0))
    tail = inverse_of_tail(np.where((size >= 0.5) & (size < 1.0), 1.0 - size, 0.5))
    answer = np.where(size < 0.5, y, np.copysign(tail, x))
    answer = np.where(size == 1.0, np.copysign(np.inf, x), answer)
    return np.where((size > 1.0) | np.isnan(x), np.nan, answer)


erfinv = by_precision(erfinv_single, erfinv_double)


@in_double
def ndtr(x: Any) -> Any:
    return 0.5 * erfc(-x * math.sqrt(0.5))


@in_double
def log_ndtr(x: Any) -> Any:
    t = x * math.sqrt(0.5)
    left = np.log(erfcx(-np.minimum(t, -0.5)) / 2.0) - t * t
    right = np.log1p(-erfc(np.maximum(t, -1.0)) / 2.0)
    return np.where(x < -1.0, left, right)


@in_double
def ndtri_double(p: Any) -> Any:
    lower = np.where(p <= 0.5, p, 1.0 - p)
    inside = (lower > 0.0) & (lower <= 0.5)
    size = math.sqrt(2.0) * inverse_of_tail(np.where(inside, 2.0 * lower, 1.0))
    answer = np.where(p <= 0.5, -size, size)
    centre = 2.0 * (p - 0.5)
    middle = np.abs(centre) < 0.5
    inner = math.sqrt(2.0) * inverse_of_centre(np.where(middle, centre, 0.0))
    answer = np.where(middle, inner, answer)
    answer = np.where(p == 0.0, -np.inf, np.where(p == 1.0, np.inf, answer))
    return np.where((p < 0.0) | (p > 1.0) | np.isnan(p), np.nan, answer)


# ndtri to 1.2e-9 of itself, highest coefficients first: of p - 1/2 between the tails, and of
# sqrt(-2 log p) in the lower tail.
CENTRE_TOP = (-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269,
              -30.66479806614716, 2.506628277459239)  # fmt: skip
CENTRE_BOTTOM = (-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972,
                 -13.28068155288572, 1.0)  # fmt: skip
TAIL_TOP = (-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734,
            4.374664141464968, 2.938163982698783)  # fmt: skip
TAIL_BOTTOM = (0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416,
               1.0)  # fmt: skip
TAIL = 0.02425


def ndtri_single(p: Any) -> Any:
    wide = p.astype(np.float64)
    with np.errstate(all="ignore"):
        middle = wide - 0.5
        square = middle * middle
        answer = polynomial(square, CENTRE_TOP[::-1])
        answer *= middle
        answer /= polynomial(square, CENTRE_BOTTOM[::-1])
        remote = ~(np.abs(middle) <= 0.5 - TAIL)
        if remote.any():
            beyond, side = wide[remote], middle[remote]
            s = np.sqrt(-2.0 * np.log(np.minimum(beyond, 1.0 - beyond)))
            tail = polynomial(s, TAIL_TOP[::-1]) / polynomial(s, TAIL_BOTTOM[::-1])
            tail = np.where(np.isinf(s), -np.inf, tail)
            answer[remote] = np.where(side < 0, tail, -tail)
        return answer.astype(np.float32)


ndtri = by_precision(ndtri_single, ndtri_double)


# -- the gamma function ---------------------------------------------------------------------------

# B(2k) / (2k (2k - 1)), the coefficients of Stirling's series.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def stirling_tail(x: Any) -> Any:
    """lgamma(x) less its elementary part, for x >= 8."""
    return polynomial(1.0 / (x * x), STIRLING) / x


def lgamma_positive(x: Any) -> Any:
    large = x >= 8.0
    big = np.where(large, x, 8.0)
    far = (big - 0.5) * np.log(big) - big + LOG_SQRT_2PI + stirling_tail(big)
    y = np.where(large, 1.5, x)
    factor = np.ones_like(y)
    for _ in range(6):
        above = y > 2.0
        y = np.where(above, y - 1.0, y)
        factor = np.where(above, factor * y, factor)
    below = y < 1.0
    shift = np.where(below, -np.log(np.where(below, y, 1.0)), np.log(factor))
    y = np.where(below, y + 1.0, y)
    near = (y - 1.0) * (y - 2.0) * chebyshev(2.0 * y - 3.0, LGAMMA_12) + shift
    return np.where(large, far, near)


def lgamma_shifted(x: Any) -> Any:
    """lgamma(x) for x > 0 by Stirling's series at x + 8, which float64 keeps as exact as float32
    needs it, even where lgamma vanishes."""
    product = x + 7.0
    for step in range(6, 0, -1):
        product *= x + float(step)
    product *= x
    z = x + 8.0
    inverse = 1.0 / z
    tail = polynomial(inverse * inverse, STIRLING[:-1])
    tail *= inverse
    tail += LOG_SQRT_2PI
    tail -= np.log(product, out=product)
    tail -= z
    elementary = np.log(z, out=inverse)
    z -= 0.5
    elementary *= z
    elementary += tail
    return elementary


@in_double
def lgamma_double(x: Any) -> Any:
    negative = x < 0.5
    mirrored = lgamma_positive(np.where(negative, 1.0 - x, x))
    fraction = np.abs(x) - np.floor(np.abs(x))
    sine = np.abs(np.sin(math.pi * fraction))
    left = np.log(math.pi / np.where(sine == 0, 1.0, sine)) - mirrored
    tiny = (x > 0) & negative
    left = np.where(tiny, lgamma_positive(np.where(tiny, x, 1.0)), left)
    answer = np.where(negative, left, mirrored)
    answer = np.where((x <= 0) & (fraction == 0), np.inf, answer)
    return np.where(np.isinf(x), np.inf, answer)


def lgamma_single(x: Any) -> Any:
    wide = x.astype(np.float64)
    if ((x > 0) & (x < 1e30)).all():
        return lgamma_shifted(wide).astype(np.float32)
    ordinary = (np.abs(x) < 1e30) & (x != 0)
    wide = np.where(ordinary, wide, 1.0)
    left = wide < 0
    answer = lgamma_shifted(np.where(left, 1.0 - wide, wide))
    if left.any():
        # The reflection, at the distance from the next pole, which is exact.
        beyond = wide[left]
        sine = np.abs(np.sin(math.pi * (beyond - np.round(beyond))))
        with np.errstate(divide="ignore"):
            answer[left] = np.log(math.pi / sine) - answer[left]
    found = answer.astype(np.float32)
    if not ordinary.all():
        found[~ordinary] = lgamma_double(x[~ordinary])
    return found


lgamma = by_precision(lgamma_single, lgamma_double)


# B(2k) / (2k), the coefficients of digamma's asymptotic series.
DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma_positive(x: Any) -> Any:
    shift = np.zeros_like(x)
    for _ in range(10):
        small = x < 10.0
        shift = np.where(small, shift - 1.0 / x, shift)
        x = np.where(small, x + 1.0, x)
    inverse = 1.0 / (x * x)
    tail = np.where(x < 1e17, polynomial(inverse, DIGAMMA_SERIES) * inverse, 0.0)
    return np.log(x) - 0.5 / x - tail + shift


@in_double
def digamma(x: Any) -> Any:
    negative = x < 0
    whole = np.trunc(x)
    right = digamma_positive(np.where(negative, 1.0 - x, np.where(x == 0, 1.0, x)))
    turn = np.where(negative, x - whole, 0.25)
    answer = np.where(negative, right - math.pi / np.tan(math.pi * turn), right)
    answer = np.where(negative & np.equal(whole, x), np.nan, answer)
    return np.where(x == 0, np.copysign(np.inf, -x), answer)


# (2k)! / B(2k): the divisors of the Euler-Maclaurin sum.
EULER_MACLAURIN = (12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9,
                   7.47242496e10, -2.950130727918164224e12, 1.1646782814350067249e14,
                   -4.5979787224074726105e15, 1.8152105401943546773e17,
                   -7.1661652561756670113e18)  # fmt: skip


@in_double
def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function, by Euler and Maclaurin's sum."""
    x, q = np.broadcast_arrays(x, q)
    regular = (x > 1.0) & ((q > 0.0) | ((q != np.floor(q)) & (x == np.floor(x))))
    s = np.where(regular, x, 2.0)
    a = np.where(regular, q, 1.0)
    total = np.power(a, -s)
    count = 9 + int(max(0.0, np.ceil(-np.min(a, initial=0.0))))
    for _ in range(min(count, 10_000)):
        a = a + 1.0
        total = total + np.power(a, -s)
    power = np.power(a, -s)
    total = total + power * a / (s - 1.0) - 0.5 * power
    factor = np.ones_like(s)
    k = 0.0
    for divisor in EULER_MACLAURIN:
        factor = factor * (s + k)
        power = power / a
        total = total + factor * power / divisor
        factor = factor * (s + k + 1.0)
        power = power / a
        k += 2.0
    answer = np.where(regular, total, np.nan)
    pole = (x == 1.0) | ((x > 1.0) & (q <= 0.0) & (q == np.floor(q)))
    answer = np.where(pole, np.inf, answer)
    answer = np.where((x > 1.0) & np.isinf(q), 0.0, answer)
    return np.where(np.isnan(x) | np.isnan(q), np.nan, answer)


def polygamma(n: int, x: Any) -> Any:
    """The n-th derivative of digamma."""
    x = np.asarray(x)
    if n == 0:
        return digamma(x)
    if n == 1:
        return trigamma(x)
    wide = x.astype(np.float64)
    answer = (-1.0) ** (n + 1) * math.gamma(n + 1.0) * zeta(np.full_like(wide, n + 1.0), wide)
    return answer.astype(x.dtype)


@in_double
def trigamma(x: Any) -> Any:
    mirrored = x < 0.5
    y = np.where(mirrored, 1.0 - x, x)
    right = zeta(np.full_like(y, 2.0), y)
    sine = np.sin(math.pi * (x - np.round(x)))
    return np.where(mirrored, (math.pi / sine) ** 2 - right, right)


# -- incomplete gamma -----------------------------------------------------------------------------


def log1p_less(u: Any) -> Any:
    """log(1 + u) - u without cancellation for small u."""
    small = np.abs(u) < 0.25
    v = np.where(small, u, 0.0)
    # In z = v / (2 + v) the logarithm is an odd series with fast-falling terms.
    z = v / (2.0 + v)
    z2 = z * z
    series = polynomial(z2, tuple(2.0 / (2 * k + 3) for k in range(12)))
    near = z * z2 * series - v * v / (2.0 + v)
    return np.where(small, near, np.log1p(u) - u)


def gamma_weight(a: Any, x: Any) -> Any:
    """x ** a * exp(-x) / gamma(a)."""
    large = a >= 8.0
    big = np.where(large, a, 8.0)
    far = big * log1p_less((x - big) / big) + 0.5 * np.log(big) - LOG_SQRT_2PI - stirling_tail(big)
    few = np.where(large, 1.0, a)
    near = few * np.log(x) - x - lgamma(few)
    return np.exp(np.where(large, far, near))


# Terms worked out between two looks at which sums have come to an end, and when they have.
STEPS = 8
SERIES_END, FRACTION_END = 1e-17, 1e-16


def lower_series(a: Any, x: Any) -> Any:
    """The regularised lower function where x is not much larger than a."""
    total = np.empty_like(x)
    places = np.arange(x.size)
    rest = (np.ones_like(x), np.ones_like(x), a, x)
    for _ in range(3000 // STEPS):
        term, found, n, by = rest
        for _ in range(STEPS):
            n = n + 1.0
            term = term * (by / n)
            found = found + term
        total[places] = found
        going = term > SERIES_END * found
        if not going.any():
            break
        # What has come to an end is looked at no more.
        places = places[going]
        rest = (term[going], found[going], n[going], by[going])
    return total * gamma_weight(a, x) / a


def upper_fraction(a: Any, x: Any) -> Any:
    """The regularised upper function where x is larger than a, by Lentz's continued fraction."""
    tiny = 1e-300
    b = x + 1.0 - a
    c = np.full_like(x, 1.0 / tiny)
    d = 1.0 / np.where(b == 0, tiny, b)
    whole = np.empty_like(x)
    places = np.arange(x.size)
    rest: tuple[Any, ...] = (a, b, c, d, d)
    for start in range(1, 3000, STEPS):
        order, b, c, d, h = rest
        for i in range(start, start + STEPS):
            step = -i * (i - order)
            b = b + 2.0
            d = step * d + b
            d = 1.0 / np.where(np.abs(d) < tiny, tiny, d)
            c = b + step / c
            c = np.where(np.abs(c) < tiny, tiny, c)
            ratio = c * d
            h = h * ratio
        whole[places] = h
        going = ~(np.abs(ratio - 1.0) < FRACTION_END)
        if not going.any():
            break
        places = places[going]
        rest = tuple([v[going] for v in (order, b, c, d, h)])
    return whole * gamma_weight(a, x)


def incomplete_gamma(a: Any, x: Any) -> tuple[Any, Any]:
    """(lower, upper), regularised."""
    a, x = np.broadcast_arrays(a, x)
    regular = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    series = regular & (x < a + 1.0)
    lower = np.full(a.shape, np.nan)
    upper = np.full(a.shape, np.nan)
    if np.any(series):
        lower[series] = lower_series(a[series], x[series])
        upper[series] = 1.0 - lower[series]
    rest = regular & ~series
    if np.any(rest):
        upper[rest] = upper_fraction(a[rest], x[rest])
        lower[rest] = 1.0 - upper[rest]
    for place, value in (
        ((x == 0) & (a > 0), 0.0),
        ((a == 0) & (x > 0), 1.0),
        (np.isinf(x) & (x > 0) & (a > 0) & np.isfinite(a), 1.0),
        (np.isinf(a) & (a > 0) & (x >= 0) & np.isfinite(x), 0.0),
    ):
        lower[place] = value
        upper[place] = 1.0 - value
    return lower, upper


@in_double
def igamma(a: Any, x: Any) -> Any:
    return incomplete_gamma(a, x)[0]


@in_double
def igammac(a: Any, x: Any) -> Any:
    return incomplete_gamma(a, x)[1]


# -- modified Bessel functions --------------------------------------------------------------------


def bessel_scaled(x: Any, near: tuple[float, ...], far: tuple[float, ...], odd: bool) -> Any:
    size = np.abs(x)
    small = size <= 8.0
    inner = np.where(small, size, 8.0)
    answer = chebyshev(inner / 4.0 - 1.0, near) * (inner if odd else 1.0)
    if not every(small):
        outer = np.where(small, 8.0, size)
        right = chebyshev(16.0 / outer - 1.0, far) / np.sqrt(outer)
        answer = np.where(small, answer, right)
    return np.where(np.isnan(x), x, np.copysign(answer, x) if odd else answer)


@in_double
def i0e(x: Any) -> Any:
    return bessel_scaled(x, I0E_NEAR, I0E_FAR, odd=False)


@in_double
def i1e(x: Any) -> Any:
    return bessel_scaled(x, I1E_NEAR, I1E_FAR, odd=True)


@in_double
def i0(x: Any) -> Any:
    return np.exp(np.abs(x)) * bessel_scaled(x, I0E_NEAR, I0E_FAR, odd=False)


@in_double
def i1(x: Any) -> Any:
    return np.exp(np.abs(x)) * bessel_scaled(x, I1E_NEAR, I1E_FAR, odd=True)
