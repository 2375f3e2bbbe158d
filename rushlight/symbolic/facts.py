"""What is known about symbols: ranges, equalities, bounds on sums, remainders that vanish.

A relation between integers is kept as bounds on its *form*: the terms without the constant, in
lowest terms. `a < b`, `b > a`, `b - a >= 1` and `not b <= a` are one fact.
Invariant: facts are only added; what was decided once stays decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.ranges import Analysis, ValueRanges, int_oo

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Head, Symbol


def form(difference: Expr) -> tuple[Expr, int, int]:
    """An integer expression as `(terms, factor, offset)`: factor * terms + offset.

    The sign of the factor is such that an expression and its opposite have the same terms.
    """
    offset, terms = difference.as_coeff_Add()
    if not terms.is_Add:
        coefficient, rest = terms.as_coeff_Mul()
        return rest, coefficient.p, offset.p
    parts = [term.as_coeff_Mul() for term in terms.args]
    factor = math.gcd(*(coefficient.p for coefficient, _ in parts))
    leading, _ = min(parts, key=lambda part: hash(part[1]))
    if leading.p < 0:
        factor = -factor
    if factor != 1:
        terms = ex.Add(*(ex.Integer(coefficient.p // factor) * rest for coefficient, rest in parts))
    return terms, factor, offset.p


def unscaled(range_: ValueRanges, factor: int, offset: int) -> ValueRanges:
    """The integers that `factor * _ + offset` maps into `range_`."""
    low, high = range_.lower - offset, range_.upper - offset
    if factor < 0:
        low, high, factor = -high, -low, -factor
    lower = low if math.isinf(low) else -(-low // factor)
    return ValueRanges(lower, high if math.isinf(high) else high // factor)


def scaled(range_: ValueRanges, factor: int, offset: int) -> ValueRanges:
    """`factor * _ + offset` of `range_`."""
    ends = range_.lower * factor + offset, range_.upper * factor + offset
    return ValueRanges(min(ends), max(ends))


class Facts:
    """The knowledge of one shape environment."""

    def __init__(self, order: Callable[[Symbol], tuple[float, int]], unbacked: set[Symbol]) -> None:
        # `order` ranks symbols: of an equality the highest is replaced by the others.
        self.order = order
        self.unbacked = unbacked
        self.size_like: set[Expr] = set()
        self.ranges: dict[Expr, ValueRanges] = {}
        self.replacements: dict[Expr, Expr] = {}
        self.divisible: set[Expr] = set()
        self.forms: dict[Expr, ValueRanges] = {}
        self.unequal: set[tuple[Expr, int]] = set()
        self.truths: dict[Expr, bool] = {}
        # Counts replacements: an expression replaced at one version is final until the next.
        self.version = 0
        self.replaced: dict[Expr, Expr] = {}
        self.rewrites: dict[Expr, Expr] = {}
        self.decided: dict[Expr, bool] = {}
        self.undecided: set[tuple[Expr, bool]] = set()
        self.analysis = Analysis(self.known)
        self.analysis_as_size = Analysis(self.known_as_size)

    # ------------------------------------------------------------ reading

    def known(self, expr: Expr) -> ValueRanges | None:
        if expr.is_Symbol:
            found = self.ranges.get(expr)
            if found is None:
                integer = expr.is_integer
                return ValueRanges.unknown_int() if integer else ValueRanges.unknown()
            return found
        if expr.is_Add and expr.is_integer:
            terms, factor, offset = form(expr)
            bounds = self.forms.get(terms)
            return None if bounds is None else scaled(bounds, factor, offset)
        return self.forms.get(expr)

    def known_as_size(self, expr: Expr) -> ValueRanges | None:
        """As `known`, with sizes taken to be neither 0 nor 1."""
        found = self.known(expr)
        if found is not None and expr in self.size_like and found.upper >= 2:
            return ValueRanges(max(2, found.lower), found.upper)
        return found

    def replace(self, expr: Expr) -> Expr:
        """`expr` with symbols replaced by what they are known to equal."""
        if not self.rewrites:
            return expr
        result = self.replaced.get(expr)
        if result is None:
            result = expr
            for _ in range(8):
                following = result.xreplace(self.rewrites)
                if following == result:
                    break
                result = following
            self.replaced[expr] = result
        return result

    def bound(self, expr: Expr, as_size: bool = False) -> ValueRanges:
        return (self.analysis_as_size if as_size else self.analysis).bound(expr)

    def decide(self, expr: Expr, as_size: bool = False) -> bool | None:
        """Whether a boolean expression is always true or always false; None if neither."""
        if expr is ex.true:
            return True
        if expr is ex.false:
            return False
        found = self.decided.get(expr)
        if found is not None:
            return found
        if (expr, as_size) in self.undecided:
            return None
        result = self.deduce(self.replace(expr), as_size)
        if result is None:
            self.undecided.add((expr, as_size))
        elif not as_size:
            self.decided[expr] = result
        return result

    def deduce(self, expr: Expr, as_size: bool) -> bool | None:
        if expr is ex.true:
            return True
        if expr is ex.false:
            return False
        kind = expr.func
        if kind in ex.NEGATIONS:
            left, right = expr.args
            difference = left - right
            if difference.is_number:
                return bool(ex.RELATIONS[kind](difference, 0))
            if difference.is_integer:
                return self.deduce_integer(kind, difference, as_size)
            found = self.truths.get(expr)
            return found if found is not None else sign(kind, self.bound(difference, as_size))
        if kind is ex.And or kind is ex.Or:
            settling = kind is ex.Or
            parts = [self.decide(part, as_size) for part in expr.args]
            if settling in parts:
                return settling
            return None if None in parts else not settling
        if kind is ex.Not:
            part = self.decide(expr.args[0], as_size)
            return None if part is None else not part
        return self.truths.get(expr)

    def deduce_integer(self, kind: Head, difference: Expr, as_size: bool) -> bool | None:
        result = sign(kind, self.bound(difference, as_size))
        if result is not None:
            return result
        terms, factor, offset = form(difference)
        equality = kind is ex.Eq or kind is ex.Ne
        if equality and offset % factor:
            return kind is ex.Ne
        found = self.forms.get(terms)
        if found is not None:
            result = sign(kind, scaled(found, factor, offset))
            if result is not None:
                return result
        if equality and (terms, -offset // factor) in self.unequal:
            return kind is ex.Ne
        return None

    # ------------------------------------------------------------ learning

    def learn(self, expr: Expr) -> None:
        """Takes a boolean expression to be true from now on."""
        self.decided[expr] = True
        expr = self.replace(expr)
        kind = expr.func
        if kind is ex.And:
            for part in expr.args:
                self.learn(part)
            return
        if kind is ex.Not or kind is ex.Or or kind not in ex.NEGATIONS:
            self.truths[expr] = True
            self.truths[ex.negate(expr)] = False
            self.forget_undecided()
            return
        self.decided[ex.negate(expr)] = False
        left, right = expr.args
        difference = left - right
        if not difference.is_integer:
            self.truths[expr] = True
            self.truths[ex.negate(expr)] = False
            self.learn_float(kind, difference)
        elif kind is ex.Ne:
            self.learn_unequal(difference)
        elif kind is ex.Eq:
            self.learn_equality(difference)
        else:
            self.learn_bounds(difference, SIDES[kind])
        self.forget_undecided()

    def forget_undecided(self) -> None:
        self.undecided.clear()
        self.analysis.cache.clear()
        self.analysis_as_size.cache.clear()

    def learn_float(self, kind: Head, difference: Expr) -> None:
        """A float symbol that equals a constant is that constant."""
        if kind is ex.Eq:
            constant, terms = difference.as_coeff_Add()
            coefficient, symbol = terms.as_coeff_Mul()
            if symbol.is_Symbol:
                self.substitute(symbol, ex.Float(float(-constant / coefficient)))

    def learn_bounds(self, difference: Expr, range_: ValueRanges) -> None:
        """Takes an integer expression to lie in `range_`, which is open at one end."""
        terms, factor, offset = form(difference)
        range_ = unscaled(range_, factor, offset)
        self.bound_form(terms, range_)
        parts = ex.Add.make_args(terms)
        bounds = [self.bound(term) for term in parts]
        for position, term in enumerate(parts):
            coefficient, symbol = term.as_coeff_Mul()
            if not symbol.is_Symbol:
                continue
            # What is left for this term, for at least one value of the others.
            others = bounds[:position] + bounds[position + 1 :]
            left = ValueRanges(
                range_.lower - sum(other.upper for other in others),
                range_.upper - sum(other.lower for other in others),
            )
            self.narrow(symbol, unscaled(left, coefficient.p, 0))

    def bound_form(self, terms: Expr, range_: ValueRanges) -> None:
        if not terms.is_Symbol:
            known = self.forms.get(terms)
            self.forms[terms] = range_ if known is None else known & range_

    def narrow(self, symbol: Expr, range_: ValueRanges) -> None:
        """Intersects the range of a symbol; a single value left replaces the symbol."""
        known = self.ranges.get(symbol)
        if known is not None:
            upper = range_.upper
            if symbol in self.size_like and upper < 2:
                # Code that reasons about sizes needs room for a size that is neither 0 nor 1.
                upper = 2
            range_ = known & ValueRanges(range_.lower, upper, range_.is_float)
            if range_ == known:
                return
        self.ranges[symbol] = range_
        self.forget_undecided()
        if range_.is_singleton() and not range_.is_float:
            self.substitute(symbol, ex.Integer(range_.lower))

    def learn_equality(self, difference: Expr) -> None:
        terms, factor, offset = form(difference)
        if offset % factor == 0:
            value = -offset // factor
            self.bound_form(terms, ValueRanges(value, value))
            self.learn_remainder(terms, value)
            if isinstance(terms, ex.FloorDiv):
                self.rewrites[terms] = ex.Integer(value)
                self.renew()
        if not difference.free_symbols:
            return
        symbol = max(difference.free_symbols, key=self.order)
        solution = self.solve(difference, symbol)
        # An unbacked value must not be defined by others: they may be made later than its uses.
        if solution is not None and not solution.free_symbols & self.unbacked:
            self.substitute(symbol, solution)

    def learn_unequal(self, difference: Expr) -> None:
        if not difference.is_number:
            terms, factor, offset = form(difference)
            if offset % factor == 0:
                self.unequal.add((terms, -offset // factor))

    def learn_remainder(self, terms: Expr, value: int) -> None:
        if value == 0 and isinstance(terms, ex.Mod):
            self.divisible.add(terms)
            base, divisor = terms.args
            self.rewrites[terms] = ex.Zero
            quotient = ex.FloorDiv(base, divisor)
            if isinstance(quotient, ex.FloorDiv) and quotient.args == (base, divisor):
                self.rewrites[quotient] = ex.CleanDiv(base, divisor, evaluate=False)
            self.renew()

    def solve(self, difference: Expr, symbol: Expr) -> Expr | None:
        """The integer expression that `symbol` is where `difference` vanishes; None if none."""
        rest = []
        coefficient = 0
        for term in ex.Add.make_args(difference):
            factor, part = term.as_coeff_Mul()
            if part == symbol:
                coefficient = factor.p
            elif term.has(symbol):
                return None
            else:
                rest.append(term)
        if coefficient == 0:
            return None
        remaining = ex.Add(*rest)
        if coefficient in (1, -1):
            return -coefficient * remaining
        if ex.common_coefficient(remaining) % coefficient:
            return None
        solution = ex.without_coefficient(remaining, abs(coefficient))
        return -solution if coefficient > 0 else solution

    def substitute(self, symbol: Expr, value: Expr) -> bool:
        """Replaces `symbol` by `value` from now on, unless its range would be forgotten."""
        if symbol in self.replacements or value.has(symbol):
            return False
        before = self.ranges.get(symbol)
        if before is not None:
            after = self.bound(value)
            self.ranges[symbol] = before & after
            if not after.issubset(before):
                self.carry_range(value, before)
                self.forget_undecided()
                after = self.bound(value)
            if not after.issubset(before):
                self.forget_undecided()
                return False
        if value.is_Symbol and (symbol in self.size_like or value in self.size_like):
            self.size_like |= {symbol, value}
        self.replacements[symbol] = self.rewrites[symbol] = value
        for other, replaced in self.replacements.items():
            if other is not symbol and replaced.has(symbol):
                resolved = replaced.xreplace({symbol: value})
                self.replacements[other] = self.rewrites[other] = resolved
        self.renew()
        return True

    def carry_range(self, value: Expr, range_: ValueRanges) -> None:
        """Narrows the one symbol of `value` so that `value` stays within `range_`."""
        constant, term = value.as_coeff_Add()
        coefficient, symbol = term.as_coeff_Mul()
        if not symbol.is_Symbol or not coefficient.is_Integer:
            return
        self.narrow(symbol, unscaled(range_, coefficient.p, constant.p))

    def renew(self) -> None:
        """Restates what is known in terms of what symbols are replaced by."""
        self.version += 1
        self.replaced.clear()
        forms, self.forms = self.forms, {}
        for terms, range_ in forms.items():
            self.restate(self.replace(terms), range_)
        unequal, self.unequal = self.unequal, set()
        for terms, value in unequal:
            self.learn_unequal(self.replace(terms) - value)
        self.truths = {self.replace(expr): value for expr, value in self.truths.items()}
        self.forget_undecided()

    def restate(self, terms: Expr, range_: ValueRanges) -> None:
        if terms.is_number:
            return
        rest, factor, offset = form(terms)
        self.bound_form(rest, unscaled(range_, factor, offset))


# What a difference is where the relation of its sides holds.
SIDES = {
    ex.Lt: ValueRanges(-int_oo, -1),
    ex.Le: ValueRanges(-int_oo, 0),
    ex.Gt: ValueRanges(1, int_oo),
    ex.Ge: ValueRanges(0, int_oo),
}


def sign(kind: Head, range_: ValueRanges) -> bool | None:
    """Whether a difference in `range_` stands in the relation `kind` to zero."""
    lower, upper = range_.lower, range_.upper
    if kind is ex.Eq or kind is ex.Ne:
        if lower > 0 or upper < 0:
            return bool(kind is ex.Ne)
        return bool(kind is ex.Eq) if lower == upper == 0 else None
    if kind is ex.Lt:
        return True if upper < 0 else False if lower >= 0 else None
    if kind is ex.Le:
        return True if upper <= 0 else False if lower > 0 else None
    if kind is ex.Gt:
        return True if lower > 0 else False if upper <= 0 else None
    return True if lower >= 0 else False if upper < 0 else None
