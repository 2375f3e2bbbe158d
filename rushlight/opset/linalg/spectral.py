"""Eigenvalues and singular values: eig, eigh, svd and what is read off them.

Factors are column-major, as LAPACK leaves them. Vectors are unique up to a sign or a phase only:
a gradient that depends on that choice is refused where it can be told, and `invariants` say what
two runs must share. Formulas divide by differences of eigenvalues, so repeated ones have none.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from rushlight.base.errors import LinAlgError
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.duals import tangent_of
from rushlight.core.node import needs_grad
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset.kinds import LINALG, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.results import column_strides
from rushlight.opset.rules import aten, not_differentiable, sample

COMPUTABLE = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


# -- words shared by the families of linear algebra -----------------------------------------------


def check_matrix(name: str, value: Any, argument: str = "A") -> None:
    if len(value.shape) < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def check_square(name: str, value: Any, argument: str = "A") -> None:
    check_matrix(name, value, argument)
    rows, columns = value.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {rows} by "
            f"{columns} matrices"
        )


def check_inexact(name: str, dtype: DType) -> None:
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{dtype.scalar_type_name}"
        )


def computable(kernel: str, array: Any) -> Any:
    """An array that NumPy's functions take. Empty ones may be of any dtype."""
    dtype = dtypes.from_numpy(array.dtype)
    if dtype in COMPUTABLE:
        return array
    if array.size:
        raise unsupported(kernel, dtype)
    return array.astype(np.float32)


def fail_at(name: str, bad: Any, text: str) -> NoReturn:
    """Raise for the first matrix of a batch for which `bad` holds."""
    where = f"(Batch element {int(np.argmax(bad))}): " if np.ndim(bad) else ""
    raise LinAlgError(f"{name}: {where}{text}")


def is_recorded() -> bool:
    """Whether a layer sees the ops of this thread: one that traces, batches or transforms them."""
    state = LOCAL.state
    return bool(state.below or state.transforms or state.pre_modes)


def is_followed(value: Any) -> bool:
    """Whether a derivative, or a graph, may need more than the value of a result."""
    return (
        type(value) is not Tensor
        or (needs_grad(value) and LOCAL.state.grad)
        or is_recorded()
        or tangent_of(value) is not None
    )


def is_readable(value: Any) -> bool:
    return type(value) is Tensor and value._array is not None and not is_recorded()


def real_part(value: Any) -> Any:
    return value.real if value.is_complex() else value


def main_diagonal(value: Any) -> Any:
    return value.diagonal(0, -2, -1)


def gap_inverses(values: Any, gaps: Any) -> Any:
    """1 / gaps off the diagonal, 0 on it."""
    identity = aten.diag_embed(aten.ones_like(values))
    return (gaps + identity).reciprocal() - identity


def projectors(vectors: Any) -> Any:
    """The outer product of each column with itself, which has no sign or phase."""
    return vectors.unsqueeze(-2) * vectors.conj().unsqueeze(-3)


def refuse_phase(name: str, what: str, quantity: str, diagonal: Any) -> None:
    """Refuse gradients that depend on the phases of complex vectors."""
    if not is_readable(diagonal):
        return
    scale = 1e-2
    if bool((diagonal.imag.abs() > scale).any()):
        raise RuntimeError(
            f"{name}: The {what} in the complex case are specified up to multiplication by "
            f"e^{{i phi}}. The specified loss function depends on this {quantity}"
        )


# -- eigenvalues ----------------------------------------------------------------------------------


