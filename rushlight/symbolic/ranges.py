"""Intervals of values, and the interval of an expression from those of its symbols.

Bounds are Python numbers; an infinite one is `int_oo`. Invariant: an interval contains every value
the expression takes; nothing is lost by one that is too wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Head

int_oo = math.inf
Bound = float


class ValueRanges:
    """The numbers from `lower` to `upper`, both included."""

    __slots__ = ("is_bool", "is_float", "lower", "upper")

    def __init__(self, lower: Bound, upper: Bound, is_float: bool = False) -> None:
        self.lower = as_number(lower)
        self.upper = as_number(upper)
        self.is_bool = isinstance(self.lower, bool)
        self.is_float = (
            is_float
            or (isinstance(self.lower, float) and math.isfinite(self.lower))
            or (isinstance(self.upper, float) and math.isfinite(self.upper))
        )
        if self.lower > self.upper:
            raise ValueRangeError(f"Invalid ranges [{lower}:{upper}]")

    @property
    def is_int(self) -> bool:
        return not self.is_float and not self.is_bool

    def is_singleton(self) -> bool:
        return bool(self.lower == self.upper)

    def issubset(self, other: ValueRanges) -> bool:
        return bool(self.lower >= other.lower and self.upper <= other.upper)

    def __contains__(self, value: float) -> bool:
        return bool(self.lower <= value <= self.upper)

    def __and__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            self.is_float or other.is_float,
        )

    def __or__(self, other: ValueRanges) -> ValueRanges:
        return ValueRanges(
            min(self.lower, other.lower),
            max(self.upper, other.upper),
            self.is_float or other.is_float,
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ValueRanges)
            and self.lower == other.lower
            and self.upper == other.upper
        )

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def __repr__(self) -> str:
        infinity = "oo" if self.is_float else "int_oo"
        return f"VR[{text(self.lower, infinity)}, {text(self.upper, infinity)}]"

    @staticmethod
    def unknown() -> ValueRanges:
        return ValueRanges(-int_oo, int_oo, True)

    @staticmethod
    def unknown_int() -> ValueRanges:
        return ValueRanges(-int_oo, int_oo)

    @staticmethod
    def unknown_bool() -> ValueRanges:
        return ValueRanges(False, True)

    @staticmethod
    def wrap(value: Bound | ValueRanges) -> ValueRanges:
        return value if isinstance(value, ValueRanges) else ValueRanges(value, value)


class ValueRangeError(RuntimeError):
    """An interval with nothing in it: what is known contradicts itself."""


def as_number(value: Bound | Expr) -> Bound:
    """A bound as a Python number; sympy's numbers are accepted."""
    if isinstance(value, (bool, int, float)):
        return value
    if getattr(value, "is_Boolean", False):
        return bool(value)
    return int(value) if getattr(value, "is_Integer", False) else float(value)


def text(bound: Bound, infinity: str) -> str:
    if bound == int_oo:
        return infinity
    return f"-{infinity}" if bound == -int_oo else str(bound)


