"""Systems of linear equations.

A solution's gradient is the solution of the adjoint system. While no graph is recorded it is found
from the factors that the forward pass left; with one, from the matrix itself, so that it can be
differentiated again.
"""

from __future__ import annotations

from typing import Any

from rushlight.arrays import factoring
from rushlight.base.errors import LinAlgError
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.state import LOCAL, warn_once
from rushlight.opset.kinds import LINALG, Spec
from rushlight.opset.linalg.factor import (
    checked,
    factored,
    regular,
    transpose_memory,
    triangle,
)
from rushlight.opset.linalg.matrices import (
    adjoint_of,
    check_float,
    check_kernel,
    check_matrix,
    check_sides,
    check_square,
    failed,
    matrix_spec,
)
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, conj, not_differentiable, sample


def common_batch(first: Any, second: Any) -> tuple[Any, ...]:
    return geometry.broadcast_shapes(tuple(first.shape[:-2]), tuple(second.shape[:-2]))


def check_fit(name: str, matrix: Any, values_shape: Any, left: bool) -> None:
    """Whether A and B go together in AX = B or XA = B."""
    rows, columns = values_shape[-2:]
    if (rows if left else columns) != matrix.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {equation} "
            f"({matrix.shape[-2]}x{matrix.shape[-1]} and {rows}x{columns})"
        )


def check_same(prefix: str, names: tuple[str, str], first: Any, second: Any, end: str = "") -> None:
    if first._dtype is not second._dtype:
        one, other = names
        raise RuntimeError(
            f"{prefix}Expected {one} and {other} to have the same dtype, but found {one} of type "
            f"{first._dtype.scalar_type_name} and {other} of type "
            f"{second._dtype.scalar_type_name} instead{end}"
        )


# -- triangular systems ----------------------------------------------------------------------------


def triangle_of(value: Any, upper: bool, unit: bool) -> Any:
    if upper:
        return value.triu(1 if unit else 0)
    return value.tril(-1 if unit else 0)


def triangular_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2), make(2, 3), upper=True)
    yield sample(regular(make, 2, 3, 3), make(3, 1), upper=False)
    yield sample(regular(make, 3, 3), make(2, 2, 3), upper=False, left=False)
    yield sample(regular(make, 3, 3), make(3, 2), upper=True, unitriangular=True)
    yield sample(
        transpose_memory(regular(make, 3, 3)),
        transpose_memory(make(2, 3)),
        upper=True,
        left=False,
        unitriangular=True,
    )
    yield sample(make(0, 0), make(0, 2), upper=True)
    yield sample(regular(make, 2, 2), make(2, 0), upper=True)


linalg_solve_triangular = op(
    "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, "
    "bool unitriangular=False) -> Tensor",
    kind=LINALG.checked,
    sizes="*nn, *mk -> *mk|",
    method=False,
    samples=triangular_samples,
    errors=lambda make: [
        (RuntimeError, sample(make(2), make(2, 2), upper=True)),
        (RuntimeError, sample(make(2, 2), make(2), upper=True)),
        (RuntimeError, sample(make(2, 2), make(3, 2), upper=True)),
        (RuntimeError, sample(make(2, 2), make(2, 3), upper=True, left=False)),
    ],
)


@linalg_solve_triangular.requires
def _(self: Any, B: Any, left: bool) -> None:
    name = "linalg.solve_triangular"
    check_square(name, self)
    check_matrix(name, B, "B")
    check_fit(name, self, B.shape, left)
    check_kernel("triangular_solve_cpu", self)
    # torch: B is read as a tensor of A's dtype, and an imaginary part lost without a word.
    if B._dtype.is_complex and not self._dtype.is_complex:
        check_same(f"{name}: ", ("A", "B"), self, B)
    common_batch(B, self)


def triangular_array(matrix: Any, values: Any, upper: bool, left: bool, unit: bool) -> Any:
    if left:
        return factoring.substitute(matrix, values, upper, unit)
    found = factoring.substitute(matrix.swapaxes(-1, -2), values.swapaxes(-1, -2), not upper, unit)
    return found.swapaxes(-1, -2)


@linalg_solve_triangular.kernel
def _(xp: Any, self: Any, B: Any, upper: bool, left: bool, unitriangular: bool) -> Any:
    return triangular_array(self, B.astype(self.dtype, copy=False), upper, left, unitriangular)


