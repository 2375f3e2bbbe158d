"""What ops on batches of matrices share: their kind, checks, strides, batch rules and the errors
of factorisations that fail.

An op of this kind runs its shape rule first, so that checks stand in one place, and its kernel sees
arguments that fit. Matrices come back column by column in memory, as LAPACK leaves them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.errors import LinAlgError
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.opset.kinds import COMPUTABLE
from rushlight.opset.results import Spec, column_strides

__all__ = [
    "adjoint_of", "check_float", "check_kernel", "check_square",
    "failed", "matrix_spec",
]  # fmt: skip


# -- sizes and strides -----------------------------------------------------------------------------


def matrix_spec(sizes: Any, dtype: DType) -> Spec:
    return Spec(sizes, dtype, column_strides(sizes))


# -- checks ----------------------------------------------------------------------------------------


def check_matrix(name: str, self: Any, label: str = "A") -> None:
    if self.dim() < 2:
        raise RuntimeError(f"{name}: The input tensor {label} must have at least 2 dimensions.")


def check_square(name: str, self: Any, label: str = "A") -> None:
    check_matrix(name, self, label)
    check_sides(f"{name}: ", self, label)


def check_sides(prefix: str, self: Any, label: str = "A") -> None:
    rows, columns = self.shape[-2:]
    if geometry.decided(rows != columns):
        raise RuntimeError(
            f"{prefix}{label} must be batches of square matrices, but they are {rows} by {columns} "
            "matrices"
        )


def check_float(name: str, dtype: DType, low_precision: bool = True) -> None:
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{dtype.scalar_type_name}"
        )
    if not low_precision and dtype not in COMPUTABLE:
        raise RuntimeError(
            f"{name}: Low precision dtypes not supported. Got {dtype.scalar_type_name}"
        )


def check_kernel(kernel: str, self: Any, empty: bool = False) -> None:
    """Refuse what is not computed in a dtype; with `empty`, unless there is nothing to compute."""
    if self._dtype not in COMPUTABLE and not (empty and self.numel() == 0):
        raise dtypes.unsupported(kernel, self._dtype)


# -- failures --------------------------------------------------------------------------------------

# Part of a function's name -> what a nonzero `info` of it means.
MEANINGS: tuple[tuple[str, type[Exception], str], ...] = (
    (
        "inv",
        LinAlgError,
        "The diagonal element {info} is zero, the inversion could not be completed because the "
        "input matrix is singular.",
    ),
    ("solve", LinAlgError, "The solver failed because the input matrix is singular."),
    (
        "cholesky",
        LinAlgError,
        "The factorization could not be completed because the input is not positive-definite (the "
        "leading minor of order {info} is not positive-definite).",
    ),
    (
        "svd",
        LinAlgError,
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        "many repeated singular values (error code: {info}).",
    ),
    (
        "eig",
        LinAlgError,
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        "many repeated eigenvalues (error code: {info}).",
    ),
    (
        "lstsq",
        LinAlgError,
        "The least squares solution could not be computed because the input matrix does not have "
        "full rank (error code: {info}).",
    ),
    (
        "lu_factor",
        RuntimeError,
        "U[{info},{info}] is zero and using it on lu_solve would result in a division by zero. If "
        "you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
        "linalg.lu_factor_ex(A, pivot)",
    ),
    (
        "ldl_factor",
        RuntimeError,
        "D[{info},{info}] is zero and using it on ldl_solve would result in a division by zero. "
        "Call linalg.ldl_factor_ex(A) without check_errors to have the factors all the same.",
    ),
)


def failed(name: str, info: Any, is_matrix: bool) -> None:
    """Raise what the first nonzero entry of an array of `info` means."""
    flat = info.reshape(-1)
    places = np.flatnonzero(flat)
    if not len(places):
        return
    first = int(places[0])
    where = "" if is_matrix else f"(Batch element {first}): "
    for part, error, words in MEANINGS:
        if part in name:
            raise error(f"{name}: {where}{words.format(info=int(flat[first]))}")
    raise LinAlgError(f"{name}: {where}the factorization failed (error code: {int(flat[first])}).")


# -- gradients -------------------------------------------------------------------------


def adjoint_of(value: Any) -> Any:
    """The conjugate transpose of each matrix of a tensor."""
    turned = value.transpose(-2, -1)
    return turned.conj() if value._dtype.is_complex else turned