def eigen_gradient(name: str, grads: Any, values: Any, vectors: Any, hermitian: bool) -> Any:
    if vectors.dim() < 2:
        raise RuntimeError(
            f"{name}: the gradient needs the eigenvectors; compute them in the forward pass"
        )
    by_values, by_vectors = grads
    turned = vectors.mH
    if by_vectors is None:
        if hermitian:
            return (vectors * by_values.unsqueeze(-2)).matmul(turned)
        return aten.linalg_solve(turned, by_values.unsqueeze(-1) * turned)
    inner = turned.matmul(by_vectors)
    diagonal = main_diagonal(inner)
    if vectors.is_complex():
        refuse_phase(name, "eigenvectors", "quantity, so it is ill-defined.", diagonal)
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    if not hermitian:
        # Columns keep their length.
        inner = inner - turned.matmul(vectors * real_part(diagonal).unsqueeze(-2))
        gaps = gaps.conj()
    middle = inner * gap_inverses(values, gaps)
    if by_values is not None:
        middle = middle + aten.diag_embed(by_values)
    if hermitian:
        whole = vectors.matmul(middle).matmul(turned)
        return (whole + whole.mH) * 0.5
    return aten.linalg_solve(turned, middle.matmul(turned))


def eigen_tangents(tangent: Any, values: Any, vectors: Any, hermitian: bool) -> tuple[Any, Any]:
    if vectors.dim() < 2:
        raise RuntimeError("forward AD of eigenvalues needs the eigenvectors; compute them too")
    if tangent._dtype is not vectors._dtype:
        tangent = tangent.to(vectors._dtype)
    moved = tangent.matmul(vectors)
    change = vectors.mH.matmul(moved) if hermitian else aten.linalg_solve(vectors, moved)
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    turning = vectors.matmul(change * gap_inverses(values, gaps))
    along = main_diagonal(change)
    if hermitian:
        return real_part(along), turning
    lengthening = real_part(main_diagonal(vectors.mH.matmul(turning)))
    return along, turning - vectors * lengthening.unsqueeze(-2)


def square_samples(make: Any) -> Any:
    yield make(3, 3)
    yield make(2, 2, 2)
    yield make.strided(3, 3)
    yield make(1, 1)
    yield make(0, 0)
    yield make(0, 2, 2)
    yield make(2, 0, 0)


def square_errors(make: Any) -> Any:
    yield RuntimeError, (make(3),)
    yield RuntimeError, (make(2, 3),)


def eigenpair_invariants(values: Any, vectors: Any) -> Any:
    """Eigenvalues in order, each with the projector on its eigenvector."""
    if values.numel() == 0:
        return values, vectors
    order = (real_part(values) + 0.37 * values.imag).detach().argsort(-1)
    found = projectors(vectors)
    places = order.unsqueeze(-2).unsqueeze(-2).expand_as(found)
    return values.gather(-1, order), found.gather(-1, places)


def ordered_values(values: Any) -> Any:
    """Eigenvalues in an order of their own."""
    if values.numel() == 0:
        return values
    return values.gather(-1, (values.real + 0.37 * values.imag).detach().argsort(-1))


def complex_dtype(dtype: DType) -> DType:
    if dtype.category < dtypes.FLOAT:
        raise RuntimeError(f"Unknown Complex ScalarType for {dtype.scalar_type_name}")
    return dtype.to_complex()


def check_eigen(name: str, array: Any) -> None:
    check_square(f"linalg.{name}", array)
    dtype = dtypes.from_numpy(array.dtype)
    complex_dtype(dtype)
    if dtype not in COMPUTABLE:
        raise unsupported("linalg_eig_out_cpu", dtype)
    if not np.isfinite(array).all():
        raise RuntimeError(f"torch.linalg.{name}: input tensor should not contain infs or NaNs.")


linalg_eig = op(
    "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
    may_raise=True,
    autocast="float32",
    kind=LINALG,
    sizes="*nn -> *n complex, *nn| complex",
    requires=lambda self: check_square("linalg.eig", self),
    method=False,
    layout="shape",
    invariants=eigenpair_invariants,
    samples=square_samples,
    errors=lambda make: [
        *square_errors(make),
        (RuntimeError, (make.ints(2, 2),)),
        (RuntimeError, (make.special(4, 4),)),
    ],
    vjp=lambda grads, eigenvalues, eigenvectors: eigen_gradient(
        "linalg_eig_backward", grads, eigenvalues, eigenvectors, False
    ),
    jvp=lambda self_t, eigenvalues, eigenvectors: eigen_tangents(
        self_t, eigenvalues, eigenvectors, False
    ),
)


