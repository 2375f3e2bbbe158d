"""Symbolic sizes as plain data: expressions, what is known of their symbols, guards.

Symbols have the numbers of their first mention among the arguments of a compilation. What is known
of them before tracing is part of a cache's key, what tracing asks is kept with the entry: its
guards hold for every size that the entry may be used for.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rushlight.aot.encoding import Damaged, Unencodable

if TYPE_CHECKING:
    from rushlight.symbolic.numbers import SymNumber
    from rushlight.symbolic.protocols import Expr
    from rushlight.symbolic.ranges import ValueRanges
    from rushlight.symbolic.shapeenv import ShapeEnv

__all__ = ["Symbols"]

# What an environment was asked to do.
SETTINGS = (
    "specialize_zero_one", "duck_shape", "assume_static_by_default", "allow_scalar_outputs",
    "allow_dynamic_output_shape_ops", "prefer_deferred_runtime_asserts_over_guards",
)  # fmt: skip
ASSUMPTIONS = ("is_integer", "is_positive", "is_nonnegative")
TYPES = {"int": int, "float": float, "bool": bool}
# A power that a size is, and one that would take all memory.
LARGEST_EXPONENT = 64


class Symbols:
    """The symbols of an environment by number."""

    def __init__(self, env: ShapeEnv) -> None:
        self.env = env
        self.numbers: dict[Expr, int] = {}
        self.is_complete = False
        # Guards and assertions from here on belong to the entry.
        self.first_guard = len(env.guards)
        self.assertions = env.num_deferred_runtime_asserts

    # -- what is known -----------------------------------------------------------------------------

    def known(self) -> Any:
        """All that tracing can learn of the symbols without asking; no more are met after it."""
        env, facts = self.env, self.env.facts
        if env.frozen or env.guards_suppressed or env.runtime_asserts_frozen:
            raise Unencodable("an environment that notes no guards")
        self.is_complete = True
        guards = [facts.replace(guard.expr) for guard in env.guards]
        asserted = [facts.replace(one.expr) for one in env.runtime_asserts]
        rewrites = [(old, new) for old, new in facts.rewrites.items() if not old.is_Symbol]
        return {
            "settings": [getattr(env, name) for name in SETTINGS],
            "symbols": [self.symbol_facts(symbol) for symbol in self.numbers],
            "forms": self.related([(terms, *ends(vr)) for terms, vr in facts.forms.items()]),
            "unequal": self.related(facts.unequal),
            "truths": self.related(facts.truths.items()),
            "rewrites": self.related(rewrites),
            "guards": self.related([(guard,) for guard in (*guards, *asserted)]),
        }

    def symbol_facts(self, symbol: Expr) -> Any:
        facts = self.env.facts
        return [
            *[getattr(symbol, name) for name in ASSUMPTIONS],
            symbol in facts.size_like,
            *ends(facts.ranges[symbol]),
        ]

    def related(self, entries: Iterable[tuple[Any, ...]]) -> list[str]:
        """Facts that mention symbols of the arguments, in an order of their own."""
        found = set()
        for entry in entries:
            symbols = set[Any]().union(*[getattr(part, "free_symbols", ()) for part in entry])
            if any([symbol in self.numbers for symbol in symbols]):
                found.add(json.dumps([self.part(part) for part in entry]))
        return sorted(found)

    def part(self, value: Any) -> Any:
        return self.expression(value) if hasattr(value, "free_symbols") else value

    def hints(self) -> list[Any]:
        return [self.env.var_to_val[symbol] for symbol in self.numbers]

    # -- writing -----------------------------------------------------------------------------------

    def number(self, value: SymNumber) -> Any:
        node = value.node
        if node.shape_env is not self.env:
            raise Unencodable("a number of another environment")
        return [node.pytype.__name__, self.expression(node.expr)]

    def expression(self, expr: Expr) -> Any:
        if expr.is_Symbol:
            return {"symbol": self.place(expr)}
        from rushlight.symbolic import expressions as ex

        found = ex.plain(expr)
        if isinstance(found, int):
            return found
        name = names().get(expr.func)
        if name is not None:
            return [name, *[self.expression(part) for part in expr.args]]
        if getattr(expr, "is_Float", False):
            return {"float": float(expr).hex()}
        if getattr(expr, "is_Rational", False):
            return {"ratio": [int(expr.p), int(expr.q)]}  # type: ignore[attr-defined]
        raise Unencodable(f"the expression {expr}")

    def place(self, symbol: Expr) -> int:
        found = self.numbers.get(symbol)
        if found is None:
            if symbol in self.env.unbacked_symbols:
                raise Unencodable(f"the size {symbol}, which depends on data")
            if self.is_complete:
                raise Unencodable(f"the size {symbol}, which no argument has")
            found = self.numbers[symbol] = len(self.numbers)
        return found

    def guards(self) -> list[Any]:
        """What tracing asked of the sizes, as it was answered."""
        if self.env.num_deferred_runtime_asserts != self.assertions:
            raise Unencodable("assertions about sizes that depend on data")
        return [self.expression(guard.expr) for guard in self.env.guards[self.first_guard :]]

    # -- reading -----------------------------------------------------------------------------------

    def read_number(self, data: Any) -> Any:
        from rushlight.symbolic.node import SymNode

        name, expr = data
        return SymNode(self.read(expr), self.env, TYPES[name]).wrapped()

    def read(self, data: Any) -> Expr:
        from rushlight.symbolic import expressions as ex

        if type(data) is int or type(data) is bool:
            return ex.constant(data)
        if type(data) is dict and len(data) == 1:
            ((tag, contents),) = data.items()
            if tag == "symbol" and type(contents) is int and 0 <= contents < len(self.numbers):
                return list(self.numbers)[contents]
            if tag == "float":
                return ex.Float(float.fromhex(contents))
            if tag == "ratio":
                above, below = contents
                return ex.Integer(int(above)) / ex.Integer(int(below))
        if type(data) is list and data:
            kind = heads().get(data[0])
            if kind is not None:
                made: Expr = applied(kind, [self.read(part) for part in data[1:]])
                return made
        raise Damaged("no expression")

    def read_guards(self, data: Any) -> list[Expr] | None:
        """The guards of an entry; None where the sizes of now do not meet them."""
        from rushlight.symbolic import expressions as ex

        found = [self.read(guard) for guard in data]
        if all([ex.evaluate(guard, self.env.var_to_val) is True for guard in found]):
            return found
        return None

    def ask(self, guards: list[Expr]) -> None:
        """Note the guards, as tracing would have."""
        for guard in guards:
            self.env.evaluate_expr(guard)


def ends(range_: ValueRanges) -> tuple[str, str, bool]:
    return str(range_.lower), str(range_.upper), range_.is_float


@functools.cache
def heads() -> dict[str, Any]:
    """What expressions are made of, by name."""
    from rushlight.symbolic import expressions as ex

    found = {kind.__name__: kind for kind in ex.FUNCTIONS}  # type: ignore[attr-defined]
    return {**found, "Add": ex.Add, "Mul": ex.Mul, "Piecewise": ex.Piecewise, "pair": tuple}


@functools.cache
def names() -> dict[Any, str]:
    from rushlight.symbolic import expressions as ex

    found = {kind: name for name, kind in heads().items()}
    return {**found, ex.sympy.functions.elementary.piecewise.ExprCondPair: "pair"}


def applied(kind: Any, parts: list[Any]) -> Any:
    """An expression of its parts, simplified no more than it was."""
    from rushlight.symbolic import expressions as ex

    if kind in ex.RELATIONS:
        return ex.relation(kind, *parts)
    if kind in (ex.And, ex.Or, ex.CleanDiv, ex.Piecewise):
        return kind(*parts, evaluate=False)
    if kind is ex.Pow and not (parts[1].is_Integer and abs(parts[1].p) <= LARGEST_EXPONENT):
        raise Damaged("a power that no size is")
    return tuple(parts) if kind is tuple else kind(*parts)
