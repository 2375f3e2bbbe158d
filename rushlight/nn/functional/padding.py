"""Borders around tensors."""

from __future__ import annotations

from typing import Any

from rushlight.opset import functions

__all__ = [
    "pad",
]  # fmt: skip


def pad(input: Any, pad: Any, mode: str = "constant", value: float | None = None) -> Any:
    """The input with a border: widths on both sides, last dim first."""
    return functions.pad(input, pad, mode, value)
