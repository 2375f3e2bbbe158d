"""Small functions of torch.linalg that other ops make up, and the older names of matrix norms."""

from __future__ import annotations

from typing import Any

from rushlight.arrays.precision import HALVES
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.opset.linalg.matrices import check_float
from rushlight.opset.registry import composite
from rushlight.opset.rules import aten, conj, sample


@composite(
    "linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
    autocast="lower",
    exact_out=True,
    method=False,
    samples=lambda make: [
        sample(make(3), make(3)),
        sample(make(2, 3), make(3)),
        sample(make.strided(2, 3), make(2, 1), dim=0),
        sample(make(), make()),
        sample(make(2, 0), make(2, 0)),
    ],
    errors=lambda make: [
        (RuntimeError, (make(3), make(2))),
        (RuntimeError, (make.ints(3), make.ints(3))),
        (RuntimeError, (make(3), make(3, dtype=dtypes.float64))),
    ],
)
def linalg_vecdot(x: Any, y: Any, dim: int) -> Any:
    check_float("linalg.vecdot", x._dtype)
    if x._dtype is not y._dtype:
        raise RuntimeError(
            "linalg.vecdot: Expected x and y to have the same dtype, but found x of type "
            f"{x._dtype.scalar_type_name} and y of type {y._dtype.scalar_type_name} instead"
        )
    if x.dim() == 1 and y.dim() == 1:
        return x.vdot(y)
    return (conj(x) * y).sum(dim)


@composite(
    "linalg_diagonal(Tensor(a) A, *, int offset=0, int dim1=-2, int dim2=-1) -> Tensor(a)",
    method=False,
    samples=lambda make: [
        sample(make(2, 3)),
        sample(make.strided(2, 3, 2), offset=1, dim1=0, dim2=1),
        sample(make(0, 2)),
    ],
    errors=lambda make: [
        (IndexError, (make(3),)),
        (RuntimeError, sample(make(2, 2), dim1=0, dim2=0)),
    ],
)
def linalg_diagonal(A: Any, offset: int, dim1: int, dim2: int) -> Any:
    return A.diagonal(offset, dim1, dim2)


@composite(
    "linalg_vander(Tensor x, *, SymInt? N=None) -> Tensor",
    method=False,
    samples=lambda make: [
        sample(make(3)),
        sample(make(2, 3), N=2),
        sample(make.strided(2, 2), N=4),
        sample(make(0, 2)),
    ],
    errors=lambda make: [
        (RuntimeError, (make(),)),
        (RuntimeError, sample(make(3), N=1)),
        (RuntimeError, (make.mask(3),)),
    ],
)
def linalg_vander(x: Any, N: Any) -> Any:
    if x._dtype is dtypes.bool_ or x._dtype in HALVES:
        # torch: half precision is none of the floating point dtypes meant.
        raise RuntimeError(
            "linalg.vander supports floating point, complex, and integer tensors, but got "
            f"{x._dtype.scalar_type_name}"
        )
    if x.dim() == 0:
        x = x.unsqueeze(0)
    if N is None:
        N = x.shape[-1]
    if N <= 1:
        raise RuntimeError("N must be greater than 1.")
    shape = tuple(x.shape)
    powers = x.unsqueeze(-1).expand((*shape, N - 1)).cumprod(-1)
    return aten.cat([powers.new_ones((*shape, 1)), powers], -1)


@composite(
    "frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    method=False,
    samples=lambda make: [
        (make(2, 3), [0, 1]),
        (make(2, 3), [1], True),
        (make.strided(2, 3, 2), [-1, 0]),
        (make(2, 3), []),
    ],
    errors=lambda make: [
        (RuntimeError, (make(2, 2, 2), [0, 1, 2])),
        (IndexError, (make(2), [3])),
    ],
)
def frobenius_norm(self: Any, dim: Any, keepdim: bool) -> Any:
    if len(dim) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return aten.linalg_vector_norm(self, 2.0, dim, keepdim)


@composite(
    "nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
    exact_out=True,
    method=False,
    samples=lambda make: [(make(2, 3),), (make.strided(2, 3), True)],
    errors=lambda make: [(RuntimeError, (make(2),))],
)
def nuclear_norm(self: Any, keepdim: bool) -> Any:
    return aten.linalg_matrix_norm(self, "nuc", (-2, -1), keepdim)


@composite(
    "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> Tensor",
    exact_out=True,
    method=False,
    samples=lambda make: [(make(2, 3), [0, 1]), (make.strided(2, 2, 3), [-1, 0], True)],
    errors=lambda make: [
        (RuntimeError, (make(2, 2), [0, 0])),
        (IndexError, (make(2, 2), [0, 4])),
    ],
)
def nuclear_norm_dim(self: Any, dim: Any, keepdim: bool) -> Any:
    geometry.wrap_dims(dim, self.dim())
    return aten.linalg_matrix_norm(self, "nuc", dim, keepdim)
