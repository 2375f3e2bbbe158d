"""Elementary functions as LLVM functions that the loop vectoriser can widen.

Each is a straight line of arithmetic, comparisons and selects: no branches, no calls, so that a
loop around it becomes vector code. Right for infinities, NaN, zeros and denormals; errors stay
below 2 ulp in float32 and 4 ulp in float64. Functions that are seldom hot in float32 compute in
float64, and those without an entry here for float64 call the C library, one element at a time.
Polynomials are Chebyshev fits in 40 digits over the reduced range that their comment names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

__all__ = ["constant", "define"]

# (exp(r) - 1 - r) / r² for |r| <= ln(2) / 2
EXP32 = (
    0.0001989198131397769, 0.0013934541928270264, 0.008333310024225292, 0.04166645680967788,
    0.16666666682534356, 0.5000000014286223,
)  # fmt: skip
EXP64 = (
    2.5100472505694996e-08, 2.7620201591031547e-07, 2.7557268276905696e-06, 2.4801521057868204e-05,
    0.00019841269863171557, 0.0013888888917367081, 0.008333333333330039, 0.041666666666623824,
    0.16666666666666669, 0.5,
)  # fmt: skip
# (tanh(x) / x - 1) / x² in x² <= 0.4
TANH32 = (
    0.002269501684162354, -0.008323187058278775, 0.021762502907359264, -0.0539584616274522,
    0.13333300146188914, -0.33333333149374506,
)  # fmt: skip
TANH64 = (
    -2.3855793111704252e-06, 1.2088687226216897e-05, -3.696052230333826e-05, 9.597236318160513e-05,
    -0.00023886464788549952, 0.0005899759192143973, -0.0014558274668454265, 0.0035921274106953164,
    -0.008863235493441451, 0.02186948853488776, -0.053968253968231024, 0.13333333333333316,
    -0.3333333333333333,
)  # fmt: skip
# erf(x) / x - 1 in x² <= 0.88, log2(erfc(x)) for 0.92 <= x <= 4, and 2^f for |f| <= 1/2
ERF32 = (
    8.282021688411657e-05, -0.000812203866262259, 0.005199235030261142, -0.026858688451197224,
    0.1128368306936103, -0.3761263296126926, 0.1283791665624985,
)  # fmt: skip
ERF32_TAIL = (
    2.371169788609841e-06, -6.662064578131317e-05, 0.0008623615427213248, -0.0068723863888491745,
    0.03813189802202968, -0.15883276151929426, -0.911515669946151, -1.630588204169901,
    0.00046229940806857795,
)  # fmt: skip
POWER32 = (
    0.0013390863364671234, 0.009676031918322054, 0.05550357114219078, 0.2402210748530834,
    0.6931471880262288, 1.0000000754548972,
)  # fmt: skip
# (log(1 + f) - f) / f² for sqrt(1/2) <= 1 + f <= sqrt(2)
LOG32 = (
    -0.07673641501674025, 0.1272267278801096, -0.1312755565128765, 0.14204855952571013,
    -0.16626645629127462, 0.20001234461093456, -0.25000781239812697, 0.33333330028354796,
    -0.4999999764977098,
)  # fmt: skip
# (2 atanh(s) - 2 s) / s³ in s², s = f / (2 + f)
LOG64 = (
    0.14617807153417325, 0.15331611722055008, 0.1818289243253687, 0.22222211089379496,
    0.28571428626253836, 0.3999999999989889, 0.666666666666667,
)  # fmt: skip
# (sin(r) / r - 1) / r² and (cos(r) - 1 + r²/2) / r⁴ in r², |r| a little over pi / 4
SIN64 = (
    -7.545244649895887e-13, 1.6057586010482931e-10, -2.505209803400093e-08, 2.7557319186238047e-06,
    -0.00019841269841204277, 0.00833333333333329, -0.16666666666666666,
)  # fmt: skip
COS64 = (
    4.7228189841963754e-14, -1.146993499839324e-11, 2.087675123154247e-09, -2.7557319202993537e-07,
    2.480158730155084e-05, -0.0013888888888888866, 0.041666666666666664,
)  # fmt: skip
SIN32 = (
    2.718579691119952e-06, -0.00019839540241424662, 0.008333330753513335, -0.16666666660650228,
)  # fmt: skip
COS32 = (
    -2.724742655184165e-07, 2.480014419426387e-05, -0.0013888886736143251, 0.041666666661646104,
)  # fmt: skip
# (atan(x) / x - 1) / x² in x², |x| <= tan(pi / 8)
ATAN64 = (
    0.022592433408305423, -0.04471724183392113, 0.05732790650017491, -0.0664903323195107,
    0.07690999933891143, -0.09090849485105108, 0.11111109541044667, -0.14285714264618923,
    0.19999999999889667, -0.33333333333333237,
)  # fmt: skip

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.497384905065873e-33)
# Adding it leaves the nearest integer in the low bits of a double.
ROUNDER = 6755399441055744.0
ROUNDER_BITS = 0x4338000000000000
# Beyond this the argument of a float32 sine is looked up as mantissa · (2^k mod 2 pi).
FAR = 2.0**40
FAR_EXPONENTS = range(17, 105)


class Lines:
    """The body of one function of floats, written instruction by instruction."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.T = "float" if kind == "f32" else "double"
        self.I = "i32" if kind == "f32" else "i64"
        self.lines: list[str] = []
        self.needed: set[tuple[str, str]] = set()
        self.declared: set[str] = set()
        self.tables: set[str] = set()

    def put(self, text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def c(self, value: float) -> str:
        return constant(value, self.kind)

    def op(self, name: str, a: str, b: str) -> str:
        return self.put(f"{name} {self.T} {a}, {b}")

    def add(self, a: str, b: str) -> str:
        return self.op("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.op("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.op("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        return self.op("fdiv", a, b)

    def call(self, name: str, *args: str) -> str:
        function = f"@llvm.{name}.{self.kind}"
        types = ", ".join([self.T] * len(args))
        self.declared.add(f"declare {self.T} {function}({types})")
        given = ", ".join([f"{self.T} {a}" for a in args])
        return self.put(f"call {self.T} {function}({given})")

    def own(self, name: str, *args: str) -> str:
        """Call another function of this module."""
        self.needed.add((name, self.kind))
        given = ", ".join([f"{self.T} {a}" for a in args])
        return self.put(f"call {self.T} @rl.{name}.{self.kind}({given})")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fma", a, b, c)

    def abs(self, a: str) -> str:
        return self.call("fabs", a)

    def cmp(self, predicate: str, a: str, b: str) -> str:
        return self.put(f"fcmp {predicate} {self.T} {a}, {b}")

    def sel(self, mask: str, a: str, b: str) -> str:
        return self.put(f"select i1 {mask}, {self.T} {a}, {self.T} {b}")

    def whole(self, name: str, a: str, b: str | int) -> str:
        return self.put(f"{name} {self.I} {a}, {b}")

    def bits(self, a: str) -> str:
        return self.put(f"bitcast {self.T} {a} to {self.I}")

    def floating(self, a: str) -> str:
        return self.put(f"bitcast {self.I} {a} to {self.T}")

    def poly(self, coefficients: tuple[float, ...], x: str) -> str:
        found = self.c(coefficients[0])
        for number in coefficients[1:]:
            found = self.fma(found, x, self.c(number))
        return found

    def at_least(self, x: str, low: float) -> str:
        """max(x, low); NaN stays."""
        return self.sel(self.cmp("olt", x, self.c(low)), self.c(low), x)

    def at_most(self, x: str, high: float) -> str:
        return self.sel(self.cmp("ogt", x, self.c(high)), self.c(high), x)

    def keep_nan(self, x: str, value: str) -> str:
        return self.sel(self.cmp("uno", x, x), x, value)

    def power_of_two(self, n: str) -> str:
        bias, shift = (127, 23) if self.kind == "f32" else (1023, 52)
        return self.floating(self.whole("shl", self.whole("add", n, bias), shift))

    def nearest(self, x: str) -> tuple[str, str]:
        """The nearest integer as a float and as an integer."""
        if self.kind == "f32":
            q = self.call("rint", x)
            return q, self.put(f"fptosi float {q} to i32")
        # Vector conversions between double and i64 are not everywhere; this addition is.
        t = self.add(x, self.c(ROUNDER))
        return self.sub(t, self.c(ROUNDER)), self.whole("sub", self.bits(t), ROUNDER_BITS)

    def as_float(self, n: str) -> str:
        """A small integer as a float."""
        if self.kind == "f32":
            return self.put(f"sitofp i32 {n} to float")
        t = self.floating(self.whole("add", n, ROUNDER_BITS))
        return self.sub(t, self.c(ROUNDER))

    # -- shared cores ------------------------------------------------------------------------------

    def exp_core(self, x: str) -> tuple[str, str]:
        """(exp(r) - 1, n) with x = n ln 2 + r."""
        q, n = self.nearest(self.mul(x, self.c(LOG2E)))
        if self.kind == "f32":
            r = self.fma(q, self.c(-0.693145751953125), x)
            r = self.fma(q, self.c(-1.42860682030941723212e-6), r)
        else:
            r = self.fma(q, self.c(-6.93147180369123816490e-01), x)
            r = self.fma(q, self.c(-1.90821492927058770002e-10), r)
        p = self.poly(EXP32 if self.kind == "f32" else EXP64, r)
        return self.fma(self.mul(r, r), p, r), n

    def exp_near(self, x: str) -> str:
        """exp(x) where 2^n and the result are normal numbers."""
        p, n = self.exp_core(x)
        return self.mul(self.add(p, self.c(1.0)), self.power_of_two(n))

    def exp_far(self, x: str) -> str:
        """exp(x) for every x but NaN: the scale is applied in two steps."""
        low, high = (-104.0, 89.0) if self.kind == "f32" else (-746.0, 710.0)
        p, n = self.exp_core(self.at_most(self.at_least(x, low), high))
        half = self.whole("ashr", n, 1)
        rest = self.whole("sub", n, half)
        p = self.add(p, self.c(1.0))
        return self.mul(self.mul(p, self.power_of_two(half)), self.power_of_two(rest))

    def log_split(self, x: str) -> tuple[str, str, str]:
        """(m - 1, k, k as integer) with x = m 2^k, m around 1; x positive and finite."""
        f32 = self.kind == "f32"
        tiny = self.cmp("olt", x, self.c(1.17549435e-38 if f32 else 2.2250738585072014e-308))
        grown = self.mul(x, self.c(2.0**23 if f32 else 2.0**54))
        i = self.bits(self.sel(tiny, grown, x))
        root, shift = (0x3F3504F3, 23) if f32 else (0x3FE6A09E667F3BCD, 52)
        k = self.whole("ashr", self.whole("sub", i, root), shift)
        m = self.floating(self.whole("sub", i, self.whole("shl", k, shift)))
        less = self.whole("sub", k, 23 if f32 else 54)
        k = self.put(f"select i1 {tiny}, {self.I} {less}, {self.I} {k}")
        return self.sub(m, self.c(1.0)), self.as_float(k), k

    def log_sum(self, f: str, k: str, correction: str | None = None) -> str:
        """log(1 + f) + k ln 2."""
        if self.kind == "f32":
            r = self.mul(self.mul(f, f), self.poly(LOG32, f))
            if correction is not None:
                r = self.add(r, correction)
            r = self.add(f, self.fma(k, self.c(-2.12194440e-4), r))
            return self.fma(k, self.c(0.693359375), r)
        s = self.div(f, self.add(f, self.c(2.0)))
        z = self.mul(s, s)
        half = self.mul(self.mul(f, f), self.c(0.5))
        series = self.mul(z, self.poly(LOG64, z))
        low = self.mul(k, self.c(1.90821492927058770002e-10))
        if correction is not None:
            low = self.add(low, correction)
        inner = self.fma(s, self.add(half, series), low)
        near = self.sub(self.sub(half, inner), f)
        return self.fma(k, self.c(6.93147180369123816490e-01), self.put(f"fneg double {near}"))

    def log_ends(self, x: str, value: str, zero: float = 0.0) -> str:
        """The values of a logarithm where its core does not hold: at `zero` it is -inf."""
        value = self.sel(self.cmp("oeq", x, self.c(zero)), self.c(float("-inf")), value)
        value = self.sel(self.cmp("oeq", x, self.c(float("inf"))), x, value)
        return self.sel(self.cmp("ult", x, self.c(zero)), self.c(float("nan")), value)


def constant(value: float, kind: str) -> str:
    """A float as LLVM text: the bits of the double, rounded to float32 where asked."""
    if kind == "f32":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    if value != value:
        bits = 0x7FF8000000000000
    return f"0x{bits:016X}"


# -- functions of one variable, as (Lines, x) -> value --------------------------------------------


def exp(e: Lines, x: str) -> str:
    return e.keep_nan(x, e.exp_far(x))


def expm1(e: Lines, x: str) -> str:
    low, high = (-20.0, 89.0) if e.kind == "f32" else (-40.0, 710.0)
    p, n = e.exp_core(e.at_most(e.at_least(x, low), high))
    # Half the scale: the whole one may be too large for a number.
    s = e.power_of_two(e.whole("sub", n, 1))
    value = e.mul(e.fma(p, s, e.sub(s, e.c(0.5))), e.c(2.0))
    tiny = e.cmp("olt", e.abs(x), e.c(1e-8 if e.kind == "f32" else 1e-17))
    return e.keep_nan(x, e.sel(tiny, x, value))


def exp2(e: Lines, x: str) -> str:
    if e.kind == "f32":
        return compute_in_double("exp2")(e, x)
    clamped = e.at_most(e.at_least(x, -1076.0), 1025.0)
    q, n = e.nearest(clamped)
    r = e.mul(e.sub(clamped, q), e.c(LN2))
    p = e.add(e.fma(e.mul(r, r), e.poly(EXP64, r), r), e.c(1.0))
    half = e.whole("ashr", n, 1)
    rest = e.whole("sub", n, half)
    value = e.mul(e.mul(p, e.power_of_two(half)), e.power_of_two(rest))
    return e.keep_nan(x, value)


def log(e: Lines, x: str) -> str:
    f, k, _ = e.log_split(x)
    return e.log_ends(x, e.log_sum(f, k))


def log1p(e: Lines, x: str) -> str:
    u = e.add(x, e.c(1.0))
    f, k, whole = e.log_split(u)
    # Near 1 the sum need not be formed at all; elsewhere what it lost is added again.
    near = e.put(f"icmp eq {e.I} {whole}, 0")
    big = e.cmp("oge", x, e.c(1.0))
    lost = e.sel(big, e.sub(e.c(1.0), e.sub(u, x)), e.sub(x, e.sub(u, e.c(1.0))))
    if e.kind == "f32":
        # What is lost is a few units of the last place, and nothing once 1 is less than one: a
        # parabola serves for 1 / (1 + f).
        far = e.put(f"icmp sgt i32 {whole}, 24")
        back = e.whole("sub", "0", e.put(f"select i1 {far}, i32 0, i32 {whole}"))
        inverse = e.fma(e.fma(f, e.c(0.75), e.c(-1.0)), f, e.c(1.0))
        correction = e.mul(e.mul(lost, inverse), e.power_of_two(back))
        correction = e.sel(e.put(f"or i1 {near}, {far}"), e.c(0.0), correction)
    else:
        correction = e.sel(near, e.c(0.0), e.div(lost, u))
    f = e.sel(near, x, f)
    value = e.log_ends(x, e.log_sum(f, k, correction), -1.0)
    return e.sel(e.cmp("oeq", x, e.c(0.0)), x, value)


def log2(e: Lines, x: str) -> str:
    if e.kind == "f32":
        return compute_in_double("log2")(e, x)
    f, k, _ = e.log_split(x)
    rest = e.log_sum(f, e.c(0.0))
    return e.log_ends(x, e.fma(rest, e.c(LOG2E), e.fma(rest, e.c(2.0355273740931033e-17), k)))


def log10(e: Lines, x: str) -> str:
    if e.kind == "f32":
        return compute_in_double("log10")(e, x)
    f, k, _ = e.log_split(x)
    rest = e.log_sum(f, e.c(0.0))
    low = e.mul(k, e.c(3.69423907715893078616e-13))
    low = e.fma(rest, e.c(4.34294481903251816668e-01), low)
    return e.log_ends(x, e.fma(k, e.c(3.01029995663611771306e-01), low))


def tanh(e: Lines, x: str) -> str:
    a, z = e.abs(x), e.mul(x, x)
    small = e.fma(e.mul(x, z), e.poly(TANH32 if e.kind == "f32" else TANH64, z), x)
    far = 10.0 if e.kind == "f32" else 20.0
    t = e.exp_near(e.mul(e.at_most(a, far), e.c(2.0)))
    large = e.sub(e.c(1.0), e.div(e.c(2.0), e.add(t, e.c(1.0))))
    value = e.sel(e.cmp("olt", a, e.c(0.625)), small, e.call("copysign", large, x))
    return e.keep_nan(x, value)


def erf(e: Lines, x: str) -> str:
    a, z = e.abs(x), e.mul(x, x)
    small = e.fma(x, e.poly(ERF32, z), x)
    # 1 - 2^(n + f): what is subtracted is at most a fifth, so its last bits do not count.
    exponent = e.poly(ERF32_TAIL, e.at_most(a, 4.0))
    q, n = e.nearest(exponent)
    power = e.poly(POWER32, e.sub(exponent, q))
    scale = e.put(f"fneg float {e.power_of_two(n)}")
    large = e.fma(power, scale, e.c(1.0))
    value = e.sel(e.cmp("olt", a, e.c(0.93)), small, e.call("copysign", large, x))
    return e.keep_nan(x, value)


def sigmoid(e: Lines, x: str) -> str:
    t = e.own("exp", e.put(f"fneg {e.T} {x}"))
    total = e.add(t, e.c(1.0))
    value = e.div(e.c(1.0), total)
    if e.kind == "f64":
        return value
    # What the sum lost to rounding is taken out again; past overflow there is nothing to lose.
    large = e.cmp("ogt", t, e.c(1.0))
    big, small = e.sel(large, t, e.c(1.0)), e.sel(large, e.c(1.0), t)
    lost = e.sub(small, e.sub(total, big))
    better = e.fma(e.mul(value, value), e.put(f"fneg {e.T} {lost}"), value)
    return e.sel(e.cmp("oeq", t, e.c(float("inf"))), value, better)


def rsqrt(e: Lines, x: str) -> str:
    return e.div(e.c(1.0), e.call("sqrt", x))


def reduce_angle(e: Lines, x: str, wide: str) -> tuple[str, str]:
    """A float32 angle, given also as double: (r, n) with x = n pi/2 + r, as doubles."""
    d = Wide(e)
    far = d.cmp("oge", d.abs(wide), d.c(FAR))
    i = e.bits(x)
    exponent = e.whole("and", e.whole("lshr", i, 23), 255)
    first = FAR_EXPONENTS.start + 150
    slot = e.whole("sub", exponent, first)
    slot = e.put(f"call i32 @llvm.smax.i32(i32 {slot}, i32 0)")
    slot = e.put(f"call i32 @llvm.smin.i32(i32 {slot}, i32 {len(FAR_EXPONENTS) - 1})")
    e.declared |= {f"declare i32 @llvm.{n}.i32(i32, i32)" for n in ("smax", "smin")}
    e.tables.add("turns")
    place = e.put(f"getelementptr [2 x double], ptr @rl.turns, i32 {slot}")
    high = e.put(f"load double, ptr {place}, align 16")
    low = e.put(f"load double, ptr {e.put(f'getelementptr double, ptr {place}, i32 1')}, align 8")
    mantissa = e.whole("or", e.whole("and", i, 0x7FFFFF), 0x800000)
    m = d.call("copysign", e.put(f"sitofp i32 {mantissa} to double"), wide)
    y = d.sel(far, d.mul(m, high), wide)
    rest = d.sel(far, d.mul(m, low), d.c(0.0))
    q, n = d.nearest(d.mul(d.add(y, rest), d.c(2.0 / 3.141592653589793)))
    r = d.fma(q, d.c(-HALF_PI[0]), y)
    r = d.fma(q, d.c(-HALF_PI[1]), r)
    return d.add(r, rest), n


def sine_of(e: Lines, r: str) -> str:
    z = e.mul(r, r)
    return e.fma(e.mul(r, z), e.poly(SIN32 if e.kind == "f32" else SIN64, z), r)


def cosine_of(e: Lines, r: str) -> str:
    z = e.mul(r, r)
    series = e.poly(COS32 if e.kind == "f32" else COS64, z)
    return e.fma(e.mul(z, z), series, e.fma(z, e.c(-0.5), e.c(1.0)))


def circular(quarter: int) -> Callable[[Lines, str], str]:
    """Sine (quarter 0) or cosine (quarter 1) in float32."""

    def function(e: Lines, x: str) -> str:
        wide, turns = reduce_angle(e, x, e.put(f"fpext float {x} to double"))
        r = e.put(f"fptrunc double {wide} to float")
        n = e.whole("add", e.put(f"trunc i64 {turns} to i32"), quarter)
        odd = e.put(f"trunc i32 {n} to i1")
        value = e.sel(odd, cosine_of(e, r), sine_of(e, r))
        sign = e.whole("shl", e.whole("and", n, 2), 30)
        value = e.floating(e.whole("xor", e.bits(value), sign))
        if quarter == 0:
            value = e.sel(e.cmp("oeq", x, e.c(0.0)), x, value)
        endless = e.cmp("ueq", e.abs(x), e.c(float("inf")))
        return e.sel(endless, e.c(float("nan")), value)

    return function


def tan(e: Lines, x: str) -> str:
    d = Wide(e)
    wide = e.put(f"fpext float {x} to double")
    r, n = reduce_angle(e, x, wide)
    odd = e.put(f"trunc i64 {n} to i1")
    sine, cosine = sine_of(d, r), cosine_of(d, r)
    minus = e.put(f"fneg double {cosine}")
    value = d.div(d.sel(odd, minus, sine), d.sel(odd, sine, cosine))
    value = e.put(f"fptrunc double {value} to float")
    value = e.sel(e.cmp("oeq", x, e.c(0.0)), x, value)
    return e.sel(e.cmp("ueq", e.abs(x), e.c(float("inf"))), e.c(float("nan")), value)


def atan(e: Lines, x: str) -> str:
    if e.kind == "f32":
        return compute_in_double("atan")(e, x)
    a = e.abs(x)
    steep = e.cmp("ogt", a, e.c(2.414213562373095))
    middle = e.cmp("ogt", a, e.c(0.41421356237309503))
    top = e.sel(steep, e.c(-1.0), e.sel(middle, e.sub(a, e.c(1.0)), a))
    bottom = e.sel(steep, a, e.sel(middle, e.add(a, e.c(1.0)), e.c(1.0)))
    start = e.sel(steep, e.c(HALF_PI[0]), e.sel(middle, e.c(HALF_PI[0] / 2), e.c(0.0)))
    low = e.sel(steep, e.c(HALF_PI[1]), e.sel(middle, e.c(HALF_PI[1] / 2), e.c(0.0)))
    t = e.div(top, bottom)
    z = e.mul(t, t)
    series = e.fma(e.mul(t, z), e.poly(ATAN64, z), low)
    return e.call("copysign", e.add(start, e.add(series, t)), x)


def sinh(e: Lines, x: str) -> str:
    d = Wide(e)
    wide = e.put(f"fpext float {x} to double")
    grown = d.own("expm1", d.abs(wide))
    value = d.mul(d.add(grown, d.div(grown, d.add(grown, d.c(1.0)))), d.c(0.5))
    # inf / inf on the far side.
    value = d.sel(d.cmp("oge", grown, d.c(1e300)), grown, value)
    value = d.call("copysign", value, wide)
    return e.keep_nan(x, e.put(f"fptrunc double {value} to float"))


def cosh(e: Lines, x: str) -> str:
    d = Wide(e)
    grown = d.own("exp", d.abs(e.put(f"fpext float {x} to double")))
    value = d.mul(d.add(grown, d.div(d.c(1.0), grown)), d.c(0.5))
    return e.put(f"fptrunc double {value} to float")


def asin(e: Lines, x: str) -> str:
    d = Wide(e)
    w = e.put(f"fpext float {x} to double")
    root = d.call("sqrt", d.mul(d.sub(d.c(1.0), w), d.add(d.c(1.0), w)))
    return e.put(f"fptrunc double {d.own('atan', d.div(w, root))} to float")


def acos(e: Lines, x: str) -> str:
    d = Wide(e)
    w = e.put(f"fpext float {x} to double")
    root = d.call("sqrt", d.div(d.sub(d.c(1.0), w), d.add(d.c(1.0), w)))
    return e.put(f"fptrunc double {d.mul(d.own('atan', root), d.c(2.0))} to float")


def asinh(e: Lines, x: str) -> str:
    d = Wide(e)
    w = e.put(f"fpext float {x} to double")
    a = d.abs(w)
    square = d.mul(a, a)
    root = d.add(d.call("sqrt", d.add(square, d.c(1.0))), d.c(1.0))
    value = d.own("log1p", d.add(a, d.div(square, root)))
    value = d.sel(d.cmp("oeq", a, d.c(float("inf"))), a, value)
    return e.put(f"fptrunc double {d.call('copysign', value, w)} to float")


def acosh(e: Lines, x: str) -> str:
    d = Wide(e)
    t = d.sub(e.put(f"fpext float {x} to double"), d.c(1.0))
    root = d.call("sqrt", d.mul(t, d.add(t, d.c(2.0))))
    value = e.put(f"fptrunc double {d.own('log1p', d.add(t, root))} to float")
    return e.sel(e.cmp("ult", x, e.c(1.0)), e.c(float("nan")), value)


def atanh(e: Lines, x: str) -> str:
    d = Wide(e)
    w = e.put(f"fpext float {x} to double")
    a = d.abs(w)
    value = d.own("log1p", d.div(d.add(a, a), d.sub(d.c(1.0), a)))
    value = d.call("copysign", d.mul(value, d.c(0.5)), w)
    value = e.put(f"fptrunc double {value} to float")
    return e.sel(e.cmp("ugt", e.abs(x), e.c(1.0)), e.c(float("nan")), value)


def pow32(e: Lines, x: str, y: str) -> str:
    """exp2(y log2 |x|) in double, then sign and the special cases of C's pow."""
    d = Wide(e)
    one, zero, inf = e.c(1.0), e.c(0.0), e.c(float("inf"))
    size = e.abs(x)
    logarithm = d.own("log2", e.put(f"fpext float {size} to double"))
    value = d.own("exp2", d.mul(logarithm, e.put(f"fpext float {y} to double")))
    value = e.put(f"fptrunc double {value} to float")
    whole = e.cmp("oeq", e.call("floor", y), y)
    half = e.mul(y, e.c(0.5))
    odd = e.cmp("one", e.call("floor", half), half)
    odd = e.put(f"and i1 {whole}, {odd}")
    signed = e.call("copysign", value, e.sel(odd, x, one))
    minus = e.cmp("olt", x, zero)
    finite = e.cmp("olt", size, inf)
    broken = e.put(f"and i1 {minus}, {finite}")
    part = e.cmp("one", e.call("floor", y), y)
    broken = e.put(f"and i1 {broken}, {part}")
    found = e.sel(broken, e.c(float("nan")), signed)
    # 1 to whatever, and -1 to an infinite power.
    endless = e.cmp("oeq", e.abs(y), inf)
    unit = e.cmp("oeq", size, one)
    found = e.sel(e.put(f"and i1 {unit}, {endless}"), one, found)
    found = e.sel(e.cmp("uno", x, y), e.c(float("nan")), found)
    found = e.sel(e.cmp("oeq", x, one), one, found)
    return e.sel(e.cmp("oeq", y, zero), one, found)


class Wide(Lines):
    """Writes float64 instructions into a float32 function."""

    def __init__(self, host: Lines) -> None:
        super().__init__("f64")
        self.lines = host.lines
        self.needed = host.needed
        self.declared = host.declared
        self.tables = host.tables


def compute_in_double(name: str) -> Callable[[Lines, str], str]:
    """A float32 function as the float64 one, rounded."""

    def function(e: Lines, x: str) -> str:
        wide = Wide(e).own(name, e.put(f"fpext float {x} to double"))
        return e.put(f"fptrunc double {wide} to float")

    return function


FUNCTIONS: dict[tuple[str, str], Callable[..., str]] = {
    **{(f.__name__, "f32"): f for f in (exp, expm1, exp2, log, log1p, log2, log10, tanh, erf)},
    **{(f.__name__, "f64"): f for f in (exp, expm1, exp2, log, log1p, log2, log10, tanh, atan)},
    **{(f.__name__, k): f for f in (sigmoid, rsqrt) for k in ("f32", "f64")},
    **{(f.__name__, "f32"): f for f in (tan, atan, sinh, cosh, asin, acos, asinh, acosh, atanh)},
    ("sin", "f32"): circular(0),
    ("cos", "f32"): circular(1),
    ("pow", "f32"): pow32,
    ("erfc", "f32"): compute_in_double("erfc"),
}


def turns_table() -> str:
    """2^k mod 2 pi in two parts, the first of 26 bits: times a mantissa it is exact."""
    # pi to 250 bits more than the largest exponent needs.
    scale = 400
    pi = machin(scale)
    rows = []
    for k in FAR_EXPONENTS:
        rest = (1 << (k + scale)) % (2 * pi)
        high = rest >> (scale - 23) << (scale - 23)
        pair = (high / (1 << scale), (rest - high) / (1 << scale))
        inner = ", ".join([f"double {constant(value, 'f64')}" for value in pair])
        rows.append(f"[2 x double] [{inner}]")
    body = ", ".join(rows)
    return f"@rl.turns = internal constant [{len(rows)} x [2 x double]] [{body}], align 16"


def machin(bits: int) -> int:
    """pi times 2^bits, by Machin's formula."""
    guard = 32
    one = 1 << (bits + guard)

    def arctangent(n: int) -> int:
        total = term = one // n
        k, sign = 1, 1
        while term:
            term //= n * n
            k, sign = k + 2, -sign
            total += sign * (term // k)
        return total

    return (16 * arctangent(5) - 4 * arctangent(239)) >> guard


TABLES = {"turns": turns_table}


def define(wanted: set[tuple[str, str]]) -> tuple[list[str], set[str]]:
    """Definitions of the functions (name, "f32" or "f64") and of what they call; declarations."""
    texts: list[str] = []
    declared: set[str] = set()
    tables: set[str] = set()
    waiting, done = sorted(wanted), set(wanted)
    while waiting:
        name, kind = waiting.pop()
        e = Lines(kind)
        function: Any = FUNCTIONS.get((name, kind))
        count = 2 if name in ("pow", "atan2", "hypot") else 1
        params = ["%x", "%y"][:count]
        if function is not None:
            result = function(e, *params)
        else:
            foreign = name if kind == "f64" else f"{name}f"
            types = ", ".join([e.T] * count)
            declared.add(f"declare {e.T} @{foreign}({types}) #1")
            given = ", ".join([f"{e.T} {p}" for p in params])
            result = e.put(f"call {e.T} @{foreign}({given}) #1")
        head = ", ".join([f"{e.T} {p}" for p in params])
        body = "\n".join(e.lines)
        opening = f"define internal {e.T} @rl.{name}.{kind}({head}) #2 {{"
        texts.append(f"{opening}\n{body}\n  ret {e.T} {result}\n}}")
        declared |= e.declared
        tables |= e.tables
        for other in sorted(e.needed - done):
            done.add(other)
            waiting.append(other)
    return [TABLES[name]() for name in sorted(tables)] + texts, declared