@linalg_solve_triangular.vjp
def _(
    grad: Any, needs: Any, self: Any, result: Any, upper: bool, left: bool, unitriangular: bool
) -> Any:
    by_values = aten.linalg_solve_triangular(
        adjoint_of(self), grad, upper=not upper, left=left, unitriangular=unitriangular
    )
    if not needs[0]:
        return None, by_values
    turned_result = adjoint_of(result)
    product = by_values.matmul(turned_result) if left else turned_result.matmul(by_values)
    return -triangle_of(product, upper, unitriangular), by_values


triangular_solve = op(
    "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, "
    "bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    autocast="float32",
    kind=LINALG.checked,
    sizes="*nk, *nn -> *nk|, *nn|",
    samples=lambda make: [
        (make(2, 3), regular(make, 2, 2)),
        (make(3, 1), regular(make, 2, 3, 3), False),
        (make(2, 3, 1), regular(make, 3, 3), True, True),
        (make(3, 2), transpose_memory(regular(make, 3, 3)), False, True, True),
        (make(0, 2), make(0, 0)),
    ],
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, 2))),
        (RuntimeError, (make(2, 2), make(2))),
        (RuntimeError, (make(2, 2), make(2, 3))),
        (RuntimeError, (make(3, 2), make(2, 2))),
    ],
)


def check_pair(name: str, self: Any, A: Any) -> None:
    """The checks that the older solvers share."""
    rows = A.shape[-1]
    if rows != self.shape[-2]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {rows} by {rows} but each b "
            f"matrix is {self.shape[-2]} by {self.shape[-1]}"
        )


@triangular_solve.requires
def _(self: Any, A: Any) -> None:
    for label, value in (("b", self), ("A", A)):
        if value.dim() < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {label} to have at least 2 dimensions, but it "
                f"has {value.dim()} dimensions instead"
            )
    check_same("", ("b", "A"), self, A, ".")
    check_sides("", A)
    check_pair("triangular_solve", self, A)
    check_kernel("triangular_solve_cpu", A)


@triangular_solve.kernel
def _(xp: Any, self: Any, A: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    matrix = A.swapaxes(-1, -2) if transpose else A
    found = factoring.substitute(matrix, self, upper != transpose, unitriangular)
    return found, xp.broadcast_to(A, found.shape[:-2] + A.shape[-2:]).copy()


@triangular_solve.vjp
def _(
    grads: Any, needs: Any, A: Any, solution: Any, upper: bool, transpose: bool, unitriangular: bool
) -> Any:
    grad, grad_clone = grads
    by_values = by_matrix = None
    if grad is not None:
        by_values = aten.triangular_solve(grad, conj(A), upper, not transpose, unitriangular)[0]
        if needs[1]:
            if transpose:
                product = conj(solution).matmul(by_values.transpose(-2, -1))
            else:
                product = by_values.matmul(adjoint_of(solution))
            by_matrix = -triangle_of(product, upper, unitriangular)
    if grad_clone is not None:
        by_matrix = grad_clone if by_matrix is None else by_matrix + grad_clone
    return by_values, by_matrix


# -- systems with a Cholesky factor ----------------------------------------------------------------


def cholesky_solve_samples(make: Any) -> Any:
    yield sample(make(2, 3), triangle(make, 2, 2))
    yield sample(make(3, 1), triangle(make, 2, 3, 3), True)
    yield sample(make(2, 3, 1), transpose_memory(triangle(make, 3, 3)), False)
    yield sample(make(0, 2), make(0, 0))


cholesky_solve = op(
    "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
    autocast="float32",
    exact_out=False,
    kind=LINALG.checked,
    sizes="*nk, *nn -> *nk|",
    samples=cholesky_solve_samples,
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, 2))),
        (RuntimeError, (make(2, 2), make(2))),
        (RuntimeError, (make(2, 2), make(2, 3))),
        (RuntimeError, (make(3, 2), make(2, 2))),
    ],
)


@cholesky_solve.requires
def _(self: Any, input2: Any) -> None:
    for label, value in (("b", self), ("u", input2)):
        if value.dim() < 2:
            raise RuntimeError(
                f"{label} should have at least 2 dimensions, but has {value.dim()} dimensions "
                "instead"
            )
    check_same("", ("b", "A"), self, input2, ".")
    check_sides("", input2)
    check_pair("cholesky_solve", self, input2)
    check_kernel("cholesky_solve_cpu", self)


@cholesky_solve.kernel
def _(xp: Any, self: Any, input2: Any, upper: bool) -> Any:
    other = factoring.adjoint(input2)
    lower, high = (other, input2) if upper else (input2, other)
    return factoring.substitute(high, factoring.substitute(lower, self, upper=False), upper=True)


