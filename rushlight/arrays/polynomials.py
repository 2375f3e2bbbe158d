"""Orthogonal polynomials of any degree, and the Airy function, on arrays.

A polynomial is found by its recurrence in the degree, for all elements at once; those whose degree
is reached keep their value. Degrees are cut to whole numbers, and negative ones give 0. Chebyshev
polynomials of high degree follow from trigonometric functions between -1 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays.special import chebyshev, in_double

Step = Callable[[int, Any, Any, Any], Any]
# The degree from which a Chebyshev polynomial is taken from its trigonometric form.
HIGH = 8
# Degrees beyond which Hermite polynomials are not followed.
HERMITE_LIMIT = {"f": 128, "d": 512}


def recurrence(x: Any, n: Any, second: Any, step: Step) -> Any:
    """The member of degree n of a family that begins with 1 and `second`; `step(k, x, p, q)` makes
    that of degree k from the two before it."""
    x, n = np.broadcast_arrays(x, n)
    degree = np.trunc(n)
    with np.errstate(all="ignore"):
        before = np.ones(x.shape, x.dtype)
        result = np.where(degree >= 1, np.broadcast_to(second, x.shape), before)
        result = np.where(degree < 0, before - before, result).astype(x.dtype)
        k = 2
        while True:
            open_ = (degree >= k) & ~np.isnan(result)
            if not open_.any():
                break
            found = step(k, x, before, result)
            before = np.where(open_, result, before)
            result = np.where(open_, found, result)
            k += 1
    return np.where(np.isnan(degree), before * np.nan, result).astype(x.dtype)


# -- Chebyshev polynomials ------------------------------------------------------------------------


def double_step(k: int, x: Any, p: Any, q: Any) -> Any:
    return (x + x) * q - p


def chebyshev_family(second: Any, closed: Any, x: Any, n: Any) -> Any:
    """A family with Chebyshev's recurrence. `closed(angle, degree)` is its form at cos(angle)."""
    x, n = np.broadcast_arrays(x, n)
    degree = np.trunc(n)
    high = (degree > HIGH) & (np.abs(x) <= 1)
    result = recurrence(x, np.where(high, 0, degree), second(x), double_step)
    if high.any():
        with np.errstate(all="ignore"):
            wide = np.where(high, x, 0).astype(np.float64)
            found = closed(np.arccos(wide), np.where(high, degree, 0).astype(np.float64))
        result = np.where(high, found, result).astype(x.dtype)
    return result


def ratio(top: Any, bottom: Any, limit: Any) -> Any:
    """top / bottom, or the limit where both vanish."""
    empty = bottom == 0
    return np.where(empty, limit, top / np.where(empty, 1, bottom))


def sign_of(degree: Any) -> Any:
    return np.where(degree % 2 == 0, 1.0, -1.0)


def closed_t(angle: Any, degree: Any) -> Any:
    return np.cos(degree * angle)


def closed_u(angle: Any, degree: Any) -> Any:
    last = (degree + 1) * np.where(angle > 1, sign_of(degree), 1)
    ends = (angle == 0) | (angle == math.pi)
    return np.where(ends, last, ratio(np.sin((degree + 1) * angle), np.sin(angle), last))


def closed_v(angle: Any, degree: Any) -> Any:
    last = (2 * degree + 1) * sign_of(degree)
    found = ratio(np.cos((degree + 0.5) * angle), np.cos(angle / 2), last)
    return np.where(angle == math.pi, last, found)


def closed_w(angle: Any, degree: Any) -> Any:
    return ratio(np.sin((degree + 0.5) * angle), np.sin(angle / 2), 2 * degree + 1)


def chebyshev_polynomial_t(x: Any, n: Any) -> Any:
    return chebyshev_family(lambda x: x, closed_t, x, n)


def chebyshev_polynomial_u(x: Any, n: Any) -> Any:
    return chebyshev_family(lambda x: x + x, closed_u, x, n)


def chebyshev_polynomial_v(x: Any, n: Any) -> Any:
    return chebyshev_family(lambda x: x + x - 1, closed_v, x, n)


def chebyshev_polynomial_w(x: Any, n: Any) -> Any:
    return chebyshev_family(lambda x: x + x + 1, closed_w, x, n)


