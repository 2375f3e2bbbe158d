"""Native code for long draws: blocks of the Mersenne twister, and what recipes make of its words.

Everything works in place on contiguous memory and does the arithmetic of `arrays.stream` and
`arrays.boxmuller` operation by operation, so that the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.arrays import boxmuller
from rushlight.codegen.byhand import compiled
from rushlight.codegen.native import can_compile
from rushlight.codegen.vectormath import Lines

__all__ = ["drawer"]

# One word of the next block, from those at i and i + 1 and the one 397 ahead, which is 227 back
# in the block that is being made.
NEXT = """\
  %{p}.a = getelementptr i32, ptr %key, i64 %{p}.i
  %{p}.j = {after}
  %{p}.b = getelementptr i32, ptr %key, i64 %{p}.j
  %{p}.k = add nsw i64 %{p}.i, {far}
  %{p}.c = getelementptr i32, ptr %key, i64 %{p}.k
  %{p}.x = load i32, ptr %{p}.a, align 4
  %{p}.y = load i32, ptr %{p}.b, align 4
  %{p}.m = load i32, ptr %{p}.c, align 4
  %{p}.top = and i32 %{p}.x, -2147483648
  %{p}.low = and i32 %{p}.y, 2147483647
  %{p}.both = or i32 %{p}.top, %{p}.low
  %{p}.half = lshr i32 %{p}.both, 1
  %{p}.odd = and i32 %{p}.y, 1
  %{p}.mask = sub i32 0, %{p}.odd
  %{p}.mixed = and i32 %{p}.mask, -1727483681
  %{p}.far = xor i32 %{p}.m, %{p}.half
  %{p}.new = xor i32 %{p}.far, %{p}.mixed
  store i32 %{p}.new, ptr %{p}.a, align 4"""


def next_words(part: str, after: str, far: int) -> str:
    return NEXT.format(p=part, after=after, far=far)


def turning(part: str, first: int, end: int, before: str, then: str, far: int) -> str:
    """A loop over words of the block."""
    return f"""\
{part}:
  %{part}.i = phi i64 [ {first}, %{before} ], [ %{part}.j, %{part} ]
{next_words(part, f"add nuw nsw i64 %{part}.i, 1", far)}
  %{part}.more = icmp ult i64 %{part}.j, {end}
  br i1 %{part}.more, label %{part}, label %{then}
"""


# `blocks` whole blocks of words into `out`; the key is left at the end of the last.
WORDS = f"""
define internal void @words(ptr noalias %key, ptr noalias %out, i64 %blocks) #0 {{
entry:
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %block, label %end
block:
  %n = phi i64 [ 0, %entry ], [ %n.next, %done ]
  %base = mul nsw i64 %n, 624
  %target = getelementptr i32, ptr %out, i64 %base
  br label %front
{turning("front", 0, 227, "block", "back", 397)}
{turning("back", 227, 623, "front", "last", -227)}
last:
  %last.i = add i64 623, 0
{next_words("last", "add i64 0, 0", -227)}
  br label %temper
temper:
  %i = phi i64 [ 0, %last ], [ %i.next, %temper ]
  %from = getelementptr i32, ptr %key, i64 %i
  %to = getelementptr i32, ptr %target, i64 %i
  %y0 = load i32, ptr %from, align 4
  %s0 = lshr i32 %y0, 11
  %y1 = xor i32 %y0, %s0
  %s1 = shl i32 %y1, 7
  %m1 = and i32 %s1, -1658038656
  %y2 = xor i32 %y1, %m1
  %s2 = shl i32 %y2, 15
  %m2 = and i32 %s2, -272236544
  %y3 = xor i32 %y2, %m2
  %s3 = lshr i32 %y3, 18
  %y4 = xor i32 %y3, %s3
  store i32 %y4, ptr %to, align 4
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, 624
  br i1 %more, label %temper, label %done
done:
  %n.next = add nuw nsw i64 %n, 1
  %again = icmp ult i64 %n.next, %blocks
  br i1 %again, label %block, label %end