@cholesky_solve.vjp
def _(grad: Any, needs: Any, input2: Any, result: Any, upper: bool) -> Any:
    by_values = grad.cholesky_solve(input2, upper)
    if not needs[1]:
        return by_values, None
    product = by_values.matmul(adjoint_of(result))
    both = -(product + adjoint_of(product))
    if upper:
        return by_values, input2.triu().matmul(both).triu()
    return by_values, both.matmul(input2.tril()).tril()


# -- systems with LU factors -----------------------------------------------------------------------


def lu_solve_samples(make: Any) -> Any:
    yield sample(*factored(make, 2, 2), make(2, 3))
    yield sample(*factored(make, 2, 3, 3), make(3, 1), adjoint=True)
    yield sample(*factored(make, 3, 3), make(2, 2, 3), left=False)
    yield sample(*factored(make, 3, 3), transpose_memory(make(2, 3)), left=False, adjoint=True)
    yield sample(*factored(make, 0, 0), make(0, 2))


linalg_lu_solve = op(
    "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) "
    "-> Tensor",
    kind=LINALG.checked,
    sizes="*nn, *n, *nk",
    method=False,
    samples=lu_solve_samples,
    errors=lambda make: [
        (RuntimeError, (make(2), make.ints(2, low=1, dtype=dtypes.int32), make(2, 2))),
        (RuntimeError, (make(2, 2), make.ints(2, low=1), make(2, 2))),
        (RuntimeError, (make(2, 2), make.ints(3, low=1, dtype=dtypes.int32), make(2, 2))),
        (RuntimeError, (make(2, 2), make.ints(2, low=1, dtype=dtypes.int32), make(3, 2))),
    ],
)


@linalg_lu_solve.shape
def _(LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> Any:
    name = "linalg.lu_solve"
    check_float(f"torch.{name}", LU._dtype)
    check_square(f"torch.{name}", LU)
    check_same(f"{name}: ", ("LU", "B"), LU, B)
    if pivots._dtype is not dtypes.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check_matrix(name, B, "B")
    check_fit(name, LU, B.shape, left)
    if pivots.dim() and pivots.shape[-1] != LU.shape[-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix"
        )
    if not geometry.same_sizes(tuple(pivots.shape), tuple(LU.shape[:-1])):
        raise RuntimeError(
            f"{name}: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {geometry.show(pivots.shape)} instead"
        )
    check_kernel("linalg.lu_solve_cpu", LU, empty=True)
    sizes = (*common_batch(B, LU), *B.shape[-2:])
    return matrix_spec(sizes, B._dtype) if left else Spec(sizes, B._dtype)


def lu_solve_array(factors: Any, pivots: Any, values: Any, left: bool, adjointed: bool) -> Any:
    if left:
        return factoring.lu_solve(factors, pivots, values, adjointed)
    found = factoring.lu_solve(factors, pivots, factoring.adjoint(values), not adjointed)
    return factoring.adjoint(found)


@linalg_lu_solve.kernel
def _(xp: Any, LU: Any, pivots: Any, B: Any, left: bool, adjoint: bool) -> Any:
    if pivots.size and not (pivots.min() >= 1 and pivots.max() <= LU.shape[-1]):
        raise RuntimeError(
            "linalg.lu_solve: pivots must be between 1 and LU.size(-1), as linalg.lu_factor gives "
            "them"
        )
    return lu_solve_array(LU, pivots, B, left, adjoint)


def factors_gradient(
    grad: Any, LU: Any, pivots: Any, result: Any, left: bool, adjoint: bool
) -> Any:
    """From the gradient for A = P @ L @ U to that for L and U."""
    through = aten.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=not adjoint)
    turned_result = adjoint_of(result)
    product = through.matmul(turned_result) if left else turned_result.matmul(through)
    by_matrix = -(adjoint_of(product) if adjoint else product)
    permutation, lower, upper = aten.lu_unpack(LU, pivots)
    ordered = permutation.transpose(-2, -1).matmul(by_matrix)
    by_lower = ordered.matmul(adjoint_of(upper))
    by_upper = adjoint_of(lower).matmul(ordered)
    return by_lower.tril(-1) + by_upper.triu()


linalg_lu_solve.vjp = {
    "LU": lambda grad, LU, pivots, result, left, adjoint: factors_gradient(
        grad, LU, pivots, result, left, adjoint
    ),
    "B": lambda grad, LU, pivots, left, adjoint: aten.linalg_lu_solve(
        LU, pivots, grad, left=left, adjoint=not adjoint
    ),
}