@linalg_eig.kernel
def _(xp: Any, self: Any) -> Any:
    check_eigen("eig", self)
    dtype = complex_dtype(dtypes.from_numpy(self.dtype))
    try:
        values, vectors = xp.linalg.eig(self)
    except np.linalg.LinAlgError:
        raise failed_eigen("eig") from None
    return values.astype(dtype.np), vectors.astype(dtype.np)


def failed_eigen(name: str) -> LinAlgError:
    return LinAlgError(
        f"linalg.{name}: The algorithm failed to compute the eigenvalues: too few of them converged"
    )


eigenvalues_alone = op(
    "_linalg_eigvals(Tensor self) -> Tensor",
    kind=LINALG,
    sizes="*nn -> *n complex",
    requires=lambda self: check_square("linalg.eigvals", self),
    method=False,
    function=False,
    node="torch::autograd::NotImplemented",
    invariants=ordered_values,
    samples=square_samples,
    errors=square_errors,
    vjp=not_differentiable("aten::_linalg_eigvals"),
)


@eigenvalues_alone.kernel
def _(xp: Any, self: Any) -> Any:
    check_eigen("eigvals", self)
    dtype = complex_dtype(dtypes.from_numpy(self.dtype))
    try:
        return xp.linalg.eigvals(self).astype(dtype.np)
    except np.linalg.LinAlgError:
        raise failed_eigen("eigvals") from None


@composite(
    "linalg_eigvals(Tensor self) -> Tensor",
    autocast="float32",
    method=False,
    invariants=ordered_values,
    samples=square_samples,
    errors=square_errors,
)
def linalg_eigvals(self: Any) -> Any:
    check_square("linalg.eigvals", self)
    if is_followed(self):
        return aten.linalg_eig(self)[0]
    return aten._linalg_eigvals(self)


# -- eigenvalues of Hermitian matrices ------------------------------------------------------------


def check_triangle(UPLO: str) -> str:
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return UPLO.upper()


def hermitian_samples(*rest: Any) -> Any:
    def samples(make: Any) -> Any:
        for case in square_samples(make):
            yield case, *rest
        for triangle in "uLU":
            yield make(3, 3), triangle, *rest[1:]

    return samples


def hermitian_errors(make: Any) -> Any:
    yield from square_errors(make)
    yield RuntimeError, (make(2, 2), "x")
    yield NotImplementedError, (make.ints(2, 2),)


def eigenpair_facts(values: Any, vectors: Any) -> Any:
    """Eigenvalues, which are in order, and the projectors on their eigenvectors."""
    return values, vectors if vectors.dim() < 2 else projectors(vectors)


eigh = op(
    '_linalg_eigh(Tensor A, str UPLO="L", bool compute_v=True) -> '
    "(Tensor eigenvalues, Tensor eigenvectors)",
    may_raise=True,
    kind=LINALG,
    sizes="*nn",
    method=False,
    layout="shape",
    invariants=eigenpair_facts,
    errors=hermitian_errors,
    vjp=lambda grads, eigenvalues, eigenvectors: eigen_gradient(
        "linalg_eigh_backward", grads, eigenvalues, eigenvectors, True
    ),
    jvp=lambda A_t, eigenvalues, eigenvectors: eigen_tangents(A_t, eigenvalues, eigenvectors, True),
)


@eigh.samples
def _(make: Any) -> Any:
    yield from hermitian_samples()(make)
    yield make(2, 3, 3), "L", True


@eigh.shape
def _(A: Any, UPLO: str, compute_v: bool) -> Any:
    check_square("linalg.eigh", A)
    check_triangle(UPLO)
    sizes, dtype = tuple(A.shape), A._dtype
    vectors = Spec(sizes, dtype, column_strides(sizes)) if compute_v else Spec((0,), dtype)
    return Spec(sizes[:-1], dtype.to_real()), vectors


