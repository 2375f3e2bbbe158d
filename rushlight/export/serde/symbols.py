"""The symbols of a file: an environment that knows their ranges and the values in the example."""

from __future__ import annotations

import re
from typing import Any

from rushlight.export.serde.expressions import ExpressionReader
from rushlight.export.serde.schema import Choice, Record, refuse
from rushlight.symbolic import expressions as ex
from rushlight.symbolic.ranges import ValueRanges, int_oo
from rushlight.symbolic.shapeenv import ShapeEnv

__all__ = ["FileSymbols"]

KIND = re.compile(r"(zuf|zf|u|s)(\d{1,9})\Z")
MOST_SYMBOLS = 100_000


class FileSymbols:
    """Makes the numbers that a file describes."""

    def __init__(self, ranges: dict[str, Record]) -> None:
        self.shape_env = ShapeEnv(assume_static_by_default=True)
        self.expressions = ExpressionReader(self.symbol)
        self.known: dict[str, Any] = {}
        self.hints: dict[str, float] = {}
        # Symbols that depend on data and that no node has made yet.
        self.fresh: set[Any] = set()
        self.ranges = {name: self.range_of(name, found) for name, found in ranges.items()}

    def range_of(self, name: str, found: Record) -> ValueRanges:
        lower = -int_oo if found.min_val is None else found.min_val
        upper = int_oo if found.max_val is None else found.max_val
        if lower > upper:
            raise refuse(f"the range of {name[:40]!r} is empty")
        return ValueRanges(lower, upper)

    def constraints(self) -> dict[Any, ValueRanges]:
        """The ranges of symbols, and of expressions of them, that the graph has."""
        found = {}
        for name, range_ in self.ranges.items():
            symbol = self.known.get(name)
            if symbol is None and not name.isidentifier():
                expr = self.expressions.read(name)
                known = set(self.known.values())
                symbol = expr if expr.free_symbols <= known else None
            if symbol is not None:
                found[symbol] = range_
        return found

    # -- symbols -----------------------------------------------------------------------------------

    def note_hints(self, value: Choice) -> None:
        """Remember the value that a symbol has in the example."""
        if value.tag == "as_expr" and value.value.hint is not None:
            expr = value.value.expr_str
            match = re.match(r"(?:Symbol\(')?(\w{1,64})'?(?:,[^()]*)?\)?\Z", expr)
            if match is not None:
                self.hints.setdefault(match.group(1), value.value.hint.value)

    def symbol(self, name: str, assumptions: dict[str, bool]) -> Any:
        found = self.known.get(name)
        if found is None:
            if len(self.known) >= MOST_SYMBOLS:
                raise refuse("it has too many symbols")
            found = self.known[name] = self.made(name, assumptions)
        return found

    def made(self, name: str, assumptions: dict[str, bool]) -> Any:
        env = self.shape_env
        match = KIND.match(name)
        prefix = "s" if match is None else match.group(1)
        given = self.ranges.get(name)
        if prefix in ("zf", "zuf"):
            symbol = ex.Symbol(name, real=True)
            range_ = ValueRanges(-int_oo, int_oo, True)
        elif prefix == "u":
            symbol = ex.Symbol(name, integer=True)
            range_ = given or ValueRanges.unknown_int()
        else:
            range_ = given or ValueRanges(0, int_oo)
            # A bare name is a size; otherwise the file says what is known.
            signs = assumptions or {"positive": True}
            known = {sign: True for sign in ("positive", "nonnegative") if signs.get(sign)}
            if known and range_.lower < 1:
                # torch calls sizes positive even where they may be zero.
                known = {"nonnegative": True} if range_.lower == 0 else {}
            symbol = ex.Symbol(name, integer=True, **known)
        unbacked = prefix in ("u", "zuf")
        hint = None if unbacked else self.hint(name, range_, prefix == "zf")
        env.adopt_symbol(symbol, range_, hint)
        if match is not None:
            env.counts[prefix] = max(env.counts[prefix], int(match.group(2)) + 1)
        if unbacked:
            self.fresh.add(symbol)
            if given is not None and given.lower >= 0:
                env.constrain_size(symbol)
        return symbol

    def hint(self, name: str, range_: ValueRanges, is_float: bool) -> float:
        hint = self.hints.get(name)
        if is_float:
            return 2.5 if hint is None else float(hint)
        if type(hint) is not int or hint not in range_:
            # A size that is not special.
            hint = int(max(range_.lower, min(4, range_.upper)))
        return hint

    # -- numbers -----------------------------------------------------------------------------------

    def integer(self, value: Choice) -> Any:
        if value.tag == "as_int":
            return value.value
        expr = self.expressions.read(value.value.expr_str)
        if ex.is_boolean(expr) or not (expr.is_integer or expr.is_Integer):
            raise refuse(f"{value.value.expr_str[:80]!r} is no integer")
        return self.shape_env.create_symintnode(expr)

    def floating(self, value: Choice) -> Any:
        if value.tag == "as_float":
            return value.value
        expr = self.expressions.read(value.value.expr_str)
        if ex.is_boolean(expr):
            raise refuse(f"{value.value.expr_str[:80]!r} is no number")
        return self.shape_env.create_symfloatnode(expr)

    def boolean(self, value: Choice) -> Any:
        if value.tag == "as_bool":
            return value.value
        expr = self.expressions.read(value.value.expr_str)
        if not ex.is_boolean(expr) and expr not in (ex.true, ex.false):
            raise refuse(f"{value.value.expr_str[:80]!r} is no condition")
        return self.shape_env.create_symboolnode(expr)
