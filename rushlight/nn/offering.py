"""`offered`: public Python functions that modes and subclasses may handle instead.

An override is told of the function itself, with the arguments that have no default by position and
all the others by name, whichever way the caller wrote them.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.dispatch import call_function_mode, overriding, try_function_override
from rushlight.core.state import LAYER_FUNCTION_MODES, LOCAL, PROCESS
from rushlight.core.tensor import PLAIN

__all__ = ["offered"]

# What most arguments are, and what never overrides a function.
KNOWN = frozenset((*PLAIN, bool, int, float, str, tuple, list, type(None)))
ABSENT = object()


def offered(function: Any, module: str) -> Any:
    """`function`, as a public name of `module`, after asking the overrides in force."""

    def outer(first: Any = ABSENT, /, *args: Any, **kwargs: Any) -> Any:
        if PROCESS.special:
            state = LOCAL.state
            if state.function_modes and not state.excluded & LAYER_FUNCTION_MODES:
                args = args if first is ABSENT else (first, *args)
                return call_function_mode(state, outer, *arranged(function, args, kwargs))
        if type(first) not in KNOWN:
            return ask(outer, function, args if first is ABSENT else (first, *args), kwargs)
        if args:
            for value in args:
                if type(value) not in KNOWN:
                    return ask(outer, function, (first, *args), kwargs)
        elif not kwargs:
            return function(first)
        if not kwargs:
            return function(first, *args)
        for value in kwargs.values():
            if type(value) not in KNOWN:
                return ask(outer, function, (first, *args), kwargs)
        return function(first, *args, **kwargs)

    outer.__name__ = outer.__qualname__ = function.__name__
    outer.__doc__ = function.__doc__
    outer.__module__ = module
    outer.__wrapped__ = function  # type: ignore[attr-defined]
    return outer


def ask(outer: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call, by a subclass among the arguments if there is one."""
    if overriding(args, kwargs):
        handled, result = try_function_override(outer, *arranged(function, args, kwargs))
        if handled:
            return result
    return function(*args, **kwargs)


def arranged(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(args, kwargs) with every default filled in, in order of definition."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = function.__defaults__ or ()
    required = names[: len(names) - len(defaults)]
    given = dict(zip(names, args, strict=False))
    wrong = len(args) > len(names) or any(
        name in given or name not in (*names, *keywords) for name in kwargs
    )
    given.update(kwargs)
    if wrong or any(name not in given for name in required):
        function(*args, **kwargs)  # raises as a wrong call does
    options = dict(zip(names[len(required) :], defaults, strict=True))
    options |= {name: (function.__kwdefaults__ or {})[name] for name in keywords}
    return tuple([given.pop(name) for name in required]), options | given
