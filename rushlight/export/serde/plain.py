"""Symbols of a file where there is no sympy: enough to read a program and to check its inputs.

Expressions are evaluated and, where they are linear in one symbol, solved; nothing is simplified.
What a computation with such numbers would decide is decided by the values of the example.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from rushlight.export.serde.parsing import Parser
from rushlight.export.serde.schema import Choice, Record, refuse
from rushlight.symbolic.numbers import SymBool, SymFloat, SymInt, SymNumber
from rushlight.symbolic.ranges import ValueRanges, int_oo

__all__ = ["PlainExpr", "PlainSymbols"]

MOST_EXPONENT = 64
BITS = 256


def power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > MOST_EXPONENT or (isinstance(base, int) and base.bit_length() > BITS):
        raise refuse("a power of an expression is too large")
    return base**exponent


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": lambda *terms: sum(terms),
    "Mul": lambda *factors: math.prod(factors),
    "Pow": power,
    "PowByNatural": power,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "ToFloat": float,
    "TruncToInt": int,
    "FloorToInt": math.floor,
    "CeilToInt": math.ceil,
    "Max": max,
    "Min": min,
    "Abs": abs,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
    "Eq": operator.eq,
    "Ne": operator.ne,
    "And": lambda *conditions: all(conditions),
    "Or": lambda *conditions: any(conditions),
    "Not": operator.not_,
    "OpaqueUnaryFn_sqrt": math.sqrt,
    "Sub": operator.sub,
    "Div": operator.truediv,
    "Neg": operator.neg,
}


class PlainExpr:
    """A tree of functions, numbers and symbols."""

    __slots__ = ("args", "free_symbols", "head", "text")

    def __init__(self, head: Any, args: tuple[Any, ...] = ()) -> None:
        # A name of FUNCTIONS; of a symbol its own name, of a number that.
        self.head = head
        self.args = args
        self.free_symbols: frozenset[PlainExpr] = frozenset()
        self.text = str(head)
        if args:
            self.free_symbols = frozenset().union(*[part.free_symbols for part in args])
            self.text = self.readable()
        elif isinstance(head, str):
            self.free_symbols = frozenset((self,))

    @property
    def is_Symbol(self) -> bool:
        return isinstance(self.head, str) and not self.args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlainExpr) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def value(self, values: Mapping[str, Any]) -> Any:
        if self.args:
            return FUNCTIONS[self.head](*[part.value(values) for part in self.args])
        return values[self.head] if isinstance(self.head, str) else self.head

    # -- what checks of inputs ask -----------------------------------------------------------------

    def linear(self) -> tuple[int, int, PlainExpr] | None:
        """(offset, slope, symbol); None for an expression of another form."""
        if len(self.free_symbols) != 1:
            return None
        (symbol,) = self.free_symbols
        try:
            values = [self.value({symbol.head: place}) for place in (0, 1, 2, 3, 7)]
        except (ArithmeticError, ValueError):
            return None
        if not all([type(value) is int for value in values]):
            return None
        offset, slope = values[0], values[1] - values[0]
        is_line = all([values[n] == offset + slope * x for n, x in enumerate((0, 1, 2, 3, 7))])
        return (offset, slope, symbol) if is_line and slope else None

    def as_coeff_Add(self) -> tuple[int, PlainExpr]:
        found = self.linear()
        if found is None or found[0] == 0:
            return 0, self
        offset, slope, symbol = found
        return offset, product(slope, symbol)

    def as_coeff_Mul(self) -> tuple[int, PlainExpr]:
        found = self.linear()
        return (1, self) if found is None or found[0] else (found[1], found[2])

    def xreplace(self, values: Mapping[PlainExpr, Any]) -> Any:
        return self.value({symbol.head: value for symbol, value in values.items()})

    def readable(self) -> str:
        found = self.linear()
        if found is None:
            return f"{self.head}({', '.join([part.text for part in self.args])})"
        offset, slope, symbol = found
        text = symbol.text if slope == 1 else f"{slope}*{symbol.text}"
        if offset:
            text += f" {'+' if offset > 0 else '-'} {abs(offset)}"
        return text


def product(slope: int, symbol: PlainExpr) -> PlainExpr:
    return symbol if slope == 1 else PlainExpr("Mul", (PlainExpr(slope), symbol))


def called(head: str, arguments: list[PlainExpr]) -> PlainExpr:
    if head not in FUNCTIONS or not arguments:
        raise refuse(f"an expression calls {head[:40]!r}, which is not known")
    return PlainExpr(head, tuple(arguments))


class PlainNode:
    """The node of a number of a file. Comparisons are decided by the example."""

    NAMES = {
        "add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "FloorDiv", "mod": "Mod",
        "truediv": "IntTrueDiv", "pow": "Pow", "max": "Max", "min": "Min",
    }  # fmt: skip
    COMPARISONS = {
        "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le,
        "gt": operator.gt, "ge": operator.ge,
    }  # fmt: skip

    def __init__(self, expr: PlainExpr, symbols: PlainSymbols) -> None:
        self.expr = self._expr = expr
        self.symbols = symbols
        self.shape_env = None

    def __str__(self) -> str:
        return str(self.expr)

    @property
    def hint(self) -> Any:
        return self.expr.value(self.symbols.examples())

    def compute(self, name: str, other: Any) -> Any:
        if name in self.COMPARISONS:
            value: Any = other.node.hint if isinstance(other, SymNumber) else other
            return self.COMPARISONS[name](self.hint, value)
        part = other.node.expr if isinstance(other, SymNumber) else PlainExpr(other)
        return SymInt(PlainNode(PlainExpr(self.NAMES[name], (self.expr, part)), self.symbols))  # type: ignore[arg-type]

    def compute_reflected(self, name: str, other: Any) -> Any:
        made = PlainExpr(self.NAMES[name], (PlainExpr(other), self.expr))
        return SymInt(PlainNode(made, self.symbols))  # type: ignore[arg-type]

    def guard_bool(self, file: str, line: int) -> bool:
        return bool(self.hint)

    def settled(self) -> Any:
        return None if self.expr.free_symbols else self.expr.value({})


class PlainSymbols:
    """Makes the numbers that a file describes."""

    shape_env = None

    def __init__(self, ranges: dict[str, Record]) -> None:
        self.known: dict[str, PlainExpr] = {}
        self.hints: dict[str, float] = {}
        self.fresh: set[Any] = set()
        self.ranges = {name: range_of(name, found) for name, found in ranges.items()}

    def examples(self) -> dict[str, Any]:
        """A value for every symbol: the example's, or one that is not special."""
        return {name: self.hints.get(name, 4) for name in self.known}

    def constraints(self) -> dict[Any, ValueRanges]:
        found: dict[Any, ValueRanges] = {}
        for name, range_ in self.ranges.items():
            expr = self.read(name)
            if expr.free_symbols <= set(self.known.values()):
                found[expr] = range_
        return found

    def note_hints(self, value: Choice) -> None:
        if value.tag == "as_expr" and value.value.hint is not None:
            expr = self.read(value.value.expr_str)
            if expr.is_Symbol:
                self.hints.setdefault(expr.head, value.value.hint.value)

    def read(self, text: str) -> PlainExpr:
        found: PlainExpr = Parser(text, PlainExpr, self.symbol, called).parse()
        return found

    def symbol(self, name: str, assumptions: dict[str, bool]) -> PlainExpr:
        if name not in self.known:
            self.known[name] = PlainExpr(name)
        return self.known[name]

    # -- numbers -----------------------------------------------------------------------------------

    def number(self, value: Choice, plain: str, cls: Any) -> Any:
        if value.tag == plain:
            return value.value
        return cls(PlainNode(self.read(value.value.expr_str), self))

    def integer(self, value: Choice) -> Any:
        return self.number(value, "as_int", SymInt)

    def floating(self, value: Choice) -> Any:
        return self.number(value, "as_float", SymFloat)

    def boolean(self, value: Choice) -> Any:
        return self.number(value, "as_bool", SymBool)


def range_of(name: str, found: Record) -> ValueRanges:
    lower = -int_oo if found.min_val is None else found.min_val
    upper = int_oo if found.max_val is None else found.max_val
    if lower > upper:
        raise refuse(f"the range of {name[:40]!r} is empty")
    return ValueRanges(lower, upper)
