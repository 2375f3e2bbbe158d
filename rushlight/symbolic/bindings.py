"""Where a graph's node makes symbols known that stand for data: paths from its value to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.base.pytree import SequenceKey
from rushlight.symbolic.numbers import SymBool, SymNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rushlight.symbolic.protocols import Expr, Symbol

Path = tuple[Any, ...]


@dataclass(frozen=True)
class CallMethodKey:
    """The step from a value to what a method of it gives."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}()"

    def get(self, value: Any) -> Any:
        return getattr(value, self.name)()


@dataclass(frozen=True)
class ConvertIntKey:
    """The step from a boolean to 0 or 1."""

    def __str__(self) -> str:
        return ".cast_symbool_to_symint_guardless()"

    def get(self, value: Any) -> int:
        return int(value)


@dataclass(frozen=True)
class DivideByKey:
    """The step from a multiple of an integer to that integer."""

    divisor: int

    def __str__(self) -> str:
        return f".__floordiv__({self.divisor})"

    def get(self, value: Any) -> Any:
        return value // self.divisor


def numbers_in(value: Any, path: Path) -> Iterator[tuple[Expr, Path]]:
    """The expressions of a value, each with how it is read."""
    if isinstance(value, SymBool):
        expr = value.node.expr
        if len(expr.args) == 2 and expr.args[0].is_Symbol:
            # A boolean that depends on data is `symbol == 1`.
            yield expr.args[0], (*path, ConvertIntKey())
    elif isinstance(value, SymNumber):
        yield value.node.expr, path
    elif isinstance(value, (list, tuple)):
        for place, item in enumerate(value):
            yield from numbers_in(item, (*path, SequenceKey(place)))
    elif hasattr(value, "storage_offset") and value.layout.name == "strided":
        for name in ("size", "stride", "storage_offset"):
            yield from numbers_in(getattr(value, name)(), (*path, CallMethodKey(name)))


def unbacked_bindings(value: Any, fresh: Iterable[Symbol]) -> dict[Symbol, Path]:
    """How each of the fresh symbols is read from a value; those that it does not hold are not
    there."""
    wanted = set(fresh)
    found: dict[Symbol, Path] = {}
    for expr, path in numbers_in(value, ()):
        if expr in wanted:
            found.setdefault(expr, path)
            continue
        factor, symbol = expr.as_coeff_Mul()
        if symbol in wanted and factor.is_Integer and int(factor) > 1:
            found.setdefault(symbol, (*path, DivideByKey(int(factor))))
    return found
