"""Grad modes as context managers and decorators (functions, generators, coroutines, classes)."""

from __future__ import annotations

import functools
from typing import Any

from rushlight.core.state import LAYER_PRE_PROXY, LOCAL, PROCESS, ThreadState

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def is_grad_enabled() -> bool:
    return LOCAL.state.grad


def is_inference_mode_enabled() -> bool:
    return LOCAL.state.inference


def write_grad(value: bool) -> None:
    state = LOCAL.state
    if PROCESS.special and state.pre_proxy is not None:
        note_switch(state, value)
    # Also where a signal raises before `set_grad` runs.
    state.grad = value
    state.set_grad(value)


def note_switch(state: ThreadState, value: bool) -> None:
    """Tell a recorder that sits above autograd of a switch."""
    if not state.excluded & LAYER_PRE_PROXY:
        state.pre_proxy.note_switch(write_grad, value)


def enter_grad(value: bool) -> bool:
    """Set grad mode on entering a context: not at all if that is interrupted. Returns the old."""
    state = LOCAL.state
    if PROCESS.special and state.pre_proxy is not None:
        note_switch(state, value)
    before = state.grad
    try:
        state.set_grad(value)
    except BaseException:
        state.grad = before
        state.refresh()
        raise
    return before


class Mode:
    """Base of modes: usable with `with`, as a decorator, and around a generator's every step."""

    def clone(self) -> Any:
        return type(self)()

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        raise NotImplementedError

    def __call__(self, function: Any) -> Any:
        import inspect

        if isinstance(function, type):
            import warnings

            warnings.warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
                stacklevel=2,
            )
            decorated: Any = function
            decorated.__init__ = self(decorated.__init__)
            return function
        if inspect.isgeneratorfunction(function):
            return around_generator(self.clone, function)

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inside


def around_generator(make_mode: Any, function: Any) -> Any:
    """The mode holds while the generator runs, not while its caller does."""

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        try:
            with make_mode():
                response = inner.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make_mode():
                        inner.close()
                    raise
                except BaseException as error:
                    with make_mode():
                        response = inner.throw(error)
                else:
                    with make_mode():
                        response = inner.send(request)
        except StopIteration as stop:
            return stop.value

    return generator


class NoParameterMode(Mode):
    """A mode that may also decorate without parentheses: `@no_grad`."""

    def __new__(cls, orig_func: Any = None) -> Any:
        made: Any = super().__new__(cls)
        if orig_func is None:
            return made
        made.__init__()
        return made(orig_func)


class no_grad(NoParameterMode):
    """Record no gradients inside.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    previous = False

    def __enter__(self) -> None:
        # `enter_grad` and `write_grad`, written out: this mode is entered often.
        state = LOCAL.state
        if PROCESS.special and state.pre_proxy is not None:
            note_switch(state, False)
        before = self.previous = state.grad
        try:
            state.set_grad(False)
        except BaseException:
            state.grad = before
            state.refresh()
            raise

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        state = LOCAL.state
        if state.pre_proxy is not None:
            note_switch(state, self.previous)
        state.grad = self.previous
        state.set_grad(self.previous)


class enable_grad(NoParameterMode):
    """Record gradients inside, whatever the surrounding mode."""

    def __init__(self) -> None:
        self.previous = True

    def __enter__(self) -> None:
        self.previous = enter_grad(True)

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        write_grad(self.previous)


class set_grad_enabled(Mode):
    """Set grad mode at once; as a context manager or decorator, restore it afterwards."""

    def __init__(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        self.previous = LOCAL.state.grad
        self.mode = mode
        write_grad(mode)

    def __call__(self, function: Any) -> Any:
        write_grad(self.previous)
        return super().__call__(function)

    def clone(self) -> Any:
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        write_grad(self.mode)

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        write_grad(self.previous)

    def __str__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class inference_mode(Mode):
    """Neither gradients nor version counting inside; results are inference tensors."""

    def __new__(cls, mode: Any = True) -> Any:
        made: Any = super().__new__(cls)
        if isinstance(mode, bool):
            return made
        made.__init__()
        return made(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self.previous: tuple[bool, bool] = (False, True)

    def clone(self) -> Any:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        state = LOCAL.state
        self.previous = (state.inference, state.grad)
        try:
            state.inference, state.grad = self.mode, not self.mode
            state.refresh()
        except BaseException:
            state.inference, state.grad = self.previous
            state.refresh()
            raise

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        state = LOCAL.state
        state.inference, state.grad = self.previous
        state.refresh()


class set_multithreading_enabled(Mode):
    """Whether backward may use worker threads. CPU backward never needs one."""

    def __init__(self, mode: bool) -> None:
        self.previous = LOCAL.state.multithreading
        self.mode = mode
        LOCAL.state.multithreading = mode

    def clone(self) -> Any:
        return set_multithreading_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        LOCAL.state.multithreading = self.previous
