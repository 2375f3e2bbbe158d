"""Where the variables of a generated function come from that hold sizes.

Inputs tell the symbols of their shapes and strides, results of calls those that depend on data;
what is computed from symbols in another way than by products and sums has a variable of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.codegen.expressions import Inexpressible
from rushlight.codegen.extents import Atom, Extents
from rushlight.core.tensor import Tensor
from rushlight.symbolic.numbers import SymInt

__all__ = ["SizeReader"]

# An expression over symbols, its environment, the text that reads its value.
Reading = tuple[Any, Any, str]


class SizeReader:
    """The sizes of a program, and the lines that give their variables values."""

    def __init__(self, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.extents = Extents(self.computed)
        # Lines before everything else.
        self.first: list[str] = []
        # Where variables are made: the lines at first, then those of each call, in order.
        self.blocks: list[list[str]] = [self.first]
        self.homes: dict[str, int] = {}

    # -- reading -----------------------------------------------------------------------------------

    def read(self, number: Any) -> Any:
        """A size; raises `Inexpressible` where no variable tells it."""
        return number if type(number) is int else self.extents.read(number)

    def read_all(self, numbers: Iterable[Any]) -> tuple[Any, ...]:
        return tuple([self.read(number) for number in numbers])

    def knows(self, number: Any) -> bool:
        try:
            self.read(number)
        except Inexpressible:
            return False
        return True

    def computed(self, text: str, inside: list[Atom]) -> str:
        """A variable for what is computed from others."""
        return self.variable(text, max([self.homes[atom.name] for atom in inside], default=0))

    def variable(self, text: str, home: int) -> str:
        name = self.fresh("n")
        self.blocks[home].append(f"{name} = {text}")
        self.homes[name] = home
        return name

    # -- binding -----------------------------------------------------------------------------------

    def bind_inputs(self, inputs: list[tuple[str, Any]]) -> None:
        readings: list[Reading] = []
        for name, value in inputs:
            if isinstance(value, SymInt):
                self.homes[name] = 0
                readings.append((value.node.expr, value.node.shape_env, name))
            elif isinstance(value, Tensor):
                readings += readings_of(value, name)
        self.bind(readings, 0)

    def bind_tensor(self, value: Tensor, name: str, lines: list[str]) -> None:
        """Keep what only the result of a call tells."""
        readings = [entry for entry in readings_of(value, name) if not self.knows_expr(entry)]
        if readings:
            self.blocks.append(lines)
            self.bind(readings, len(self.blocks) - 1)

    def bind_number(self, value: SymInt, name: str, lines: list[str]) -> None:
        if not self.knows(value):
            self.blocks.append(lines)
            self.bind([(value.node.expr, value.node.shape_env, name)], len(self.blocks) - 1)

    def knows_expr(self, reading: Reading) -> bool:
        try:
            self.extents.expression(reading[0], reading[1])
        except Inexpressible:
            return False
        return True

    def bind(self, readings: list[Reading], home: int) -> None:
        """Let variables stand for symbols, as many as can be told, and for what is left."""
        known = self.extents.known
        for expr, env, text in readings:
            if expr.is_Symbol and expr not in known:
                self.extents.bind(expr, env, self.variable(text, home))
        for expr, env, text in readings:
            symbol, solution = self.solved(expr, text)
            if symbol is not None:
                self.extents.bind(symbol, env, self.variable(solution, home))
        for reading in readings:
            expr, env, text = reading
            if not self.knows_expr(reading):
                self.extents.bind(expr, env, self.variable(text, home))

    def solved(self, expr: Any, text: str) -> tuple[Any, str]:
        """The one symbol of a linear expression that is not known, and what it is."""
        from rushlight.symbolic.guards import python_text

        known = self.extents.known
        unknown = [symbol for symbol in expr.free_symbols if symbol not in known]
        if len(unknown) != 1 or not expr.is_polynomial(*unknown):
            return None, ""
        (symbol,) = unknown
        factor = expr.coeff(symbol)
        rest = expr - factor * symbol
        if not factor.is_Integer or not factor or symbol in rest.free_symbols:
            return None, ""
        left = text if not rest else f"({text} - ({python_text(rest, lambda s: known[s].name)}))"
        return symbol, f"{left} // {factor}"


def readings_of(value: Tensor, name: str) -> list[Reading]:
    """How the symbolic sizes and strides of a tensor are read, sizes first."""
    texts = [(number, f"{name}._array.shape[{at}]") for at, number in enumerate(value.shape)]
    for at, number in enumerate(value.stride()):
        texts.append((number, f"strides_of({name})[{at}]"))
    return [
        (number.node.expr, number.node.shape_env, text)
        for number, text in texts
        if isinstance(number, SymInt)
    ]
