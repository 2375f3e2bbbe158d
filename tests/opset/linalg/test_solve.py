"""Solutions, inverses, determinants and least squares: errors, singular matrices, shapes."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.autograd import grad, gradcheck, gradgradcheck

linalg = torch.linalg


def draw(*shape: int, dtype: Any = torch.float64) -> Any:
    torch.manual_seed(4)
    return torch.randn(*shape, dtype=dtype)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (linalg.inv, "linalg.inv: The diagonal element 2 is zero, the inversion could not be"),
        (torch.inverse, "linalg.inv: The diagonal element 2 is zero"),
        (
            lambda a: linalg.inv_ex(a, check_errors=True),
            "linalg.inv_ex: The diagonal element 2 is zero",
        ),
        (
            lambda a: linalg.solve(a, a),
            "torch.linalg.solve: The solver failed because the input matrix is singular.",
        ),
        (lambda a: linalg.tensorinv(a, 1), "inv: The diagonal element 2 is zero"),
        (
            lambda a: linalg.inv(torch.stack([torch.eye(2), a])),
            r"linalg.inv: \(Batch element 1\): The diagonal element 2 is zero",
        ),
    ],
)
def test_singular_matrices_are_refused(call: Any, words: str) -> None:
    with pytest.raises(linalg.LinAlgError, match="^" + words):
        call(torch.ones(2, 2))


def test_info_instead_of_an_error() -> None:
    batch = torch.stack([torch.eye(2), torch.ones(2, 2)])
    inverse, info = linalg.inv_ex(batch)
    assert info.tolist() == [0, 2]
    assert inverse[0].tolist() == [[1, 0], [0, 1]]
    inf = float("inf")
    assert inverse[1].tolist() == [[inf, -inf], [-inf, inf]]
    assert linalg.solve_ex(batch, batch).info.tolist() == [0, 2]


def test_vectors_and_matrices_on_the_right() -> None:
    batch = draw(2, 3, 3) + 3 * torch.eye(3)
    vectors, matrices = draw(2, 3), draw(3, 2)
    assert torch.allclose((batch @ linalg.solve(batch, vectors)[..., None])[..., 0], vectors)
    assert linalg.solve(batch, draw(3)).shape == (2, 3)
    assert torch.allclose(batch @ linalg.solve(batch, matrices), matrices.expand(2, 3, 2))
    rows = draw(4, 3)
    assert torch.allclose(linalg.solve(batch, rows, left=False) @ batch, rows.expand(2, 4, 3))


def test_mismatches_are_worded() -> None:
    with pytest.raises(RuntimeError, match=r"the equation AX = B \(2x2 and 3x2\)"):
        linalg.solve(torch.eye(2), torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="found A of type Float and B of type Double instead"):
        linalg.solve(torch.eye(2), torch.ones(2, 2, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="linalg.inv: Low precision dtypes not supported"):
        linalg.inv(torch.eye(2, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="Expected A and B to have the same dtype"):
        linalg.solve_triangular(torch.eye(2), torch.ones(2, 2) * 1j, upper=True)


def test_triangular_systems_take_what_widens() -> None:
    found = linalg.solve_triangular(torch.eye(2) * 2j, torch.ones(2, 1), upper=True)
    assert found.tolist() == [[-0.5j], [-0.5j]]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize(
    ("matrix", "adjugate"),
    [
        ([[1.0, 2.0], [2.0, 4.0]], [[4.0, -2.0], [-2.0, 1.0]]),
        ([[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [-1.0, 0.0]]),
        ([[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]),
    ],
)
def test_the_determinant_of_a_singular_matrix_has_a_gradient(
    matrix: Any, adjugate: Any, create_graph: bool
) -> None:
    given = torch.tensor(matrix, dtype=torch.float64, requires_grad=True)
    (found,) = grad(linalg.det(given), given, create_graph=create_graph)
    assert torch.allclose(found, torch.tensor(adjugate, dtype=torch.float64), atol=1e-6)


def test_second_derivatives_of_a_singular_determinant() -> None:
    matrix = torch.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]], dtype=torch.float64)
    given = torch.stack([matrix, torch.eye(3, dtype=torch.float64)]).requires_grad_()
    (first,) = grad(torch.det(given).sum(), given, create_graph=True)
    (second,) = grad(first[:, 0, 0].sum(), given)
    wanted = [[[0, 0, 0], [0, 1, -1], [0, -6, 4]], [[0, 0, 0], [0, 1, 0], [0, 0, 1]]]
    assert torch.allclose(second, torch.tensor(wanted, dtype=torch.float64))


def test_logarithms_of_determinants() -> None:
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    sign, logarithm = linalg.slogdet(matrix)
    assert sign.item() == -1
    assert logarithm.item() == pytest.approx(0.6931472)
    assert torch.logdet(matrix).isnan().item()
    sign, logarithm = linalg.slogdet(torch.zeros(2, 2))
    assert (sign.item(), logarithm.item()) == (0, float("-inf"))
    assert linalg.det(torch.empty(0, 0)).item() == 1
    given = draw(2, 3, 3, dtype=torch.complex128).requires_grad_()
    assert gradcheck(torch.logdet, (given,))
    assert gradgradcheck(lambda a: linalg.slogdet(a)[0], (given,))


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_least_squares(driver: str) -> None:
    matrix, values = draw(2, 4, 2), draw(2, 4, 3)
    found = linalg.lstsq(matrix, values, driver=driver)
    rest = matrix @ found.solution - values
    assert torch.allclose(matrix.mT @ rest, torch.zeros(2, 2, 3, dtype=torch.float64), atol=1e-9)
    assert found.solution.stride() == (12, 1, 4)
    if driver == "gelsy":
        assert found.residuals.shape == (0,)
    else:
        assert torch.allclose(found.residuals, (rest * rest).sum(-2))
    assert found.rank.tolist() == ([] if driver == "gels" else [2, 2])
    assert found.singular_values.shape == ((2, 2) if driver in ("gelsd", "gelss") else (0,))


def test_least_squares_of_a_matrix_without_full_rank() -> None:
    matrix = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    found = linalg.lstsq(matrix, torch.ones(3, 1), driver="gelsd")
    assert torch.allclose(found.solution, torch.full((2, 1), 3 / 14))
    assert found.rank.item() == 1
    assert found.residuals.shape == (0,)
    with pytest.raises(linalg.LinAlgError, match="does not have full rank"):
        linalg.lstsq(matrix, torch.ones(3, 1), driver="gels")


def test_negative_powers() -> None:
    matrix = draw(2, 2) + 3 * torch.eye(2)
    found = linalg.matrix_power(matrix, -2) @ matrix @ matrix
    assert torch.allclose(found, torch.eye(2, dtype=torch.float64))


def test_solving_tensors() -> None:
    matrix = (draw(6, 6) + 4 * torch.eye(6)).reshape(2, 3, 6)
    values = draw(2, 3)
    found = linalg.tensorsolve(matrix, values)
    assert torch.allclose(torch.tensordot(matrix, found, 1), values)
    assert torch.allclose(torch.tensordot(linalg.tensorinv(matrix), values, 2), found)


def test_limits_beyond_one_are_no_limits_to_gelsd():
    # Singular values 4 and 1.
    matrix = torch.tensor([[4.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    values = torch.tensor([[8.0], [3.0], [5.0]])
    for limit in (1.0, 7.0, float("inf"), float("nan")):
        found = torch.linalg.lstsq(matrix, values, rcond=limit, driver="gelsd")
        assert found.solution.flatten().tolist() == pytest.approx([2, 3]) and found.rank == 2
    found = torch.linalg.lstsq(matrix, values, rcond=0.5, driver="gelsd")
    assert found.solution.flatten().tolist() == pytest.approx([2, 0]) and found.rank == 1
    found = torch.linalg.lstsq(matrix, values, rcond=2.0, driver="gelss")
    assert found.solution.flatten().tolist() == [0, 0] and found.rank == 0


def test_gelsy_keeps_the_longest_column():
    matrix = torch.tensor([[0.0, 4.0], [1.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    values = torch.tensor([[8.0], [3.0], [5.0]], dtype=torch.float64)
    for limit in (0.5, 1.0, 9.0):
        found = torch.linalg.lstsq(matrix, values, rcond=limit, driver="gelsy")
        assert found.solution.flatten().tolist() == pytest.approx([0, 2]) and found.rank == 1
    found = torch.linalg.lstsq(matrix.expand(2, 3, 2), values.expand(2, 3, 1), rcond=0.1)
    assert found.solution.flatten().tolist() == pytest.approx([3, 2, 3, 2])
    nothing = torch.linalg.lstsq(torch.zeros_like(matrix), values, rcond=1.0, driver="gelsy")
    assert nothing.solution.tolist() == [[0], [0]] and nothing.rank == 0
