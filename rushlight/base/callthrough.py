"""Calls that the library makes into user code while a compiled program runs something natively.

Such a call goes through the cache of the compiler that is at work, so that callbacks of a library
function are compiled though the function itself is not. Whoever owns such a call site asks
`count` first, a plain variable of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["callback", "watched"]

# How a callback is to be called; None where nobody watches.
CALLER: ContextVar[Callable[..., Any] | None] = ContextVar("caller", default=None)
# How many calls are watched now, in all threads.
count = 0


@contextmanager
def watched(caller: Callable[..., Any] | None) -> Iterator[None]:
    """Within the block callbacks are made by `caller(function, args, kwargs)`."""
    global count
    token = CALLER.set(caller)
    count += 1
    try:
        yield
    finally:
        count -= 1
        CALLER.reset(token)


def callback(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call user code from a call site of the library."""
    caller = CALLER.get()
    if caller is None:
        return function(*args, **kwargs)
    # What runs inside is the library's own again, until the next native call.
    with watched(None):
        return caller(function, args, kwargs)
