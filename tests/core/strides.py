"""Elementwise calls whose results' strides are compared, over any namespace that has the ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Name -> (how many operands, call).
CALLS: dict[str, tuple[int, Callable[..., Any]]] = {
    "sin": (1, lambda t, x: x.sin()),
    "neg": (1, lambda t, x: -x),
    "isnan": (1, lambda t, x: x.isnan()),
    "x * 2": (1, lambda t, x: x * 2),
    "2 - x": (1, lambda t, x: 2 - x),
    "x > 1": (1, lambda t, x: x > 1),
    "x ** 2": (1, lambda t, x: x**2),
    "2 ** x": (1, lambda t, x: 2**x),
    "fmod number": (1, lambda t, x: t.fmod(x, 2)),
    "copysign number": (1, lambda t, x: t.copysign(x, -1.0)),
    "xlogy number": (1, lambda t, x: t.xlogy(x, 2.0)),
    "clamp numbers": (1, lambda t, x: t.clamp(x, 1.0, 2.0)),
    "x * y": (2, lambda t, x, y: x * y),
    "x + y": (2, lambda t, x, y: x + y),
    "x == y": (2, lambda t, x, y: x == y),
    "pow": (2, lambda t, x, y: x**y),
    "maximum": (2, lambda t, x, y: t.maximum(x, y)),
    "where number": (2, lambda t, x, y: t.where(x > 1, y, 2.0)),
    "lerp number": (2, lambda t, x, y: t.lerp(x, y.to(x.dtype), 0.5)),
    "where": (3, lambda t, x, y, z: t.where(x > 1, y, z)),
    "addcmul": (3, lambda t, x, y, z: t.addcmul(x, y, z)),
    "clamp": (3, lambda t, x, y, z: t.clamp(x, y, z)),
}


def operand(t: Any, sizes: Any, strides: Any, is_wide: bool, device: str = "cpu") -> Any:
    """A tensor with a geometry."""
    dtype = t.float64 if is_wide else t.float32
    extent = 1 + sum([(size - 1) * stride for size, stride in zip(sizes, strides, strict=True)])
    memory = t.ones(max(extent, 1), dtype=dtype, device=device)
    return memory.as_strided(tuple(sizes), tuple(strides))
