"""torch.futures: values that arrive later.

A `Future` is filled by one thread and waited for by others; callbacks run where it is filled.
"""

from __future__ import annotations

import threading
from types import GenericAlias
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A value, or an error, that is set once.

    >>> answer = Future()
    >>> later = answer.then(lambda done: done.value() + 1)
    >>> answer.set_result(41)
    >>> later.wait()
    42
    """

    # `Future[Tensor]` in annotations.
    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, *, devices: Any = None) -> None:
        if devices:
            raise ValueError(f"futures hold CPU values only; got devices={devices!r}")
        self.lock = threading.Lock()
        self.ready = threading.Event()
        self.callbacks: list[Any] = []
        self.result: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.ready.is_set()

    def wait(self) -> Any:
        """The value, once it is there; raises the error if that is what was set."""
        self.ready.wait()
        return self.value()

    def value(self) -> Any:
        if not self.ready.is_set():
            raise RuntimeError("the future has no value yet; call wait() first")
        if self.error is not None:
            raise self.error
        return self.result

    def then(self, callback: Any) -> Future:
        """A future of what `callback` returns when called with this one, once it is done."""
        following = Future()

        def run(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                following.set_exception(error)

        self.add_done_callback(run)
        return following

    def add_done_callback(self, callback: Any) -> None:
        with self.lock:
            if not self.ready.is_set():
                self.callbacks.append(callback)
                return
        callback(self)

    def set_result(self, result: Any) -> None:
        self.finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self.finish(None, result)

    def finish(self, result: Any, error: BaseException | None) -> None:
        with self.lock:
            if self.ready.is_set():
                raise RuntimeError("the future has been marked as completed before")
            self.result, self.error = result, error
            self.ready.set()
            callbacks, self.callbacks = self.callbacks, []
        for callback in callbacks:
            callback(self)


def collect_all(futures: list[Future]) -> Future:
    """A future of the list itself, done when every member is."""
    together = Future()
    if not futures:
        together.set_result([])
        return together
    left = [len(futures)]
    lock = threading.Lock()

    def one_done(done: Future) -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            together.set_result(list(futures))

    for future in futures:
        future.add_done_callback(one_done)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """The values of all futures; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
