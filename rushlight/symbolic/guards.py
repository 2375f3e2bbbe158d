"""Guards as Python text over the inputs, and what goes with them: where from, how to check.

Invariant: the text produced is true exactly for inputs that have the shapes, equalities and
bounds the symbols stand for.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.facts import Facts
from rushlight.symbolic.numbers import Number, SymNumber
from rushlight.symbolic.ranges import ValueRanges, int_oo
from rushlight.symbolic.sources import SourceLike, TensorPropertySource

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr
    from rushlight.symbolic.shapeenv import ShapeEnv

Frame = tuple[str, int, str]

# What the text of guards names beside the built-in functions.
NAMESPACE: dict[str, Any] = {"math": math}


class ShapeGuard:
    """A relation that held for the example and was relied on."""

    __slots__ = ("expr", "stack")

    def __init__(self, expr: Expr, stack: Sequence[Frame] = ()) -> None:
        self.expr = expr
        self.stack = stack

    def __repr__(self) -> str:
        return f"ShapeGuard(expr={self.expr})"


class RuntimeAssert:
    """A relation between values that depend on data, to be checked when the graph runs.

    `written` is the relation as it was asked for; `expr` is one of the forms it has.
    """

    __slots__ = ("expr", "msg", "stack", "written")

    def __init__(
        self,
        expr: Expr,
        msg: str = "",
        stack: Sequence[Frame] = (),
        written: Expr | None = None,
    ) -> None:
        self.expr = expr
        self.msg = msg
        self.stack = stack
        self.written = expr if written is None else written

    def __repr__(self) -> str:
        return f"RuntimeAssert(expr={self.expr})"


def user_stack(limit: int = 4) -> list[Frame]:
    """The innermost frames outside the package: (file, line, function)."""
    frames: list[Frame] = []
    frame: Any = sys._getframe(1)
    while frame is not None and len(frames) < limit:
        if not frame.f_globals.get("__name__", "").startswith("rushlight."):
            code = frame.f_code
            frames.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back
    return frames


def format_guards(guards: Sequence[ShapeGuard], verbose: bool) -> str:
    """One guard a line."""
    lines = []
    for guard in guards:
        place = ""
        if verbose and guard.stack:
            file, line, function = guard.stack[0]
            place = f" ({file}:{line} in {function})"
        lines.append(f" - {guard.expr}{place}")
    return "\n".join(lines)


def ranges_only(env: ShapeEnv) -> Facts:
    """The environment's ranges and replacements without what guards said of sums and products."""
    facts = Facts(env.rank, env.unbacked_symbols)
    facts.ranges = env.facts.ranges
    facts.rewrites = {
        expr: value for expr, value in env.facts.rewrites.items() if expr in env.facts.replacements
    }
    return facts


def nontrivial(env: ShapeEnv, guards: Sequence[ShapeGuard] | None = None) -> list[Expr]:
    """Guards that the ranges do not imply, in terms of what symbols were replaced by."""
    facts = ranges_only(env)
    result: dict[Expr, None] = {}
    for guard in env.guards if guards is None else guards:
        if facts.decide(guard.expr) is None:
            result[facts.replace(guard.expr)] = None
    return list(result)


# ---------------------------------------------------------------- text

OPERATORS = {
    ex.Eq: "==",
    ex.Ne: "!=",
    ex.Lt: "<",
    ex.Le: "<=",
    ex.Gt: ">",
    ex.Ge: ">=",
}
CALLS = {
    ex.Max: "max",
    ex.Min: "min",
    ex.ToFloat: "float",
    ex.FloorToInt: "math.floor",
    ex.CeilToInt: "math.ceil",
    ex.TruncToInt: "math.trunc",
    ex.RoundToInt: "round",
    ex.RoundDecimal: "round",
    ex.OpaqueUnaryFn_sqrt: "math.sqrt",
    ex.sympy.Abs: "abs",
}
INFIX = {
    ex.FloorDiv: "//",
    ex.CleanDiv: "//",
    ex.Mod: "%",
    ex.IntTrueDiv: "/",
    ex.FloatTrueDiv: "/",
    ex.PowByNatural: "**",
    ex.FloatPow: "**",
}


def python_text(expr: Expr, name: Callable[[Expr], str]) -> str:
    """`expr` as Python, with `name(symbol)` for its symbols."""
    if expr.is_Symbol:
        return name(expr)
    kind = expr.func
    if kind is ex.Add:
        return sum_text(expr, name)
    if kind is ex.Mul:
        return product_text(expr, name)
    if kind is ex.Pow:
        base, exponent = (grouped(argument, name) for argument in expr.args)
        return f"{base}**{exponent}"
    if kind in INFIX:
        left, right = (grouped(argument, name) for argument in expr.args)
        return f"({left} {INFIX[kind]} {right})"
    if kind in OPERATORS:
        left, right = (python_text(argument, name) for argument in expr.args)
        return f"{left} {OPERATORS[kind]} {right}"
    if kind in CALLS:
        arguments = ", ".join(python_text(argument, name) for argument in expr.args)
        return f"{CALLS[kind]}({arguments})"
    if kind in (ex.And, ex.Or):
        word = " and " if kind is ex.And else " or "
        return word.join(f"({python_text(part, name)})" for part in expr.args)
    if kind is ex.Not:
        return f"not ({python_text(expr.args[0], name)})"
    if kind is ex.Piecewise:
        (positive, condition), (negative, _) = ex.branches(expr)
        texts = [python_text(part, name) for part in (positive, condition, negative)]
        return f"({texts[0]} if {texts[1]} else {texts[2]})"
    return repr(ex.plain(expr))


