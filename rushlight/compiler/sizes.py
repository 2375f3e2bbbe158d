"""Marks on tensors: which sizes compiled code takes as symbols, and which as constants."""

from __future__ import annotations

from typing import Any

from rushlight.capture.marks import DYNAMIC, MAYBE_DYNAMIC, STATIC
from rushlight.core.tensor import Tensor

__all__ = ["mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic"]


def dims_of(tensor: Any, index: Any) -> list[int]:
    indices = index if isinstance(index, (list, tuple)) else [index]
    return [dim % tensor.dim() for dim in indices]


def mark_dynamic(t: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Take a size as a symbol from the first compilation on, for sizes from `min` to `max`. A
    program that makes it a constant is an error."""
    marked = t.__dict__.setdefault(DYNAMIC, set())
    dims = dims_of(t, index)
    marked -= {entry for entry in marked if entry[0] in dims}
    marked |= {(dim, min, max) for dim in dims}


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """As `mark_dynamic`, where the program may make it a constant."""
    t.__dict__.setdefault(MAYBE_DYNAMIC, set()).update(dims_of(t, index))


def mark_static(t: Any, index: Any = None) -> None:
    """Take a size, or all, as a constant whatever it was before."""
    dims = range(t.dim()) if index is None else dims_of(t, index)
    t.__dict__.setdefault(STATIC, set()).update(dims)


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say that calls give this tensor with its memory where it is. Compiled code does not rest on
    addresses, so that nothing follows."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_static_address expects a tensor but received {type(t)}")
