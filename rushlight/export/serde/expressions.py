"""Symbolic expressions as texts: the form that files have, and back.

Writing gives nested calls of heads, `Add(Integer(1), Symbol('s0', positive=True, integer=True))`.
Reading takes that and what people write, by `parsing`; the size of numbers is bounded before
anything is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.export.serde.parsing import ASSUMPTIONS, Parser
from rushlight.export.serde.schema import refuse
from rushlight.symbolic import expressions as ex

__all__ = ["ExpressionReader", "expression_text"]

MOST_NODES = 1000
# Bits that a number of an expression may have.
MOST_BITS = 256
MOST_EXPONENT = 64

# -- writing ------------------------------------------------------------------------------------

HEADS: dict[Any, str] = {
    ex.Add: "Add",
    ex.Mul: "Mul",
    ex.Pow: "Pow",
    ex.Eq: "Equality",
    ex.Ne: "Unequality",
    ex.Lt: "StrictLessThan",
    ex.Le: "LessThan",
    ex.Gt: "StrictGreaterThan",
    ex.Ge: "GreaterThan",
    ex.And: "And",
    ex.Or: "Or",
    ex.Not: "Not",
    ex.Max: "Max",
    ex.Min: "Min",
    ex.FloorDiv: "FloorDiv",
    ex.CleanDiv: "CleanDiv",
    ex.ToFloat: "ToFloat",
    ex.IntTrueDiv: "IntTrueDiv",
    ex.FloatTrueDiv: "FloatTrueDiv",
    ex.PowByNatural: "PowByNatural",
    ex.FloatPow: "FloatPow",
    ex.FloorToInt: "FloorToInt",
    ex.CeilToInt: "CeilToInt",
    ex.TruncToInt: "TruncToInt",
    ex.RoundToInt: "RoundToInt",
    ex.RoundDecimal: "RoundDecimal",
    ex.OpaqueUnaryFn_sqrt: "OpaqueUnaryFn_sqrt",
    ex.sympy.Abs: "Abs",
}


def expression_text(expr: Any) -> str:
    """The text that files have for an expression."""
    if expr.is_Symbol:
        given = [f", {name}=True" for name in ASSUMPTIONS if is_assumed(expr, name)]
        return f"Symbol({str(expr)!r}{''.join(given)})"
    if expr.is_Integer:
        return f"Integer({expr.p})"
    if expr is ex.true or expr is ex.false:
        return "true" if expr is ex.true else "false"
    if expr.is_Rational:
        return f"Rational({expr.p}, {expr.q})"
    if expr.is_number:
        return f"Float('{float(expr)!r}', precision=53)"
    kind = expr.func
    if kind is ex.Piecewise:
        pairs = [", ".join(map(expression_text, pair)) for pair in ex.branches(expr)]
        return f"Piecewise({', '.join(f'ExprCondPair({pair})' for pair in pairs)})"
    name = HEADS.get(kind)
    if kind is ex.Mod:
        # torch: Mod is C's, which is Python's where nothing is negative.
        name = "Mod" if all(argument.is_nonnegative for argument in expr.args) else "PythonMod"
    if name is None:
        raise refuse(f"the expression {expr} cannot be written")
    arguments = expr.args
    if kind is ex.Add:
        arguments = expr.as_ordered_terms()
    elif kind is ex.Mul:
        arguments = expr.as_ordered_factors()
    return f"{name}({', '.join(map(expression_text, arguments))})"


def is_assumed(symbol: Any, name: str) -> bool:
    """Whether a symbol was made with an assumption, rather than having it by another one."""
    if not symbol.assumptions0.get(name):
        return False
    if name == "nonnegative":
        return not symbol.assumptions0.get("positive")
    return name != "real" or not symbol.assumptions0.get("integer")


# -- reading ------------------------------------------------------------------------------------


def small(value: Any) -> Any:
    """A number, refused if it has too many digits to be reckoned with."""
    if value.is_Integer and value.p.bit_length() > MOST_BITS:
        raise refuse("a number of an expression is too large")
    return value


def power(base: Any, exponent: Any) -> Any:
    if not exponent.is_Integer:
        return ex.Pow(base, exponent) if not base.is_number else too_large()
    if abs(exponent.p) > MOST_EXPONENT:
        return too_large()
    if base.is_number and (
        not base.is_Rational
        or max(base.p.bit_length(), base.q.bit_length()) * abs(exponent.p) > MOST_BITS
    ):
        return too_large()
    return ex.Pow(base, exponent)


def too_large() -> Any:
    raise refuse("a power of an expression is too large")


def added(*terms: Any) -> Any:
    return small(ex.Add(*terms))


def multiplied(*factors: Any) -> Any:
    return small(ex.Mul(*factors))


def divided(left: Any, right: Any) -> Any:
    if right.is_zero:
        raise ZeroDivisionError("division by zero")
    return ex.Mul(left, ex.Pow(right, ex.NegativeOne))


def truth(value: Any) -> Any:
    """The value as a condition."""
    if not ex.is_boolean(value) and value not in (ex.true, ex.false):
        raise refuse("an expression has a number where a condition should be")
    return value


def related(kind: Any) -> Callable[[Any, Any], Any]:
    return lambda left, right: ex.relation(kind, left, right)


def all_of(*conditions: Any) -> Any:
    result: Any = ex.true
    for condition in conditions:
        result = ex.conjunction(result, truth(condition))
    return result


def any_of(*conditions: Any) -> Any:
    result: Any = ex.false
    for condition in conditions:
        result = ex.disjunction(result, truth(condition))
    return result


def ceiling_divided(base: Any, divisor: Any) -> Any:
    return -ex.FloorDiv(-base, divisor)


def modular_index(base: Any, divisor: Any, modulus: Any) -> Any:
    return ex.Mod(ex.FloorDiv(base, divisor), modulus)


def shifted(base: Any, count: Any) -> Any:
    if not count.is_Integer or not 0 <= count.p <= MOST_EXPONENT:
        raise refuse("a shift of an expression is not by a small number")
    return multiplied(base, ex.Integer(1 << count.p))


def shifted_back(base: Any, count: Any) -> Any:
    if not count.is_Integer or not 0 <= count.p <= MOST_EXPONENT:
        raise refuse("a shift of an expression is not by a small number")
    return ex.FloorDiv(base, ex.Integer(1 << count.p))


def chosen(*pairs: Any) -> Any:
    """Piecewise: pairs of (value, condition), the last of which is always true."""
    if len(pairs) < 1 or any(type(pair) is not tuple for pair in pairs):
        raise refuse("a choice of an expression has no pairs")
    result = pairs[-1][0]
    for value, condition in reversed(pairs[:-1]):
        result = ex.where(truth(condition), value, result)
    return result


# name: (function of expressions, fewest arguments, most arguments)
MANY = MOST_NODES
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "Add": (added, 0, MANY),
    "Sub": (lambda left, right: added(left, -right), 2, 2),
    "Neg": (lambda value: -value, 1, 1),
    "Div": (divided, 2, 2),
    "Mul": (multiplied, 0, MANY),
    "Pow": (power, 2, 2),
    "Max": (ex.Max, 1, MANY),
    "Min": (ex.Min, 1, MANY),
    "Abs": (ex.sympy.Abs, 1, 1),
    "FloorDiv": (ex.FloorDiv, 2, 2),
    "CleanDiv": (ex.CleanDiv, 2, 2),
    "CeilDiv": (ceiling_divided, 2, 2),
    "ModularIndexing": (modular_index, 3, 3),
    "Mod": (ex.Mod, 2, 2),
    "PythonMod": (ex.Mod, 2, 2),
    "ToFloat": (ex.ToFloat, 1, 1),
    "IntTrueDiv": (ex.IntTrueDiv, 2, 2),
    "FloatTrueDiv": (ex.FloatTrueDiv, 2, 2),
    "PowByNatural": (power, 2, 2),
    "FloatPow": (power, 2, 2),
    "FloorToInt": (ex.FloorToInt, 1, 1),
    "CeilToInt": (ex.CeilToInt, 1, 1),
    "TruncToInt": (ex.TruncToInt, 1, 1),
    "RoundToInt": (ex.RoundToInt, 1, 1),
    "RoundDecimal": (ex.RoundDecimal, 2, 2),
    "OpaqueUnaryFn_sqrt": (ex.OpaqueUnaryFn_sqrt, 1, 1),
    "LShift": (shifted, 2, 2),
    "RShift": (shifted_back, 2, 2),
    "Identity": (lambda value: value, 1, 1),
    "Where": (lambda condition, a, b: ex.where(truth(condition), a, b), 3, 3),
    "Piecewise": (chosen, 1, MANY),
    "ExprCondPair": (lambda value, condition: (value, condition), 2, 2),
    "And": (all_of, 0, MANY),
    "Or": (any_of, 0, MANY),
    "Not": (lambda condition: ex.negate(truth(condition)), 1, 1),
    **dict.fromkeys(("Equality", "Eq"), (related(ex.Eq), 2, 2)),
    **dict.fromkeys(("Unequality", "Ne"), (related(ex.Ne), 2, 2)),
    **dict.fromkeys(("StrictLessThan", "Lt"), (related(ex.Lt), 2, 2)),
    **dict.fromkeys(("LessThan", "Le"), (related(ex.Le), 2, 2)),
    **dict.fromkeys(("StrictGreaterThan", "Gt"), (related(ex.Gt), 2, 2)),
    **dict.fromkeys(("GreaterThan", "Ge"), (related(ex.Ge), 2, 2)),
}


def made_number(value: Any) -> Any:
    return small(ex.constant(value))


def called(head: str, arguments: list[Any]) -> Any:
    """The value of a function that files may call."""
    known = FUNCTIONS.get(head)
    if known is None:
        raise refuse(f"an expression calls {head[:40]!r}, which is not known")
    function, fewest, most = known
    is_pair = function is chosen
    if not fewest <= len(arguments) <= most:
        raise refuse(f"an expression calls {head!r} with {len(arguments)} arguments")
    if not is_pair and any(type(each) is tuple for each in arguments):
        raise refuse("an expression has a pair where a value should be")
    return function(*arguments)


class ExpressionReader:
    """Reads expressions; `symbol(name, assumptions)` gives the symbol of a name."""

    def __init__(self, symbol: Callable[[str, dict[str, bool]], Any]) -> None:
        self.symbol = symbol
        self.known: dict[str, Any] = {}

    def read(self, text: str) -> Any:
        found = self.known.get(text)
        if found is None:
            try:
                found = Parser(text, made_number, self.symbol, called).parse()
            except (ArithmeticError, TypeError, ValueError, AttributeError) as failure:
                raise refuse(
                    f"the expression {text[:80]!r} has no value ({type(failure).__name__})"
                ) from None
            if type(found) is tuple:
                raise refuse(f"{text[:80]!r} is no expression")
            self.known[text] = found
        return found
