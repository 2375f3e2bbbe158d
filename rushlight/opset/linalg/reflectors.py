"""QR factorisations, and the Householder reflectors that they are made of."""

from __future__ import annotations

from typing import Any

from rushlight.arrays import factoring
from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.state import warn_once
from rushlight.opset.kinds import LINALG, Spec
from rushlight.opset.linalg.factor import matrix_errors, pad_to, regular, transpose_memory
from rushlight.opset.linalg.matrices import (
    adjoint_of,
    check_float,
    check_kernel,
    check_matrix,
    matrix_spec,
)
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, conj, sample

# -- QR --------------------------------------------------------------------------------------------


def qr_samples(make: Any) -> Any:
    yield sample(regular(make, 2, 2))
    yield sample(regular(make, 4, 2))
    yield sample(regular(make, 2, 4))
    yield sample(regular(make, 2, 3, 2))
    yield sample(transpose_memory(regular(make, 3, 3)))
    yield sample(make(0, 0))
    yield sample(make(0, 2, 2))


def qr_mode_samples(make: Any) -> Any:
    yield from qr_samples(make)
    yield sample(regular(make, 3, 3), "complete")
    yield sample(regular(make, 2, 3), "complete")
    yield sample(make(3, 0), "complete")
    yield sample(make(0, 2))


def check_mode(mode: str) -> None:
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )


linalg_qr = op(
    'linalg_qr(Tensor A, str mode="reduced") -> (Tensor Q, Tensor R)',
    autocast="float32",
    kind=LINALG.checked,
    sizes="*mn",
    method=False,
    samples=qr_mode_samples,
    errors=lambda make: [*matrix_errors(make), (RuntimeError, (make(2, 2), "no_such_mode"))],
)


@linalg_qr.shape
def _(A: Any, mode: str) -> Any:
    check_matrix("linalg.qr", A)
    check_float("linalg.qr", A._dtype)
    check_mode(mode)
    check_kernel("geqrf_cpu", A)
    batch, rows, columns = A.shape[:-2], A.shape[-2], A.shape[-1]
    rank = rows if mode == "complete" else geometry.minimum(rows, columns)
    second = matrix_spec((*batch, rank, columns), A._dtype)
    if mode == "r":
        return Spec((0,), A._dtype), second
    return matrix_spec((*batch, rows, rank), A._dtype), second


@linalg_qr.kernel
def _(xp: Any, A: Any, mode: str) -> Any:
    if mode == "r":
        return xp.empty(0, A.dtype), xp.linalg.qr(A, "r")
    return tuple(xp.linalg.qr(A, mode))


@linalg_qr.vjp
def _(grads: Any, Q: Any, R: Any, mode: str) -> Any:
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please "
            "use linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr."
        )
    rows, columns = Q.shape[-2], R.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    grad_q, grad_r = grads
    square = R
    beside = None
    if columns > rows:
        # The columns beside the square part are Q^H times those of A.
        square = R.narrow(-1, 0, rows)
        if grad_r is not None:
            beside = grad_r.narrow(-1, rows, columns - rows)
            through = Q.matmul(R.narrow(-1, rows, columns - rows)).matmul(adjoint_of(beside))
            grad_q = through if grad_q is None else grad_q + through
            grad_r = grad_r.narrow(-1, 0, rows)
    middle: Any = None
    if grad_r is not None:
        middle = grad_r.matmul(adjoint_of(square))
    if grad_q is not None:
        product = adjoint_of(Q).matmul(grad_q)
        middle = -product if middle is None else middle - product
    middle = middle.triu()
    strict = middle.triu(1)
    # Both triangles, and the real part of the diagonal once.
    whole = (middle + strict + adjoint_of(middle + strict)) * 0.5
    found = Q.matmul(whole)
    if grad_q is not None:
        found = found + grad_q
    found = aten.linalg_solve_triangular(adjoint_of(square), found, upper=False, left=False)
    if columns > rows:
        if beside is None:
            return pad_to(found, columns, -1)
        return aten.cat([found, Q.matmul(beside)], -1)
    return found


@composite(
    "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
    autocast="float32",
    samples=lambda make: [*qr_samples(make), (regular(make, 3, 3), False)],
    errors=matrix_errors,
)
def qr(self: Any, some: bool) -> Any:
    warn_once(
        "qr",
        "torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future "
        "PyTorch release.\nThe boolean parameter 'some' has been replaced with a string parameter "
        "'mode'.\nQ, R = torch.qr(A, some)\nshould be replaced with\nQ, R = torch.linalg.qr(A, "
        "'reduced' if some else 'complete')",
    )
    return aten.linalg_qr(self, "reduced" if some else "complete")


# -- Householder reflectors ------------------------------------------------------------------------


