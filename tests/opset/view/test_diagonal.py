"""Indices of triangles: their number is known without making them."""

from __future__ import annotations

import pytest

import rushlight as torch


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_sizes_without_values(name):
    make = getattr(torch, name)
    for rows, columns in ((0, 3), (3, 0), (2, 5), (5, 2), (4, 4)):
        for offset in range(-6, 7):
            wanted = make(rows, columns, offset).shape
            assert make(rows, columns, offset, device="meta").shape == wanted


def test_a_large_triangle_is_not_made():
    assert tuple(torch.tril_indices(10**6, 10**6, device="meta").shape) == (2, 500000500000)


def test_refusals():
    with pytest.raises(NotImplementedError, match="\"tril_indices\" not implemented for 'Float'"):
        torch.tril_indices(3, 3, dtype=torch.float32)
    with pytest.raises(RuntimeError, match="col must be non-negative, got-3"):
        torch.triu_indices(1, -3)
