"""Calls that run when their result is first asked for: `torch.jit._awaitable` and its relatives."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from rushlight.jit.ir.types import AwaitType, PyObjectType

__all__ = ["_Await", "_awaitable", "_awaitable_nowait", "_awaitable_wait"]

W = TypeVar("W")


class _Await(Generic[W]):
    """A call that has perhaps not been made yet; its result is kept."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None):
        self._func = func
        self._args = args
        self._kwargs = kwargs or {}
        self._result: Any = None
        self._is_done = False

    def wait(self) -> W:
        """The result; the call is made now, if it was not."""
        if not self._is_done:
            self._result = self._func(*self._args, **self._kwargs)
            self._is_done = True
        found: W = self._result
        return found

    def fn(self) -> Any:
        if self._func is None:
            raise RuntimeError("Await constructed as awaitable_nowait does not have fn")
        return self._func

    def args(self) -> tuple[Any, ...]:
        return self._args

    def is_nowait(self) -> bool:
        return self._func is None

    def type(self) -> AwaitType:
        return AwaitType(PyObjectType.get())


def _awaitable(func: Any, *args: Any, **kwargs: Any) -> _Await[Any]:
    """A call of `func` that is made when somebody asks for its result."""
    return _Await(func, args, kwargs)


def _awaitable_nowait(o: Any) -> _Await[Any]:
    """A result that is there already."""
    made: _Await[Any] = _Await(None, (o,))
    made._result, made._is_done = o, True
    return made


def _awaitable_wait(aw: Any) -> Any:
    """The result of an awaited call."""
    if not isinstance(aw, _Await):
        raise TypeError(
            f"_awaitable_wait() takes what torch.jit._awaitable gives, not a {type(aw).__name__}"
        )
    return aw.wait()
