"""Marks on tensors: which sizes compiled code takes as symbols, and which as constants."""

from __future__ import annotations

from typing import Any

__all__ = ["mark_dynamic", "mark_static", "maybe_mark_dynamic"]

DYNAMIC = "_dynamo_dynamic_indices"
STATIC = "_dynamo_static_indices"


def mark(tensor: Any, index: Any, name: str) -> None:
    indices = index if isinstance(index, (list, tuple)) else [index]
    tensor.__dict__.setdefault(name, set()).update(dim % tensor.dim() for dim in indices)


def mark_dynamic(t: Any, index: Any, *, min: int | None = None, max: int | None = None) -> None:
    """Take a size as a symbol from the first compilation on."""
    mark(t, index, DYNAMIC)


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """As `mark_dynamic`, where a guard may still make it a constant."""
    mark(t, index, DYNAMIC)


def mark_static(t: Any, index: Any = None) -> None:
    """Take a size, or all, as a constant whatever it was before."""
    mark(t, list(range(t.dim())) if index is None else index, STATIC)
