"""Embedding's gradient: rows that count and sizes that fit."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
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


def test_renormalised_rows_keep_their_tangents():
    weight, tangent = torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 2) + 1
    with fwAD.dual_level():
        rows = torch.nn.functional.embedding(
            torch.tensor([0, 2]), fwAD.make_dual(weight, tangent), max_norm=1.0
        )
        assert fwAD.unpack_dual(rows).tangent.tolist() == [[1, 2], [5, 6]]
    assert weight[2].norm().item() == pytest.approx(1)
