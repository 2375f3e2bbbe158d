"""Symbolic expressions as texts: the form that files have, and back.

Writing gives nested calls of heads, `Add(Integer(1), Symbol('s0', positive=True, integer=True))`.
Reading takes that and sums, products and comparisons as people write them, by a parser of its own.
Length, depth and the size of numbers are bounded before anything is computed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rushlight.export.serde.schema import refuse
from rushlight.symbolic import expressions as ex

__all__ = ["ExpressionReader", "expression_text"]

MOST_LENGTH = 1 << 14
MOST_NODES = 1000
MOST_DEPTH = 60
# Bits that a number of an expression may have.
MOST_BITS = 256
MOST_EXPONENT = 64

ASSUMPTIONS = ("positive", "nonnegative", "integer", "real")
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d*(?:[eE][+-]?\d+)?|\d+(?:[eE][+-]?\d+)?|\.\d+)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
    r"|(?P<mark>\*\*|//|<=|>=|==|!=|[-+*/%<>(),=&|~]))"
)


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
CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("true", "True"), ex.true),
    **dict.fromkeys(("false", "False"), ex.false),
}
# Marks between operands: how tightly they bind, and what they compute.
BETWEEN: dict[str, tuple[int, Callable[..., Any]]] = {
    "|": (1, any_of),
    "&": (2, all_of),
    "==": (3, related(ex.Eq)),
    "!=": (3, related(ex.Ne)),
    "<": (3, related(ex.Lt)),
    "<=": (3, related(ex.Le)),
    ">": (3, related(ex.Gt)),
    ">=": (3, related(ex.Ge)),
    "+": (4, added),
    "-": (4, lambda left, right: added(left, -right)),
    "*": (5, multiplied),
    "/": (5, divided),
    "//": (5, ex.FloorDiv),
    "%": (5, ex.Mod),
}
SIGN_BINDING = 6
NAME = re.compile(r"[A-Za-z_]\w{0,63}\Z", re.ASCII)


class ExpressionReader:
    """Reads expressions; `symbol(name, assumptions)` gives the symbol of a name."""

    def __init__(self, symbol: Callable[[str, dict[str, bool]], Any]) -> None:
        self.symbol = symbol
        self.known: dict[str, Any] = {}

    def read(self, text: str) -> Any:
        found = self.known.get(text)
        if found is None:
            if len(text) > MOST_LENGTH:
                raise refuse("an expression is too long")
            try:
                found = Parser(text, self.symbol).parse()
            except (ArithmeticError, TypeError, ValueError, AttributeError) as failure:
                raise refuse(
                    f"the expression {text[:80]!r} has no value ({type(failure).__name__})"
                ) from None
            self.known[text] = found
        return found


class Parser:
    """One expression; operators by how tightly they bind."""

    def __init__(self, text: str, symbol: Callable[[str, dict[str, bool]], Any]) -> None:
        self.text = text
        self.symbol = symbol
        self.tokens = self.split()
        self.place = 0
        self.depth = 0

    def split(self) -> list[tuple[str, str]]:
        tokens: list[tuple[str, str]] = []
        place, text = 0, self.text.rstrip()
        while place < len(text):
            match = TOKEN.match(text, place)
            if match is None:
                raise self.wrong()
            kind = str(match.lastgroup)
            tokens.append((kind, match.group(kind)))
            place = match.end()
        if len(tokens) > 8 * MOST_NODES:
            raise refuse("an expression has too many parts")
        return [*tokens, ("end", "")]

    def wrong(self) -> Exception:
        return refuse(f"{self.text[:80]!r} is no expression")

    def peek(self) -> str:
        kind, text = self.tokens[self.place]
        return text if kind == "mark" else ""

    def take(self, mark: str = "") -> str:
        kind, text = self.tokens[self.place]
        if mark and (kind != "mark" or text != mark):
            raise self.wrong()
        self.place += 1
        return text

    def parse(self) -> Any:
        result = self.operation(0)
        if self.tokens[self.place][0] != "end" or type(result) is tuple:
            raise self.wrong()
        return result

    def operation(self, binding: int) -> Any:
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise refuse("an expression is nested too deeply")
        left = self.operand()
        while True:
            known = BETWEEN.get(self.peek())
            if known is None or known[0] <= binding:
                break
            self.take()
            left = known[1](left, self.operation(known[0]))
        self.depth -= 1
        return left

    def operand(self) -> Any:
        kind, text = self.tokens[self.place]
        if kind == "mark" and text in "+-~":
            self.take()
            value = self.operation(SIGN_BINDING)
            if text == "~":
                return ex.negate(truth(value))
            return -value if text == "-" else value
        if kind == "mark" and text == "(":
            self.take()
            value = self.operation(0)
            self.take(")")
        elif kind == "number":
            self.take()
            value = self.number(text)
        elif kind == "name":
            self.take()
            value = self.named(text)
        else:
            raise self.wrong()
        if self.peek() == "**":
            self.take()
            # The power of a power is taken first, and a sign may stand before it.
            value = power(value, self.operation(SIGN_BINDING))
        return value

    def number(self, text: str) -> Any:
        if len(text) > 80:
            raise refuse("a number of an expression is too large")
        return ex.Integer(int(text)) if text.isdigit() else ex.Float(float(text))

    def named(self, name: str) -> Any:
        if self.peek() != "(":
            if name in CONSTANTS:
                return CONSTANTS[name]
            return self.symbol(name, {})
        self.take("(")
        if name in ("Symbol", "Integer", "Float", "Rational"):
            return self.literal(name)
        known = FUNCTIONS.get(name)
        if known is None:
            raise refuse(f"the expression {self.text[:80]!r} calls {name[:40]!r}")
        arguments: list[Any] = []
        while self.peek() != ")":
            arguments.append(self.operation(0))
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        function, fewest, most = known
        if not fewest <= len(arguments) <= most:
            raise self.wrong()
        if function not in (chosen,) and any(type(each) is tuple for each in arguments):
            raise self.wrong()
        return function(*arguments)

    def literal(self, name: str) -> Any:
        """`Symbol('s0', integer=True)`, `Integer(3)`, `Rational(1, 2)`, `Float('0.5', ...)`."""
        values: list[Any] = []
        options: dict[str, Any] = {}
        while self.peek() != ")":
            option = ""
            if self.tokens[self.place][0] == "name" and self.tokens[self.place + 1][1] == "=":
                option = self.take()
                self.take("=")
            value = self.plain()
            if option:
                options[option] = value
            else:
                values.append(value)
            if self.peek() != ")":
                self.take(",")
        self.take(")")
        if name == "Symbol":
            return self.made_symbol(values, options)
        if name == "Float" and len(values) == 1:
            return ex.Float(float(values[0]))
        if name == "Integer" and len(values) == 1 and type(values[0]) is int:
            return small(ex.Integer(values[0]))
        if name == "Rational" and len(values) == 2 and all(type(each) is int for each in values):
            return divided(ex.Integer(values[0]), ex.Integer(values[1]))
        raise self.wrong()

    def made_symbol(self, values: list[Any], options: dict[str, Any]) -> Any:
        given = {key: value for key, value in options.items() if key in ASSUMPTIONS}
        if len(values) != 1 or type(values[0]) is not str or not NAME.match(values[0]):
            raise self.wrong()
        if any(type(value) is not bool for value in given.values()):
            raise self.wrong()
        return self.symbol(values[0], given)

    def plain(self) -> Any:
        """A number, text or truth value inside a literal."""
        sign = 1
        while self.peek() == "-":
            self.take()
            sign = -sign
        kind, text = self.tokens[self.place]
        self.place += 1
        if kind == "text" and len(text) <= 80 and sign == 1:
            return text[1:-1]
        if kind == "name" and text in ("True", "False") and sign == 1:
            return text == "True"
        if kind == "number" and len(text) <= 80:
            return sign * (int(text) if text.isdigit() else float(text))
        raise self.wrong()
