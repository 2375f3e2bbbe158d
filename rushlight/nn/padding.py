"""Modules that put a border around their input."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.sizes import per_dim

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Pad(Module):
    """A border of `padding` elements on both sides of the last `count` dims."""

    count = 0
    mode = "constant"

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = per_dim(padding, 2 * self.count)

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class CircularPad(Pad):
    """A border that continues the input from its other end."""

    mode = "circular"

    def forward(self, input: Any) -> Any:
        if input.dim() not in (self.count + 1, self.count + 2):
            raise ValueError(
                f"expected {self.count + 1}D or {self.count + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class ConstantPad(Pad):
    """A border of one value."""

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Any) -> Any:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ReflectionPad(Pad):
    """A border that mirrors the input at its edge."""

    mode = "reflect"


class ReplicationPad(Pad):
    """A border that repeats the input's edge."""

    mode = "replicate"


class ZeroPad(ConstantPad):
    """A border of zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def padding_module(name: str, count: int, *bases: type) -> Any:
    fields = {"count": count, "__module__": __name__, "__doc__": bases[0].__doc__}
    return type(name, bases, fields)


CircularPad1d = padding_module("CircularPad1d", 1, CircularPad)
CircularPad2d = padding_module("CircularPad2d", 2, CircularPad)
CircularPad3d = padding_module("CircularPad3d", 3, CircularPad)
ConstantPad1d = padding_module("ConstantPad1d", 1, ConstantPad)
ConstantPad2d = padding_module("ConstantPad2d", 2, ConstantPad)
ConstantPad3d = padding_module("ConstantPad3d", 3, ConstantPad)
ReflectionPad1d = padding_module("ReflectionPad1d", 1, ReflectionPad)
ReflectionPad2d = padding_module("ReflectionPad2d", 2, ReflectionPad)
ReflectionPad3d = padding_module("ReflectionPad3d", 3, ReflectionPad)
ReplicationPad1d = padding_module("ReplicationPad1d", 1, ReplicationPad)
ReplicationPad2d = padding_module("ReplicationPad2d", 2, ReplicationPad)
ReplicationPad3d = padding_module("ReplicationPad3d", 3, ReplicationPad)
ZeroPad1d = padding_module("ZeroPad1d", 1, ZeroPad, ConstantPad1d)
ZeroPad2d = padding_module("ZeroPad2d", 2, ZeroPad, ConstantPad2d)
ZeroPad3d = padding_module("ZeroPad3d", 3, ZeroPad, ConstantPad3d)
