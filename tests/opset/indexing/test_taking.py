"""Elements taken along a dim."""

from __future__ import annotations

import pytest

import rushlight as torch

X = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize("place, expected", [(-1, 2.0), (-3, 0.0), (-4, 2.0), (3, 0.0), (5, 2.0)])
def test_places_outside_a_named_dim_are_taken_from_the_other_end(
    place: int, expected: float
) -> None:
    found = torch.take_along_dim(X, torch.tensor([[place], [0]]), 1)
    assert found.tolist() == [[expected], [3.0]]


@pytest.mark.parametrize("place", [-1, 6])
def test_places_outside_the_whole_tensor_are_refused(place: int) -> None:
    with pytest.raises(RuntimeError, match=f"index {place} is out of bounds for dimension 0"):
        torch.take_along_dim(X, torch.tensor([place]))
