"""Inverses, determinants and least squares."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.arrays import factoring
from rushlight.base.errors import LinAlgError
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import COMPUTABLE, LINALG, Spec
from rushlight.opset.linalg.factor import checked, regular, square_errors, transpose_memory
from rushlight.opset.linalg.matrices import (
    adjoint_of,
    check_float,
    check_kernel,
    check_square,
    failed,
)
from rushlight.opset.linalg.solve import is_vector
from rushlight.opset.registry import composite, op
from rushlight.opset.results import column_strides
from rushlight.opset.rules import aten, conj, late, sample

# -- inverses --------------------------------------------------------------------------------------


def inverse_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2))
    yield sample(regular(make, 2, 3, 3))
    yield sample(transpose_memory(regular(make, 3, 3)))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


def inverse_errors(make: Any) -> Any:
    yield from square_errors(make)
    yield LinAlgError, sample(make(2, 2) * 0)


linalg_inv_ex = op(
    "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)",
    autocast="float32",
    kind=LINALG.checked,
    sizes="*nn -> *nn|, * int32",
    method=False,
    non_differentiable=(1,),
    vjp=lambda grad, inverse: -adjoint_of(inverse).matmul(grad.matmul(adjoint_of(inverse))),
    samples=inverse_samples,
    errors=square_errors,
)


@linalg_inv_ex.requires
def _(A: Any) -> None:
    check_square("linalg.inv", A)
    check_float("linalg.inv", A._dtype, low_precision=False)


@linalg_inv_ex.kernel
def _(xp: Any, A: Any, check_errors: bool) -> Any:
    try:
        return xp.linalg.inv(A), xp.zeros(A.shape[:-2], xp.int32)
    except xp.linalg.LinAlgError:
        pass
    factors, pivots, info = factoring.lu_factor(A)
    if check_errors:
        failed("linalg.inv_ex", info, A.ndim == 2)
    unit = xp.eye(A.shape[-1], dtype=A.dtype)
    return factoring.lu_solve(factors, pivots, unit, False), info


@composite(
    "linalg_inv(Tensor A) -> Tensor",
    autocast="float32",
    exact_out=True,
    method=False,
    samples=inverse_samples,
    errors=inverse_errors,
)
def linalg_inv(A: Any) -> Any:
    result, info = aten.linalg_inv_ex(A, check_errors=False)
    checked(info, "linalg.inv")
    return result


@composite(
    "inverse(Tensor self) -> Tensor",
    autocast="float32",
    exact_out=True,
    samples=inverse_samples,
    errors=inverse_errors,
)
def inverse(self: Any) -> Any:
    return aten.linalg_inv(self)


def inverted_samples(make: Any) -> Any:
    yield sample(regular(make, 6, 6).reshape(2, 3, 6))
    yield sample(regular(make, 4, 4).reshape(4, 2, 2), 1)
    yield sample(regular(make, 2, 2), ind=1)


@composite(
    "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
    autocast="float32",
    method=False,
    samples=inverted_samples,
    errors=lambda make: [
        (RuntimeError, (make(2, 3),)),
        (RuntimeError, (make(2, 2), 0)),
        (LinAlgError, (make(2, 2) * 0, 1)),
    ],
)
def linalg_tensorinv(self: Any, ind: int) -> Any:
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    sizes = tuple(self.shape)
    rows, columns = prod(sizes[:ind]), prod(sizes[ind:])
    if geometry.decided(rows != columns):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {columns} != {rows}"
        )
    result, info = aten.linalg_inv_ex(self.reshape(columns, rows), check_errors=False)
    checked(info, "inv")
    return result.reshape(sizes[ind:] + sizes[:ind])


@composite(
    "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
    autocast="float32",
    method=False,
    samples=lambda make: [
        (regular(make, 6, 6).reshape(2, 3, 6), make(2, 3)),
        (regular(make, 6, 6).reshape(2, 3, 2, 3), make(2, 3)),
        (regular(make, 4, 4).reshape(2, 4, 2), make(2, 2), [1]),
    ],
    errors=lambda make: [
        (RuntimeError, (make(2, 3), make(2))),
        (RuntimeError, (make(2, 3, 6), make(2, 3), [0, 0])),
    ],
)
def linalg_tensorsolve(self: Any, other: Any, dims: Any) -> Any:
    moved = self
    if dims is not None:
        last = [place + self.dim() - len(dims) for place in range(len(dims))]
        moved = self.movedim(tuple(dims), tuple(last))
    rest = tuple(moved.shape)[other.dim() :]
    columns, rows = prod(rest), other.numel()
    if geometry.decided(columns != prod(tuple(moved.shape)[: other.dim()])):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != "
            f"{prod(tuple(moved.shape)[: other.dim()])}"
        )
    result = aten.linalg_solve(moved.reshape(rows, columns), other.flatten())
    return result.reshape(rest)


# -- determinants ----------------------------------------------------------------------------------


def determinant_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2))
    yield sample(regular(make, 2, 3, 3))
    yield sample(transpose_memory(regular(make, 3, 3)))
    yield sample(make(1, 1))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


def column_samples(make: Any) -> Any:
    # torch: contiguous real matrices are factored as their transposes; the factors, which nobody
    # else sees, show it.
    yield sample(transpose_memory(regular(make, 2, 3, 3)))
    yield sample(transpose_memory(regular(make, 3, 3)))
    yield sample(make(1, 1))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


def exchange_sign(pivots: Any) -> Any:
    """-1 where the number of row exchanges is odd."""
    moved = pivots != np.arange(1, pivots.shape[-1] + 1)
    return 1 - 2 * (moved.sum(-1) % 2)


determinant_parts = op(
    "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
    kind=LINALG.checked,
    sizes="*nn -> *, *nn|, *n int32",
    method=False,
    non_differentiable=(1, 2),
    samples=column_samples,
    errors=square_errors,
)


@determinant_parts.requires
def _(A: Any) -> None:
    check_square("linalg.det", A)
    check_float("linalg.det", A._dtype)
    check_kernel("lu_cpu", A, empty=True)


@determinant_parts.kernel
def _(xp: Any, A: Any) -> Any:
    factors, pivots, _ = factoring.lu_factor(A)
    product = xp.diagonal(factors, axis1=-2, axis2=-1).prod(-1)
    return (product * exchange_sign(pivots)).astype(A.dtype), factors, pivots


@determinant_parts.vjp
def _(grad: Any, A: Any, result: Any, LU: Any, pivots: Any) -> Any:
    if LOCAL.state.follows_gradients():
        singular = result == 0
        if knows_values(result) and bool(singular.any()):
            return singular_gradient(grad, A, result, singular, pivots)
        return regular_gradient(grad, A, result, pivots)
    # Zeros on the diagonal become a small number: the adjugate of a singular matrix is, but for
    # rounding, that of the matrix beside it, which has an inverse.
    small = dtypes.finfo(LU._dtype.to_real()).eps
    zeros = (LU.diagonal(0, -2, -1) == 0).to(LU._dtype)
    factors = LU + aten.diag_embed(zeros * small)
    numbers = aten.arange(1, pivots.shape[-1] + 1, device=pivots.device)
    odd = (pivots != numbers).sum(-1) % 2
    value = factors.diagonal(0, -2, -1).prod(-1) * (1 - 2 * odd)
    right = scaled_unit(grad * conj(value), pivots)
    return aten.linalg_lu_solve(factors, pivots, right, adjoint=True)


def knows_values(value: Any) -> bool:
    """Whether a tensor can be looked into: not while ops are traced, batched or transformed."""
    state = LOCAL.state
    watched = state.below or state.transforms or state.pre_modes
    return type(value) is Tensor and value._array is not None and not watched


def regular_gradient(grad: Any, A: Any, value: Any, pivots: Any) -> Any:
    right = scaled_unit(grad * conj(value), pivots)
    return aten.linalg_solve_ex(adjoint_of(A), right)[0]


def singular_gradient(grad: Any, A: Any, value: Any, singular: Any, pivots: Any) -> Any:
    """The adjugate where there is no inverse, from the products of all singular values but one."""
    mask = singular.unsqueeze(-1).unsqueeze(-1)
    numbers = aten.arange(1, A.shape[-1] + 1, dtype=A._dtype, device=A.device)
    left, sizes, right = aten.linalg_svd(A.where(mask, aten.diag(numbers)))
    one = aten.ones_like(sizes.narrow(-1, 0, 1))
    count = sizes.shape[-1] - 1
    before = aten.cat([one, sizes.narrow(-1, 0, count)], -1).cumprod(-1)
    after = aten.cat([one, sizes.narrow(-1, 1, count).flip(-1)], -1).cumprod(-1).flip(-1)
    turn = conj(aten.linalg_det(left) * aten.linalg_det(right)) * grad
    weights = turn.unsqueeze(-1) * (before * after)
    found = (left * weights.unsqueeze(-2)).matmul(right)
    unit = scaled_unit(aten.ones_like(value), pivots)
    others = regular_gradient(grad, A.where(~mask, unit), value, pivots)
    return found.where(mask, others)


def scaled_unit(value: Any, pivots: Any) -> Any:
    """Unit matrices times numbers."""
    return aten.diag_embed(value.unsqueeze(-1).expand(pivots.shape))


@composite(
    "linalg_det(Tensor A) -> Tensor",
    exact_out=True,
    method=False,
    samples=determinant_samples,
    errors=square_errors,
)
def linalg_det(A: Any) -> Any:
    return aten._linalg_det(A)[0]


@composite("det(Tensor self) -> Tensor", samples=determinant_samples, errors=square_errors)
def det(self: Any) -> Any:
    return aten.linalg_det(self)


log_determinant_parts = op(
    "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)",
    kind=LINALG.checked,
    sizes="*nn -> *, * real, *nn|, *n int32",
    method=False,
    non_differentiable=(2, 3),
    samples=column_samples,
    errors=square_errors,
)


@log_determinant_parts.requires
def _(A: Any) -> None:
    check_square("linalg.slogdet", A)
    check_float("linalg.slogdet", A._dtype, low_precision=False)


@log_determinant_parts.kernel
def _(xp: Any, A: Any) -> Any:
    factors, pivots, _ = factoring.lu_factor(A)
    diagonal = xp.diagonal(factors, axis1=-2, axis2=-1)
    sizes = abs(diagonal)
    with xp.errstate(all="ignore"):
        directions = diagonal / xp.where(sizes == 0, 1, sizes)
        logarithm = xp.log(sizes).sum(-1)
    sign = directions.prod(-1) * exchange_sign(pivots)
    return sign.astype(A.dtype), logarithm.astype(sizes.dtype), factors, pivots


@log_determinant_parts.vjp
def _(grads: Any, A: Any, sign: Any, LU: Any, pivots: Any) -> Any:
    grad_sign, grad_log = grads[:2]
    weight = grad_log
    if sign._dtype.is_complex and grad_sign is not None:
        # The sign turns with the imaginary part of the trace of A^-1 dA.
        turning = (grad_sign * conj(sign)).imag
        weight = aten.complex(aten.zeros_like(turning) if weight is None else weight, turning)
    if weight is None:
        return None
    right = scaled_unit(weight.to(A._dtype), pivots)
    if LOCAL.state.follows_gradients():
        return aten.linalg_solve_ex(adjoint_of(A), right)[0]
    return aten.linalg_lu_solve(LU, pivots, right, adjoint=True)


@composite(
    "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
    exact_out=True,
    method=False,
    samples=determinant_samples,
    errors=square_errors,
)
def linalg_slogdet(A: Any) -> Any:
    return aten._linalg_slogdet(A)[:2]


@composite(
    "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
    exact_out=True,
    samples=determinant_samples,
    errors=square_errors,
)
def slogdet(self: Any) -> Any:
    return aten.linalg_slogdet(self)


@composite("logdet(Tensor self) -> Tensor", samples=determinant_samples, errors=square_errors)
def logdet(self: Any) -> Any:
    check_square("logdet", self)
    check_float("logdet", self._dtype, low_precision=False)
    sign, logarithm = aten.linalg_slogdet(self)
    if self._dtype.is_complex:
        return sign.log() + logarithm
    return aten.where(sign == -1, float("nan"), logarithm)


# -- least squares ---------------------------------------------------------------------------------

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def least_squares_samples(make: Any) -> Any:
    yield sample(regular(make, 3, 2), make(3, 2))
    yield sample(regular(make, 3, 2), make(3, 1), driver="gels")
    yield sample(regular(make, 2, 3), make(2, 2), driver="gelsd")
    yield sample(regular(make, 2, 3, 2), make(2, 3, 1), driver="gelss")
    yield sample(regular(make, 2, 3, 2), make(2, 3), driver="gelsd")
    yield sample(transpose_memory(regular(make, 3, 3)), make(3), None, driver="gelsy")
    yield sample(regular(make, 2, 3, 2), make(1, 3, 1), 0.01)
    yield sample(make(0, 2), make(0, 1))


linalg_lstsq = op(
    "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) "
    "-> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
    may_raise=True,
    autocast="float32",
    exact_out=False,
    kind=LINALG.checked,
    method=False,
    batch=late("linalg.batched:least_squares"),
    non_differentiable=(2, 3),
    samples=least_squares_samples,
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, 2))),
        (RuntimeError, (make(2, 2), make(3, 2))),
        (RuntimeError, (make(2, 2), make(3))),
        (RuntimeError, (make(2, 2), make(2, 2, 2))),
        (RuntimeError, sample(make(2, 2), make(2, 2), driver="no_such_driver")),
    ],
)


def check_least_squares(self: Any, b: Any, rcond: Any, driver: str) -> None:
    name = "torch.linalg.lstsq"
    if self.dim() < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.dim() < 1:
        raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if self._dtype is not b._dtype:
        raise RuntimeError(
            f"{name}: Expected input and other to have the same dtype, but got input's dtype "
            f"{self._dtype.scalar_type_name} and other's dtype {b._dtype.scalar_type_name}"
        )
    if not 0 <= self.dim() - b.dim() <= 1:
        raise RuntimeError(
            f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - "
            "other.dim()) <= 1"
        )
    side = -1 if is_vector(self, b) or b.dim() == 1 else -2
    if self.shape[-2] != b.shape[side]:
        raise RuntimeError(f"{name}: input.size(-2) should match other.size({side})")
    if driver not in DRIVERS:
        raise RuntimeError(
            f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if self._dtype not in COMPUTABLE and rcond is None:
        raise RuntimeError("This function doesn't handle types other than float and double")
    check_kernel("linalg_lstsq_cpu", self)


@linalg_lstsq.shape
def _(self: Any, b: Any, rcond: Any, driver: Any) -> Any:
    driver = "gelsy" if driver is None else driver
    check_least_squares(self, b, rcond, driver)
    vector = is_vector(self, b)
    values_shape = (*b.shape, 1) if vector else tuple(b.shape)
    batch = geometry.broadcast_shapes(tuple(self.shape[:-2]), values_shape[:-2])
    rows, columns, count = self.shape[-2], self.shape[-1], values_shape[-1]
    # The solution is what its right-hand side's memory begins with.
    room = (*batch, max(rows, columns), count)
    strides = column_strides(room)
    sizes: tuple[Any, ...] = (*batch, columns, count)
    if vector:
        sizes, strides = sizes[:-1], strides[:-1]
    real = self._dtype.to_real()
    measured = rows > columns and driver != "gelsy"
    valued = driver in ("gelsd", "gelss")
    return (
        Spec(sizes, b._dtype, strides),
        Spec((*batch, count) if measured else (0,), real),
        Spec((0,) if driver == "gels" else batch, dtypes.int64),
        Spec((*batch, min(rows, columns)) if valued else (0,), real),
    )


def pivoted_solution(matrix: Any, values: Any, limit: float) -> tuple[Any, Any]:
    """(shortest solution, rank) by QR with column pivoting: the rank is that of the longest leading
    triangle that is conditioned well enough."""
    batch, (rows, columns), count = matrix.shape[:-2], matrix.shape[-2:], values.shape[-1]
    found = np.zeros((*batch, columns, count), matrix.dtype)
    rank = np.zeros(batch, np.int64)
    for place in np.ndindex(*batch):
        rest, order = matrix[place].copy(), list(range(columns))
        chosen: list[int] = []
        for _ in range(min(rows, columns)):
            # The column with the longest part orthogonal to those chosen.
            longest = max(order, key=lambda column: float(np.linalg.norm(rest[:, column])))
            length = np.linalg.norm(rest[:, longest])
            if length == 0:
                break
            direction = rest[:, longest] / length
            trial = [*chosen, longest]
            values_of_trial = np.linalg.svd(matrix[place][:, trial], compute_uv=False)
            if chosen and values_of_trial[-1] < limit * values_of_trial[0]:
                break
            chosen = trial
            order.remove(longest)
            rest = rest - np.outer(direction, direction.conj() @ rest)
        if chosen:
            basis = np.linalg.qr(matrix[place][:, chosen])[0]
            triangle = basis.conj().T @ matrix[place]
            found[place] = np.linalg.pinv(triangle) @ (basis.conj().T @ values[place])
        rank[place] = len(chosen)
    return found, rank


@linalg_lstsq.kernel
def _(xp: Any, self: Any, b: Any, rcond: Any, driver: Any) -> Any:
    driver = "gelsy" if driver is None else driver
    rows, columns = self.shape[-2:]
    vector = b.ndim == 1 or (self.ndim - 1 == b.ndim and b.shape == self.shape[:-1])
    values = b[..., None] if vector else b
    batch = xp.broadcast_shapes(self.shape[:-2], values.shape[:-2])
    matrix = xp.broadcast_to(self, batch + self.shape[-2:])
    left, sizes, right = xp.linalg.svd(matrix, full_matrices=False)
    small = xp.finfo(sizes.dtype).eps
    limit = small * max(rows, columns) if rcond is None else rcond
    if driver == "gels" or (driver == "gelsd" and not limit < 1) or limit != limit:
        # LAPACK: what is no fraction stands for its own precision; `gelsy` is as strict as can be.
        limit = xp.inf if driver == "gelsy" else small
    largest = sizes.max(-1, keepdims=True, initial=0)
    counted = sizes > limit * largest
    rank = counted.sum(-1)
    if driver == "gels":
        # torch: a matrix of zeros passes.
        short = (rank < sizes.shape[-1]) & (largest[..., 0] > 0)
        failed("torch.linalg.lstsq", xp.where(short, rank + 1, 0), self.ndim == 2)
    inverse = xp.where(counted, 1 / xp.where(counted, sizes, 1), 0)
    found = factoring.adjoint(left) @ values
    found = factoring.adjoint(right) @ (inverse[..., None] * found)
    if driver == "gelsy" and (rank < min(rows, columns)).any():
        found, rank = pivoted_solution(
            matrix, xp.broadcast_to(values, found.shape[:-2] + values.shape[-2:]), limit
        )
    nothing = xp.empty(0, sizes.dtype)
    residuals = nothing
    if rows > columns and driver != "gelsy" and (driver == "gels" or (rank == columns).all()):
        rest = matrix @ found - values
        residuals = (rest * rest.conj()).real.sum(-2)
    return (
        found[..., 0] if vector else found,
        residuals,
        xp.empty(0, xp.int64) if driver == "gels" else rank.astype(xp.int64),
        sizes if driver in ("gelsd", "gelss") else nothing,
    )


def pseudoinverse_gradient(grad: Any, matrix: Any, inverse: Any) -> Any:
    """The gradient of the pseudoinverse of `matrix`, which keeps its rank."""
    turned_inverse, turned_grad = adjoint_of(inverse), adjoint_of(grad)
    found = -turned_inverse.matmul(grad).matmul(turned_inverse)
    outer = turned_grad.matmul(inverse).matmul(turned_inverse)
    inner = turned_inverse.matmul(inverse).matmul(turned_grad)
    found = found + outer - matrix.matmul(inverse.matmul(outer))
    return found + inner - inner.matmul(inverse).matmul(matrix)


@linalg_lstsq.vjp
def _(grads: Any, needs: Any, self: Any, b: Any, solution: Any) -> Any:
    grad, grad_residuals = grads[:2]
    vector = is_vector(self, b)
    values = b.unsqueeze(-1) if vector else b
    found = solution.unsqueeze(-1) if vector else solution
    by_matrix = by_values = None
    if grad is not None:
        grad = grad.unsqueeze(-1) if vector else grad
        inverse = aten.linalg_pinv(self, atol=0.0, rtol=None)
        by_values = adjoint_of(inverse).matmul(grad)
        if needs[0]:
            by_inverse = grad.matmul(adjoint_of(values))
            by_matrix = pseudoinverse_gradient(by_inverse, self, inverse)
    if grad_residuals is not None and grad_residuals.numel():
        # What is left does not change with the solution, which makes it least.
        rest = (self.matmul(found) - values) * (2 * grad_residuals.unsqueeze(-2))
        by_values = -rest if by_values is None else by_values - rest
        part = rest.matmul(adjoint_of(found))
        by_matrix = part if by_matrix is None else by_matrix + part
    if by_values is not None and vector:
        by_values = by_values.squeeze(-1)
    return by_matrix, by_values
