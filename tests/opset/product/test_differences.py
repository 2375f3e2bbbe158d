"""gradient and pdist beyond their samples."""

from __future__ import annotations

import pytest

import rushlight as torch

VALUES = torch.tensor([1.0, 4.0, 9.0, 20.0])
TABLE = torch.arange(12.0).reshape(3, 4) ** 2


def test_gradient_of_even_samples() -> None:
    assert torch.gradient(VALUES)[0].tolist() == [3, 4, 8, 11]
    assert torch.gradient(VALUES, edge_order=2)[0].tolist() == [2, 4, 8, 14]
    rows, columns = torch.gradient(TABLE, spacing=2.0)
    assert rows[0].tolist() == [8, 12, 16, 20]
    assert columns[0].tolist() == [0.5, 1, 2, 2.5]
    assert torch.gradient(torch.tensor(1.0)) == ()


def test_gradient_of_uneven_samples() -> None:
    places = torch.tensor([0.0, 1.0, 4.0])
    (found,) = torch.gradient(TABLE, spacing=(places,), dim=0)
    assert found[2].tolist() == pytest.approx([16, 18.6667, 21.3333, 24], abs=1e-3)
    (found,) = torch.gradient(TABLE, spacing=(places,), dim=0, edge_order=2)
    assert found[0].tolist() == pytest.approx([16, 25.3333, 34.6667, 44], abs=1e-3)
    # Parabolas come out exactly.
    parabola = places**2
    (found,) = torch.gradient(parabola, spacing=(places,), edge_order=2)
    assert found.tolist() == pytest.approx([0, 2, 8], abs=1e-5)


def test_gradient_refusals() -> None:
    with pytest.raises(RuntimeError, match="equal to 'self.dim\\(\\) = 2'"):
        torch.gradient(TABLE, spacing=(1.0, 2.0, 3.0))
    with pytest.raises(RuntimeError, match="at least edge_order\\+1"):
        torch.gradient(VALUES[:2], edge_order=2)
    with pytest.raises(RuntimeError, match="does not support uint8"):
        torch.gradient(VALUES.to(torch.uint8))


def test_distances_of_all_pairs() -> None:
    points = torch.tensor([[1.0, 2.0], [4.0, 6.0], [1.0, 2.0]], requires_grad=True)
    assert torch.pdist(points).tolist() == [5, 0, 5]
    assert torch.pdist(points, 0.0).tolist() == [2, 0, 2]
    assert torch.pdist(points, float("inf")).tolist() == [4, 0, 4]
    (torch.pdist(points) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert points.grad.tolist() == [
        pytest.approx([-0.6, -0.8]),
        pytest.approx([2.4, 3.2]),
        pytest.approx([-1.8, -2.4]),
    ]
    with pytest.raises(RuntimeError, match="pdist only supports 2D tensors, got: 1D"):
        torch.pdist(points[0])