end:
  ret void
}}
"""

# A loop over `count` elements of {T} at `data`, each replaced by what the body makes of it.
EACH = """
define internal void @{name}({parameters}, i64 %count) #0 {{
entry:
{opening}
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %each, label %end
each:
  %i = phi i64 [ 0, %entry ], [ %i.next, %each ]
  %at = getelementptr {T}, ptr %data, i64 %i
  %x = load {T}, ptr %at, align {align}
{body}
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}}
"""
UNIT32 = """\
  %bits = and i32 %x, 16777215
  %whole = sitofp i32 %bits to float
  %value = fmul float %whole, 0x3E70000000000000
  store float %value, ptr %at, align 4"""
UNIT64 = """\
  %turned = call i64 @llvm.fshl.i64(i64 %x, i64 %x, i64 32)
  %bits = and i64 %turned, 9007199254740991
  %whole = sitofp i64 %bits to double
  %value = fmul double %whole, 0x3CA0000000000000
  store double %value, ptr %at, align 8"""
# value * factor + term, rounded once.
AFFINE_OPENING = """\
  %factor = load double, ptr %numbers, align 8
  %term.at = getelementptr double, ptr %numbers, i64 1
  %term = load double, ptr %term.at, align 8"""
AFFINE32 = """\
  %wide = fpext float %x to double
  %product = fmul double %wide, %factor
  %sum = fadd double %product, %term
  %value = fptrunc double %sum to float
  store float %value, ptr %at, align 4"""

# Whether uniforms of 53 bits are less than the threshold, a number of as many bits.
BELOW = """\
  %turned = call i64 @llvm.fshl.i64(i64 %x, i64 %x, i64 32)
  %bits = and i64 %turned, 9007199254740991
  %is.less = icmp ult i64 %bits, %threshold
  %value = {convert}
  %to = getelementptr {O}, ptr %out, i64 %i
  store {O} %value, ptr %to, align {align}"""
BELOW_PARAMETERS = ", ptr noalias %out, i64 %threshold"
TURN = "declare i64 @llvm.fshl.i64(i64, i64, i64)\n"

# Numbers from 0 on, and then place i changes with one of those from i on, which a word picks.
SHUFFLE = """
define internal void @shuffle(ptr noalias %words, ptr noalias %order, i64 %count) #0 {
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %begin, label %end
begin:
  %b = phi i64 [ 0, %entry ], [ %b.next, %begin ]
  %b.at = getelementptr i64, ptr %order, i64 %b
  store i64 %b, ptr %b.at, align 8
  %b.next = add nuw nsw i64 %b, 1
  %b.more = icmp ult i64 %b.next, %count
  br i1 %b.more, label %begin, label %head
head:
  %steps = add nsw i64 %count, -1
  %any = icmp sgt i64 %steps, 0
  br i1 %any, label %step, label %end
step:
  %i = phi i64 [ 0, %head ], [ %i.next, %step ]
  %word.at = getelementptr i32, ptr %words, i64 %i
  %word = load i32, ptr %word.at, align 4
  %left = sub nsw i64 %count, %i
  %span = trunc i64 %left to i32
  %rest = urem i32 %word, %span
  %far = zext i32 %rest to i64
  %j = add nsw i64 %i, %far
  %here = getelementptr i64, ptr %order, i64 %i
  %there = getelementptr i64, ptr %order, i64 %j
  %a = load i64, ptr %here, align 8
  %c = load i64, ptr %there, align 8
  store i64 %a, ptr %there, align 8
  store i64 %c, ptr %here, align 8
  %i.next = add nuw nsw i64 %i, 1
  %more = icmp ult i64 %i.next, %steps
  br i1 %more, label %step, label %end
end:
  ret void
}
"""

# Floats of a half of a block of sixteen normals.
LANES = 8


class Lanes(Lines):
    """Instructions on eight numbers at a time."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.scalar, self.T = self.T, f"<{LANES} x {self.T}>"
        self.I = f"<{LANES} x {self.I}>"

    def c(self, value: float) -> str:
        return self.every(f"{self.scalar} {super().c(value)}")

    def every(self, constant: str) -> str:
        return f"<{', '.join([constant] * LANES)}>"

    def bits_with(self, name: str, a: str, b: int) -> str:
        return self.whole(name, a, self.every(f"i32 {b}"))


def normals() -> str:
    """Words to normals: blocks of sixteen, eight radii and then eight angles."""
    e = Lanes("f32")
    radius, angle = (unit(e, e.put(f"load {e.I}, ptr %{name}, align 4")) for name in ("at", "on"))
    radius = e.mul(logarithm(e, e.sub(e.c(1.0), radius)), e.c(-2.0))
    radius = e.put(f"call {e.T} @llvm.sqrt.v{LANES}f32({e.T} {radius})")
    sine, cosine = sine_and_cosine(e, e.mul(angle, e.c(boxmuller.TWO_PI)))
    for place, factor in (("at", cosine), ("on", sine)):
        e.lines.append(f"  store {e.T} {e.mul(radius, factor)}, ptr %{place}, align 4")
    body = "\n".join(e.lines)
    return f"""
declare {e.T} @llvm.sqrt.v{LANES}f32({e.T})
define internal void @normals32(ptr noalias %data, i64 %count) #0 {{
entry:
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %block, label %end
block:
  %i = phi i64 [ 0, %entry ], [ %i.next, %block ]
  %at = getelementptr float, ptr %data, i64 %i
  %on = getelementptr float, ptr %at, i64 {LANES}
{body}
  %i.next = add nuw nsw i64 %i, {2 * LANES}
  %more = icmp ult i64 %i.next, %count
  br i1 %more, label %block, label %end
end:
  ret void
}}
"""


def unit(e: Lanes, words: str) -> str:
    bits = e.bits_with("and", words, 0xFFFFFF)
    return e.mul(e.put(f"sitofp {e.I} {bits} to {e.T}"), e.c(2.0**-24))


