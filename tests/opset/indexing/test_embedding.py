"""Embedding's gradient: rows that count and sizes that fit."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.opset import functions


def test_rows_beyond_the_table_are_dropped():
    grad = torch.ones(3, 2)
    found = functions.embedding_dense_backward(grad, torch.tensor([0, 9, 1]), 3, 1, False)
    assert found.tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_a_gradient_has_a_row_for_every_index(place):
    grad, indices = torch.ones(2, 3, device=place), torch.tensor([0, 1, 2]).to(place)
    with pytest.raises(RuntimeError, match=r"shape '\[3, 3\]' is invalid for input of size 6"):
        functions.embedding_dense_backward(grad, indices, 4, -1, False)
