"""Functions of the library that answer a question: about kinds of values, or about a state of the
process. What they answer is known while code is captured; where it may change, a guard asks again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.capture.sources import const
from rushlight.capture.values import Const, Obj, Tensor
from rushlight.core import dtype as dtypes
from rushlight.core.device import device
from rushlight.core.promotion import can_cast, promote_types
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor as RealTensor
from rushlight.func.nesting import has_levels
from rushlight.fx.tracing import is_fx_tracing
from rushlight.overrides import is_tensor_like
from rushlight.symbolic.queries import guard_size_oblivious

__all__ = ["VALUES", "is_captured", "special"]

# Classes whose instances are known where their arguments are.
VALUES: tuple[type, ...] = (device, dtypes.finfo, dtypes.iinfo, np.dtype)
# Functions of known values.
FOLDED = {promote_types, can_cast}
# Questions about the process and the thread.
ASKED: set[Any] = {is_fx_tracing, has_levels}
# Where more such questions are, by name, and where functions are that are Python like the user's.
STATES = {"is_initialized", "is_tracing"}
PLAIN = {
    "annotate", "is_scripting", "unwrap_optional", "is_in_onnx_export", "is_available",
    "is_torchelastic_launched",
}  # fmt: skip
HOMES = ("jit.", "distributed.", "onnx.")


def is_at_home(value: Any, names: set[str]) -> bool:
    home = value.__globals__.get("__name__", "").partition(".")[2]
    return value.__name__ in names and home.startswith(HOMES)


def is_captured(value: Any) -> bool:
    """Whether a function of the library is captured like the user's."""
    return value is Size.numel or is_at_home(value, PLAIN)


def special(t: Any, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """The answer of a function; None where it is no question."""
    if value in FOLDED and not kwargs:
        return t.fold(value, *map(t.python, args))
    if (value in ASKED or is_at_home(value, STATES)) and not (args or kwargs):
        return asked(t, value)
    if value is guard_size_oblivious:
        return Const(t.truth(args[0]))
    if value is is_tensor_like:
        return is_like_a_tensor(t, args[0])
    if hasattr(value, "__script_if_tracing_wrapper"):
        original: Any = value.__wrapped__
        return t.call(Obj(original, const(original)), args, kwargs)
    name: str = value.__name__
    if args and vars(RealTensor).get(name) is value:
        owner = t.real(args[0])
        if isinstance(owner, Tensor) and not t.world.is_op(value):
            return t.world.tensor_method(t, owner, name, args[1:], kwargs)
    return None


def asked(t: Any, value: Callable[[], Any]) -> Const:
    """What a function without arguments answers now."""
    answer = value()

    def test(text: str, names: Any) -> str:
        return f"{text}() is not {names.constant(answer)}"

    t.guards.append(("text", const(value), test))
    return Const(answer)


def is_like_a_tensor(t: Any, v: Any) -> Const:
    v = t.real(v)
    return Const(isinstance(v, Tensor) or hasattr(t.type_of(v), "__torch_function__"))


def made(t: Any, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """An instance of a class of values."""
    named = {key: t.python(v) for key, v in kwargs.items()}
    return t.fold(functools.partial(cls, **named), *map(t.python, args))
