"""Cholesky, LU, QR and LDL: errors, gradients of symmetric inputs, what samples cannot say."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck

linalg = torch.linalg


def draw(*shape: int, dtype: Any = torch.float64) -> Any:
    torch.manual_seed(3)
    return torch.randn(*shape, dtype=dtype)


def test_cholesky_names_the_minor_and_the_batch_element() -> None:
    bad = torch.tensor([[1.0, 2.0], [2.0, 1.0]])
    words = (
        "The factorization could not be completed because the input is not positive-definite "
        r"\(the leading minor of order 2 is not positive-definite\)\."
    )
    with pytest.raises(linalg.LinAlgError, match="^linalg.cholesky: " + words):
        linalg.cholesky(bad)
    with pytest.raises(RuntimeError, match=r"^linalg.cholesky: \(Batch element 1\): " + words):
        linalg.cholesky(torch.stack([torch.eye(2), bad]))
    with pytest.raises(linalg.LinAlgError, match="^linalg.cholesky_ex: "):
        linalg.cholesky_ex(bad, check_errors=True)
    factor, info = linalg.cholesky_ex(bad)
    assert (factor.tolist(), info.item()) == ([[1, 0], [2, -3]], 2)


def test_cholesky_reads_one_triangle() -> None:
    matrix = torch.tensor([[4.0, 99.0], [2.0, 5.0]])
    assert linalg.cholesky(matrix).tolist() == [[2, 0], [1, 2]]
    assert linalg.cholesky(matrix.mT, upper=True).tolist() == [[2, 1], [0, 2]]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_gradients_of_hermitian_matrices(dtype: Any, upper: bool) -> None:
    base = draw(2, 3, 3, dtype=dtype).requires_grad_()

    def factor(base: Any) -> Any:
        matrix = base @ base.mH + torch.eye(3, dtype=dtype)
        return linalg.cholesky(matrix, upper=upper)

    assert gradcheck(factor, (base,), check_forward_ad=True)
    assert gradgradcheck(factor, (base,))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_factors_multiply_to_the_matrix(shape: Any, dtype: Any) -> None:
    matrix = draw(*shape, dtype=dtype)
    permutation, lower, upper = linalg.lu(matrix)
    assert torch.allclose(permutation.to(dtype) @ lower @ upper, matrix)
    parts = torch.lu_unpack(*linalg.lu_factor(matrix))
    for part, wanted in zip(parts, (permutation, lower, upper), strict=True):
        assert torch.equal(part, wanted)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(matrix, mode)
        assert torch.allclose(q @ r, matrix)
        assert torch.allclose(r.triu(), r)
    assert torch.equal(linalg.qr(matrix, "r").R, linalg.qr(matrix).R)


def test_lu_factor_refuses_a_zero_pivot() -> None:
    singular = torch.ones(2, 2)
    words = r"torch.linalg.lu_factor: U\[2,2\] is zero and using it on lu_solve would result"
    with pytest.raises(RuntimeError, match=words) as caught:
        linalg.lu_factor(singular)
    assert type(caught.value) is RuntimeError
    assert linalg.lu_factor_ex(singular).info.item() == 2
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented on the CPU"):
        linalg.lu_factor(singular, pivot=False)


def test_pivots_must_fit() -> None:
    matrix = torch.eye(2)
    with pytest.raises(RuntimeError, match="must be between 1 and LU.size"):
        torch.lu_unpack(matrix, torch.tensor([7, 8], dtype=torch.int32))
    with pytest.raises(RuntimeError, match="Expected LU_pivots to have the batch dimensions"):
        torch.lu_unpack(matrix, torch.tensor([1], dtype=torch.int32))


def test_qr_has_no_gradient_without_a_unique_factor() -> None:
    tall = draw(3, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows"):
        linalg.qr(tall, "complete").R.sum().backward()
    with pytest.raises(RuntimeError, match="depends on Q, which is not computed when mode='r'"):
        linalg.qr(tall, "r").R.sum().backward()
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented"):
        torch.geqrf(tall).a.sum().backward()
    with pytest.raises(RuntimeError, match="aten::linalg_ldl_factor_ex is not implemented"):
        linalg.ldl_factor(draw(2, 2).requires_grad_()).LD.sum().backward()


def test_results_lie_column_by_column() -> None:
    matrix = draw(2, 3, 3) + 5 * torch.eye(3)
    found = [
        linalg.cholesky(matrix @ matrix.mT),
        linalg.qr(matrix).Q,
        linalg.qr(matrix).R,
        linalg.lu_factor(matrix).LU,
        linalg.inv(matrix),
        linalg.solve(matrix, matrix),
        linalg.ldl_factor(matrix).LD,
    ]
    assert {item.stride() for item in found} == {(9, 1, 3)}
    assert linalg.lu(matrix).L.stride() == (9, 3, 1)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_older_names() -> None:
    matrix = draw(3, 3)
    factors, pivots, info = torch.lu(matrix, get_infos=True)
    assert torch.equal(factors, linalg.lu_factor(matrix).LU)
    assert torch.equal(matrix.lu()[1], pivots)
    assert info.item() == 0
    vectors, tau = torch.geqrf(matrix)
    assert torch.allclose(vectors.orgqr(tau), linalg.qr(matrix).Q)
    assert torch.allclose(vectors.ormqr(tau, matrix, True, True), linalg.qr(matrix).R)


def test_factors_that_are_not_unpacked_have_no_gradient():
    data, pivots = torch.linalg.lu_factor(torch.eye(2) + 1)
    data.requires_grad_()
    _, lower, upper = torch.lu_unpack(data, pivots, unpack_data=False)
    assert torch.autograd.grad((lower.sum() + upper.sum()), data, allow_unused=True) == (None,)


def test_a_nan_is_no_positive_definite_matrix():
    nan = float("nan")
    for entries, order in (([[nan]], 1), ([[1.0, nan], [nan, 1.0]], 2)):
        matrix = torch.tensor(entries)
        with pytest.raises(torch.linalg.LinAlgError, match=f"minor of order {order}"):
            torch.linalg.cholesky(matrix)
        assert torch.linalg.cholesky_ex(matrix).info.item() == order
    batch = torch.stack([torch.eye(2), torch.full((2, 2), nan)])
    assert torch.linalg.cholesky_ex(batch).info.tolist() == [0, 1]
