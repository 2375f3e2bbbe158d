"""Marks that user code carries for capture: what to leave alone, what to put in graphs as it is."""

from __future__ import annotations

import types
from typing import Any

__all__ = ["ALLOWED", "COMPILING", "allow_in_graph", "disable", "graph_break", "is_disabled"]

# Callables that are nodes of a graph; capture does not look inside.
ALLOWED: set[Any] = set()
# Functions that tell code whether it is being compiled: true in captured code.
COMPILING: set[Any] = set()


def allow_in_graph(fn: Any) -> Any:
    """Put calls of a function, or of each in a list, into graphs as they are."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(item) for item in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    ALLOWED.add(fn)
    return fn


def is_allowed(fn: Any) -> bool:
    # Objects of the user's may have a `__hash__` of their own, or none.
    return isinstance(fn, (types.FunctionType, types.BuiltinFunctionType, type)) and fn in ALLOWED


def graph_break(msg: str = "") -> None:
    """End the graph here, where code is captured; else nothing."""


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that runs as it is: capture ends before a call of it."""
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)

    import functools

    if isinstance(fn, type):
        fn._capture_disable = True  # type: ignore[attr-defined]
        return fn

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    disabled._capture_disable = True  # type: ignore[attr-defined]
    disabled._torchdynamo_orig_callable = fn  # type: ignore[attr-defined]
    return disabled


def is_disabled(fn: Any) -> bool:
    return getattr(fn, "_capture_disable", False) is True
