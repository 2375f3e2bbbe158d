"""Calls that run in another thread: `torch.jit.fork` and `torch.jit.wait`.

The thread starts with the caller's modes (grad mode, profiler, hooks), as a backward's does.
"""

from __future__ import annotations

import threading
from typing import Any

from rushlight.core.state import LOCAL, active_tracer
from rushlight.futures import Future

__all__ = ["fork", "wait"]


def fork(func: Any, *args: Any, **kwargs: Any) -> Future:
    """Start `func(*args, **kwargs)`; the future holds what it returns or raises."""
    future = Future()
    if active_tracer() is not None:
        # A trace has one order of things: what is forked happens at once.
        future.set_result(func(*args, **kwargs))
        return future
    fields = LOCAL.state.snapshot()

    def target() -> None:
        LOCAL.state.install(fields)
        try:
            result = func(*args, **kwargs)
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=target, name="rushlight-fork", daemon=True).start()
    return future


def wait(future: Future) -> Any:
    """The value of a future, waiting for it if need be."""
    return future.wait()
