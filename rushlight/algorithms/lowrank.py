"""Factorisations of low rank from random projections: svd_lowrank, pca_lowrank."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.dispatch import overridable
from rushlight.opset import functions as aten
from rushlight.opset.creation.random import randn

__all__ = ["pca_lowrank", "svd_lowrank"]


def working_dtype(A: Any) -> Any:
    """The dtype to compute in: halves stay, whatever is no floating point number is float32."""
    dtype = A.dtype
    kept = (dtypes.float16, dtypes.float32, dtypes.float64)
    return dtype if dtype in kept else dtypes.float32


def is_sparse(A: Any) -> bool:
    return bool(A.layout.name == "sparse_coo")


def product(A: Any, B: Any) -> Any:
    """A @ B for a dense or sparse A; a missing one is the identity."""
    if A is None:
        return B
    return aten._sparse_mm(A, B) if is_sparse(A) else aten.matmul(A, B)


def adjoint(A: Any) -> Any:
    return A.transpose(-2, -1) if is_sparse(A) else A.mH


def projected(A: Any, M: Any, directions: Any, turned: bool = False) -> Any:
    """(A - M) @ directions, or that of the adjoint, without forming the difference."""
    found = product(adjoint(A) if turned else A, directions)
    if M is None:
        return found
    return found - product(adjoint(M) if turned else M, directions)


def range_basis(A: Any, q: int, niter: int, M: Any) -> Any:
    """q orthonormal columns that nearly span the range of A - M: a random sample of it, refined by
    applying the matrix and its adjoint in turns."""
    dtype = A.dtype if A.is_complex() else working_dtype(A)
    Q = randn(A.shape[-1], q, dtype=dtype, device=A.device)
    for turned in (False, *(True, False) * niter):
        Q = aten.linalg_qr(projected(A, M, Q, turned))[0]
    return Q


def factorised(A: Any, q: int | None, niter: int | None, M: Any) -> tuple[Any, Any, Any]:
    q, niter = 6 if q is None else q, 2 if niter is None else niter
    wide = A.shape[-2] < A.shape[-1]
    M = None if M is None else M.broadcast_to(A.shape)
    if wide:
        A, M = adjoint(A), None if M is None else adjoint(M)
    Q = range_basis(A, q, niter, M)
    small = adjoint(projected(A, M, Q, turned=True))
    U, S, Vh = aten.linalg_svd(small, False)
    U, V = Q.matmul(U), Vh.mH
    return (V, S, U) if wide else (U, S, V)


@overridable
def svd_lowrank(
    A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None
) -> tuple[Any, Any, Any]:
    """(U, S, V) with `q` columns such that A - M is nearly U diag(S) V^H, found with `niter` rounds
    of subspace iteration from a random start. A may be sparse."""
    return factorised(A, q, niter, M)


@overridable
def pca_lowrank(
    A: Any, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Any, Any, Any]:
    """The principal components of the rows of A: `svd_lowrank` of A less its mean row."""
    rows, columns = A.shape[-2:]
    most = min(rows, columns)
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not center:
        return factorised(A, q, niter, None)
    if not is_sparse(A):
        return factorised(A - A.mean((-2,), True), q, niter, None)
    if A.dim() != 2:
        raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
    mean = aten.sum(A, (0,)).to_dense() / rows
    return factorised(A, q, niter, mean.unsqueeze(0).expand(rows, columns))
