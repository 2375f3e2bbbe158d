"""Functions of matrices: exponential, pseudo-inverse, rank, condition number, matrix norms.

All work on the last two dims and leave those before them alone. Tolerances are absolute or
relative to the largest singular value; the larger of the two decides.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays.precision import HALVES
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.opset.kinds import LINALG, Spec
from rushlight.opset.linalg.spectral import (
    COMPUTABLE,
    check_inexact,
    check_matrix,
    check_square,
    computable,
    eigh,
    matrix_errors,
    square_errors,
    square_samples,
    svd_,
)
from rushlight.opset.reduction.magnitudes import check_norm_dtype
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, sample

INFINITY = math.inf


# -- the exponential ------------------------------------------------------------------------------

# The 1-norm up to which 18 terms of the series are exact to rounding.
SERIES_REACH = {"f": 3.0, "d": 1.09, "F": 3.0, "D": 1.09}


def exponential(array: Any) -> Any:
    """exp of a batch of matrices: scaled down, 18 terms of its series, squared up again."""
    size = array.shape[-1]
    reach = SERIES_REACH[array.dtype.char]
    with np.errstate(all="ignore"):
        norms = np.abs(array).sum(-2).max(-1, initial=0)
        steps = np.ceil(np.log2(np.maximum(norms, reach) / reach))
        steps = np.where(np.isfinite(steps), steps, 0).astype(np.int64)[..., None, None]
        scaled = array * np.ldexp(norms.dtype.type(1), -steps).astype(norms.dtype)
        result = series(scaled, np.eye(size, dtype=array.dtype))
        for step in range(int(steps.max(initial=0))):
            result = np.where(step < steps, result @ result, result)
    return result


def series(array: Any, identity: Any) -> Any:
    """The terms up to the 18th, in blocks of five: six products."""
    powers = [identity, array]
    for _ in range(3):
        powers.append(powers[-1] @ array)
    fifth = powers[-1] @ array
    total = np.zeros_like(array)
    for block in (3, 2, 1, 0):
        terms = zip(powers, range(5 * block, 5 * block + 5), strict=True)
        inner = sum((power * FACTORS[n] for power, n in terms if n <= 18), np.zeros_like(array))
        total = inner if block == 3 else total @ fifth + inner
    return total.astype(array.dtype, copy=False)


FACTORS = [1 / math.factorial(n) for n in range(19)]


def exponential_differential(self: Any, tangent: Any) -> Any:
    """The derivative of exp at `self` in a direction: a corner of exp of a block matrix."""
    size = self.shape[-1]
    above = aten.cat([self, tangent], -1)
    below = aten.cat([aten.zeros_like(self), self], -1)
    whole = aten.linalg_matrix_exp(aten.cat([above, below], -2))
    return whole.narrow(-2, 0, size).narrow(-1, size, size)


def exponential_samples(make: Any) -> Any:
    yield from square_samples(make)
    yield make(2, 3, 3, low=-0.2, high=0.2)
    yield make(2, 2, low=1, high=2.5)


linalg_matrix_exp = op(
    "linalg_matrix_exp(Tensor self) -> Tensor",
    kind=LINALG,
    sizes="*nn -> *nn",
    requires=lambda self: check_exponential(self, self._dtype),
    method=False,
    samples=exponential_samples,
    errors=lambda make: [*square_errors(make), (RuntimeError, (make.ints(2, 2),))],
    vjp=lambda grad, self: exponential_differential(self.mH, grad),
    jvp=lambda self_t, self: exponential_differential(self, self_t),
)


def check_exponential(value: Any, dtype: DType) -> None:
    check_inexact("linalg.matrix_exp", dtype)
    check_square("linalg.matrix_exp", value)


@linalg_matrix_exp.kernel
def _(xp: Any, self: Any) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    check_exponential(self, dtype)
    if dtype in HALVES:
        return exponential(self.astype(np.float32)).astype(dtype.np)
    return exponential(computable("matrix_exp", self)).astype(dtype.np, copy=False)


@composite("matrix_exp(Tensor self) -> Tensor", samples=exponential_samples, errors=square_errors)
def matrix_exp(self: Any) -> Any:
    return aten.linalg_matrix_exp(self)


@composite(
    "matrix_exp_backward(Tensor self, Tensor grad) -> Tensor",
    method=False,
    samples=lambda make: ((make(2, 2), make(2, 2)), (make(2, 3, 3), make(2, 3, 3))),
)
def matrix_exp_backward(self: Any, grad: Any) -> Any:
    check_inexact("linalg.matrix_exp", self._dtype)
    return exponential_differential(self.mH, grad)


# -- tolerances -----------------------------------------------------------------------------------


def refuse_complex(name: str, **tolerances: Any) -> None:
    for argument, value in tolerances.items():
        if value is not None and value._dtype.is_complex:
            raise RuntimeError(
                f"torch.linalg.{name}: {argument} tensor of complex type is not supported. Got "
                f"{value._dtype.scalar_type_name}"
            )


def relative_tolerance(dtype: DType, shape: Any) -> float:
    if dtype not in COMPUTABLE:
        raise RuntimeError("This function doesn't handle types other than float and double")
    tolerance: float = dtypes.finfo(dtype.to_real()).eps * max(shape[-1], shape[-2])
    return tolerance


def number(value: float, like: Any) -> Any:
    return aten.full((), value, dtype=dtypes.float64, device=like.device)


def tensors_for(self: Any, atol: float | None, rtol: float | None) -> tuple[Any, Any]:
    """Tolerances given as numbers, as tensors; a positive `atol` stands alone."""
    if rtol is None:
        rtol = relative_tolerance(self._dtype, self.shape)
        if atol is not None and atol > 0:
            rtol = 0.0
    return number(0.0 if atol is None else atol, self), number(rtol, self)


# -- rank -----------------------------------------------------------------------------------------


def steady(matrix: Any) -> Any:
    """A matrix far from those of lower rank, so that rounding has little to say."""
    if matrix._dtype is dtypes.bool_:
        return matrix
    return matrix + 9 * aten.eye(*matrix.shape[-2:], dtype=matrix._dtype)


def rank_samples(*forms: Any) -> Any:
    """Samples of (matrix, hermitian); `forms` make the remaining arguments."""

    def samples(make: Any) -> Any:
        for form in forms:
            yield form(make, steady(make(3, 2)), False)
            yield form(make, steady(make(2, 3, 3)), False)
            yield form(make, make.strided(3, 3), True)
            yield form(make, make.expanded(2, 3), False)
            yield form(make, make(2, 0, 2), False)

    return samples


def given(**options: Any) -> Any:
    return lambda make, matrix, hermitian: sample(matrix, hermitian=hermitian, **options)


def tensor_given(*names: str, sizes: tuple[int, ...] = ()) -> Any:
    def form(make: Any, matrix: Any, hermitian: bool) -> Any:
        batch = sizes if matrix.dim() == 2 or not sizes else tuple(matrix.shape[:-2])
        options = {name: make(*batch, low=0.1, high=1.5) for name in names}
        return sample(matrix, hermitian=hermitian, **options)

    return form


def positional(value: Any) -> Any:
    return lambda make, matrix, hermitian: sample(
        matrix, value(make) if callable(value) else value, hermitian
    )


def narrow_tolerance(make: Any) -> Any:
    return make(low=0.1, high=1.5)


def rank_errors(make: Any) -> Any:
    yield RuntimeError, (make(3),)


def rank_of(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    if hermitian:
        sizes = aten.linalg_eigvalsh(self).abs()
        largest = sizes.amax((-1,), True)
    else:
        sizes = aten.linalg_svdvals(self)
        largest = sizes.narrow(-1, 0, 1)
    tolerance = aten.maximum(atol.unsqueeze(-1), rtol.unsqueeze(-1) * largest)
    return (sizes > tolerance).sum((-1,))


def is_empty(value: Any) -> bool:
    return geometry.is_size(value.numel(), 0)


def no_ranks(self: Any) -> Any:
    return aten.zeros(tuple(self.shape[:-2]), dtype=dtypes.int64, device=self.device)


@composite(
    "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor",
    autocast="float32",
    method=False,
    samples=rank_samples(tensor_given("atol", sizes=(2,)), tensor_given("atol", "rtol"), given()),
    errors=rank_errors,
)
def rank_by_tensors(input: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    check_matrix("torch.linalg.matrix_rank", input, "input")
    refuse_complex("matrix_rank", atol=atol, rtol=rtol)
    if rtol is None:
        rtol = number(relative_tolerance(input._dtype, input.shape), input)
        if atol is not None:
            rtol = aten.where(atol > 0, aten.zeros_like(rtol), rtol)
    if is_empty(input):
        return no_ranks(input)
    return rank_of(input, number(0.0, input) if atol is None else atol, rtol, hermitian)


@composite(
    "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor",
    autocast="float32",
    method=False,
    samples=rank_samples(given(), given(atol=0.5), given(rtol=0.2), given(atol=1.0, rtol=0.1)),
    errors=rank_errors,
)
def rank_by_numbers(
    self: Any, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Any:
    check_matrix("torch.linalg.matrix_rank", self, "input")
    return ranked(self, *tensors_for(self, atol, rtol), hermitian)


def ranked(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    return aten.linalg_matrix_rank(self, atol=atol, rtol=rtol, hermitian=hermitian)


@composite(
    "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
    autocast="float32",
    method=False,
    samples=rank_samples(positional(0.5)),
    errors=lambda make: [(RuntimeError, (make(3), 0.5))],
)
def linalg_matrix_rank(self: Any, tol: float, hermitian: bool = False) -> Any:
    return ranked(self, number(tol, self), number(0.0, self), hermitian)


@composite(
    "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> Tensor",
    autocast="float32",
    method=False,
    samples=rank_samples(positional(narrow_tolerance)),
    errors=lambda make: [(RuntimeError, (make(3), make()))],
)
def rank_by_tensor(input: Any, tol: Any, hermitian: bool = False) -> Any:
    return ranked(input, tol, number(0.0, input), hermitian)


# -- pseudo-inverse -------------------------------------------------------------------------------


def pinv_gradient(grad: Any, self: Any, result: Any) -> Any:
    """By the differential -P dA P + (1 - PA) dA^H P^H P + P P^H dA^H (1 - AP)."""
    turned, across = result.mH, grad.mH
    first = -(turned.matmul(grad).matmul(turned))
    outer = turned.matmul(result)
    second = outer.matmul(across - across.matmul(result).matmul(self))
    inner = result.matmul(turned)
    third = (across - self.matmul(result).matmul(across)).matmul(inner)
    return first + second + third


def pinv_tangent(self_t: Any, self: Any, result: Any) -> Any:
    turned, across = result.mH, self_t.mH
    first = -(result.matmul(self_t).matmul(result))
    outer = turned.matmul(result)
    second = (across - result.matmul(self).matmul(across)).matmul(outer)
    inner = result.matmul(turned)
    third = inner.matmul(across - across.matmul(self).matmul(result))
    return first + second + third


def pinv_errors(make: Any) -> Any:
    yield RuntimeError, (make(3),)
    yield RuntimeError, (make.ints(2, 2),)


linalg_pinv = op(
    "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
    "bool hermitian=False) -> Tensor",
    may_raise=True,
    exact_out=False,
    kind=LINALG,
    method=False,
    batch=late("linalg.batched:pseudo_inverse"),
    samples=rank_samples(tensor_given("atol"), tensor_given("atol", "rtol"), given()),
    errors=pinv_errors,
    vjp={"self": pinv_gradient},
    jvp=pinv_tangent,
)


def check_pinv(self: Any, dtype: DType, atol: Any, rtol: Any) -> None:
    if len(self.shape) < 2 or dtype not in COMPUTABLE:
        raise RuntimeError(
            f"linalg.pinv({dtype.scalar_type_name}{{{geometry.show(self.shape)}}}): expected a "
            "tensor with 2 or more dimensions of float, double, cfloat or cdouble types"
        )


@linalg_pinv.shape
def _(self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    check_pinv(self, self._dtype, atol, rtol)
    refuse_complex("pinv", atol=atol, rtol=rtol)
    *batch, rows, columns = tuple(self.shape)
    if hermitian and not is_empty(self):
        check_square("linalg.eigh", self)
    for tolerance in (atol, rtol):
        if tolerance is not None and not is_empty(self):
            batch = list(geometry.broadcast_shapes(tuple(batch), tuple(tolerance.shape)))
    return Spec((*batch, columns, rows), self._dtype)


@linalg_pinv.kernel
def _(xp: Any, self: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    check_pinv(self, dtype, atol, rtol)
    for argument, value in (("atol", atol), ("rtol", rtol)):
        if value is not None and value.dtype.kind == "c":
            raise RuntimeError(
                f"torch.linalg.pinv: {argument} tensor of complex type is not supported. Got "
                f"{dtypes.from_numpy(value.dtype).scalar_type_name}"
            )
    if not self.size:
        return xp.empty((*self.shape[:-2], self.shape[-1], self.shape[-2]), self.dtype)
    if rtol is None:
        rtol = xp.asarray(relative_tolerance(dtype, self.shape))
        if atol is not None:
            rtol = xp.where(atol > 0, 0, rtol)
    atol = xp.zeros(()) if atol is None else atol
    if hermitian:
        values, left = eigh.rules["kernel"](xp, self, "L", True)
        right = left
    else:
        left, values, turned = svd_.rules["kernel"](xp, self, False, True, None)
        right = xp.conj(xp.swapaxes(turned, -1, -2))
    sizes = xp.abs(values)
    largest = sizes.max(-1, keepdims=True)
    tolerance = xp.maximum(atol[..., None], rtol[..., None] * largest)
    with np.errstate(divide="ignore"):
        inverses = xp.where(sizes > tolerance, 1 / values, 0).astype(values.dtype)
    product = (right * inverses[..., None, :]) @ xp.conj(xp.swapaxes(left, -1, -2))
    return product.astype(self.dtype, copy=False)


@composite(
    "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
    "bool hermitian=False) -> Tensor",
    method=False,
    samples=rank_samples(given(), given(atol=0.5), given(rtol=0.2), given(atol=1.0, rtol=0.1)),
    errors=lambda make: [(IndexError, (make(3),)), (RuntimeError, (make.ints(2, 2),))],
)
def pinv_by_numbers(
    self: Any, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
) -> Any:
    atol, rtol = tensors_for(self, atol, rtol)
    return aten.linalg_pinv(self, atol=atol, rtol=rtol, hermitian=hermitian)


def pinv_relative(self: Any, rtol: Any, hermitian: bool) -> Any:
    atol = number(0.0, self)
    return aten.linalg_pinv(self, atol=atol, rtol=rtol, hermitian=hermitian)


@composite(
    "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
    method=False,
    samples=rank_samples(positional(0.1)),
    errors=lambda make: [(RuntimeError, (make(3), 0.1))],
)
def pinv_by_ratio(self: Any, rcond: float, hermitian: bool = False) -> Any:
    return pinv_relative(self, number(rcond, self), hermitian)


@composite(
    "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
    method=False,
    samples=rank_samples(positional(narrow_tolerance)),
    errors=lambda make: [(RuntimeError, (make(3), make()))],
)
def pinv_by_ratios(self: Any, rcond: Any, hermitian: bool = False) -> Any:
    return pinv_relative(self, rcond, hermitian)


@composite(
    "pinverse(Tensor self, float rcond=1e-15) -> Tensor",
    autocast="float32",
    samples=lambda make: (
        (steady(make(3, 2)),),
        (steady(make(2, 3, 3)), 0.1),
        (steady(make.strided(2, 3)),),
    ),
    errors=pinv_errors,
)
def pinverse(self: Any, rcond: float = 1e-15) -> Any:
    return aten.linalg_pinv(self, rcond, False)


# -- matrix norms ---------------------------------------------------------------------------------


def check_norm_dims(self: Any, dim: Any) -> tuple[int, int]:
    if len(dim) != 2:
        shown = ", ".join([str(entry) for entry in dim])
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {shown}")
    first, second = [geometry.wrap_dim(entry, self.dim()) for entry in dim]
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return first, second


def singular_value_norm(
    self: Any, dim: tuple[int, int], keepdim: bool, dtype: Any, fold: Any
) -> Any:
    """A norm that is a function of the singular values, over two dims of any place."""
    check_matrix_dtype(self, dtype, low_precision=False)
    if dtype is not None and dtype is not self._dtype:
        self = self.to(dtype)
    others = [axis for axis in range(self.dim()) if axis not in dim]
    order = [*others, *dim]
    result = fold(aten.linalg_svdvals(self.permute(order)), keepdim)
    if keepdim:
        back = sorted(range(len(order)), key=order.__getitem__)
        result = result.unsqueeze(-1).permute(back)
    return result


def check_matrix_dtype(self: Any, dtype: Any, low_precision: bool = True) -> None:
    self_dtype = self._dtype
    check_inexact("linalg.matrix_norm", self_dtype)
    if not low_precision and self_dtype not in COMPUTABLE:
        raise RuntimeError(
            "linalg.matrix_norm: Low precision dtypes not supported. "
            f"Got {self_dtype.scalar_type_name}"
        )
    check_norm_dtype("linalg.matrix_norm", self_dtype, dtype)


def extreme(value: Any, dim: int, keepdim: bool, largest: bool) -> Any:
    if not largest:
        return value.amin((dim,), keepdim)
    if geometry.is_size(value.shape[dim], 0):
        # The largest of nothing is the least norm there is, whatever it is a norm of.
        return value.detach().sum((dim,), keepdim)
    return value.amax((dim,), keepdim)


def norm_samples(*orders: Any) -> Any:
    def samples(make: Any) -> Any:
        for order in orders:
            yield make(3, 2), order
            yield make(2, 3, 2), order, (0, 1)
            yield make(2, 3, 2), order, (-1, 0), True
            yield make.strided(2, 3), order
            yield make(0, 2), order
            if make.dtype.category >= dtypes.FLOAT:
                wide = dtypes.complex128 if make.dtype.is_complex else dtypes.float64
                yield sample(make(2, 2), order, dtype=wide)

    return samples


def norm_errors(order: Any) -> Any:
    def errors(make: Any) -> Any:
        yield RuntimeError, (make(3), order)
        yield RuntimeError, (make(2, 2), order, (0,))
        yield RuntimeError, (make(2, 2), order, (0, 0))
        yield RuntimeError, (make.ints(2, 2), order)
        yield RuntimeError, (make(2, 2), "x" if isinstance(order, str) else 3)

    return errors


@composite(
    "linalg_matrix_norm(Tensor self, Scalar ord, int[] dim=[-2,-1], bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    exact_out=True,
    method=False,
    samples=norm_samples(2, -2, 1, -1, INFINITY, -INFINITY),
    errors=norm_errors(2),
)
def linalg_matrix_norm(
    self: Any, ord: Any, dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Any:
    check_matrix("linalg.matrix_norm", self)
    first, second = check_norm_dims(self, dim)
    if isinstance(ord, complex) or abs(ord) not in (1, 2, INFINITY):
        shown = f"{ord:g}" if isinstance(ord, float) else ord
        raise RuntimeError(f"linalg.matrix_norm: Order {shown} not supported.")
    largest = ord > 0
    if abs(ord) == 2:
        return singular_value_norm(
            self, (first, second), keepdim, dtype, lambda s, k: extreme(s, -1, k, largest)
        )
    check_matrix_dtype(self, dtype)
    if abs(ord) == INFINITY:
        first, second = second, first
    if not keepdim and first < second:
        second -= 1
    sums = aten.linalg_vector_norm(self, 1.0, (first,), keepdim, dtype=dtype)
    return extreme(sums, second, keepdim, largest)


@composite(
    "linalg_matrix_norm.str_ord(Tensor self, str ord='fro', int[] dim=[-2,-1], "
    "bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
    exact_out=True,
    method=False,
    samples=norm_samples("fro", "nuc"),
    errors=norm_errors("nuc"),
)
def named_matrix_norm(
    self: Any, ord: str = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Any:
    check_matrix("linalg.matrix_norm", self)
    dims = check_norm_dims(self, dim)
    if ord not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if ord == "fro":
        check_matrix_dtype(self, dtype)
        return aten.linalg_vector_norm(self, 2, dims, keepdim, dtype=dtype)
    return singular_value_norm(self, dims, keepdim, dtype, lambda s, k: s.sum((-1,), k))


def check_norm_rank(self: Any) -> None:
    if self.dim() not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{self.dim()}D."
        )


@composite(
    "linalg_norm(Tensor self, Scalar? ord=None, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    exact_out=True,
    method=False,
    samples=lambda make: (
        (make(2, 3),),
        (make(2, 3, 2), None, 1, True),
        (make(3), 3),
        (make(3, 2), 1),
        (make(2, 3), 2),
        (make(2, 3, 2), -INFINITY, (0, 2)),
        (make(2, 3, 2), 1, 0),
        (make(),),
    ),
    errors=lambda make: [
        (RuntimeError, (make(2, 2, 2), 2)),
        (RuntimeError, (make(2, 2, 2), None, (0, 1, 2))),
        (RuntimeError, (make(2, 2), 3)),
    ],
)
def linalg_norm(
    self: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    if dim is not None:
        dim = (dim,) if type(dim) is int else tuple(dim)
        if len(dim) not in (1, 2):
            raise RuntimeError(
                "linalg.norm: If dim is specified, it must be of length 1 or 2. Got "
                f"{geometry.show(dim)}"
            )
    elif ord is not None:
        check_norm_rank(self)
    if ord is not None and (len(dim) if dim is not None else self.dim()) == 2:
        dim = (0, 1) if dim is None else dim
        return aten.linalg_matrix_norm(self, ord, dim, keepdim, dtype=dtype)
    order = 2.0 if ord is None else ord
    return aten.linalg_vector_norm(self, order, dim, keepdim, dtype=dtype)


@composite(
    "linalg_norm.ord_str(Tensor self, str ord, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    exact_out=True,
    method=False,
    samples=lambda make: (
        (make(2, 3), "fro"),
        (make(3, 2), "nuc"),
        (make(2, 3, 2), "nuc", (0, 2), True),
    ),
    errors=lambda make: [
        (RuntimeError, (make(2, 2, 2), "fro")),
        (RuntimeError, (make(3), "nuc")),
        (RuntimeError, (make(2, 2), "x")),
    ],
)
def named_norm(
    self: Any, ord: str, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    if dim is None:
        check_norm_rank(self)
    dims = (0, 1) if dim is None else dim
    return aten.linalg_matrix_norm(self, ord, dims, keepdim, dtype=dtype)


# -- condition number -----------------------------------------------------------------------------


def no_conditions(self: Any) -> Any:
    dtype = self._dtype.to_real()
    return aten.zeros(tuple(self.shape[:-2]), dtype=dtype, device=self.device)


def condition_by_inverse(self: Any, p: Any) -> Any:
    inverse, info = aten.linalg_inv_ex(self)
    # No inverse: as far from invertible as can be.
    inverse = inverse.masked_fill((info > 0).unsqueeze(-1).unsqueeze(-1), INFINITY)
    product = aten.linalg_matrix_norm(self, p) * aten.linalg_matrix_norm(inverse, p)
    return aten.nan_to_num(product, INFINITY, INFINITY, -INFINITY)


@composite(
    "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
    autocast="float32",
    method=False,
    samples=lambda make: (
        (steady(make(3, 2)),),
        (steady(make(2, 2, 3)), 2),
        (steady(make.strided(3, 3)), -2),
        *[(steady(make(2, 2, 2)), p) for p in (1, -1, INFINITY, -INFINITY)],
        (make(0, 3),),
        (make(2, 0, 0), 1),
    ),
    errors=lambda make: [
        *matrix_errors(make),
        (RuntimeError, (make(2, 3), 1)),
        (RuntimeError, (make(2, 2), 3)),
    ],
)
def linalg_cond(self: Any, p: Any = None) -> Any:
    if self.dim() < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if is_empty(self):
        return no_conditions(self)
    p = 2 if p is None else p
    if abs(p) == 2:
        values = aten.linalg_svdvals(self)
        largest, least = values.narrow(-1, 0, 1), values.narrow(-1, values.shape[-1] - 1, 1)
        return (largest / least if p == 2 else least / largest).squeeze(-1)
    shown = f"{p:g}" if isinstance(p, float) else p
    if abs(p) not in (1, INFINITY):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {shown}")
    check_square(f"linalg.cond(ord={shown})", self)
    return condition_by_inverse(self, p)


@composite(
    "linalg_cond.p_str(Tensor self, str p) -> Tensor",
    autocast="float32",
    method=False,
    samples=lambda make: (
        (steady(make(3, 3)), "fro"),
        (steady(make(2, 2, 2)), "nuc"),
        (make(0, 0), "fro"),
    ),
    errors=lambda make: [(RuntimeError, (make(2, 3), "fro")), (RuntimeError, (make(2, 2), "x"))],
)
def named_cond(self: Any, p: str) -> Any:
    check_square(f"linalg.cond(ord={p})", self)
    if is_empty(self):
        return no_conditions(self)
    if p == "nuc":
        values = aten.linalg_svdvals(self)
        return values.sum((-1,)) * values.reciprocal().sum((-1,))
    if p != "fro":
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    return condition_by_inverse(self, p)
