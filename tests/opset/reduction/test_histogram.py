"""histogramdd beyond its samples."""

from __future__ import annotations

import pytest

import rushlight as torch

POINTS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [2.0, 2.0]])


def test_counts_and_edges() -> None:
    hist, edges = torch.histogramdd(POINTS, [2, 2], weight=torch.tensor([1.0, 2.0, 1.0, 1.0]))
    assert hist.tolist() == [[0, 1], [2, 2]]
    assert [edge.tolist() for edge in edges] == [[0, 1, 2], [0, 1, 2]]
    named = torch.histogramdd(POINTS, 2)
    assert type(named).__name__ == "histogramdd" and isinstance(named.bin_edges, tuple)


def test_density_and_given_edges() -> None:
    edges = (torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 2.0]))
    found = torch.histogramdd(POINTS, edges, density=True)
    assert found.hist.tolist() == [[0.125], [0.1875]]
    assert found.bin_edges[0] is edges[0]


def test_nothing_to_count() -> None:
    hist, edges = torch.histogramdd(torch.empty(0, 2), 2)
    assert hist.sum().item() == 0 and edges[0].tolist() == [0, 0.5, 1]
    assert torch.histogram(torch.empty(0), 2).bin_edges.tolist() == [0, 0.5, 1]
    with pytest.raises(RuntimeError, match="range \\[nan, nan\\] is not finite"):
        torch.histogramdd(torch.full((2, 2), float("nan")), 2)


def test_no_gradient() -> None:
    found = torch.histogramdd(POINTS.clone().requires_grad_(), 2)
    with pytest.raises(RuntimeError, match="not implemented"):
        found.hist.sum().backward()


def test_histograms_of_points_without_coordinates_or_none():
    found = torch.histogramdd(torch.ones(0, 2), [2, 3])
    assert found.hist.shape == (2, 3) and [edge.numel() for edge in found.bin_edges] == [3, 4]
    found = torch.histogramdd(torch.ones(3, 0), [])
    assert found.hist.shape == () and len(found.bin_edges) == 0
