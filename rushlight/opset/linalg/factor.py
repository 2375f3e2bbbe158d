"""Factors of matrices: Cholesky, LU and LDL.

Each has a form `*_ex` that answers `info` where another raises. Gradients are the classical ones,
written over triangular solves; wide and tall matrices are reduced to their square part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays import factoring
from rushlight.base.errors import LinAlgError
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import overridable
from rushlight.core.state import warn_once
from rushlight.opset.exposure import attribute
from rushlight.opset.kinds import LINALG, Spec
from rushlight.opset.linalg.matrices import (
    adjoint_of,
    check_float,
    check_kernel,
    check_square,
    failed,
    matrix_spec,
)
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, not_differentiable, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("lu",)


def definite(make: Any, *shape: int) -> Any:
    """Positive-definite matrices."""
    base = make.coarse(*shape)
    return base.matmul(adjoint_of(base)) + identity(make, shape[-1]) * 3


def identity(make: Any, size: int) -> Any:
    return aten.eye(size, dtype=make.dtype)


def regular(make: Any, *shape: int) -> Any:
    """Matrices far from singular ones."""
    return make(*shape, low=-1, high=1) + aten.eye(shape[-2], shape[-1], dtype=make.dtype) * 3


def transpose_memory(value: Any) -> Any:
    """The same matrices, not contiguous."""
    return value.transpose(-2, -1).contiguous().transpose(-2, -1)


check_errors = op(
    "_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
    may_raise=True,
    method=False,
    shape=lambda info, api_name, is_matrix: None,
    kernel=lambda xp, info, api_name, is_matrix: failed(api_name, info, is_matrix),
    batch=lambda level, op, info, api_name, is_matrix: level.below(
        op, (level.front(info), api_name, False)
    ),
    samples=lambda make: [
        sample(make.ints(2, high=0, dtype=dtypes.int32), "linalg.inv", is_matrix=False),
        sample(make.ints(high=0, dtype=dtypes.int32), "linalg.solve", is_matrix=True),
    ],
    errors=lambda make: [
        (LinAlgError, sample(make.ints(low=1, dtype=dtypes.int32), name, is_matrix=True))
        for name in ("linalg.inv", "linalg.solve", "linalg.cholesky")
    ],
)


def checked(info: Any, name: str) -> None:
    aten._linalg_check_errors(info, name, is_matrix=info.dim() == 0)


# -- Cholesky --------------------------------------------------------------------------------------


def cholesky_gradient(grad: Any, upper: bool, result: Any) -> Any:
    factor = adjoint_of(result) if upper else result
    product = adjoint_of(factor).matmul(adjoint_of(grad) if upper else grad)
    product = product.tril()
    middle = (product + adjoint_of(product.tril(-1))) * 0.5
    found = aten.linalg_solve_triangular(adjoint_of(factor), middle, upper=True)
    return aten.linalg_solve_triangular(factor, found, upper=False, left=False)


def cholesky_array(array: Any, upper: bool) -> tuple[Any, Any]:
    source = factoring.adjoint(array) if upper else array
    found, info = factoring.cholesky(source)
    return (factoring.adjoint(found) if upper else found), info


def definite_samples(make: Any) -> Any:
    yield sample(definite(make, 2, 2))
    yield sample(definite(make, 2, 3, 3), upper=True)
    yield sample(transpose_memory(definite(make, 3, 3)))
    yield sample(transpose_memory(definite(make, 2, 1, 2, 2)))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


def square_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3))
    yield RuntimeError, sample(make(2, 3))


def indefinite_errors(make: Any) -> Any:
    yield from square_errors(make)
    yield LinAlgError, sample(identity(make, 2) * -1)


linalg_cholesky_ex = op(
    "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) "
    "-> (Tensor L, Tensor info)",
    autocast="float32",
    kind=LINALG.checked,
    sizes="*nn -> *nn|, * int32",
    method=False,
    non_differentiable=(1,),
    vjp=lambda grad, upper, L: cholesky_gradient(grad, upper, L),
    samples=definite_samples,
    errors=square_errors,
)


@linalg_cholesky_ex.requires
def _(self: Any) -> None:
    check_square("linalg.cholesky", self)
    check_float("linalg.cholesky", self._dtype)
    check_kernel("cholesky_cpu", self, empty=True)


@linalg_cholesky_ex.kernel
def _(xp: Any, self: Any, upper: bool, check_errors: bool) -> Any:
    factor, info = cholesky_array(self, upper)
    if check_errors:
        failed("linalg.cholesky_ex", info, self.ndim == 2)
    return factor, info


@composite(
    "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
    autocast="float32",
    exact_out=True,
    method=False,
    samples=definite_samples,
    errors=indefinite_errors,
)
def linalg_cholesky(self: Any, upper: bool) -> Any:
    factor, info = aten.linalg_cholesky_ex(self, upper=upper, check_errors=False)
    checked(info, "linalg.cholesky")
    return factor


cholesky = op(
    "cholesky(Tensor self, bool upper=False) -> Tensor",
    autocast="float32",
    exact_out=False,
    kind=LINALG.checked,
    sizes="*nn",
    vjp=lambda grad, upper, result: cholesky_gradient(grad, upper, result),
    samples=definite_samples,
    errors=indefinite_errors,
)


@cholesky.shape
def _(self: Any, upper: bool) -> Any:
    warn_once(
        "cholesky",
        "torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a "
        "future PyTorch release.\nL = torch.cholesky(A)\nshould be replaced with\n"
        "L = torch.linalg.cholesky(A)\nand\nU = torch.cholesky(A, upper=True)\nshould be replaced "
        "with\nU = torch.linalg.cholesky(A).mH\nThis transform will produce equivalent results "
        "for all valid (symmetric positive definite) inputs.",
    )
    if geometry.is_size(self.numel(), 0) and self.dim() >= 2:
        return Spec(self.shape, self._dtype)
    check_square("cholesky", self)
    check_kernel("cholesky_cpu", self, empty=True)
    return matrix_spec(self.shape, self._dtype)


@cholesky.kernel
def _(xp: Any, self: Any, upper: bool) -> Any:
    if self.size == 0:
        return self
    factor, info = cholesky_array(self, upper)
    failed("cholesky", info, self.ndim == 2)
    return factor


def triangle(make: Any, *shape: int) -> Any:
    """Matrices like regular ones, with a real diagonal."""
    base = make(*shape, low=-1, high=1)
    return base.tril(-1) + base.triu(1) + identity(make, shape[-1]) * 2


cholesky_inverse = op(
    "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
    autocast="float32",
    exact_out=False,
    kind=LINALG.checked,
    sizes="*nn -> *nn|",
    samples=lambda make: [
        (triangle(make, 2, 2),),
        (triangle(make, 2, 3, 3), True),
        (transpose_memory(triangle(make, 3, 3)),),
        (make(0, 0),),
    ],
    errors=square_errors,
)


@cholesky_inverse.requires
def _(self: Any) -> None:
    check_square("cholesky_inverse", self)
    check_kernel("cholesky_inverse_out_cpu", self)


@cholesky_inverse.kernel
def _(xp: Any, self: Any, upper: bool) -> Any:
    unit = xp.eye(self.shape[-1], dtype=self.dtype)
    found = factoring.substitute(factoring.adjoint(self) if upper else self, unit, upper=False)
    return factoring.adjoint(found) @ found


@cholesky_inverse.vjp
def _(grad: Any, self: Any, upper: bool, result: Any) -> Any:
    factor = adjoint_of(self.triu()) if upper else self.tril()
    both = result.matmul(grad + adjoint_of(grad)).matmul(result)
    found = -both.matmul(factor).tril()
    return adjoint_of(found) if upper else found


# -- LU --------------------------------------------------------------------------------------------


def lu_gradient(grad_l: Any, grad_u: Any, permutation: Any, lower: Any, upper: Any) -> Any:
    """The gradient of P @ L @ U = A for A. Beside the square part of A stand columns, or rows,
    that the factors of the square part determine."""
    rows, columns = lower.shape[-2], upper.shape[-1]
    rank = min(rows, columns)
    square_l = lower.narrow(-2, 0, rank)
    square_u = upper.narrow(-1, 0, rank)
    below: Any = None
    above: Any = None
    if grad_l is not None:
        below = adjoint_of(square_l).matmul(grad_l.narrow(-2, 0, rank))
    if grad_u is not None:
        above = grad_u.narrow(-1, 0, rank).matmul(adjoint_of(square_u))
    if columns > rank and grad_u is not None:
        beside = grad_u.narrow(-1, rank, columns - rank)
        product = beside.matmul(adjoint_of(upper.narrow(-1, rank, columns - rank)))
        below = -product if below is None else below - product
    if rows > rank and grad_l is not None:
        under = grad_l.narrow(-2, rank, rows - rank)
        product = adjoint_of(lower.narrow(-2, rank, rows - rank)).matmul(under)
        above = -product if above is None else above - product
    if below is None:
        middle = above.triu()
    else:
        middle = below.tril(-1)
        middle = middle if above is None else middle + above.triu()
    found = aten.linalg_solve_triangular(adjoint_of(square_u), middle, upper=False, left=False)
    turned_l = adjoint_of(square_l)
    if columns > rank:
        rest = grad_u.narrow(-1, rank, columns - rank) if grad_u is not None else None
        if rest is None:
            sizes = (*middle.shape[:-1], columns - rank)
            rest = middle.new_zeros(sizes)
        found = aten.cat([found, rest], -1)
    found = aten.linalg_solve_triangular(turned_l, found, upper=True, unitriangular=True)
    if rows > rank:
        if grad_l is None:
            rest = middle.new_zeros((*middle.shape[:-2], rows - rank, rank))
        else:
            rest = aten.linalg_solve_triangular(
                adjoint_of(square_u), grad_l.narrow(-2, rank, rows - rank), upper=False, left=False
            )
        found = aten.cat([found, rest], -2)
    return permutation.matmul(found)


def refuse_unpivoted(pivot: bool) -> None:
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")


def check_lu(name: str, self: Any, pivot: bool) -> None:
    if self.dim() < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: "
            f"{geometry.show(self.shape)} instead"
        )
    check_kernel("lu_cpu", self, empty=True)
    refuse_unpivoted(pivot)


def rectangle_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2))
    yield sample(make(3, 3))
    yield sample(regular(make, 2, 4))
    yield sample(regular(make, 2, 3, 2))
    yield sample(transpose_memory(regular(make, 3, 3)))
    yield sample(make(0, 0))
    yield sample(make(3, 0))
    yield sample(make(0, 2, 2))


def matrix_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(3))
    yield RuntimeError, sample(make())


linalg_lu_factor_ex = op(
    "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) "
    "-> (Tensor LU, Tensor pivots, Tensor info)",
    kind=LINALG.checked,
    sizes="*mn -> *mn|, *k int32, * int32",
    requires=lambda A, pivot: check_lu("torch.lu_factor", A, pivot),
    method=False,
    non_differentiable=(1, 2),
    samples=rectangle_samples,
    errors=lambda make: [
        *matrix_errors(make),
        (RuntimeError, sample(make(2, 2), pivot=False)),
        (RuntimeError, sample(make(2, 2) * 0, check_errors=True)),
    ],
)


@linalg_lu_factor_ex.kernel
def _(xp: Any, A: Any, pivot: bool, check_errors: bool) -> Any:
    factors, pivots, info = factoring.lu_factor(A)
    if check_errors:
        failed("torch.linalg.lu_factor_ex", info, A.ndim == 2)
    return factors, pivots, info


@linalg_lu_factor_ex.vjp
def _(grad: Any, LU: Any, pivots: Any) -> Any:
    rank = min(LU.shape[-2], LU.shape[-1])
    permutation, lower, upper = aten.lu_unpack(LU, pivots)
    return lu_gradient(
        grad.narrow(-1, 0, rank), grad.narrow(-2, 0, rank), permutation, lower, upper
    )


@composite(
    "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
    exact_out=True,
    method=False,
    samples=lambda make: [case for case in rectangle_samples(make) if 0 not in case.args[0].shape],
    errors=lambda make: [*matrix_errors(make), (RuntimeError, sample(make(2, 2) * 0))],
)
def linalg_lu_factor(A: Any, pivot: bool) -> Any:
    factors, pivots, info = aten.linalg_lu_factor_ex(A, pivot=pivot, check_errors=False)
    checked(info, "torch.linalg.lu_factor")
    return factors, pivots


@composite(
    "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) "
    "-> (Tensor LU, Tensor pivots, Tensor info)",
    autocast="float32",
    method=False,
    samples=lambda make: [(regular(make, 2, 2),), (regular(make, 2, 3, 2),)],
    errors=matrix_errors,
)
def lu_with_info(self: Any, pivot: bool, check_errors: bool) -> Any:
    warn_once(
        "lu",
        "torch.lu is deprecated in favor of torch.linalg.lu_factor / torch.linalg.lu_factor_ex and "
        "will be removed in a future PyTorch release.\nLU, pivots = torch.lu(A, compute_pivots)\n"
        "should be replaced with\nLU, pivots = torch.linalg.lu_factor(A, compute_pivots)\nand\n"
        "LU, pivots, info = torch.lu(A, compute_pivots, get_infos=True)\nshould be replaced with\n"
        "LU, pivots, info = torch.linalg.lu_factor_ex(A, compute_pivots)",
    )
    return aten.linalg_lu_factor_ex(self, pivot=pivot, check_errors=False)


@overridable
def lu(A: Any, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """LU factors and pivots of each matrix; with `get_infos`, also where a pivot was zero."""
    found = aten._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    found = tuple(found) if get_infos else tuple(found[:2])
    if out is None:
        return found
    if not isinstance(out, (tuple, list)) or len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    for target, value in zip(out, found, strict=True):
        target.resize_as_(value).copy_(value)
    return out


def lu_method(self: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """See `torch.lu`."""
    return lu(self, pivot, get_infos)


lu_method.__name__ = lu_method.__qualname__ = "lu"
attribute("lu", lu_method)


def parts_of(factors: Any) -> tuple[Any, Any]:
    """L and U of the array that holds both."""
    rows, columns = factors.shape[-2:]
    rank = min(rows, columns)
    lower = np.tril(factors[..., :rank], -1)
    lower[..., range(rank), range(rank)] = 1
    return lower, np.triu(factors[..., :rank, :])


def permutation_of(pivots: Any, rows: int, dtype: Any) -> Any:
    order = factoring.order_of(pivots, rows)
    return (np.arange(rows)[:, None] == order[..., None, :]).astype(dtype)


def part_shapes(self: Any) -> tuple[Any, Any, Any]:
    """Sizes of P, L and U."""
    batch, rows, columns = self.shape[:-2], self.shape[-2], self.shape[-1]
    rank = geometry.minimum(rows, columns)
    return (*batch, rows, rows), (*batch, rows, rank), (*batch, rank, columns)


linalg_lu = op(
    "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    kind=LINALG.checked,
    sizes="*mn -> *mm, *mk, *kn",
    requires=lambda A, pivot: check_lu("linalg.lu", A, pivot),
    method=False,
    non_differentiable=(0,),
    vjp=lambda grads, P, L, U: lu_gradient(grads[1], grads[2], P, L, U),
    samples=rectangle_samples,
    errors=matrix_errors,
)


@linalg_lu.kernel
def _(xp: Any, A: Any, pivot: bool) -> Any:
    factors, pivots, _ = factoring.lu_factor(A)
    return permutation_of(pivots, A.shape[-2], A.dtype), *parts_of(factors)


def factored(make: Any, *shape: int) -> tuple[Any, Any]:
    """A matrix and pivots as LU factorisations have them."""
    rank = min(shape[-2:])
    pivots = make.ints(*shape[:-2], rank, low=rank, high=shape[-2], dtype=dtypes.int32)
    return regular(make, *shape), pivots


lu_unpack = op(
    "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) "
    "-> (Tensor P, Tensor L, Tensor U)",
    kind=LINALG.checked,
    sizes="*mn, *k",
    method=False,
    any_dtype=True,
    non_differentiable=(0,),
    differentiable=["LU_data"],
    samples=lambda make: [
        sample(*factored(make, 3, 3)),
        sample(*factored(make, 2, 4)),
        sample(*factored(make, 2, 4, 2)),
        sample(*factored(make, 3, 2), False),
        sample(*factored(make, 2, 3), True, False),
        sample(transpose_memory(factored(make, 2, 2)[0]), factored(make, 2, 2)[1]),
        sample(*factored(make, 0, 2, 2)),
    ],
    errors=lambda make: [
        (RuntimeError, (make(2, 2), make.ints(2, low=1, high=1))),
        (RuntimeError, (make(2), make.ints(2, low=1, high=1, dtype=dtypes.int32))),
        (RuntimeError, (make(2, 2), make.ints(2, low=5, dtype=dtypes.int32))),
    ],
)


@lu_unpack.shape
def _(LU_data: Any, LU_pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    if unpack_pivots and LU_pivots._dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype.\nNote: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    if LU_data.dim() < 2:
        raise RuntimeError(
            "torch.lu_unpack: Expected tensor with 2 or more dimensions. Got size: "
            f"{geometry.show(LU_data.shape)} instead"
        )
    shapes = part_shapes(LU_data)
    if unpack_pivots and not geometry.fitting(
        tuple(LU_pivots.shape), shapes[1][:-2] + shapes[1][-1:]
    ):
        raise RuntimeError(
            "torch.lu_unpack: Expected LU_pivots to have the batch dimensions of LU_data and one "
            f"pivot for each of its columns, but got sizes {geometry.show(LU_pivots.shape)} for "
            f"LU_data of sizes {geometry.show(LU_data.shape)}"
        )
    wanted = (unpack_pivots, unpack_data, unpack_data)
    pairs = zip(shapes, wanted, strict=True)
    return tuple([Spec(sizes if given else (0,), LU_data._dtype) for sizes, given in pairs])


@lu_unpack.kernel
def _(xp: Any, LU_data: Any, LU_pivots: Any, unpack_data: bool, unpack_pivots: bool) -> Any:
    rows = LU_data.shape[-2]
    nothing = xp.empty(0, LU_data.dtype)
    permutation = nothing
    if unpack_pivots:
        if LU_pivots.size and not (LU_pivots.min() >= 1 and LU_pivots.max() <= rows):
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            )
        permutation = permutation_of(LU_pivots, rows, LU_data.dtype)
    lower, upper = parts_of(LU_data) if unpack_data else (nothing, nothing)
    return permutation, lower, upper


@lu_unpack.vjp
def _(grads: Any, LU_data_shape: Any, unpack_data: bool) -> Any:
    rows, columns = LU_data_shape[-2:]
    _, grad_l, grad_u = grads
    found = None
    if not unpack_data:
        return found
    if grad_l is not None:
        found = pad_to(grad_l.tril(-1), columns, -1)
    if grad_u is not None:
        upper = pad_to(grad_u.triu(), rows, -2)
        found = upper if found is None else found + upper
    return found


def pad_to(value: Any, size: Any, dim: int) -> Any:
    """Zeros at the end of a dimension, up to a size."""
    missing = size - value.shape[dim]
    if missing == 0:
        return value
    sizes = list(value.shape)
    sizes[dim] = missing
    return aten.cat([value, value.new_zeros(sizes)], dim)


# -- LDL -------------------------------------------------------------------------------------------


def symmetric(make: Any, *shape: int) -> Any:
    base = make(*shape)
    return base + base.transpose(-2, -1)


def symmetric_samples(make: Any) -> Any:
    yield sample(symmetric(make, 3, 3))
    yield sample(symmetric(make, 2, 4, 4))
    yield sample(transpose_memory(symmetric(make, 3, 3)))
    yield sample(definite(make, 3, 3), hermitian=True)
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


linalg_ldl_factor_ex = op(
    "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) "
    "-> (Tensor LD, Tensor pivots, Tensor info)",
    kind=LINALG.checked,
    sizes="*mn -> *mn|, *k int32, * int32",
    method=False,
    non_differentiable=(1, 2),
    vjp=not_differentiable("aten::linalg_ldl_factor_ex"),
    samples=symmetric_samples,
    errors=lambda make: [
        *square_errors(make),
        (RuntimeError, sample(make(2, 2) * 0, check_errors=True)),
    ],
)


@linalg_ldl_factor_ex.requires
def _(self: Any) -> None:
    check_square("torch.linalg.ldl_factor_ex", self)
    check_float("torch.linalg.ldl_factor_ex", self._dtype)
    check_kernel("ldl_factor_kernel_cpu", self, empty=True)


@linalg_ldl_factor_ex.kernel
def _(xp: Any, self: Any, hermitian: bool, check_errors: bool) -> Any:
    factors, pivots, info = factoring.ldl_factor(self, hermitian)
    if check_errors:
        failed("torch.linalg.ldl_factor_ex", info, self.ndim == 2)
    return factors, pivots, info


@composite(
    "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)",
    exact_out=True,
    method=False,
    samples=symmetric_samples,
    errors=square_errors,
)
def linalg_ldl_factor(self: Any, hermitian: bool) -> Any:
    factors, pivots, info = aten.linalg_ldl_factor_ex(self, hermitian=hermitian, check_errors=False)
    checked(info, "torch.linalg.ldl_factor")
    return factors, pivots
