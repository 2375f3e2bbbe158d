"""Histograms of points: `histogramdd` counts rows of numbers in boxes.

A box belongs to the bin whose left edge is the last one not beyond it; the last bin of every
dimension includes its right edge.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import unsupported
from rushlight.opset.creation.series import spaced_values
from rushlight.opset.indexing.writing import refuse_gradient
from rushlight.opset.kinds import SORT, Spec
from rushlight.opset.reduction.bins import check_weight_dtype, column_ends, counted
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, sample

OPTIONS = "float[]? range=None, Tensor? weight=None, bool density=False"


def underived(name: str) -> dict[str, Any]:
    refused = refuse_gradient(f"aten::{name}")
    return {
        "node": "torch::autograd::NotImplemented",
        "batch": late("reduction.batched:histogram_of_points"),
        "method": False,
        "differentiable": ["self", "weight"],
        "vjp": {"self": refused, "weight": refused},
    }


bin_edges = op(
    f"_histogramdd_bin_edges(Tensor self, int[] bins, *, {OPTIONS}) -> Tensor[]",
    kind=SORT.checked,
    **underived("_histogramdd_bin_edges"),
)
from_counts = op(
    f"_histogramdd_from_bin_cts(Tensor self, int[] bins, *, {OPTIONS}) -> Tensor",
    kind=SORT.checked,
    **underived("_histogramdd_from_bin_cts"),
)
from_edges = op(
    "_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, "
    "bool density=False) -> Tensor",
    kind=SORT.checked,
    **underived("_histogramdd_from_bin_tensors"),
)


def check_points(self: Any) -> None:
    if self.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")


def check_operands(self: Any, weight: Any) -> None:
    check_weight_dtype(self, weight)
    if weight is not None and not geometry.same_sizes(tuple(weight.shape), tuple(self.shape[:-1])):
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the "
            "input tensor excluding its innermost dimension, but got input with shape "
            f"{list(self.shape)} and weight with shape {list(weight.shape)}"
        )
    if self._dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("histogramdd", self._dtype)


def check_bins(self: Any, bins: Any, range: Any) -> None:
    check_points(self)
    count = self.shape[-1]
    if len(bins) != count:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input."
        )
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"torch.histogramdd: for a {count}-dimensional histogram range should have "
            f"{2 * count} elements, but got {len(range)}"
        )
    if self._dtype not in (dtypes.float32, dtypes.float64):
        raise unsupported("histogramdd", self._dtype)


def check_edges(self: Any, bins: Any, weight: Any) -> None:
    check_points(self)
    count = self.shape[-1]
    if len(bins) != count:
        raise RuntimeError(
            f"torch.histogramdd: expected {count} sequences of bin edges for a "
            f"{count}-dimensional histogram but got {len(bins)}"
        )
    for at, edges in enumerate(bins):
        if edges._dtype is not self._dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but "
                f"got input with dtype {self._dtype.cpp_name} and bins for dimension {at} with "
                f"dtype {edges._dtype.cpp_name}"
            )
        if edges.dim() != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {edges.dim()} "
                f"dimensions in the bins tensor for dimension {at}"
            )
        if edges.numel() == 0:
            raise RuntimeError(
                "torch.histogramdd: bins tensor should have at least 1 element, but got 0 "
                f"elements in the bins tensor for dimension {at}"
            )
    check_operands(self, weight)


def spaced_edges(self: Any, bins: Any, range: Any) -> list[Any]:
    """Edges at equal distances, within `range` or the extremes of each column."""
    points = self.reshape(prod(self.shape[:-1]), self.shape[-1])
    found = []
    for at, count in enumerate(bins):
        own = None if range is None else range[2 * at : 2 * at + 2]
        low, high = column_ends(points[:, at], own, at)
        found.append(spaced_values(np, low, high, count + 1, self.dtype))
    return found


@bin_edges.shape
def _(self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    check_bins(self, bins, range)
    return [Spec((count + 1,), self._dtype) for count in bins]


@bin_edges.kernel
def _(xp: Any, self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    return spaced_edges(self, bins, range)


@from_counts.shape
def _(self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    check_bins(self, bins, range)
    for at, number in enumerate(bins):
        if number <= 0:
            raise RuntimeError(
                f"torch.histogram(): bins must be > 0, but got {number} for dimension {at}"
            )
    check_operands(self, weight)
    return Spec(tuple(bins), self._dtype)


@from_counts.kernel
def _(xp: Any, self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    return counted(self, spaced_edges(self, bins, range), weight, density)


@from_edges.shape
def _(self: Any, bins: Any, weight: Any, density: bool) -> Any:
    check_edges(self, bins, weight)
    return Spec([edges.numel() - 1 for edges in bins], self._dtype)


@from_edges.kernel
def _(xp: Any, self: Any, bins: Any, weight: Any, density: bool) -> Any:
    return counted(self, bins, weight, density)


RETURNS = "(Tensor hist, Tensor[] bin_edges)"


def by_counts(self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    options = {"range": range, "weight": weight, "density": density}
    hist = aten._histogramdd_from_bin_cts(self, bins, **options)
    return hist, list(aten._histogramdd_bin_edges(self, bins, **options))


by_each_count = composite(
    f"histogramdd(Tensor self, int[] bins, {OPTIONS}) -> {RETURNS}", method=False, out=False
)(by_counts)


@composite(
    f"histogramdd.int_bins(Tensor self, int bins, {OPTIONS}) -> {RETURNS}", method=False, out=False
)
def by_one_count(self: Any, bins: int, range: Any, weight: Any, density: bool) -> Any:
    return by_counts(self, [bins] * self.size(-1), range, weight, density)


@composite(
    f"histogramdd.TensorList_bins(Tensor self, Tensor[] bins, {OPTIONS}) -> {RETURNS}",
    method=False,
    out=False,
)
def by_edges(self: Any, bins: Any, range: Any, weight: Any, density: bool) -> Any:
    hist = aten._histogramdd_from_bin_tensors(self, bins, weight=weight, density=density)
    return hist, list(bins)


# -- samples --------------------------------------------------------------------------------------


def is_served(make: Any) -> bool:
    return make.dtype in (dtypes.float32, dtypes.float64)


def count_samples(make: Any) -> Any:
    if not is_served(make):
        return
    yield sample(make(6, 2), [2, 3])
    yield sample(make.strided(6, 2), [2, 3], range=[-1.0, 1.0, -2.0, 2.0], density=True)
    yield sample(make(2, 3, 2), [3, 1], weight=make.positive(2, 3))
    yield sample(make(4, 1), [3])
    yield sample(make(0, 2), [2, 2])


def edge_count_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(6, 2), [2])
    yield RuntimeError, sample(make(6), [2])
    yield RuntimeError, sample(make(6, 2), [2, 2], range=[0.0, 1.0])
    yield RuntimeError, sample(make(6, 2), [2, 2], range=[1.0, 0.0, 1.0, 0.0])
    yield NotImplementedError, sample(make.ints(6, 2), [2, 2])


def count_errors(make: Any) -> Any:
    yield from edge_count_errors(make)
    yield RuntimeError, sample(make(6, 2), [2, 0])
    yield RuntimeError, sample(make(6, 2), [2, 2], weight=make(4))


def edges_of(make: Any, count: int) -> Any:
    return aten.cumsum(make.positive(count), 0) - 2.5


def edge_samples(make: Any) -> Any:
    if is_served(make):
        yield sample(make(6, 2), [edges_of(make, 3), edges_of(make, 4)])
        weight = make.positive(2, 3)
        edges = [edges_of(make, 4), edges_of(make, 3)]
        yield sample(make(2, 3, 2), edges, weight=weight, density=True)


def edge_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(6, 2), [make(3)])
    yield RuntimeError, sample(make(6, 2), [make(3), make(2, 2)])
    yield RuntimeError, sample(make(6, 2), [make(3), make.ints(3)])


for record in (bin_edges, from_counts, by_each_count):
    record.samples = count_samples
    record.errors = edge_count_errors if record is bin_edges else count_errors
for record in (from_edges, by_edges):
    record.samples = edge_samples
    record.errors = edge_errors
by_one_count.samples = lambda make: (
    [(make(6, 2), 2), sample(make(4, 3), 2, density=True)] if is_served(make) else []
)
by_one_count.errors = lambda make: [
    (IndexError, (make(), 2)),
    (RuntimeError, (make(6), 2)),
    (RuntimeError, (make(6, 2), 0)),
]
