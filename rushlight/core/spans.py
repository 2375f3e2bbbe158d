"""Compiled code under a profiler.

What generated functions call does not pass the dispatcher, where a profiler listens. While one runs
anywhere, compiled code therefore calls wrappers that report spans; else it calls native functions
themselves and pays nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

from rushlight.core.state import LOCAL

__all__ = ["Reporting", "register", "reported", "start", "stop"]


class Reporting(Protocol):
    """Compiled code that can call wrappers of what it calls."""

    def report(self, is_wanted: bool) -> None: ...


LIVE: weakref.WeakSet[Reporting] = weakref.WeakSet()
LOCK = threading.RLock()


class Running:
    """How many profilers run."""

    count = 0


def register(code: Reporting) -> None:
    """Compiled code has been made."""
    with LOCK:
        LIVE.add(code)
        if Running.count:
            code.report(True)


def start() -> None:
    """A profiler begins."""
    with LOCK:
        Running.count += 1
        if Running.count == 1:
            switch(True)


def stop() -> None:
    with LOCK:
        Running.count -= 1
        if not Running.count:
            switch(False)


def switch(is_wanted: bool) -> None:
    for code in list(LIVE):
        code.report(is_wanted)


def reported(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """The function inside a span of the thread's profiler, if it has one."""

    def run(*args: Any, **kwargs: Any) -> Any:
        profiler = LOCAL.state.profiler
        if profiler is None or not profiler.ops:
            return function(*args, **kwargs)
        span = profiler.begin(label)
        try:
            return function(*args, **kwargs)
        finally:
            profiler.end(span)

    return run