@eigh.kernel
def _(xp: Any, A: Any, UPLO: str, compute_v: bool) -> Any:
    check_square("linalg.eigh", A)
    triangle = check_triangle(UPLO)
    dtype = dtypes.from_numpy(A.dtype)
    A = computable("linalg_eigh_cpu", A)
    try:
        with np.errstate(invalid="ignore"):
            if compute_v:
                values, vectors = xp.linalg.eigh(A, triangle)
            else:
                values, vectors = xp.linalg.eigvalsh(A, triangle), xp.empty(0, A.dtype)
    except np.linalg.LinAlgError:
        refuse_divergence(~np.isfinite(A).all((-2, -1)), A)
    diverged = ~np.isfinite(values).all(-1)
    if diverged.any():
        refuse_divergence(diverged, A)
    return values.astype(dtype.to_real().np, copy=False), vectors.astype(dtype.np, copy=False)


def refuse_divergence(bad: Any, array: Any) -> NoReturn:
    fail_at(
        "linalg.eigh",
        bad,
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too "
        f"many repeated eigenvalues (error code: {array.shape[-1] - 1}).",
    )


@composite(
    'linalg_eigh(Tensor self, str UPLO="L") -> (Tensor eigenvalues, Tensor eigenvectors)',
    autocast="float32",
    method=False,
    invariants=eigenpair_facts,
    samples=hermitian_samples(),
    errors=hermitian_errors,
)
def linalg_eigh(self: Any, UPLO: str = "L") -> Any:
    return aten._linalg_eigh(self, UPLO, True)


@composite(
    'linalg_eigvalsh(Tensor self, str UPLO="L") -> Tensor',
    autocast="float32",
    exact_out=True,
    method=False,
    samples=hermitian_samples(),
    errors=hermitian_errors,
)
def linalg_eigvalsh(self: Any, UPLO: str = "L") -> Any:
    return aten._linalg_eigh(self, UPLO, is_followed(self))[0]


# -- singular values ------------------------------------------------------------------------------


def skew(value: Any) -> Any:
    return value - value.mH


def squared_gaps(S: Any) -> Any:
    """1 / (s_j^2 - s_i^2) off the diagonal, 0 on it."""
    across, down = S.unsqueeze(-2), S.unsqueeze(-1)
    return gap_inverses(S, (across - down) * (across + down))


def narrowed(U: Any, S: Any, Vh: Any) -> tuple[Any, Any]:
    """The vectors that belong to a singular value."""
    if U is not None:
        U = U.narrow(-1, 0, S.shape[-1])
    if Vh is not None:
        Vh = Vh.narrow(-2, 0, S.shape[-1])
    return U, Vh


def svd_gradient(grads: Any, U: Any, S: Any, Vh: Any, full_matrices: bool) -> Any:
    if U.dim() < 2:
        raise RuntimeError(
            "svd_backward: the gradient needs the singular vectors; compute them in the forward "
            "pass (compute_uv=True)"
        )
    by_left, by_values, by_right = grads
    if full_matrices:
        U, Vh = narrowed(U, S, Vh)
        by_left, by_right = narrowed(by_left, S, by_right)
    rows, columns = U.shape[-2], Vh.shape[-1]
    left: Any = None if by_left is None else U.mH.matmul(by_left)
    right: Any = None if by_right is None else Vh.matmul(by_right.mH)
    if by_left is None and by_right is None:
        if rows >= columns:
            return U.matmul(by_values.unsqueeze(-1) * Vh)
        return (U * by_values.unsqueeze(-2)).matmul(Vh)
    gaps = squared_gaps(S)
    middle = None if by_values is None else aten.diag_embed(by_values)
    if left is not None:
        middle = summed(middle, skew(left) * gaps * S.unsqueeze(-2))
    if right is not None:
        middle = summed(middle, S.unsqueeze(-1) * (skew(right) * gaps))
    if U.is_complex():
        middle = summed(middle, aten.diag_embed(phase_gradient(left, right) / (4 * S)))
    result = U.matmul(middle).matmul(Vh)
    if rows > columns and by_left is not None:
        outside = (by_left - U.matmul(left)) / S.unsqueeze(-2)
        result = result + outside.matmul(Vh)
    if rows < columns and by_right is not None:
        outside = (by_right - right.mH.matmul(Vh)) / S.unsqueeze(-1)
        result = result + U.matmul(outside)
    return result


