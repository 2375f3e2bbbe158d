"""Eigenvalues, singular values and functions of matrices: what samples cannot say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd.checking import gradcheck, gradgradcheck
from rushlight.opset.linalg import spectral

DOUBLES = (torch.float64, torch.complex128)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def hermitian(x: Any) -> Any:
    return x + x.mH


# -- factors multiply to the matrix ----------------------------------------------------------------


@pytest.mark.parametrize("kind", DOUBLES)
@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_singular_factors(kind: Any, sizes: Any, full: bool) -> None:
    A = torch.randn(*sizes, dtype=kind)
    U, S, Vh = torch.linalg.svd(A, full_matrices=full)
    count = min(sizes[-2:])
    assert torch.allclose(U[..., :count] * S.unsqueeze(-2) @ Vh[..., :count, :], A)
    for vectors in (U, Vh.mH):
        gram = vectors.mH @ vectors
        assert torch.allclose(gram, torch.eye(gram.shape[-1], dtype=kind).expand_as(gram))
    assert torch.allclose(torch.linalg.svdvals(A), S)
    assert bool((S.diff() <= 0).all())


@pytest.mark.parametrize("kind", DOUBLES)
def test_eigenpairs(kind: Any) -> None:
    A = torch.randn(2, 4, 4, dtype=kind)
    values, vectors = torch.linalg.eig(A)
    assert torch.allclose(A.to(torch.complex128) @ vectors, vectors * values.unsqueeze(-2))
    assert torch.allclose(torch.linalg.vector_norm(vectors, dim=-2), torch.ones(2, 4).double())
    real, vectors = torch.linalg.eigh(hermitian(A))
    assert torch.allclose(hermitian(A) @ vectors, vectors * real.unsqueeze(-2))
    assert torch.allclose(torch.linalg.eigvalsh(hermitian(A)), real)


def test_one_triangle_is_read() -> None:
    A = torch.tensor([[1.0, math.nan], [2.0, 3.0]])
    lower = torch.linalg.eigvalsh(A)
    assert torch.allclose(lower, torch.linalg.eigvalsh(A.mT, UPLO="U"))
    assert torch.allclose(lower, torch.tensor([2 - 5**0.5, 2 + 5**0.5]))


def test_values_alone_need_no_vectors_unless_a_gradient_does() -> None:
    A = torch.randn(3, 3, dtype=torch.float64)
    assert torch.ops.aten._linalg_svd(A, False, False)[0].shape == (0,)
    assert torch.linalg.svdvals(A.requires_grad_()).grad_fn.name() == "LinalgSvdBackward0"
    with pytest.raises(RuntimeError, match="needs the singular vectors"):
        torch.ops.aten._linalg_svd(A, False, False)[1].sum().backward()


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DOUBLES)
def test_gradients_of_hermitian_eigenpairs(kind: Any) -> None:
    A = torch.randn(2, 3, 3, dtype=kind, requires_grad=True)

    def pairs(x: Any) -> Any:
        return spectral.eigenpair_facts(*torch.linalg.eigh(hermitian(x)))

    assert gradcheck(pairs, (A,), check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(pairs, (A,))


def test_gradient_of_eigh_is_hermitian() -> None:
    A = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    vectors = torch.linalg.eigh(A)[1]
    (vectors * torch.arange(9.0).double().view(3, 3)).sum().backward()
    assert torch.allclose(A.grad, A.grad.mT)


@pytest.mark.parametrize(
    "loss, words",
    [
        (lambda x: torch.linalg.svd(x)[0], "svd_backward: The singular vectors in the complex"),
        (lambda x: torch.linalg.eigh(x)[1], "linalg_eigh_backward: The eigenvectors in the"),
        (lambda x: torch.linalg.eig(x)[1], "linalg_eig_backward: The eigenvectors in the"),
    ],
)
def test_gradients_that_depend_on_phases_are_refused(loss: Any, words: str) -> None:
    A = torch.randn(3, 3, dtype=torch.complex128, requires_grad=True)
    with pytest.raises(RuntimeError, match=words):
        loss(A).sum().real.backward()
    loss(A).abs().sum().backward()


def test_hermitian_pseudo_inverse_has_a_gradient() -> None:
    A = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)

    def inverse(x: Any) -> Any:
        return torch.linalg.pinv(hermitian(x) + 9 * torch.eye(3).double(), hermitian=True)

    assert gradcheck(inverse, (A,), check_forward_ad=True)


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "matrix_rank", "pinv"])
def test_values_that_are_no_numbers(name: str) -> None:
    bad = torch.stack([torch.eye(2), torch.full((2, 2), math.nan)])
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\): The algorithm fail"):
        getattr(torch.linalg, name)(bad)
    with pytest.raises(torch.linalg.LinAlgError, match="linalg.[a-z]*: The algorithm failed"):
        getattr(torch.linalg, name)(bad[1])


# -- functions of matrices -------------------------------------------------------------------------


def test_exponential() -> None:
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    angles = torch.tensor([0.0, 0.5, 40.0], dtype=torch.float64).view(3, 1, 1)
    found = torch.matrix_exp(turn * angles)
    cos, sin = angles.cos(), angles.sin()
    expected = torch.cat([torch.cat([cos, -sin], -1), torch.cat([sin, cos], -1)], -2)
    assert torch.allclose(found, expected, atol=1e-12)
    assert bool(torch.matrix_exp(torch.full((2, 2), 1e3)).isinf().all())
    assert bool(torch.matrix_exp(torch.full((2, 2), math.nan)).isnan().all())


def test_ranks_and_conditions() -> None:
    A = torch.diag(torch.tensor([4.0, 1.0, 1e-9]))
    assert torch.linalg.matrix_rank(A).item() == 2
    assert torch.linalg.matrix_rank(A, tol=2.0).item() == 1
    assert torch.linalg.matrix_rank(A, atol=torch.tensor([2.0, 1e-10])).tolist() == [1, 3]
    assert torch.linalg.cond(torch.zeros(2, 2), 1).item() == math.inf
    assert torch.linalg.matrix_norm(A, "nuc").item() == pytest.approx(5)
    assert torch.norm(A, "nuc").item() == pytest.approx(5)
    square = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    inverse = torch.linalg.inv(square)
    assert torch.allclose(torch.matrix_power(square, -2), inverse @ inverse)


# -- polynomials -----------------------------------------------------------------------------------


def test_polynomials_of_high_degree() -> None:
    x = torch.tensor([-1.0, -0.3, 0.0, 0.5, 1.0], dtype=torch.float64)
    angle = x.acos()
    found = torch.special.chebyshev_polynomial_t(x, 1000)
    assert torch.allclose(found, (1000 * angle).cos(), atol=1e-9)
    assert torch.special.chebyshev_polynomial_u(x, 1000)[[0, -1]].tolist() == [1001.0, 1001.0]
    assert torch.special.chebyshev_polynomial_v(x, 11)[[0, -1]].tolist() == [-23.0, 1.0]
    assert torch.special.legendre_polynomial_p(x, torch.tensor(3.0)).tolist() == pytest.approx(
        [(5 * v**3 - 3 * v) / 2 for v in x.tolist()]
    )
    assert bool(torch.special.hermite_polynomial_h(x, 600).isnan().all())
    assert torch.special.laguerre_polynomial_l(x, -1).tolist() == [0.0] * 5


def test_airy() -> None:
    x = torch.tensor([-200.0, -6.5, -5.0, -1.0, 0.0, 2.0, 2.5, 40.0, 110.0], dtype=torch.float64)
    expected = [
        0.14889394248381, -0.23802030199712, 0.35076100902411, 0.53556088329235, 0.35502805388782,
        0.034924130423274, 0.01572592338047, 6.3657426585529e-75, 0.0,
    ]  # fmt: skip
    found = torch.special.airy_ai(x).tolist()
    assert np.allclose(found, expected, rtol=1e-12, atol=0)
