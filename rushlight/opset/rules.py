"""Small words that rules are written with."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error
from rushlight.base.lazy import load
from rushlight.core.tensor import Tensor
from rushlight.opset import functions as aten

__all__ = ["aten", "conj", "late", "linear_in", "not_differentiable", "sample"]


def conj(value: Any) -> Any:
    """The conjugate where it differs from the value itself."""
    if isinstance(value, Tensor):
        return value.conj() if value._dtype.is_complex else value
    return value.conjugate() if isinstance(value, complex) else value


def late(place: str) -> Any:
    """A rule that another module of the opset holds ("module:function"), imported on first use."""
    found: Any = None

    def rule(*args: Any) -> Any:
        nonlocal found
        if found is None:
            module, _, name = place.partition(":")
            found = getattr(load(f"rushlight.opset.{module}"), name)
        return found(*args)

    return rule


class LinearIn:
    """Forward rule of an op that is linear in the named inputs jointly: apply it to tangents."""

    __slots__ = ("names",)

    def __init__(self, *names: str) -> None:
        self.names = names


def linear_in(*names: str) -> LinearIn:
    return LinearIn(*names)


def not_differentiable(name: str) -> Any:
    """A vjp for what torch has no derivative of, though it depends on values."""

    def vjp(grad: Any) -> Any:
        raise error("RL0611", name=name)

    return vjp


def sample(*args: Any, **kwargs: Any) -> Any:
    """One call's arguments, for `samples` and `errors` rules."""
    from rushlight.opset.samples.maker import Sample

    return Sample(args, kwargs)