def phase_gradient(left: Any, right: Any) -> Any:
    """What comes from turning pairs of vectors apart; turning them together must not matter."""
    turn = 0 if left is None else main_diagonal(skew(left))
    back = 0 if right is None else main_diagonal(skew(right))
    refuse_phase(
        "svd_backward", "singular vectors", "phase term, making it ill-defined.", turn + back
    )
    return turn - back


def summed(total: Any, part: Any) -> Any:
    return part if total is None else total + part


def svd_tangents(A_t: Any, U: Any, S: Any, Vh: Any, full_matrices: bool) -> Any:
    if U.dim() < 2:
        raise RuntimeError("forward AD of singular values needs the singular vectors")
    left, right = (U, Vh) if not full_matrices else narrowed(U, S, Vh)
    change = left.mH.matmul(A_t).matmul(right.mH)
    gaps = squared_gaps(S)
    scaled = change * S.unsqueeze(-2)
    turn_left = (scaled + scaled.mH) * gaps
    scaled = S.unsqueeze(-1) * change
    turn_right = -(scaled + scaled.mH) * gaps
    if U.is_complex():
        phase = aten.diag_embed(main_diagonal(change - change.mH) / (4 * S))
        turn_left, turn_right = turn_left + phase, turn_right + phase
    U_t, Vh_t = left.matmul(turn_left), turn_right.matmul(right)
    rows, columns = left.shape[-2], right.shape[-1]
    if rows > columns:
        moved = A_t.matmul(right.mH)
        U_t = U_t + (moved - left.matmul(change)) / S.unsqueeze(-2)
    if rows < columns:
        moved = left.mH.matmul(A_t)
        Vh_t = Vh_t + (moved - change.matmul(right)) / S.unsqueeze(-1)
    if full_matrices:
        # Vectors that belong to no singular value may be taken as they were.
        U_t = aten.constant_pad_nd(U_t, (0, U.shape[-1] - S.shape[-1]))
        Vh_t = aten.constant_pad_nd(Vh_t, (0, 0, 0, Vh.shape[-2] - S.shape[-1]))
    return U_t, real_part(main_diagonal(change)), Vh_t


def singular_facts(U: Any, S: Any, Vh: Any) -> Any:
    """Singular values with what their vectors have in common up to a phase. Vectors beyond them
    are only orthonormal."""
    if U.dim() < 2:
        return U, S, Vh
    return triple_facts(U, S, Vh.mH)


def triple_facts(U: Any, S: Any, V: Any) -> Any:
    count = S.shape[-1]
    rest = [part[..., count:] for part in (U, V)]
    U, V = U[..., :count], V[..., :count]
    joined = U.unsqueeze(-2) * V.conj().unsqueeze(-3)
    gram = [part.mH.matmul(part) for part in rest]
    return projectors(U), S, projectors(V), joined, *gram


def matrix_samples(*options: tuple[Any, ...]) -> Any:
    def samples(make: Any) -> Any:
        for rest in options:
            for rows, columns in ((3, 3), (3, 2), (2, 3)):
                yield make(rows, columns), *rest
            yield make(2, 3, 2), *rest
            yield make.strided(3, 2), *rest
            yield make(1, 1), *rest
            for sizes in ((0, 0), (0, 3), (2, 0), (0, 2, 2), (2, 0, 3)):
                yield make(*sizes), *rest

    return samples


def matrix_errors(make: Any) -> Any:
    yield RuntimeError, (make(3),)
    yield RuntimeError, (make.ints(2, 2),)


def driver_errors(make: Any) -> Any:
    yield from matrix_errors(make)
    yield RuntimeError, sample(make(2, 2), driver="gesvd")