def horner(e: Lanes, x: str, terms: tuple[Any, ...]) -> str:
    found = e.mul(x, e.c(float(terms[0])))
    for term in terms[1:-1]:
        found = e.mul(e.add(found, e.c(float(term))), x)
    return e.add(found, e.c(float(terms[-1])))


def logarithm(e: Lanes, x: str) -> str:
    root = int(boxmuller.ROOT_BITS)
    bits = e.bits_with("sub", e.bits(x), root)
    exponent = e.put(f"sitofp {e.I} {e.bits_with('ashr', bits, 23)} to {e.T}")
    mantissa = e.bits_with("add", e.bits_with("and", bits, int(boxmuller.MANTISSA)), root)
    x = e.sub(e.floating(mantissa), e.c(1.0))
    square = e.mul(x, x)
    y = e.mul(e.mul(horner(e, x, boxmuller.LOG_TERMS), x), square)
    y = e.add(y, e.mul(exponent, e.c(float(boxmuller.LOG_TWO_LOW))))
    x = e.add(x, e.sub(y, e.mul(square, e.c(0.5))))
    return e.add(x, e.mul(exponent, e.c(float(boxmuller.LOG_TWO_HIGH))))


def sine_and_cosine(e: Lanes, x: str) -> tuple[str, str]:
    octant = e.put(f"fptosi {e.T} {e.mul(x, e.c(float(boxmuller.EIGHTHS)))} to {e.I}")
    octant = e.bits_with("and", e.bits_with("add", octant, 1), -2)
    eighths = e.put(f"sitofp {e.I} {octant} to {e.T}")
    for part in boxmuller.EIGHTH_PARTS:
        x = e.add(x, e.mul(eighths, e.c(float(part))))
    z = e.mul(x, x)
    d = Lanes("f64")
    d.lines = e.lines

    def wide(value: str) -> str:
        return e.put(f"fpext {e.T} {value} to {d.T}")

    def narrow(value: str) -> str:
        return e.put(f"fptrunc {d.T} {value} to {e.T}")

    cosine = e.mul(horner(e, z, boxmuller.COSINE_TERMS), z)
    less = d.sub(d.mul(wide(cosine), wide(z)), wide(e.mul(z, e.c(0.5))))
    cosine = e.add(narrow(less), e.c(1.0))
    sine = e.mul(horner(e, z, boxmuller.SINE_TERMS), z)
    sine = narrow(d.add(d.mul(wide(sine), wide(x)), wide(x)))
    mask = f"<{LANES} x i1>"
    zero = e.every("i32 0")
    odd = e.put(f"icmp ne {e.I} {e.bits_with('and', octant, 2)}, {zero}")
    first = e.put(f"select {mask} {odd}, {e.T} {cosine}, {e.T} {sine}")
    second = e.put(f"select {mask} {odd}, {e.T} {sine}, {e.T} {cosine}")
    return signed(e, first, octant), signed(e, second, e.bits_with("add", octant, 2))


def signed(e: Lanes, value: str, octant: str) -> str:
    """With the third bit of the octant as its sign."""
    sign = e.bits_with("and", e.bits_with("shl", octant, 29), -(1 << 31))
    return e.floating(e.whole("xor", e.bits(value), sign))


def each(name: str, T: str, body: str, opening: str = "", more: str = "") -> str:
    align = 8 if T == "i64" else 4
    parameters = f"ptr noalias %data{more}"
    return EACH.format(
        name=name, T=T, align=align, body=body, opening=opening, parameters=parameters
    )


def below(name: str, O: str, align: int, convert: str) -> str:
    body = BELOW.format(O=O, align=align, convert=convert)
    return TURN + each(name, "i64", body, "", BELOW_PARAMETERS)


# By their names: the text, how many arrays it takes, and how many integers behind them.
LOOPS: dict[str, tuple[Callable[[], str], int, int]] = {
    # key, words; blocks
    "words": (lambda: WORDS, 2, 1),
    # words, in whose place the numbers come; how many
    "unit32": (lambda: each("unit32", "i32", UNIT32), 1, 1),
    "unit64": (lambda: TURN + each("unit64", "i64", UNIT64), 1, 1),
    "normals32": (normals, 1, 1),
    # values, [factor, term]; how many
    "affine32": (
        lambda: each("affine32", "float", AFFINE32, AFFINE_OPENING, ", ptr noalias %numbers"), 2, 1,
    ),
    # words, results; threshold, how many
    "below8": (lambda: below("below8", "i8", 1, "zext i1 %is.less to i8"), 2, 2),
    "below32": (lambda: below("below32", "float", 4, "uitofp i1 %is.less to float"), 2, 2),
    # words, order; how many
    "shuffle": (lambda: SHUFFLE, 2, 1),
}  # fmt: skip


def drawer(name: str) -> Callable[..., Any] | None:
    """A loop as a function of arrays and integers; None where there is no compiler."""
    if not can_compile():
        return None
    write, arrays, numbers = LOOPS[name]
    return compiled(name, write(), arrays, numbers)
