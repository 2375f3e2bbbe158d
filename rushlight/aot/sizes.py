"""Views of symbolic sizes at a call: its arguments say what the symbols are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rushlight.aot.metadata import Facts, geometry_of, has_symbols
from rushlight.core.functional import ViewStep
from rushlight.core.tensor import Tensor
from rushlight.symbolic.numbers import NUMBERS

__all__ = ["Sizes", "with_numbers"]

Numbers = Mapping[Any, int]


@dataclass
class Sizes:
    """Where arguments have the values of symbols: (symbol, argument, place in its geometry)."""

    places: list[tuple[Any, int, int]]

    @staticmethod
    def of(args: Sequence[Any]) -> Sizes:
        return Sizes(
            [
                (number, position, place)
                for position, value in enumerate(args)
                for place, number in enumerate(flat_geometry(value))
                if isinstance(number, NUMBERS)
            ]
        )

    def read(self, args: Sequence[Any]) -> Numbers:
        found: dict[Any, int] = {}
        for number, position, place in self.places:
            # What is known of symbols may have changed since.
            expr = number.node.expr
            if expr.is_Symbol and expr not in found:
                found[expr] = flat_geometry(args[position])[place]
        return found


def flat_geometry(value: object) -> list[Any]:
    geometry = geometry_of(value) if isinstance(value, Tensor) else None
    return [] if geometry is None else [*geometry[0], *geometry[1], geometry[2]]


def with_numbers(facts: Facts, numbers: Numbers) -> Facts:
    """Facts whose views have a call's numbers in place of symbols."""
    return replace(
        facts,
        inputs=[
            replace(entry, moves=resolved_steps(entry.moves, numbers)) if entry.moves else entry
            for entry in facts.inputs
        ],
        outputs=[
            replace(entry, chain=resolved_steps(entry.chain, numbers)) if entry.chain else entry
            for entry in facts.outputs
        ],
    )


def resolved_steps(steps: tuple[ViewStep, ...], numbers: Numbers) -> tuple[ViewStep, ...]:
    """The same steps where a symbol's value is not known."""
    try:
        return tuple(
            [
                ViewStep(step.op, resolved(step.args, numbers), step.number, step.quiet)
                if has_symbols(step.args)
                else step
                for step in steps
            ]
        )
    except KeyError:
        return steps


def resolved(value: Any, numbers: Numbers) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)([resolved(item, numbers) for item in value])
    if not isinstance(value, NUMBERS):
        return value
    from rushlight.symbolic.expressions import evaluate

    return evaluate(value.node.expr, numbers)