def refuse_geqrf(grad: Any) -> Any:
    raise error("RL0603", NotImplementedError, name="geqrf")


geqrf = op(
    "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
    autocast="float32",
    kind=LINALG.checked,
    sizes="*mn -> *mn|, *k",
    vjp=lambda grads: refuse_geqrf(grads),
    samples=qr_samples,
    errors=matrix_errors,
)


@geqrf.requires
def _(self: Any) -> None:
    if self.dim() < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    check_kernel("geqrf_cpu", self)


@geqrf.kernel
def _(xp: Any, self: Any) -> Any:
    turned_factors, factors = xp.linalg.qr(self, mode="raw")
    return xp.swapaxes(turned_factors, -1, -2), factors


def reflectors(input: Any, count: Any) -> Any:
    """The vectors of the reflectors, as columns."""
    rows = input.shape[-2]
    unit = aten.eye(rows, count, dtype=input._dtype, device=input.device)
    return input.narrow(-1, 0, count).tril(-1) + unit


def product_gradients(grad: Any, vectors: Any, tau: Any, values: Any) -> tuple[Any, ...]:
    """For the product Q of the reflectors I - tau_i v_i v_i^H: the gradients of `Q @ values` for
    the vectors, tau and values, and that product itself.

    Q is I - V M^-1 D V^H, where D has tau on its diagonal and M is I plus D times the part of
    V^H V above its diagonal.
    """
    turned_vectors = adjoint_of(vectors)
    above = turned_vectors.matmul(vectors).triu(1)
    factor = tau.unsqueeze(-1)
    matrix = factor * above
    seen = turned_vectors.matmul(values)
    weights = unit_solve(matrix, factor * seen, upper=True)
    by_right = unit_solve(adjoint_of(matrix), -turned_vectors.matmul(grad), upper=False)
    by_matrix = -by_right.matmul(adjoint_of(weights))
    by_factor = (by_right * conj(seen)).sum(-1) + (by_matrix * conj(above)).sum(-1)
    by_seen = conj(factor) * by_right
    by_above = (conj(factor) * by_matrix).triu(1)
    by_vectors = values.matmul(adjoint_of(by_seen)) - grad.matmul(adjoint_of(weights))
    by_vectors = by_vectors + vectors.matmul(by_above + adjoint_of(by_above))
    by_values = grad + vectors.matmul(by_seen)
    return by_vectors, by_factor, by_values, values - vectors.matmul(weights)


def unit_solve(matrix: Any, values: Any, upper: bool) -> Any:
    """X of `(I + matrix) @ X = values`, where `matrix` has zeros on its diagonal."""
    return aten.linalg_solve_triangular(matrix, values, upper=upper, unitriangular=True)


def reflected(make: Any, *shape: int, count: int | None = None) -> tuple[Any, Any]:
    rank = min(shape[-2:]) if count is None else count
    return make(*shape, low=-1, high=1), make(*shape[:-2], rank, low=0.25, high=1)


linalg_householder_product = op(
    "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
    autocast="float32",
    exact_out=False,
    kind=LINALG.checked,
    sizes="*mn, *r -> *mn|",
    method=False,
    samples=lambda make: [
        reflected(make, 3, 3),
        reflected(make, 4, 2),
        reflected(make, 2, 3, 2),
        reflected(make, 3, 2, count=1),
        (transpose_memory(make(3, 2)), make(2)),
        reflected(make, 0, 0),
        reflected(make, 0, 2, 2),
    ],
    errors=lambda make: [
        (RuntimeError, (make(3), make(2))),
        (RuntimeError, (make(2, 3), make(2))),
        (RuntimeError, (make(2, 2), make(3))),
        (RuntimeError, (make(2, 2, 2), make(2))),
    ],
)


def check_tau(name: str, input: Any, tau: Any) -> None:
    if input.dim() - tau.dim() != 1:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal "
            f"to {tau.dim()} and input.ndim is equal to {input.dim()}"
        )
    if not geometry.same_sizes(tuple(tau.shape[:-1]), tuple(input.shape[:-2])):
        raise RuntimeError(
            f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got "
            f"{geometry.show(tau.shape[:-1])}"
        )


@linalg_householder_product.requires
def _(input: Any, tau: Any) -> None:
    name = "torch.linalg.householder_product"
    if input.dim() < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if geometry.decided(input.shape[-2] < input.shape[-1]):
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    count = tau.shape[geometry.wrap_dim(-1, tau.dim(), False)]
    if geometry.decided(input.shape[-1] < count):
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    check_tau(name, input, tau)
    if tau._dtype is not input._dtype:
        raise RuntimeError(
            f"{name}: tau dtype {tau._dtype.scalar_type_name} does not match input dtype "
            f"{input._dtype.scalar_type_name}"
        )
    check_kernel("orgqr_cpu", input)


