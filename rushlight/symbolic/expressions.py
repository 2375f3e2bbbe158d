"""Expressions over symbols: sympy terms, and the integer functions sympy has not.

Division, remainder, extrema and the steps between integers and floats mean here what Python means
by them. Importing this module imports sympy; it is imported with the first symbolic value.
Invariant: simplification never changes the value of an expression for any values of its symbols
that do not divide by zero.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from rushlight.base.lazy import load
from rushlight.symbolic.numbers import (
    sym_float,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sqrt,
)

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr, Head, SeriesHead, SymbolHead

sympy: Any = load("sympy", extra="compile")

Add: SeriesHead = sympy.Add
Mul: SeriesHead = sympy.Mul
Pow: Head = sympy.Pow
Integer: Head = sympy.Integer
Symbol: SymbolHead = sympy.Symbol
Eq: Head = sympy.Eq
Ne: Head = sympy.Ne
Lt: Head = sympy.StrictLessThan
Le: Head = sympy.LessThan
Gt: Head = sympy.StrictGreaterThan
Ge: Head = sympy.GreaterThan
And: Head = sympy.And
Or: Head = sympy.Or
Not: Head = sympy.Not
Boolean = sympy.logic.boolalg.Boolean
Float: Head = sympy.Float
Piecewise: Head = sympy.Piecewise
true: Expr = sympy.true
false: Expr = sympy.false
Zero: Expr = sympy.S.Zero
One: Expr = sympy.S.One
NegativeOne: Expr = sympy.S.NegativeOne


def sign_agnostic_quotient(term: Expr, divisor: Expr) -> Expr | None:
    """`term / divisor` where that is an integer for all values of the symbols, else None."""
    if divisor.is_Integer:
        coefficient, rest = term.as_coeff_Mul()
        if coefficient.is_Integer and coefficient.p % divisor.p == 0:
            return Integer(coefficient.p // divisor.p) * rest
        return None
    quotient = term / divisor
    if all(
        factor.is_Integer
        or (factor.is_integer and not (factor.is_Pow and not factor.exp.is_nonnegative))
        for factor in Mul.make_args(quotient)
    ):
        return quotient
    return None


def split_multiples(base: Expr, divisor: Expr) -> tuple[Expr, Expr]:
    """`base` as `divisor * quotient + rest`: (quotient, rest), taking whole terms only."""
    quotients = []
    rest = []
    for term in Add.make_args(base):
        quotient = sign_agnostic_quotient(term, divisor)
        if quotient is None:
            rest.append(term)
        else:
            quotients.append(quotient)
    if not quotients:
        return Zero, base
    return Add(*quotients), Add(*rest)


def common_coefficient(expr: Expr) -> int:
    """The greatest integer that divides every term of `expr`."""
    return math.gcd(
        *(
            int(coefficient) if coefficient.is_Integer else 1
            for coefficient in (term.as_coeff_Mul()[0] for term in Add.make_args(expr))
        )
    )


def without_coefficient(expr: Expr, divisor: int) -> Expr:
    """`expr / divisor`, for a divisor of every coefficient."""
    terms = []
    for term in Add.make_args(expr):
        coefficient, rest = term.as_coeff_Mul()
        terms.append(Integer(int(coefficient) // divisor) * rest)
    return Add(*terms)


class FloorDiv(sympy.Function):  # type: ignore[misc]
    """Python's `base // divisor` of integers."""

    args: tuple[Expr, ...]
    nargs = (2,)
    is_integer = True
    precedence = 35

    @property
    def base(self) -> Expr:
        return self.args[0]

    @property
    def divisor(self) -> Expr:
        return self.args[1]

    @classmethod
    def eval(cls, base: Expr, divisor: Expr) -> Expr | None:
        if divisor.is_zero:
            raise ZeroDivisionError("division by zero")
        if base.is_zero:
            return Zero
        if base.is_Integer and divisor.is_Integer:
            return Integer(int(base) // int(divisor))
        if divisor is One:
            return base
        if divisor is NegativeOne:
            return -base
        if base == divisor:
            return One
        if isinstance(base, FloorDiv) and divisor.is_positive:
            # (x // a) // b == x // (a * b) for b > 0, whatever the sign of a.
            return FloorDiv(base.args[0], base.args[1] * divisor)
        quotient, rest = split_multiples(base, divisor)
        if quotient is not Zero:
            return quotient + (FloorDiv(rest, divisor) if rest is not Zero else 0)
        return cls.lower_terms(base, divisor)

    @classmethod
    def lower_terms(cls, base: Expr, divisor: Expr) -> Expr | None:
        """Cancels what base and divisor have in common; None where that is nothing."""
        factor: Any = Integer(math.gcd(common_coefficient(base), common_coefficient(divisor)))
        if not divisor.is_Add:
            for part in Mul.make_args(divisor):
                if part.is_Symbol and all(
                    part in Mul.make_args(term) for term in Add.make_args(base)
                ):
                    factor *= part
        if factor is One:
            return None
        base = Add(*(term / factor for term in Add.make_args(base)))
        return FloorDiv(base, Add(*(term / factor for term in Add.make_args(divisor))))

    def _sympystr(self, printer: Any) -> str:
        base = printer.parenthesize(self.args[0], FloorDiv.precedence + 15)
        divisor = printer.parenthesize(self.args[1], FloorDiv.precedence + 15)
        return f"({base}//{divisor})"


class CleanDiv(FloorDiv):
    """A floor division that is known to leave no remainder."""


class Mod(sympy.Function):  # type: ignore[misc]
    """Python's `base % divisor` of integers: the sign is the divisor's."""

    nargs = (2,)
    is_integer = True

    @classmethod
    def eval(cls, base: Expr, divisor: Expr) -> Expr | None:
        if divisor.is_zero:
            raise ZeroDivisionError("modulo by zero")
        if base.is_zero or divisor is One or divisor is NegativeOne:
            return Zero
        if base == divisor:
            return Zero
        if base.is_Integer and divisor.is_Integer:
            return Integer(int(base) % int(divisor))
        if isinstance(base, Mod) and base.args[1] == divisor:
            return base
        quotient, rest = split_multiples(base, divisor)
        if quotient is not Zero:
            return Mod(rest, divisor)
        return None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if self.args[1].is_positive else None


def extremum_arguments(
    kind: type[Max] | type[Min],
    arguments: tuple[Expr, ...],
    fold: Callable[[Any, Any], Any],
    least: bool,
) -> tuple[Expr, ...]:
    """Flattened, distinct, constants folded into one that stands first, the rest in sympy's order.

    `least` says that the smallest argument wins.
    """
    constant: Any = None
    rest: dict[Expr, None] = {}
    pending = list(arguments)
    while pending:
        argument: Any = sympy.sympify(pending.pop(0))
        if isinstance(argument, kind):
            pending = [*argument.args, *pending]
        elif argument.is_number:
            constant = argument if constant is None else fold(constant, argument)
        else:
            rest[argument] = None
    ordered = sorted(rest, key=sympy.default_sort_key)
    if constant is not None and ordered:
        below = [known_at_least(argument, constant) for argument in ordered]
        if least:
            if all(below):
                return (constant,)
        elif any(below):
            return tuple(ordered)
    return (constant, *ordered) if constant is not None else tuple(ordered)


def known_at_least(expr: Expr, constant: Expr) -> bool:
    """Whether the symbols' signs alone say that `expr >= constant`."""
    if constant <= 0:
        return bool(expr.is_nonnegative)
    return bool(constant <= 1 and expr.is_integer and expr.is_positive)


class Max(sympy.Function):  # type: ignore[misc]
    """The greatest of its arguments."""

    @classmethod
    def eval(cls, *arguments: Expr) -> Expr | None:
        ordered = extremum_arguments(Max, arguments, max, False)
        if len(ordered) == 1:
            return ordered[0]
        return None if ordered == arguments else Max(*ordered)

    def _eval_is_integer(self) -> bool | None:
        return True if all(a.is_integer for a in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(a.is_nonnegative for a in self.args) else None

    def _eval_is_positive(self) -> bool | None:
        return True if any(a.is_positive for a in self.args) else None


class Min(sympy.Function):  # type: ignore[misc]
    """The least of its arguments."""

    @classmethod
    def eval(cls, *arguments: Expr) -> Expr | None:
        ordered = extremum_arguments(Min, arguments, min, True)
        if len(ordered) == 1:
            return ordered[0]
        return None if ordered == arguments else Min(*ordered)

    def _eval_is_integer(self) -> bool | None:
        return True if all(a.is_integer for a in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(a.is_nonnegative for a in self.args) else None

    def _eval_is_positive(self) -> bool | None:
        return True if all(a.is_positive for a in self.args) else None


class ToFloat(sympy.Function):  # type: ignore[misc]
    """An integer as a float."""

    nargs = (1,)
    is_real = True

    @classmethod
    def eval(cls, value: Expr) -> Expr | None:
        if value.is_Integer:
            return Float(int(value))
        return None


class IntTrueDiv(sympy.Function):  # type: ignore[misc]
    """Python's `/` of integers: a float."""

    nargs = (2,)
    is_real = True

    @classmethod
    def eval(cls, base: Expr, divisor: Expr) -> Expr | None:
        if divisor.is_zero:
            raise ZeroDivisionError("division by zero")
        if base.is_Integer and divisor.is_Integer:
            return Float(int(base) / int(divisor))
        return None


class FloatTrueDiv(sympy.Function):  # type: ignore[misc]
    """Python's `/` of floats."""

    nargs = (2,)
    is_real = True

    @classmethod
    def eval(cls, base: Expr, divisor: Expr) -> Expr | None:
        if divisor.is_zero:
            raise ZeroDivisionError("float division by zero")
        if base.is_number and divisor.is_number:
            return Float(float(base) / float(divisor))
        return None


class PowByNatural(sympy.Function):  # type: ignore[misc]
    """An integer to the power of a natural number that is itself symbolic."""

    nargs = (2,)
    is_integer = True


class FloatPow(sympy.Function):  # type: ignore[misc]
    """A float to the power of a float."""

    nargs = (2,)
    is_real = True

    @classmethod
    def eval(cls, base: Expr, exponent: Expr) -> Expr | None:
        if base.is_number and exponent.is_number:
            return Float(float(base) ** float(exponent))
        return None


def rounding(name: str, function: Callable[[float], int]) -> Head:
    """A function class that turns a float into an integer."""

    def evaluate_constant(cls: type, value: Expr) -> Expr | None:
        if value.is_number:
            return Integer(function(float(value)))
        if isinstance(value, ToFloat):
            return cast("Expr", value.args[0])
        return value if value.is_integer else None

    members = {"nargs": (1,), "is_integer": True, "eval": classmethod(evaluate_constant)}
    return cast("Head", type(name, (sympy.Function,), members))


FloorToInt = rounding("FloorToInt", math.floor)
CeilToInt = rounding("CeilToInt", math.ceil)
TruncToInt = rounding("TruncToInt", math.trunc)
RoundToInt = rounding("RoundToInt", round)


class RoundDecimal(sympy.Function):  # type: ignore[misc]
    """A float rounded to a number of decimals."""

    nargs = (2,)
    is_real = True

    @classmethod
    def eval(cls, value: Expr, digits: Expr) -> Expr | None:
        if value.is_number and digits.is_number:
            return Float(round(float(value), int(digits)))
        return None


class OpaqueUnaryFn_sqrt(sympy.Function):  # type: ignore[misc]
    """The square root of a float. torch: the name shows in printed shapes."""

    nargs = (1,)
    is_real = True

    @classmethod
    def eval(cls, value: Expr) -> Expr | None:
        return Float(math.sqrt(float(value))) if value.is_number else None


def where(condition: Expr, positive: Expr, negative: Expr) -> Expr:
    """`positive if condition else negative`."""
    if condition is true:
        return positive
    if condition is false or positive == negative:
        return negative
    return Piecewise((positive, condition), (negative, True), evaluate=False)


def branches(expr: Expr) -> list[tuple[Expr, ...]]:
    """The pairs of value and condition that a choice consists of."""
    return [pair.args for pair in expr.args]


def is_boolean(expr: Expr) -> bool:
    """Whether `expr` is a truth value rather than a number."""
    return isinstance(expr, Boolean) and not expr.is_Symbol


def constant(value: Expr | float) -> Expr:
    """A Python number as an expression."""
    if value is True:
        return true
    if value is False:
        return false
    if isinstance(value, int):
        return Integer(value)
    if isinstance(value, float):
        return Float(value) if math.isfinite(value) else sympy.sympify(value)
    return value


def plain(expr: Expr) -> float | None:
    """The Python number that a constant expression is; None for others."""
    if expr.is_Integer:
        return expr.p
    if expr is true:
        return True
    if expr is false:
        return False
    if expr.is_number:
        return float(expr)
    return None


NEGATIONS = {Eq: Ne, Ne: Eq, Lt: Ge, Ge: Lt, Gt: Le, Le: Gt}
RELATIONS: dict[Head, Callable[[Any, Any], Any]] = {
    Eq: operator.eq,
    Ne: operator.ne,
    Lt: operator.lt,
    Le: operator.le,
    Gt: operator.gt,
    Ge: operator.ge,
}


def relation(kind: Head, left: Expr, right: Expr) -> Expr:
    """`left kind right` as written: equality of the sides is all that is looked at."""
    if left == right:
        return true if kind in (Eq, Le, Ge) else false
    if left.is_number and right.is_number:
        return true if RELATIONS[kind](left, right) else false
    return kind(left, right, evaluate=False)


def negate(expr: Expr) -> Expr:
    """The opposite of a boolean expression."""
    kind = NEGATIONS.get(expr.func)
    if kind is not None:
        return kind(*expr.args, evaluate=False)
    if expr.func is And:
        return Or(*map(negate, expr.args), evaluate=False)
    if expr.func is Or:
        return And(*map(negate, expr.args), evaluate=False)
    return Not(expr)


def conjunction(left: Expr, right: Expr) -> Expr:
    """`left and right`."""
    if left is false or right is false:
        return false
    if left is true or left == right:
        return right
    return left if right is true else And(left, right, evaluate=False)


def disjunction(left: Expr, right: Expr) -> Expr:
    """`left or right`."""
    return negate(conjunction(negate(left), negate(right)))


def canonical(expr: Expr) -> Expr:
    """A relation with `<` or `<=` and only positive terms on both sides, in lowest terms."""
    if expr.func in (And, Or):
        return expr.func(*map(canonical, expr.args), evaluate=False)
    kind = expr.func
    if kind not in NEGATIONS:
        return expr
    left, right = expr.args
    if kind in (Gt, Ge):
        kind, left, right = (Lt if kind is Gt else Le), right, left
    difference = right - left
    if not difference.is_integer:
        return kind(left, right, evaluate=False)
    divisor = common_coefficient(difference)
    if divisor > 1:
        difference = without_coefficient(difference, divisor)
    positive: list[Expr] = []
    negative: list[Expr] = []
    for term in Add.make_args(difference):
        (negative if term.as_coeff_Mul()[0].is_negative else positive).append(term)
    left, right = Add(*(-term for term in negative)), Add(*positive)
    if kind in (Eq, Ne) and left.is_number:
        left, right = right, left
    return kind(left, right, evaluate=False)


FUNCTIONS: dict[Head, Callable[..., Any]] = {
    **RELATIONS,
    FloorDiv: operator.floordiv,
    CleanDiv: operator.floordiv,
    Mod: operator.mod,
    Max: sym_max,
    Min: sym_min,
    ToFloat: sym_float,
    IntTrueDiv: operator.truediv,
    FloatTrueDiv: operator.truediv,
    Pow: operator.pow,
    PowByNatural: operator.pow,
    FloatPow: operator.pow,
    FloorToInt: math.floor,
    CeilToInt: math.ceil,
    TruncToInt: math.trunc,
    RoundToInt: round,
    RoundDecimal: round,
    OpaqueUnaryFn_sqrt: sym_sqrt,
    And: operator.and_,
    Or: operator.or_,
    Not: sym_not,
    sympy.Abs: abs,
}
FOLDED = (Max, Min, And, Or)


def evaluate(expr: Expr, values: Mapping[Expr, float]) -> Any:
    """The value of `expr` for Python numbers in place of its symbols."""
    if expr.is_Symbol:
        return values[expr]
    kind = expr.func
    if kind is Add:
        total = 0
        for term in expr.args:
            total += evaluate(term, values)
        return total
    if kind is Mul:
        product = 1
        for factor in expr.args:
            product *= evaluate(factor, values)
        return product
    if kind is Piecewise:
        for value, condition in branches(expr):
            if evaluate(condition, values):
                return evaluate(value, values)
    function = FUNCTIONS.get(kind)
    if function is None:
        return plain(expr)
    arguments = [evaluate(argument, values) for argument in expr.args]
    if kind in FOLDED:
        result = arguments[0]
        for argument in arguments[1:]:
            result = function(result, argument)
        return result
    return function(*arguments)


def build(expr: Expr | float, leaf: Callable[[Expr], Any], apply: Callable[..., Any]) -> Any:
    """Computes `expr` by Python-level operations, bottom up, in the order in which it prints.

    `leaf(symbol)` gives the value of a symbol, `apply(function, *operands)` that of an operation;
    constants are plain numbers. Sums, products and extrema are binary, from left to right.
    """
    if isinstance(expr, (int, float, bool)):
        return expr
    if expr.is_Symbol:
        return leaf(expr)
    kind = expr.func
    if kind is Add:
        return build_sum(expr, leaf, apply)
    if kind is Mul:
        return build_product(expr, leaf, apply)
    if kind is Piecewise:
        (positive, condition), (negative, _) = branches(expr)
        chosen = [build(part, leaf, apply) for part in (condition, positive, negative)]
        return apply(sym_ite, *chosen)
    function = FUNCTIONS.get(kind)
    if function is None:
        return plain(expr)
    operands = [build(argument, leaf, apply) for argument in expr.args]
    if kind in FOLDED:
        result = operands[0]
        for operand in operands[1:]:
            result = apply(function, result, operand)
        return result
    return apply(function, *operands)


def build_sum(expr: Expr, leaf: Callable[[Expr], Any], apply: Callable[..., Any]) -> Any:
    total: Any = None
    for term in expr.as_ordered_terms():
        if total is None:
            total = build(term, leaf, apply)
        elif term.as_coeff_Mul()[0].is_negative:
            total = apply(operator.sub, total, build(-term, leaf, apply))
        else:
            total = apply(operator.add, total, build(term, leaf, apply))
    return total


def build_product(expr: Expr, leaf: Callable[[Expr], Any], apply: Callable[..., Any]) -> Any:
    coefficient, rest = expr.as_coeff_Mul()
    if coefficient is NegativeOne:
        return apply(operator.neg, build(rest, leaf, apply))
    product: Any = None if coefficient is One else plain(coefficient)
    for factor in rest.as_ordered_factors():
        value = build(factor, leaf, apply)
        product = value if product is None else apply(operator.mul, product, value)
    return product
