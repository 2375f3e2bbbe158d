"""Errors of symbolic shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.symbolic.protocols import Expr
    from rushlight.symbolic.shapeenv import ShapeEnv


class GuardOnDataDependentSymNode(RuntimeError):
    """A question about a value that is not known until the graph runs."""

    def __init__(self, cond: Expr, message: str) -> None:
        super().__init__(message)
        self.cond = cond


class ConstraintViolationError(RuntimeError):
    """What was asked of a dimension does not hold."""


class PendingUnbackedSymbolNotFound(RuntimeError):
    """A symbol was made for data that no value of the graph gives."""


def data_dependent(env: ShapeEnv, expr: Expr, unhinted: Expr, number: bool) -> RuntimeError:
    """The error for an undecidable question; `number` for one that asks for an integer."""
    task = "extract specialized integer from" if number else "guard on"
    sizes = sorted(
        (symbol.name for symbol in expr.free_symbols if symbol in env.size_like),
    )
    advice = (
        ""
        if number
        else "consider using data-dependent friendly APIs such as guard_or_false, "
        "guard_or_true and statically_known_true."
    )
    text = (
        f"Could not {task} data-dependent expression {expr} (unhinted: {unhinted}).  "
        f"(Size-like symbols: {', '.join(sizes) or 'none'})\n\n{advice}"
    )
    from rushlight.symbolic.guards import user_stack

    stack = user_stack()
    if stack:
        file, line, function = stack[0]
        text += f"\nCaused by: ({file}:{line} in {function})"
    return GuardOnDataDependentSymNode(expr, text)