def grouped(expr: Expr, name: Callable[[Expr], str]) -> str:
    """As an operand of something that binds tighter than a sum or product."""
    text = python_text(expr, name)
    loose = expr.func in (ex.Add, ex.Mul) or (expr.is_number and expr.is_negative)
    return f"({text})" if loose else text


def sum_text(expr: Expr, name: Callable[[Expr], str]) -> str:
    result = ""
    for term in expr.as_ordered_terms():
        negative = bool(term.as_coeff_Mul()[0].is_negative)
        text = python_text(-term if negative and result else term, name)
        result = f"{result} {'-' if negative else '+'} {text}" if result else text
    return result


def product_text(expr: Expr, name: Callable[[Expr], str]) -> str:
    coefficient, rest = expr.as_coeff_Mul()
    factors = []
    for factor in rest.as_ordered_factors():
        text = python_text(factor, name)
        factors.append(f"({text})" if factor.is_Add else text)
    text = "*".join(factors)
    if coefficient is ex.One:
        return text
    if coefficient is ex.NegativeOne:
        return f"-{text}"
    return f"{ex.plain(coefficient)!r}*{text}"


# ---------------------------------------------------------------- inputs


def properties(value: Any, source: SourceLike) -> list[tuple[SourceLike, Any]]:
    """Each number that an input gives, with the expression that reads it."""
    if isinstance(value, (SymNumber, int, float)):
        return [(source, value)]
    if value is None or not hasattr(value, "storage_offset"):
        return []
    result: list[tuple[SourceLike, Any]] = []
    for kind in ("size", "stride"):
        for dim, number in enumerate(getattr(value, kind)()):
            result.append((TensorPropertySource(source, kind, dim), number))
    return [*result, (TensorPropertySource(source, "storage_offset"), value.storage_offset())]


def property_of(source: SourceLike) -> str:
    """Which property of a tensor a source reads; empty for a number."""
    return source.prop if isinstance(source, TensorPropertySource) else ""


def expression(number: Number) -> Expr:
    return number.node.expr if isinstance(number, SymNumber) else ex.constant(number)


def produce(
    env: ShapeEnv,
    placeholders: Sequence[Any],
    sources: Sequence[SourceLike],
    source_ref: Callable[[SourceLike], str],
    guards: Sequence[ShapeGuard] | None,
    ignore_static: bool,
) -> list[str]:
    """The text of all that must hold: what each input is, then guards, then ranges."""
    inputs = [
        (source, expression(number))
        for value, origin in zip(placeholders, sources)
        for source, number in properties(value, origin)
    ]
    readers: dict[Expr, SourceLike] = {}
    for source, expr in inputs:
        if expr.is_Symbol:
            readers.setdefault(expr, source)

    def name(symbol: Expr) -> str:
        reader = readers.get(symbol)
        if reader is None:
            known = env.var_to_sources.get(symbol)
            if not known:
                raise AssertionError(f"{symbol} is not a size, stride or offset of any input")
            return source_ref(known[0])
        return source_ref(reader)

    result: dict[str, None] = {}
    for source, expr in inputs:
        if readers.get(expr) is source:
            continue
        if expr.is_number and ignore_static and property_of(source):
            continue
        if ex.is_boolean(expr) and not expr.is_Atom:
            result[f"bool({source_ref(source)}) == ({python_text(expr, name)})"] = None
            continue
        result[f"{source_ref(source)} == {python_text(expr, name)}"] = None
    for guard in nontrivial(env, guards):
        result[python_text(ex.canonical(guard) if is_loose(guard) else guard, name)] = None
    add_other_readers(env, readers, env.guards if guards is None else guards)
    for symbol, source in readers.items():
        text = range_text(env.facts.ranges.get(symbol), source_ref(source), property_of(source))
        if text is not None:
            result[text] = None
    return list(result)


def add_other_readers(
    env: ShapeEnv, readers: dict[Expr, SourceLike], guards: Sequence[ShapeGuard]
) -> None:
    """Who reads the symbols in guards that no input gives, such as sizes of a view's base."""
    for guard in guards:
        for symbol in guard.expr.free_symbols:
            known = env.var_to_sources.get(symbol)
            if known and symbol not in env.facts.replacements:
                readers.setdefault(symbol, known[0])


def is_loose(expr: Expr) -> bool:
    """A relation whose sides still share a constant or a factor after replacement."""
    return expr.func in OPERATORS and any(side.is_Add for side in expr.args)


def range_text(range_: ValueRanges | None, reader: str, kind: str) -> str | None:
    if range_ is None:
        return None
    parts = [reader]
    if range_.lower != -int_oo and not (kind == "size" and range_.lower == 0):
        parts.insert(0, str(range_.lower))
    if range_.upper != int_oo:
        parts.append(str(range_.upper))
    return " <= ".join(parts) if len(parts) > 1 else None


def bind(placeholders: Sequence[Any], args: Sequence[Any]) -> dict[Expr, Any]:
    """Symbol -> value, from inputs that are a symbol or its negative."""
    result: dict[Expr, Any] = {}
    for placeholder, argument in zip(placeholders, args):
        expected = properties(placeholder, "")
        actual = properties(argument, "")
        for (_, number), (_, value) in zip(expected, actual):
            expr = expression(number)
            if (-expr).is_Symbol if not ex.is_boolean(expr) else False:
                expr, value = -expr, -value
            if not expr.is_Symbol:
                continue
            if result.setdefault(expr, value) != value:
                raise AssertionError(f"{expr} is {result[expr]} and {value}")
    return result
