"""Copies into C order; large matrices that lie transposed are turned in tiles by native code."""

from __future__ import annotations

from typing import Any

from rushlight.core import ports
from rushlight.opset.large import LARGE, LoopRule
from rushlight.opset.results import Spec

__all__ = ["row_major"]


def lower_turned(build: Any, source: Any) -> Any:
    _, rows, columns = source.shape
    x = build.plain(source)
    return build.m.load(x.payload[0], (rows * columns, 1, columns), 0)


# Copies of (batch, rows, columns) with the last two exchanged.
turned = LoopRule(
    "transposed copy",
    lower_turned,
    lambda source: Spec((source.shape[0], source.shape[2], source.shape[1]), source.dtype),
)


def row_major(array: Any) -> Any:
    """A C-ordered copy."""
    if array.size >= LARGE and array.ndim > 1:
        before = array.swapaxes(-1, -2)
        if before.flags.c_contiguous and min(before.shape[-2:]) > 1:
            found = turned(before.reshape(-1, *before.shape[-2:]))
            if found is not None:
                return found.reshape(array.shape)
    return array.copy()


ports.fill(row_major=row_major)
