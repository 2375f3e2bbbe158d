"""Factors of low rank by random projection."""

from __future__ import annotations

import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("sizes", [(8, 5), (5, 8)])
def test_low_rank(sizes: tuple[int, int]) -> None:
    A = torch.randn(sizes[0], 3).double() @ torch.randn(3, sizes[1]).double()
    for form in (A, A.to_sparse()):
        U, S, V = torch.svd_lowrank(form, q=3)
        assert torch.allclose(U * S @ V.mT, A)
        U, S, V = torch.pca_lowrank(form, q=3)
        assert torch.allclose(U * S @ V.mT, A - A.mean(0), atol=1e-6)
    with pytest.raises(ValueError, match="must be non-negative integer and not greater"):
        torch.pca_lowrank(A, q=9)
