"""What histograms have in common: where bins begin and end, and what falls into them.

A number belongs to the bin whose left edge is the last one not beyond it; the last bin includes
its right edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import geometry

__all__ = [
    "check_finite",
    "check_shares",
    "check_weight_dtype",
    "column_ends",
    "counted",
    "counted_flat",
]


def check_weight_dtype(self: Any, weight: Any) -> None:
    if weight is not None and weight._dtype is not self._dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor "
            f"should have the same dtype, but got input({self._dtype.cpp_name}), and "
            f"weight({weight._dtype.cpp_name})"
        )


def check_shares(self: Any, weight: Any) -> None:
    if weight is not None and not geometry.same_sizes(weight.shape, self.shape):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"[{geometry.numel(self.shape)}, 1] and weight with shape "
            f"[{geometry.numel(weight.shape)}]"
        )


def check_finite(low: float, high: float, name: str) -> None:
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"{name} [{low:g}, {high:g}] is not finite")


def column_ends(values: Any, range: Any, at: int) -> tuple[float, float]:
    """Where the bins of one column of points begin and end: at `range`, else at its extremes."""
    if range is not None:
        low, high = range
    elif values.size:
        low, high = float(values.min()), float(values.max())
    else:
        low, high = 0.0, 1.0
    check_finite(low, high, f"torch.histogramdd: dimension {at}'s range")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} "
            f"for dimension {at}"
        )
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def counted(self: Any, edges: list[Any], weight: Any, density: bool) -> Any:
    points = self.reshape(-1, len(edges)) if edges else self.reshape(0, 0)
    shape = [entry.size - 1 for entry in edges]
    inside = np.ones(points.shape[0], np.bool_)
    place = np.zeros(points.shape[0], np.int64)
    for at, entry in enumerate(edges):
        column = points[:, at]
        inside &= (column >= entry[0]) & (column <= entry[-1])
        position = np.minimum(np.searchsorted(entry, column, "right") - 1, max(shape[at] - 1, 0))
        place = place * shape[at] + position
    share = None if weight is None else weight.reshape(-1)[inside].astype(np.float64)
    total = int(np.prod(shape, dtype=np.int64))
    if total:
        hist = np.bincount(place[inside], share, total).astype(np.float64).reshape(shape)
    else:
        hist = np.zeros(shape)
    if density:
        hist = hist / hist.sum()
        for at, entry in enumerate(edges):
            widths = np.diff(entry).reshape([-1 if axis == at else 1 for axis in range(len(edges))])
            hist = hist / widths
    return hist.astype(self.dtype)


def counted_flat(self: Any, edges: Any, weight: Any, density: bool) -> Any:
    """(the histogram, edges) of numbers, which are points of one column."""
    check_shares(self, weight)
    return counted(self.reshape(-1, 1), [edges], weight, density), edges
