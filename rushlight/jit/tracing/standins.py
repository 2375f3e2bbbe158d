"""What tensors and modules answer while a trace runs.

Sizes are asked for by every program, and must cost nothing more for there being traces. So the
class `Tensor` has other methods while some thread traces, and its own again afterwards; `Module` is
called the long way, which marks where submodules begin and end. Code of the engine, and code of
threads that do not trace, gets the usual answers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

from rushlight.core.size import unchecked as as_size
from rushlight.core.state import active_tracer
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.jit.tracing.frames import is_engine
from rushlight.jit.tracing.warnings import DATAFLOW, warn
from rushlight.nn.hooks import call_with_hooks
from rushlight.nn.module import Module

LOCK = threading.Lock()
LEN = (
    "Using len to get tensor shape might cause the trace to be incorrect. Recommended usage would "
    "be tensor.shape[0]. Passing a tensor of different shape might lead to errors or silently give "
    "incorrect results."
)
ITERATION = (
    "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different "
    "shape won't change the number of iterations executed (and might lead to errors or silently "
    "give incorrect results)."
)


def asking_tracer() -> Any:
    """The trace that the caller's caller is a part of; None for code of the engine."""
    tracer = active_tracer()
    return None if tracer is None or is_engine(sys._getframe(2)) else tracer


def traced_sizes(tracer: Any, tensor: Tensor) -> Any:
    sizes = enumerate(sizes_of(tensor))
    return as_size([tracer.size_tensor(tensor, dim, size) for dim, size in sizes])


def shape(self: Tensor) -> Any:
    tracer = asking_tracer()
    return OWN_SHAPE(self) if tracer is None else traced_sizes(tracer, self)


def size(self: Tensor, dim: int | None = None) -> Any:
    tracer = asking_tracer()
    if tracer is None:
        return OWN["size"](self, dim)
    if dim is None:
        return traced_sizes(tracer, self)
    with tracer.paused():
        found = OWN["size"](self, dim)
    return tracer.size_tensor(self, int(dim), found)


def numel(self: Tensor) -> Any:
    tracer = asking_tracer()
    count = OWN["numel"](self)
    return count if tracer is None else tracer.numel_tensor(self, count)


def length(self: Tensor) -> int:
    if asking_tracer() is not None and self.dim():
        warn(LEN)
    found: int = OWN["__len__"](self)
    return found


def iterate(self: Tensor) -> Any:
    if asking_tracer() is not None and self.dim():
        warn(ITERATION)
    return OWN["__iter__"](self)


def contains(self: Tensor, element: Any, /) -> bool:
    if asking_tracer() is not None:
        warn(f"Converting a tensor to a Python number{DATAFLOW}")
    return bool(OWN["__contains__"](self, element))


def detach_(self: Tensor) -> Tensor:
    OWN["detach_"](self)
    tracer = active_tracer()
    if tracer is not None:
        tracer.note_detached(self)
    return self


def tolist(self: Tensor) -> Any:
    tracer = asking_tracer()
    if tracer is None:
        return OWN["tolist"](self)
    warn(f"Converting a tensor to a Python list{DATAFLOW}")
    plain = self.resolve_conj().resolve_neg()
    with tracer.paused():
        return OWN["tolist"](plain)


def conversion(name: str, what: str) -> Callable[..., Any]:
    """A method that takes data out of the trace."""

    def convert(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        tracer = asking_tracer()
        if tracer is None:
            return OWN[name](self, *args, **kwargs)
        warn(f"Converting a tensor to a {what}{DATAFLOW}")
        with tracer.paused():
            return OWN[name](self, *args, **kwargs)

    return convert


def call_module(self: Any, *args: Any, **kwargs: Any) -> Any:
    return call_with_hooks(self, args, kwargs)


CONVERSIONS = {
    "item": "Python number",
    "__bool__": "Python boolean",
    "__int__": "Python integer",
    "__float__": "Python float",
    "__complex__": "Python complex",
    "numpy": "NumPy array",
}
STAND_INS: dict[str, Any] = {
    "shape": property(shape),
    "size": size,
    "numel": numel,
    "nelement": numel,
    "__len__": length,
    "__iter__": iterate,
    "__contains__": contains,
    "detach_": detach_,
    "tolist": tolist,
    **{name: conversion(name, what) for name, what in CONVERSIONS.items()},
}


def own(name: str) -> Any:
    """What Tensor has under a name. Asked for once, a promise gives way to what it stands for."""
    getattr(Tensor, name)
    return vars(Tensor)[name]


# Tensor's own, while others stand in for them.
OWN: dict[str, Any] = {name: own(name) for name in STAND_INS}
OWN_SHAPE: Any = OWN["shape"].fget
OWN_CALL = Module.__call__


class StandingIn:
    """The stand-ins are in place inside; traces of several threads share them."""

    count = 0

    def __enter__(self) -> None:
        with LOCK:
            StandingIn.count += 1
            if StandingIn.count == 1:
                for name, stand_in in STAND_INS.items():
                    setattr(Tensor, name, stand_in)
                Module.__call__ = call_module  # type: ignore[method-assign]

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        with LOCK:
            StandingIn.count -= 1
            if StandingIn.count == 0:
                for name, own in OWN.items():
                    setattr(Tensor, name, own)
                Module.__call__ = OWN_CALL  # type: ignore[method-assign]
