"""Which integers satisfy conditions on one symbol: exact, by residue classes.

On the numbers `period * k + remainder` a floor division or remainder by a constant is a polynomial
in k, so every condition is a set of intervals of k. Invariant: an answer is exact; conditions of
another kind have none (None).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.ranges import ValueRanges, int_oo

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Head, Symbol

# A polynomial in k: the coefficients, lowest first.
Polynomial = tuple[int, ...]
# Disjoint intervals of integers in rising order; an end may be infinite.
Intervals = list[tuple[float, float]]

LONGEST_PERIOD = 720


class Progression(NamedTuple):
    """The numbers from `lower` to `upper` that leave `remainder` when divided by `modulus`."""

    modulus: int
    remainder: int
    lower: float
    upper: float

    def is_single(self) -> bool:
        return self.lower == self.upper


# ---------------------------------------------------------------- polynomials


def trimmed(coefficients: Sequence[int]) -> Polynomial:
    end = len(coefficients)
    while end > 1 and coefficients[end - 1] == 0:
        end -= 1
    return tuple(coefficients[:end]) or (0,)


def total(left: Polynomial, right: Polynomial) -> Polynomial:
    length = max(len(left), len(right))
    padded = (list(side) + [0] * (length - len(side)) for side in (left, right))
    return trimmed([a + b for a, b in zip(*padded)])


def product(left: Polynomial, right: Polynomial) -> Polynomial:
    result = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            result[i + j] += a * b
    return trimmed(result)


def value_at(polynomial: Polynomial, k: int) -> int:
    result = 0
    for coefficient in reversed(polynomial):
        result = result * k + coefficient
    return result


def sign_at(polynomial: Polynomial, k: float) -> int:
    """The sign at an integer, or towards an infinity."""
    if math.isinf(k):
        degree = len(polynomial) - 1
        lead = polynomial[-1] if k > 0 or degree % 2 == 0 else -polynomial[-1]
        return (lead > 0) - (lead < 0)
    value = value_at(polynomial, int(k))
    return (value > 0) - (value < 0)


def sign_runs(polynomial: Polynomial, lower: float, upper: float) -> list[tuple[float, float, int]]:
    """The integers from `lower` to `upper` as runs (first, last, sign) of one sign each."""
    if lower > upper:
        return []
    if len(polynomial) == 1:
        return [(lower, upper, sign_at(polynomial, 0))]
    # All roots lie within this distance.
    reach = 2 + max(abs(coefficient) for coefficient in polynomial) // abs(polynomial[-1])
    edges = [max(lower, -reach), min(upper, reach)]
    runs: list[tuple[float, float, int]] = []
    if lower < edges[0]:
        runs.append((lower, min(edges[0] - 1, upper), sign_at(polynomial, -int_oo)))
    if edges[0] <= edges[1]:
        slope = trimmed([i * c for i, c in enumerate(polynomial)][1:])
        for first, last, _ in sign_runs(slope, int(edges[0]), int(edges[1])):
            runs.extend(monotone_runs(polynomial, int(first), int(last)))
    if edges[1] < upper:
        runs.append((max(edges[1] + 1, lower), upper, sign_at(polynomial, int_oo)))
    merged: list[tuple[float, float, int]] = []
    for first, last, sign in runs:
        if merged and merged[-1][2] == sign:
            merged[-1] = (merged[-1][0], last, sign)
        else:
            merged.append((first, last, sign))
    return merged


def monotone_runs(polynomial: Polynomial, first: int, last: int) -> list[tuple[float, float, int]]:
    """As `sign_runs`, where the polynomial only rises or only falls from `first` to `last`."""
    runs: list[tuple[float, float, int]] = []
    while first <= last:
        sign = sign_at(polynomial, first)
        low, high = first, last
        while low < high:
            middle = (low + high + 1) // 2
            if sign_at(polynomial, middle) == sign:
                low = middle
            else:
                high = middle - 1
        runs.append((first, low, sign))
        first = low + 1
    return runs


# ---------------------------------------------------------------- conditions


def is_constant_division(expr: Expr) -> bool:
    return isinstance(expr, (ex.FloorDiv, ex.Mod)) and expr.args[1].is_Integer


def period_of(expr: Expr) -> int | None:
    """A number after which all remainders in `expr` repeat; None where there is none."""
    period = 1
    for argument in expr.args:
        inner = period_of(argument)
        if inner is None:
            return None
        period = math.lcm(period, inner)
    if isinstance(expr, (ex.FloorDiv, ex.Mod)):
        if not is_constant_division(expr):
            return None
        period *= abs(expr.args[1].p)
    return period if period <= LONGEST_PERIOD else None


def polynomial_of(expr: Expr, symbol: Symbol, line: Polynomial) -> Polynomial | None:
    """`expr` with the polynomial `line` for its symbol; None where that is no polynomial."""
    if expr.is_Integer:
        return (expr.p,)
    if expr == symbol:
        return line
    kind = expr.func
    if kind is ex.Pow:
        base, exponent = expr.args
        if not exponent.is_Integer or exponent.p < 0:
            return None
        factor = polynomial_of(base, symbol, line)
        if factor is None:
            return None
        result: Polynomial = (1,)
        for _ in range(exponent.p):
            result = product(result, factor)
        return result
    if kind is not ex.Add and kind is not ex.Mul and not is_constant_division(expr):
        return None
    parts = []
    for argument in expr.args:
        part = polynomial_of(argument, symbol, line)
        if part is None:
            return None
        parts.append(part)
    if kind is ex.Add or kind is ex.Mul:
        result = parts[0]
        for part in parts[1:]:
            result = total(result, part) if kind is ex.Add else product(result, part)
        return result
    (constant, *rest), divisor = parts[0], expr.args[1].p
    if any(coefficient % divisor for coefficient in rest):
        return None
    if isinstance(expr, ex.Mod):
        return (constant % divisor,)
    return trimmed([constant // divisor, *(coefficient // divisor for coefficient in rest)])


SIGNS: dict[Head, tuple[int, ...]] = {
    ex.Eq: (0,),
    ex.Ne: (-1, 1),
    ex.Lt: (-1,),
    ex.Le: (-1, 0),
    ex.Gt: (1,),
    ex.Ge: (0, 1),
}


def intersect(left: Intervals, right: Intervals) -> Intervals:
    result = []
    for a, b in left:
        for c, d in right:
            if max(a, c) <= min(b, d):
                result.append((max(a, c), min(b, d)))
    return sorted(result)


def union(left: Intervals, right: Intervals) -> Intervals:
    result: Intervals = []
    for first, last in sorted(left + right):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(result[-1][1], last))
        else:
            result.append((first, last))
    return result


def holds_for(
    condition: Expr, symbol: Symbol, line: Polynomial, lower: float, upper: float
) -> Intervals | None:
    """The k from `lower` to `upper` for which a condition on `symbol` = `line`(k) holds."""
    if lower > upper or condition is ex.false:
        return []
    if condition is ex.true:
        return [(lower, upper)]
    kind = condition.func
    if kind in SIGNS:
        left, right = (polynomial_of(side, symbol, line) for side in condition.args)
        if left is None or right is None:
            return None
        difference = total(left, tuple(-coefficient for coefficient in right))
        signs = SIGNS[kind]
        found = sign_runs(difference, lower, upper)
        return union([(first, last) for first, last, sign in found if sign in signs], [])
    if kind is ex.Not:
        return holds_for(ex.negate(condition.args[0]), symbol, line, lower, upper)
    if kind is not ex.And and kind is not ex.Or:
        return None
    result: Intervals = [(lower, upper)] if kind is ex.And else []
    for part in condition.args:
        one = holds_for(part, symbol, line, lower, upper)
        if one is None:
            return None
        result = intersect(result, one) if kind is ex.And else union(result, one)
    return result


class IntegerSet:
    """The values in a range for which conditions on one symbol hold, class by class."""

    def __init__(self, period: int, domain: ValueRanges, classes: list[Intervals]) -> None:
        self.period = period
        self.domain = domain
        self.classes = classes

    @staticmethod
    def of(conditions: Iterable[Expr], symbol: Symbol, domain: ValueRanges) -> IntegerSet | None:
        """None where a condition is of a kind that has no exact answer."""
        conditions = list(conditions)
        period: int | None = 1
        for condition in conditions:
            found = period_of(condition)
            period = None if found is None or period is None else math.lcm(period, found)
        if period is None or period > LONGEST_PERIOD:
            return None
        classes = []
        for remainder in range(period):
            first, last = span(domain, period, remainder)
            held: Intervals = [(first, last)] if first <= last else []
            for condition in conditions:
                one = holds_for(condition, symbol, (remainder, period), first, last)
                if one is None:
                    return None
                held = intersect(held, one)
            classes.append(held)
        return IntegerSet(period, domain, classes)

    def is_whole(self) -> bool:
        """Whether every value in the range is in the set."""
        for remainder, held in enumerate(self.classes):
            first, last = span(self.domain, self.period, remainder)
            if first <= last and held != [(first, last)]:
                return False
        return True

    def around(self, value: int) -> Progression:
        """The largest progression in the set that `value`, a member, belongs to.

        Among those without an end the densest is the largest.
        """
        best = self.reach(value, 1)
        for modulus in range(2, self.period + 1):
            if self.period % modulus == 0:
                other = self.reach(value, modulus)
                if extent(other) > extent(best):
                    best = other
        return best

    def reach(self, value: int, modulus: int) -> Progression:
        """How far the numbers that are `value` modulo `modulus` stay in the set."""
        lower, upper = self.domain.lower, self.domain.upper
        for remainder in range(value % modulus, self.period, modulus):
            first, last = self.run(value, remainder)
            lower = max(lower, first)
            upper = min(upper, last)
        lower = value - (value - lower) // modulus * modulus if lower > -int_oo else lower
        upper = value + (upper - value) // modulus * modulus if upper < int_oo else upper
        return Progression(modulus, value % modulus, lower, upper)

    def run(self, value: int, remainder: int) -> tuple[float, float]:
        """The bounds around `value` between which the whole class of `remainder` is in the set."""
        period = self.period
        below = (value - remainder) // period
        above = below if below * period + remainder == value else below + 1
        lower: float = value
        upper: float = value
        for first, last in self.classes[remainder]:
            if first <= below <= last:
                lower = (first - 1) * period + remainder + 1 if first > -int_oo else first
            if first <= above <= last:
                upper = (last + 1) * period + remainder - 1 if last < int_oo else last
        first, last = span(self.domain, period, remainder)
        # There is nothing of the class on this side.
        lower = self.domain.lower if below < first else lower
        upper = self.domain.upper if above > last else upper
        if lower == value and below * period + remainder < value:
            lower = below * period + remainder + 1
        if upper == value and above * period + remainder > value:
            upper = above * period + remainder - 1
        return max(lower, self.domain.lower), min(upper, self.domain.upper)


def extent(progression: Progression) -> tuple[float, float]:
    """The order of progressions: how many numbers, then how dense."""
    count = (progression.upper - progression.lower) / progression.modulus
    return count, -progression.modulus


def span(domain: ValueRanges, period: int, remainder: int) -> tuple[float, float]:
    """The k for which `period * k + remainder` is in the domain."""
    low, high = domain.lower - remainder, domain.upper - remainder
    first = low if math.isinf(low) else -(-low // period)
    return first, high if math.isinf(high) else high // period
