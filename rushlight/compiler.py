"""torch.compiler: questions and marks that code may carry, whether or not anything compiles it."""

from __future__ import annotations

from typing import Any

__all__ = ["disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset"]


def is_compiling() -> bool:
    """Whether the caller is being compiled: never true of code that runs."""
    return False


def is_dynamo_compiling() -> bool:
    return False


def is_exporting() -> bool:
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as one to run as it is; it already does."""
    if fn is None:
        return lambda function: function
    return fn


def reset() -> None:
    """Forget compiled code: there is none."""


def cudagraph_mark_step_begin() -> None:
    """Nothing to mark: there are no device graphs."""