@linalg_householder_product.kernel
def _(xp: Any, input: Any, tau: Any) -> Any:
    return factoring.reflector_product(input, tau)


@linalg_householder_product.vjp
def _(grad: Any, input: Any, tau: Any) -> Any:
    if input.numel() == 0 or tau.numel() == 0:
        return None, None
    rows, columns = input.shape[-2:]
    count = tau.shape[-1]
    unit = aten.eye(rows, columns, dtype=input._dtype, device=input.device)
    last = unit.expand(input.shape)
    by_vectors, by_factor, *_ = product_gradients(grad, reflectors(input, count), tau, last)
    return pad_to(by_vectors.tril(-1), columns, -1), by_factor


@composite(
    "orgqr(Tensor self, Tensor input2) -> Tensor",
    autocast="float32",
    samples=lambda make: [reflected(make, 3, 3), reflected(make, 2, 3, 2)],
    errors=lambda make: [(RuntimeError, (make(3), make(2)))],
)
def orgqr(self: Any, input2: Any) -> Any:
    return aten.linalg_householder_product(self, input2)


def ormqr_samples(make: Any) -> Any:
    yield sample(*reflected(make, 3, 2), make(3, 2))
    yield sample(*reflected(make, 3, 3), make(3, 2), True, True)
    yield sample(*reflected(make, 3, 2), make(2, 3), False)
    yield sample(*reflected(make, 2, 2, 2), make(2, 1, 2), False, True)
    yield sample(*reflected(make, 2, 3), transpose_memory(make(2, 2)))
    yield sample(*reflected(make, 2, 0), make(2, 2))


ormqr = op(
    "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) "
    "-> Tensor",
    autocast="float32",
    kind=LINALG.checked,
    sizes="*pq, *r, *mn -> *mn|",
    samples=ormqr_samples,
    errors=lambda make: [
        (RuntimeError, (make(3), make(2), make(2, 2))),
        (RuntimeError, (make(2, 2), make(2), make(3, 2))),
        (RuntimeError, (make(2, 2), make(1), make(2, 2))),
    ],
)


@ormqr.requires
def _(self: Any, input2: Any, input3: Any, left: bool) -> None:
    name = "torch.ormqr"
    for label, value in (("input", self), ("other", input3)):
        if value.dim() < 2:
            raise RuntimeError(f"{name}: {label} must have at least 2 dimensions.")
    side = -2 if left else -1
    count = input2.shape[geometry.wrap_dim(-1, input2.dim(), False)]
    if input3.shape[side] != self.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if geometry.minimum(self.shape[-1], input3.shape[side]) != count:
        raise RuntimeError(
            f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])"
        )
    check_tau(name, self, input2)
    if input3.dim() != self.dim():
        raise RuntimeError(
            f"{name}: Expected other to have the same number of dimensions as input, but got "
            f"other.ndim equal to {input3.dim()} and input.ndim is equal to {self.dim()}"
        )
    if not geometry.same_sizes(tuple(input3.shape[:-2]), tuple(self.shape[:-2])):
        raise RuntimeError(
            f"{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
            f"{geometry.show(input3.shape[:-2])}"
        )
    for label, value in (("tau", input2), ("other", input3)):
        if value._dtype is not self._dtype:
            # torch: the words run together.
            raise RuntimeError(
                f"{name}: Expected input and {label} to have the same dtype, but input has dtype"
                f"{self._dtype.scalar_type_name} and {label} has dtype "
                f"{value._dtype.scalar_type_name}"
            )
    check_kernel("ormqr_cpu", self)


@ormqr.kernel
def _(xp: Any, self: Any, input2: Any, input3: Any, left: bool, transpose: bool) -> Any:
    return factoring.apply_reflectors(self, input2, input3, left, transpose)


@ormqr.vjp
def _(grad: Any, self: Any, input2: Any, input3: Any, left: bool, transpose: bool) -> Any:
    # What stands on the left of Q is on the right of Q^H, turned.
    values = input3 if left else adjoint_of(input3)
    grad = grad if left else adjoint_of(grad)
    vectors = reflectors(self, input2.shape[-1])
    if transpose == left:
        # <grad, Q^H values> is <values, Q grad>, conjugated.
        parts = product_gradients(values, vectors, input2, grad)
        by_vectors, by_factor, _, by_values = parts
    else:
        by_vectors, by_factor, by_values, _ = product_gradients(grad, vectors, input2, values)
    by_values = by_values if left else adjoint_of(by_values)
    if self.numel() == 0:
        return None, None, by_values
    return pad_to(by_vectors.tril(-1), self.shape[-1], -1), by_factor, by_values
