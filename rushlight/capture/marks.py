"""Marks that user code carries for capture: what to leave alone, what to put in graphs as it is."""

from __future__ import annotations

import types
from typing import Any

__all__ = [
    "ALLOWED", "COMPILING", "CONSTANT", "DYNAMIC", "MAYBE_DYNAMIC", "STATIC", "SUBSTITUTES",
    "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph", "graph_break",
    "is_allowed", "is_disabled", "nested_compile_region", "substitute_in_graph",
]  # fmt: skip

# Callables that are nodes of a graph; capture does not look inside.
ALLOWED: set[Any] = set()
# Functions whose result is computed while code is captured, and taken as a constant.
CONSTANT: set[Any] = set()
# Functions that stand for others in captured code.
SUBSTITUTES: dict[Any, Any] = {}
# Functions that tell code whether it is being compiled: true in captured code.
COMPILING: set[Any] = set()
# Attributes of tensors by torch's names: sizes to take as symbols, as (dim, least, most), those
# that may be, and those that are constants.
DYNAMIC = "_dynamo_dynamic_range"
MAYBE_DYNAMIC = "_dynamo_weak_dynamic_indices"
STATIC = "_dynamo_static_indices"


def allow_in_graph(fn: Any) -> Any:
    """Put calls of a function, or of each in a list, into graphs as they are."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(item) for item in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    ALLOWED.add(fn)
    return fn


def assume_constant_result(fn: Any) -> Any:
    """Take what a function gives while code is captured as a constant. Nothing guards it."""
    CONSTANT.add(fn)
    return fn


def substitute_in_graph(
    original_fn: Any, *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Any:
    """A decorator: in captured code the decorated function stands for `original_fn`."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function, not {original_fn!r}")

    def mark(fn: Any) -> Any:
        if not isinstance(fn, types.FunctionType):
            raise TypeError(f"substitute_in_graph expects a Python function, not {fn!r}")
        if not skip_signature_check:
            check_signatures(original_fn, fn)
        if original_fn in SUBSTITUTES:
            raise ValueError(f"there is a substitute for {original_fn!r} already")
        SUBSTITUTES[original_fn] = fn
        return fn

    return mark


def check_signatures(original: Any, fn: Any) -> None:
    import inspect

    try:
        wanted = inspect.signature(original)
    except (TypeError, ValueError):
        return
    names = [list(signature.parameters) for signature in (wanted, inspect.signature(fn))]
    if names[0] != names[1]:
        raise TypeError(
            f"the substitute takes {names[1]}, {original!r} takes {names[0]}; give both the same "
            "parameters, or pass skip_signature_check=True"
        )


def disallow_in_graph(fn: Any) -> Any:
    """Take back `allow_in_graph`: capture looks inside again."""
    if isinstance(fn, (list, tuple)):
        return [disallow_in_graph(item) for item in fn]
    ALLOWED.discard(fn)
    return fn


def nested_compile_region(fn: Any = None) -> Any:
    """A function whose calls are each one node with a graph of its own, inside a larger graph."""
    if fn is None:
        return nested_compile_region

    import functools

    @functools.wraps(fn)
    def region(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    region._nested_region = fn  # type: ignore[attr-defined]
    return region


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