def shifted(family: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A family on [0, 1] instead of [-1, 1]."""

    def polynomial(x: Any, n: Any) -> Any:
        return family(x + x - 1, n)

    return polynomial


shifted_chebyshev_polynomial_t = shifted(chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = shifted(chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = shifted(chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = shifted(chebyshev_polynomial_w)


# -- Hermite, Laguerre and Legendre polynomials ---------------------------------------------------


def hermite(x: Any, n: Any, second: Any, step: Step) -> Any:
    beyond = n > HERMITE_LIMIT[x.dtype.char]
    return recurrence(x, np.where(beyond, np.nan, n), second, step)


def hermite_polynomial_h(x: Any, n: Any) -> Any:
    return hermite(x, n, x + x, lambda k, x, p, q: (x + x) * q - (2 * (k - 1)) * p)


def hermite_polynomial_he(x: Any, n: Any) -> Any:
    return hermite(x, n, x, lambda k, x, p, q: x * q - (k - 1) * p)


def laguerre_polynomial_l(x: Any, n: Any) -> Any:
    step: Step = lambda k, x, p, q: ((2 * k - 1 - x) * q - (k - 1) * p) / k  # noqa: E731
    return recurrence(x, n, 1 - x, step)


def legendre_polynomial_p(x: Any, n: Any) -> Any:
    step: Step = lambda k, x, p, q: ((2 * k - 1) * x * q - (k - 1) * p) / k  # noqa: E731
    return recurrence(x, n, x, step)


# -- the Airy function ----------------------------------------------------------------------------

# Ai(x) for x in [-6, 2], in u = (x + 2) / 4; beyond 2, exp(z) x^(1/4) Ai(x) with
# z = 2/3 x^(3/2), in u = 2 z(2) / z - 1; below -6 the two parts of its amplitude, in
# u = 2 (z(6) / z)^2 - 1.
AIRY_MIDDLE = (
    0.07981034257083895, 0.13358598577835648, -0.12888154225314424, -0.08776265494035469,
    -0.11786513948317262, 0.2494019918868029, -0.035635245648797415, -0.12552960424978643,
    0.07658320862153278, 0.006539826099616935, -0.023099786059506074, 0.0075040528747347115,
    0.0017030155672010565, -0.001847967273977794, 0.0003517624295647609, 0.00013635466079863891,
    -8.308790360342944e-05, 8.894157813861605e-06, 5.884144160957906e-06, -2.388680332415851e-06,
    1.1078940909561706e-07, 1.625312951027347e-07, -4.7480935940319924e-08, -1.754949228512617e-10,
    3.144514394466578e-09, -6.872528750687637e-10, -3.432139716305899e-11, 4.5120269871187276e-11,
    -7.505023274955363e-12, -7.320391388335262e-13, 4.998060740578426e-13, -6.330395765884145e-14,
    -9.638462850616974e-15, 4.403519218800548e-15, -4.1759243545597107e-16, -9.31695346064716e-17,
    3.1579001128543586e-17,
)  # fmt: skip
AIRY_RIGHT = (
    0.2776956095117059, -0.004172967562045923, 0.00020669586013998011, -1.7280997841068207e-05,
    1.928052166797157e-06, -2.605774398776262e-07, 4.051516883512395e-08, -7.022240440986223e-09,
    1.3286081997701028e-09, -2.703558037129289e-10, 5.852297782838998e-11, -1.3363584416519756e-11,
    3.1978547149289153e-12, -7.976813559559603e-13, 2.0651347541109665e-13, -5.52899978215978e-14,
    1.526165619010181e-14, -4.331979304955806e-15, 1.2616239319898747e-15, -3.7626070399357594e-16,
    1.1471616156264618e-16, -3.570144365109208e-17, 1.1326462271400218e-17, -3.658761589006902e-18,
)  # fmt: skip
AIRY_COSINE = (
    0.9998088477395531, -0.00019041677962134863, 7.267968168417445e-07, -8.485426967529796e-09,
    1.9144545982950886e-10, -6.778493941405162e-12, 3.345666079656652e-13, -2.1345137724465704e-14,
    1.6718079441151791e-15, -1.5491724858625586e-16, 1.6524273492513008e-17,
)  # fmt: skip
AIRY_SINE = (
    0.06925101122700861, -0.00019199395713168297, 1.4144485007348916e-06, -2.4076418454371364e-08,
    7.033135474188027e-10, -3.0199171290130837e-11, 1.73483636560491e-12, -1.2527799137757002e-13,
    1.0886384509119664e-14, -1.1026771285105438e-15, 1.2709996936013433e-16,
    -1.6365087007659018e-17, 2.3195560389025733e-18,
)  # fmt: skip
RIGHT_FROM, LEFT_FROM = 2.0 / 3.0 * 2.0**1.5, 2.0 / 3.0 * 6.0**1.5
# Where the result is smaller than any number.
AIRY_END = 103.892


@in_double
def airy_ai(x: Any) -> Any:
    middle = chebyshev((np.clip(x, -6.0, 2.0) + 2.0) / 4.0, AIRY_MIDDLE)
    size = np.clip(x, 2.0, 2.0 * AIRY_END)
    z = 2.0 / 3.0 * size * np.sqrt(size)
    right = chebyshev(2.0 * RIGHT_FROM / z - 1.0, AIRY_RIGHT) * np.exp(-z) / size**0.25
    right = np.where(x > AIRY_END, 0.0, right)
    size = np.maximum(-x, 6.0)
    z = 2.0 / 3.0 * size * np.sqrt(size)
    u = 2.0 * (LEFT_FROM / z) ** 2 - 1.0
    angle = z + math.pi / 4.0
    waves = chebyshev(u, AIRY_COSINE) * np.sin(angle) - chebyshev(u, AIRY_SINE) / z * np.cos(angle)
    left = waves / (math.sqrt(math.pi) * size**0.25)
    result = np.where(x > 2.0, right, np.where(x < -6.0, left, middle))
    return np.where(np.isfinite(x), result, np.nan)