svd_ = op(
    "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? driver=None)"
    " -> (Tensor U, Tensor S, Tensor Vh)",
    may_raise=True,
    kind=LINALG,
    sizes="*mn",
    method=False,
    layout="shape",
    invariants=singular_facts,
    samples=matrix_samples((), (True,)),
    errors=driver_errors,
    vjp=lambda grads, U, S, Vh, full_matrices: svd_gradient(grads, U, S, Vh, full_matrices),
    jvp=lambda A_t, U, S, Vh, full_matrices: svd_tangents(A_t, U, S, Vh, full_matrices),
)


def check_svd(value: Any, dtype: DType, driver: str | None) -> None:
    check_matrix("linalg.svd", value)
    check_inexact("linalg.svd", dtype)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )


@svd_.shape
def _(A: Any, full_matrices: bool, compute_uv: bool, driver: str | None) -> Any:
    dtype = A._dtype
    check_svd(A, dtype, driver)
    *batch, rows, columns = tuple(A.shape)
    count = geometry.minimum(rows, columns)
    if not compute_uv:
        return Spec((0,), dtype), Spec((*batch, count), dtype.to_real()), Spec((0,), dtype)
    left = (*batch, rows, rows if full_matrices else count)
    right = (*batch, columns if full_matrices else count, columns)
    return (
        Spec(left, dtype, column_strides(left)),
        Spec((*batch, count), dtype.to_real()),
        Spec(right, dtype, column_strides(right)),
    )


@svd_.kernel
def _(xp: Any, A: Any, full_matrices: bool, compute_uv: bool, driver: str | None) -> Any:
    dtype = dtypes.from_numpy(A.dtype)
    check_svd(A, dtype, driver)
    A = computable("linalg_svd_cpu", A)
    bad = ~np.isfinite(A).all((-2, -1))
    if bad.any():
        fail_at(
            "linalg.svd",
            bad,
            "The algorithm failed to converge because the input matrix contained non-finite "
            "values.",
        )
    try:
        if compute_uv:
            U, S, Vh = xp.linalg.svd(A, full_matrices)
        else:
            U = Vh = xp.empty(0, A.dtype)
            S = xp.linalg.svd(A, compute_uv=False)
        results = (U, dtype.np), (S, dtype.to_real().np), (Vh, dtype.np)
        return tuple([array.astype(given, copy=False) for array, given in results])
    except np.linalg.LinAlgError:
        raise LinAlgError(
            "linalg.svd: The algorithm failed to converge because the input matrix is "
            "ill-conditioned or has too many repeated singular values."
        ) from None


@composite(
    "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None)"
    " -> (Tensor U, Tensor S, Tensor Vh)",
    autocast="float32",
    method=False,
    invariants=singular_facts,
    samples=matrix_samples((), (False,)),
    errors=driver_errors,
)
def linalg_svd(A: Any, full_matrices: bool = True, driver: str | None = None) -> Any:
    return aten._linalg_svd(A, full_matrices, True, driver=driver)


@composite(
    "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
    autocast="float32",
    exact_out=True,
    method=False,
    samples=matrix_samples(()),
    errors=driver_errors,
)
def linalg_svdvals(A: Any, driver: str | None = None) -> Any:
    return aten._linalg_svd(A, False, is_followed(A), driver=driver)[1]


@composite(
    "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)",
    autocast="float32",
    invariants=triple_facts,
    samples=matrix_samples((), (False,), (True, False)),
    errors=matrix_errors,
)
def svd(self: Any, some: bool = True, compute_uv: bool = True) -> Any:
    check_matrix("linalg.svd", self)
    if compute_uv:
        U, S, Vh = aten.linalg_svd(self, not some)
        return U, S, Vh.mH
    *batch, rows, columns = self.shape
    options = {"dtype": self._dtype, "device": self.device}
    U = aten.zeros((*batch, rows, rows), **options)
    V = aten.zeros((*batch, columns, columns), **options)
    # torch: the second is the adjoint of what it makes.
    return U, aten.linalg_svdvals(self), V.mH