def product(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def multiply(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    corners = [product(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return ValueRanges(min(corners), max(corners), a.is_float or b.is_float)


def add(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    return ValueRanges(a.lower + b.lower, a.upper + b.upper, a.is_float or b.is_float)


def floor_quotient(a: Bound, b: Bound) -> Bound:
    """The limit of `a // b` at a corner; where both are infinite the other corners bound it."""
    if math.isinf(b):
        return 0 if math.isinf(a) or a == 0 or (a > 0) == (b > 0) else -1
    if math.isinf(a):
        return a if b > 0 else -a
    return a // b


def floor_divide(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    if 0 in b:
        return ValueRanges.unknown_int()
    corners = [floor_quotient(x, y) for x in (a.lower, a.upper) for y in (b.lower, b.upper)]
    return ValueRanges(min(corners), max(corners))


def remainder(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    if b.lower > 0:
        if a.lower >= 0 and a.upper < b.lower:
            return a
        if b.is_singleton() and not math.isinf(a.lower) and not math.isinf(a.upper):
            divisor = b.lower
            if a.lower // divisor == a.upper // divisor:
                return ValueRanges(a.lower % divisor, a.upper % divisor)
        upper = b.upper - 1
        return ValueRanges(0, min(upper, a.upper) if a.lower >= 0 else upper)
    if b.upper < 0:
        return ValueRanges(b.lower + 1, 0)
    return ValueRanges.unknown_int()


def true_divide(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    if 0 in b:
        return ValueRanges.unknown()
    corners = []
    for x in (a.lower, a.upper):
        for y in (b.lower, b.upper):
            if math.isinf(y):
                corners.append(0.0)
            elif math.isinf(x):
                corners.append(x if y > 0 else -x)
            else:
                corners.append(x / y)
    return ValueRanges(min(corners), max(corners), True)


def power(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    """Integer powers with natural exponents."""
    if b.lower < 0 or math.isinf(b.upper):
        if a.lower >= 1 and b.lower >= 0:
            return ValueRanges(a.lower**b.lower, int_oo)
        return ValueRanges.unknown_int()
    corners = [x**n for x in (a.lower, a.upper) for n in (b.lower, b.upper)]
    lower, upper = min(corners), max(corners)
    if a.lower < 0:
        if not b.is_singleton():
            return ValueRanges.unknown_int()
        if b.lower % 2 == 0 and a.upper >= 0:
            lower = 0
    return ValueRanges(lower, upper)


def absolute(a: ValueRanges) -> ValueRanges:
    upper = max(abs(a.lower), abs(a.upper))
    lower = 0 if 0 in a else min(abs(a.lower), abs(a.upper))
    return ValueRanges(lower, upper, a.is_float)


def to_float(a: ValueRanges) -> ValueRanges:
    return ValueRanges(near_float(a.lower), near_float(a.upper), True)


def near_float(bound: Bound) -> float:
    try:
        return float(bound)
    except OverflowError:
        return int_oo if bound > 0 else -int_oo


def rounded(function: Callable[[float], int]) -> Callable[[ValueRanges], ValueRanges]:
    def apply(a: ValueRanges) -> ValueRanges:
        lower = a.lower if math.isinf(a.lower) else function(a.lower)
        return ValueRanges(lower, a.upper if math.isinf(a.upper) else function(a.upper))

    return apply


def square_root(a: ValueRanges) -> ValueRanges:
    if a.lower < 0:
        return ValueRanges.unknown()
    upper = a.upper if math.isinf(a.upper) else math.sqrt(a.upper)
    return ValueRanges(a.lower if math.isinf(a.lower) else math.sqrt(a.lower), upper, True)


def greatest(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    return ValueRanges(max(a.lower, b.lower), max(a.upper, b.upper), a.is_float or b.is_float)


def least(a: ValueRanges, b: ValueRanges) -> ValueRanges:
    return ValueRanges(min(a.lower, b.lower), min(a.upper, b.upper), a.is_float or b.is_float)


class Analysis:
    """Intervals of expressions. `known(expr)` gives what is known beyond the structure, or None."""

    def __init__(self, known: Callable[[Expr], ValueRanges | None]) -> None:
        from rushlight.symbolic import expressions as ex

        self.known = known
        self.cache: dict[Expr, ValueRanges] = {}
        self.add = ex.Add
        self.mul = ex.Mul
        self.pow = ex.Pow
        self.piecewise = ex.Piecewise
        self.branches = ex.branches
        self.rules: dict[Head, Callable[..., ValueRanges]] = {
            ex.FloorDiv: floor_divide,
            ex.CleanDiv: floor_divide,
            ex.Mod: remainder,
            ex.PowByNatural: power,
            ex.Max: greatest,
            ex.Min: least,
            ex.ToFloat: to_float,
            ex.IntTrueDiv: true_divide,
            ex.FloatTrueDiv: true_divide,
            ex.FloorToInt: rounded(math.floor),
            ex.CeilToInt: rounded(math.ceil),
            ex.TruncToInt: rounded(math.trunc),
            ex.RoundToInt: rounded(round),
            ex.OpaqueUnaryFn_sqrt: square_root,
            ex.sympy.Abs: absolute,
        }

    def bound(self, expr: Expr) -> ValueRanges:
        """An interval that holds every value of a number expression."""
        result = self.cache.get(expr)
        if result is None:
            result = self.compute(expr)
            if not expr.is_number:
                known = self.known(expr)
                if known is not None:
                    result = known if expr.is_Symbol else result & known
            self.cache[expr] = result
        return result

    def compute(self, expr: Expr) -> ValueRanges:
        if expr.is_Integer:
            return ValueRanges(expr.p, expr.p)
        if expr.is_number:
            value = float(expr)
            return ValueRanges(value, value, True)
        kind = expr.func
        if kind is self.add:
            return self.sum(expr)
        if kind is self.mul:
            result = self.bound(expr.args[0])
            for factor in expr.args[1:]:
                result = multiply(result, self.bound(factor))
            return result
        if kind is self.pow:
            base, exponent = expr.args
            if base.is_integer and exponent.is_Integer and exponent.p >= 0:
                return power(self.bound(base), ValueRanges(exponent.p, exponent.p))
            return ValueRanges.unknown()
        if kind is self.piecewise:
            chosen = [self.bound(value) for value, _ in self.branches(expr)]
            result = chosen[0]
            for range_ in chosen[1:]:
                result = result | range_
            return result
        rule = self.rules.get(kind)
        if rule is None:
            return ValueRanges.unknown_int() if expr.is_integer else ValueRanges.unknown()
        operands = [self.bound(argument) for argument in expr.args]
        if len(operands) <= 2:
            return rule(*operands)
        result = operands[0]
        for operand in operands[1:]:
            result = rule(result, operand)
        return result

    def sum(self, expr: Expr) -> ValueRanges:
        result = self.bound(expr.args[0])
        for term in expr.args[1:]:
            result = add(result, self.bound(term))
        if result.lower >= 0 or result.upper <= 0:
            return result
        # `s0*s1**2 - s1` is unbounded term by term; as `s1*(s0*s1 - 1)` it has a sign.
        constant, varying = expr.as_coeff_Add()
        terms = self.add.make_args(varying)
        divisor = self.shared_factor(terms)
        if divisor is None:
            return result
        quotient = self.bound(self.add(*(term / divisor for term in terms)))
        return result & add(multiply(self.bound(divisor), quotient), self.bound(constant))

    def shared_factor(self, terms: tuple[Expr, ...]) -> Expr | None:
        """The product that all terms of a sum have in common; None where there is none."""
        if len(terms) == 1:
            return None
        shared = powers(terms[0])
        for term in terms[1:]:
            found = powers(term)
            shared = {
                base: min(count, found[base]) for base, count in shared.items() if base in found
            }
        return self.mul(*(base**count for base, count in shared.items())) if shared else None


def powers(term: Expr) -> dict[Expr, int]:
    """The factors of a term that are no numbers, with how often each occurs."""
    return {
        base: exponent.p
        for base, exponent in term.as_powers_dict().items()
        if not base.is_number and exponent.is_Integer and exponent.p > 0
    }