@composite(
    "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
    autocast="float32",
    exact_out=True,
    samples=lambda make: [
        (make(2, 3), *factored(make, 2, 2)),
        (make(2, 3, 1), *factored(make, 3, 3)),
    ],
    errors=lambda make: [
        (RuntimeError, (make(2), make(2, 2), make.ints(2, low=1, dtype=dtypes.int32)))
    ],
)
def lu_solve(self: Any, LU_data: Any, LU_pivots: Any) -> Any:
    warn_once(
        "lu_solve",
        "torch.lu_solve is deprecated in favor of torch.linalg.lu_solveand will be removed in a "
        "future PyTorch release.\nNote that torch.linalg.lu_solve has its arguments reversed.\n"
        "X = torch.lu_solve(B, LU, pivots)\nshould be replaced with\n"
        "X = torch.linalg.lu_solve(LU, pivots, B)",
    )
    return aten.linalg_lu_solve(LU_data, LU_pivots, self)


# -- systems with LDL factors ----------------------------------------------------------------------


def ldl_solve_samples(make: Any) -> Any:
    pivots = make.ints(3, low=3, high=3, dtype=dtypes.int32)
    paired = aten.cat([pivots[:1], -pivots[:2]])
    yield sample(regular(make, 3, 3), pivots, make(3, 2))
    yield sample(transpose_memory(regular(make, 3, 3)), pivots, make(2, 3, 1))
    yield sample(triangle(make, 3, 3), paired, make(3, 2), hermitian=True)
    yield sample(regular(make, 2, 3, 3), aten.stack([pivots, paired]), make(3, 1))
    yield sample(make(0, 2, 2), make.ints(0, 2, dtype=dtypes.int32), make(0, 2, 1))


linalg_ldl_solve = op(
    "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor",
    kind=LINALG.checked,
    sizes="*nn, *n, *nk -> *nk|",
    method=False,
    vjp={
        "LD": not_differentiable("aten::linalg_ldl_solve"),
        "B": not_differentiable("aten::linalg_ldl_solve"),
    },
    samples=ldl_solve_samples,
    errors=lambda make: [
        (RuntimeError, (make(2), make.ints(2, low=1, dtype=dtypes.int32), make(2, 2))),
        (RuntimeError, (make(2, 2), make.ints(3, low=1, dtype=dtypes.int32), make(2, 2))),
        (RuntimeError, (make(2, 2), make.ints(2, low=1, dtype=dtypes.int32), make(3, 2))),
    ],
)


@linalg_ldl_solve.requires
def _(LD: Any, pivots: Any, B: Any) -> None:
    name = "torch.linalg.ldl_solve"
    check_square(name, LD)
    check_float(name, LD._dtype)
    geometry.wrap_dim(-2, B.dim())
    check_pair(name, B, LD)
    check_same("", ("b", "A"), B, LD, ".")
    if not geometry.same_sizes(tuple(pivots.shape), tuple(LD.shape[:-1])):
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with "
            f"shape {geometry.show(pivots.shape)} instead"
        )
    if pivots._dtype.category != dtypes.INTEGER:
        raise RuntimeError(
            f"{name}: Expected pivots to be integers. Got {pivots._dtype.scalar_type_name}"
        )
    check_kernel("ldl_solve_kernel_cpu", LD, empty=True)
    common_batch(B, LD)


@linalg_ldl_solve.kernel
def _(xp: Any, LD: Any, pivots: Any, B: Any, hermitian: bool) -> Any:
    places = abs(pivots)
    if pivots.size and not (places.min() >= 1 and places.max() <= LD.shape[-1]):
        raise RuntimeError(
            "torch.linalg.ldl_solve: pivots must be row numbers from 1 on, as linalg.ldl_factor "
            "gives them"
        )
    return factoring.ldl_solve(LD, pivots, B, hermitian)


# -- general systems -------------------------------------------------------------------------------


def is_vector(A: Any, B: Any) -> bool:
    """Whether B holds vectors rather than matrices."""
    return bool(
        B.dim() == 1
        or (A.dim() - 1 == B.dim() and geometry.same_sizes(tuple(B.shape), tuple(A.shape[:-1])))
    )


def solve_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2), make(2, 3))
    yield sample(regular(make, 3, 3), make(3))
    yield sample(regular(make, 2, 3, 3), make(2, 3))
    yield sample(regular(make, 2, 2, 2), make(2))
    yield sample(transpose_memory(regular(make, 3, 3)), make.strided(3, 2))
    yield sample(regular(make, 2, 3, 3), make(3, 1))
    yield sample(regular(make, 2, 2), make(2, 3, 2), left=False)
    yield sample(make(0, 0), make(0, 2))
    yield sample(make(0, 2, 2), make(0, 2, 1))


