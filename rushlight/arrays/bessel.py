"""Bessel functions of orders 0 and 1 on arrays, as Chebyshev sums.

Near zero a function is a sum in the square of its argument, with the logarithm taken out where
there is one; far out it is a wave with a slowly varying amplitude, or an exponential.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.special import chebyshev, every, i0, i1, in_double

# J0(x), Y0(x) less its logarithm, for x in [0, 8], in u = x x / 32 - 1.
J0_NEAR = (
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977,
    0.15806710233209725, -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504,
    3.246032882100508e-05, -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09,
    7.848696314479465e-11, -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16,
    1.2218515873961411e-17,
)  # fmt: skip
Y0_NEAR = (
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718268, 0.26156734625504663,
    -0.17730201278114358, 0.04719668959576339, -0.007287962479552079, 0.0007531135932577742,
    -5.632079141056987e-05, 3.206532537654801e-06, -1.44072332740187e-07, 5.248794787330516e-09,
    -1.5837552541812015e-10, 4.02633081830612e-12, -8.747341203310769e-14, 1.6434898714919468e-15,
    -2.6977881152566837e-17,
)  # fmt: skip
# Beyond: the cosine and sine parts of the amplitude, in u = 128 / (x x) - 1.
P0_FAR = (
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16,
    -1.0011513723467786e-16, 1.6305919233744186e-17,
)  # fmt: skip
Q0_FAR = (
    -0.015555854605337009, 6.838519942611649e-05, -7.414498411060647e-07, 1.7972457247968992e-08,
    -7.27191593686632e-10, 4.2201219046687385e-11, -3.206747420996635e-12, 3.006145125351706e-13,
    -3.336328185322427e-14, 4.255225040245461e-15, -6.09993013164005e-16, 9.662128970303257e-17,
    -1.6686065214378146e-17,
)  # fmt: skip
# K0(x) less its logarithm for x in [0, 2], in u = x x / 2 - 1.
K0_NEAR = (
    -0.2676636966169514, 0.3442898999246285, 0.0359799365153615, 0.001264615411446926,
    2.286212103119452e-05, 2.5347910790261494e-07, 1.904516377220209e-09, 1.0349695257633625e-11,
    4.2598161427910826e-14, 1.3744654358807508e-16,
)  # fmt: skip
# sqrt(x) exp(x) K0(x) beyond, in u = 4 / x - 1.
K0_FAR = (
    1.2201515410329777, -0.0314481013119645, 0.0015698838857300533, -0.00012849549581627802,
    1.39498137188765e-05, -1.8317555227191195e-06, 2.766813639445015e-07, -4.660489897687948e-08,
    8.574034017414225e-09, -1.6975345093890614e-09, 3.5773972814003283e-10,
    -7.957489244477396e-11, 1.8559491149549264e-11, -4.514597883374519e-12,
    1.1403405882073441e-12, -2.9800969231481784e-13, 8.032890775068375e-14,
    -2.2275133267462965e-14, 6.340076476276646e-15, -1.848593377920907e-15,
    5.5120559994043335e-16, -1.6782311257549006e-16, 5.2103917776435543e-17,
    -1.6475805939842632e-17,
)  # fmt: skip
# The same for order 1, odd functions divided by x.
J1_NEAR = (
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791,
    0.022213639654966037, -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05,
    1.9858774049915165e-06, -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10,
    3.160154580348003e-12, -7.221755239651773e-14, 1.4232144003513942e-15,
    -2.4441972916190464e-17,
)  # fmt: skip
Y1_NEAR = (
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346,
    -0.028328123944594365, 0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05,
    -3.53808001868935e-06, 1.7707804556154404e-07, -7.11055004989928e-09, 2.344337905911516e-10,
    -6.4651518414115946e-12, 1.51429151205002e-13, -3.0511859694473254e-15, 5.34668038572867e-17,
)  # fmt: skip
P1_FAR = (
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08,
    -1.8718907491063067e-09, 8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13,
    -4.6842237839904895e-14, 5.452674896044717e-15, -7.221180842274018e-16,
    1.0667689114335412e-16, -1.7312313216116335e-17,
)  # fmt: skip
Q1_FAR = (
    0.04677778706953532, -9.62772354915708e-05, 9.138615257955454e-07, -2.0959781384083424e-08,
    8.229193327650554e-10, -4.686363688176945e-11, 3.5152187949686082e-12, -3.2643156743279e-13,
    3.5967765829165294e-14, -4.5612523950772974e-15, 6.508282957783384e-16,
    -1.0269147531823243e-16, 1.767635548776479e-17,
)  # fmt: skip
K1_NEAR = (
    -0.06409034516866254, -0.10916919599320105, -0.006636878452817714, -0.00016822792382067343,
    -2.389559180803608e-06, -2.1853569024549695e-08, -1.3982271326113327e-10,
    -6.618562752976041e-13, -2.4134516242987822e-15,
)  # fmt: skip
K1_FAR = (
    1.3603130952422213, 0.10392373657681724, -0.002857816859622779, 0.00019521551847135162,
    -1.936197974166083e-05, 2.406484947837217e-06, -3.5019606030878126e-07,
    5.7410841254500495e-08, -1.0345762465678097e-08, 2.0150497551970347e-09,
    -4.1903547593419254e-10, 9.218315187605315e-11, -2.129967838427791e-11, 5.139639673482343e-12,
    -1.2891739609498229e-12, 3.348419666052243e-13, -8.976705182010146e-14,
    2.4771544242195988e-14, -7.0198370892147685e-15, 2.038703166239861e-15,
    -6.057047270643018e-16, 1.8380935752430455e-16, -5.689462849193648e-17,
    1.7940510478863572e-17,
)  # fmt: skip


def wave(size: Any, cosine: Any, sine: Any, phase: float) -> tuple[Any, Any]:
    """(J, Y) for size > 8."""
    u = 128.0 / (size * size) - 1.0
    amplitude = np.sqrt(2.0 / (math.pi * size))
    p = chebyshev(u, cosine)
    q = chebyshev(u, sine) * 8.0 / size
    angle = size - phase
    c, s = np.cos(angle), np.sin(angle)
    return amplitude * (p * c - q * s), amplitude * (p * s + q * c)


def split_at(x: Any, limit: float) -> tuple[Any, Any, Any]:
    """(whether |x| is at most the limit, |x| where it is, |x| where it is not)."""
    size = np.abs(x)
    small = size <= limit
    return small, np.where(small, size, limit), np.where(small, 2.0 * limit, size)


@in_double
def bessel_j0(x: Any) -> Any:
    small, near, far = split_at(x, 8.0)
    inner = chebyshev(near * near / 32.0 - 1.0, J0_NEAR)
    if every(small):
        return inner
    return np.where(small, inner, wave(far, P0_FAR, Q0_FAR, math.pi / 4)[0])


@in_double
def bessel_j1(x: Any) -> Any:
    small, near, far = split_at(x, 8.0)
    answer = near * chebyshev(near * near / 32.0 - 1.0, J1_NEAR)
    if not every(small):
        answer = np.where(small, answer, wave(far, P1_FAR, Q1_FAR, 3 * math.pi / 4)[0])
    return np.copysign(1.0, x) * answer


def second_kind(
    x: Any, inner: Any, small: Any, far: Any, cosine: Any, sine: Any, phase: float
) -> Any:
    answer = inner
    if not every(small):
        answer = np.where(small, inner, wave(far, cosine, sine, phase)[1])
    answer = np.where(x == 0, -np.inf, np.where(x < 0, np.nan, answer))
    return np.where(np.isnan(x), x, answer)


@in_double
def bessel_y0(x: Any) -> Any:
    small, near, far = split_at(x, 8.0)
    u = near * near / 32.0 - 1.0
    inner = chebyshev(u, Y0_NEAR) + 2.0 / math.pi * np.log(near) * chebyshev(u, J0_NEAR)
    return second_kind(x, inner, small, far, P0_FAR, Q0_FAR, math.pi / 4)


@in_double
def bessel_y1(x: Any) -> Any:
    small, near, far = split_at(x, 8.0)
    u = near * near / 32.0 - 1.0
    first = near * chebyshev(u, J1_NEAR)
    pole = 2.0 / math.pi * (np.log(near) * first - 1.0 / near)
    inner = near * chebyshev(u, Y1_NEAR) + pole
    return second_kind(x, inner, small, far, P1_FAR, Q1_FAR, 3 * math.pi / 4)


def decaying(x: Any, order: int, scaled: bool) -> Any:
    """K of order 0 or 1, times exp(x) when scaled."""
    small, near, far = split_at(x, 2.0)
    u = near * near / 2.0 - 1.0
    if order == 0:
        inner = chebyshev(u, K0_NEAR) - np.log(near / 2.0) * i0(near)
    else:
        inner = near * chebyshev(u, K1_NEAR) + np.log(near / 2.0) * i1(near) + 1.0 / near
    outer = chebyshev(4.0 / far - 1.0, K1_FAR if order else K0_FAR) / np.sqrt(far)
    if scaled:
        inner = inner * np.exp(near)
    else:
        outer = outer * np.exp(-far)
    answer = np.where(small, inner, outer)
    answer = np.where(x == 0, np.inf, np.where(x < 0, np.nan, answer))
    return np.where(np.isnan(x), x, answer)


@in_double
def modified_bessel_k0(x: Any) -> Any:
    return decaying(x, 0, scaled=False)


@in_double
def modified_bessel_k1(x: Any) -> Any:
    return decaying(x, 1, scaled=False)


@in_double
def scaled_modified_bessel_k0(x: Any) -> Any:
    return decaying(x, 0, scaled=True)


@in_double
def scaled_modified_bessel_k1(x: Any) -> Any:
    return decaying(x, 1, scaled=True)


@in_double
def spherical_bessel_j0(x: Any) -> Any:
    tiny = np.abs(x) < 1e-4
    safe = np.where(tiny | np.isinf(x), 1.0, x)
    answer = np.where(tiny, 1.0 - x * x / 6.0, np.sin(safe) / safe)
    return np.where(np.isinf(x), 0.0, np.where(np.isnan(x), x, answer))
