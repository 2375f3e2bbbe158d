"""`offered`: public Python functions that modes and subclasses may handle instead.

An override is told of the function itself, with the arguments that have no default by position and
all the others by name, whichever way the caller wrote them. The code that asks is generated for
the function's own signature, on its first call: a plain call costs one more Python call.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from rushlight.core.dispatch import ORDINARY, QUIET, ask
from rushlight.core.state import LOCAL, PROCESS
from rushlight.core.tensor import PLAIN

__all__ = ["offered"]

KNOWN = PLAIN | ORDINARY


def not_yet(*args: Any, **kwargs: Any) -> Any:
    """The code that a function has until its first call."""
    specialise(public)  # type: ignore[name-defined]  # noqa: F821
    return public(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def offered(function: Any, module: str) -> Any:
    """`function`, as a public name of `module`, after asking the overrides in force."""
    names = {"function": function, "specialise": specialise, "ask": ask, "KNOWN": KNOWN}
    names |= {"QUIET": QUIET, "PROCESS": PROCESS, "LOCAL": LOCAL, "__name__": module}
    made: Any = FunctionType(not_yet.__code__, names, function.__name__)
    names["public"] = made
    made.__qualname__ = function.__name__
    made.__doc__ = function.__doc__
    made.__wrapped__ = function
    return made


def specialise(public: Any) -> None:
    """Give a function the code for its signature."""
    function = public.__wrapped__
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    required = names[: len(names) - len(defaults)]
    options = names[len(required) :]
    keywords = code.co_varnames[len(names) : len(names) + code.co_kwonlyargcount]
    absent = [name for name, value in zip(options, defaults, strict=True) if value is None]
    checks = [
        f"type({name}) not in KNOWN and type({name}) not in QUIET" for name in (*required, *absent)
    ]
    checks.append("PROCESS.special and LOCAL.state.function_modes")
    by_name = [f"{name}={name}" for name in keywords]
    passed = ", ".join([*names, *by_name])
    head = ", ".join([*names, *(["*", *keywords] if keywords else [])])
    args = "".join(f"{name}, " for name in required)
    kwargs = ", ".join(f"{name!r}: {name}" for name in (*options, *keywords))
    text = (
        f"def {function.__name__}({head}):\n"
        f"    if {' or '.join(checks)}:\n"
        f"        return ask(public, function, ({args}), {{{kwargs}}})\n"
        f"    return function({passed})\n"
    )
    made: dict[str, Any] = {}
    exec(compile(text, f"<rushlight {public.__module__}.{function.__name__}>", "exec"), made)
    # The code last: until then another thread calls what was there before.
    public.__defaults__ = function.__defaults__
    public.__kwdefaults__ = function.__kwdefaults__
    public.__code__ = made[function.__name__].__code__