def solve_errors(make: Any) -> Any:
    yield RuntimeError, sample(make(2), make(2, 2))
    yield RuntimeError, sample(make(2, 3), make(2, 2))
    yield RuntimeError, sample(make(2, 2), make(3, 2))
    yield RuntimeError, sample(make(2, 2), make())
    yield RuntimeError, sample(make(2, 2), make.ints(2, 2))
    yield RuntimeError, sample(make(2, 2), make(2, 3), left=False)


solve_parts = op(
    "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
    "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
    kind=LINALG.checked,
    method=False,
    non_differentiable=(1, 2, 3),
    samples=solve_samples,
    errors=solve_errors,
)


@solve_parts.shape
def _(A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    name = "linalg.solve"
    check_float(name, A._dtype)
    check_same(f"{name}: ", ("A", "B"), A, B)
    check_square(name, A)
    vector = is_vector(A, B)
    values_shape = (*B.shape, 1) if vector else tuple(B.shape)
    if len(values_shape) < 2:
        raise RuntimeError(f"{name}: The input tensor B must have at least 2 dimensions.")
    check_fit(name, A, values_shape, left)
    check_kernel("lu_cpu", A, empty=True)
    batch = geometry.broadcast_shapes(values_shape[:-2], tuple(A.shape[:-2]))
    sizes = (*batch, *values_shape[-2:])
    if vector:
        # torch: a batch of vectors counts as one matrix here.
        sizes = sizes[:-1]
    by_column = left and len(sizes) > 1
    found = matrix_spec(sizes, B._dtype) if by_column else Spec(sizes, B._dtype)
    return (
        found,
        matrix_spec(A.shape, A._dtype),
        Spec(A.shape[:-1], dtypes.int32),
        Spec(A.shape[:-2], dtypes.int32),
    )


@solve_parts.kernel
def _(xp: Any, A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    factors, pivots, info = factoring.lu_factor(A)
    if check_errors:
        failed("torch.linalg.solve_ex", info, A.ndim == 2)
    vector = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    found = lu_solve_array(factors, pivots, B[..., None] if vector else B, left, False)
    return found[..., 0] if vector else found, factors, pivots, info


@solve_parts.vjp
def _(
    grad: Any, needs: Any, A: Any, B_meta: Any, result: Any, LU: Any, pivots: Any, left: bool
) -> Any:
    vector = is_vector(A, B_meta)
    if vector:
        grad, result = grad.unsqueeze(-1), result.unsqueeze(-1)
    if LOCAL.state.follows_gradients():
        by_values = aten.linalg_solve(adjoint_of(A), grad, left=left)
    else:
        by_values = aten.linalg_lu_solve(LU, pivots, grad, left=left, adjoint=True)
    by_matrix = None
    if needs[0]:
        turned_result = adjoint_of(result)
        product = by_values.matmul(turned_result) if left else turned_result.matmul(by_values)
        by_matrix = -product
    return by_matrix, by_values.squeeze(-1) if vector else by_values


@solve_parts.batch
def _(level: Any, op: Any, A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    if A.dim() < 2 or B.dim() < 1:
        return level.loop(op, (A, B, left, check_errors))
    vector = is_vector(A, B)
    values = B.unsqueeze(-1) if vector else B
    rank = max(A.dim(), values.dim())
    moved = (level.full(A, rank), level.full(values, rank), left, check_errors)
    found, *others = level.below(op, moved)
    if vector:
        found = level.run(found.squeeze, -1)
    if A.dim() < rank:
        # What is known of the matrices alone has their dims.
        sizes = [(level.size, *A.shape[: A.dim() - dropped]) for dropped in (0, 1, 2)]
        others = [level.run(o.reshape, size) for o, size in zip(others, sizes, strict=True)]
    return level.wrap((found, *others))


@composite(
    "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
    "-> (Tensor result, Tensor info)",
    exact_out=True,
    method=False,
    samples=solve_samples,
    errors=solve_errors,
)
def linalg_solve_ex(A: Any, B: Any, left: bool, check_errors: bool) -> Any:
    result, _, _, info = aten._linalg_solve_ex(A, B, left=left, check_errors=check_errors)
    return result, info


@composite(
    "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
    autocast="float32",
    exact_out=True,
    method=False,
    samples=solve_samples,
    errors=lambda make: [*solve_errors(make), (LinAlgError, (make(2, 2) * 0, make(2, 2)))],
)
def linalg_solve(A: Any, B: Any, left: bool) -> Any:
    result, info = aten.linalg_solve_ex(A, B, left=left, check_errors=False)
    checked(info, "torch.linalg.solve")
    return result
