"""Norms, distances and logsumexp: reductions to a magnitude.

Halves compute in float32. A norm of nothing is 0 where the sum of nothing answers it and refused
where only an extremum could. Gradients are 0 where the norm is, except for the 0-norm's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable, working
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.promotion import DIM, ZERO_DIM, can_cast, result_type
from rushlight.core.tensor import Tensor
from rushlight.opset.exposure import attribute
from rushlight.opset.kinds import REDUCTION, Spec
from rushlight.opset.reduction.extrema import max_reduce, min_reduce
from rushlight.opset.reduction.reduce import reduced_axes, reduced_spec, reduction_samples, restored
from rushlight.opset.registry import composite, op, packet
from rushlight.opset.rules import conj, late, sample

# Public functions of torch that are written in Python here.
TORCH_NAMES = ("norm",)

INFINITY = float("inf")


def check_norm_dtype(name: str, source: DType, given: DType | None) -> DType:
    """The dtype to compute in, complex where the input is."""
    if source.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{source.scalar_type_name}"
        )
    if given is None:
        return source
    if given.category < dtypes.FLOAT:
        raise RuntimeError(
            f"{name}: dtype should be floating point or complex, but got {given.scalar_type_name}"
        )
    if given.is_complex != source.is_complex:
        needed, inputs = ("complex", "complex") if source.is_complex else ("real", "real")
        raise RuntimeError(
            f"{name}: dtype should be {needed} for {inputs} inputs, but got "
            f"{given.scalar_type_name}"
        )
    if given.itemsize < source.itemsize or not can_cast(source, given):
        raise RuntimeError(
            f"{name}: the dtype of the input ({source.scalar_type_name}) should be convertible "
            f"without narrowing to the specified dtype ({given.scalar_type_name})"
        )
    return given


def check_norm_extent(shape: Any, ord: Any, dim: Any) -> None:
    needs_values = ord < 0 or ord == INFINITY
    if not needs_values or geometry.decided(geometry.numel(shape) != 0):
        return
    shown = f"{ord:g}" if isinstance(ord, float) else str(ord)
    if dim is None or dim == ():
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    for position in geometry.wrap_dims((dim,) if type(dim) is int else dim, len(shape)):
        if shape[position] == 0:
            # torch: the words run together.
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {shown} norm on the dimension {position}"
                "because this dimension is empty and the operation does not have an identity"
            )


def norm_of(array: Any, ord: Any, axes: Any, keepdim: bool) -> Any:
    """The vector norm of an array of a computing dtype."""
    if ord == 0:
        return sum_array((array != 0).astype(array.real.dtype), axes, keepdim)
    if ord == 2:
        if array.dtype.kind == "c":
            squares = array.real * array.real + array.imag * array.imag
        else:
            squares = array * array
        return np.sqrt(sum_array(squares, axes, keepdim))
    sizes = np.abs(array)
    if ord == 1:
        return sum_array(sizes, axes, keepdim)
    if ord == INFINITY:
        return max_reduce(sizes, axis=axes, keepdims=keepdim)
    if ord == -INFINITY:
        return min_reduce(sizes, axis=axes, keepdims=keepdim)
    power = sizes.dtype.type(ord)
    return np.power(sum_array(np.power(sizes, power), axes, keepdim), 1 / power)


def norm_gradient(grad: Any, self: Any, ord: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    ord = 2.0 if ord is None else ord
    if ord == 0:
        return None
    if ord == 1:
        return self.sgn() * restored(grad, dim, keepdim, self.dim())
    grad = restored(grad, dim, keepdim, self.dim())
    result = restored(result, dim, keepdim, self.dim())
    if ord == 2:
        return grad * (self / result).masked_fill(result == 0, 0)
    if ord in (INFINITY, -INFINITY):
        magnitudes = self.abs()
        mask = (magnitudes == result).logical_or(magnitudes.isnan())
        count = mask.sum() if dim is None or dim == () else mask.sum(dim, True)
        return self.sgn() * ((grad / count) * mask)
    if ord < 1:
        scaled = self.sgn() * self.abs().pow(ord - 1).masked_fill(self == 0, 0)
        return scaled * (grad * result.pow(1 - ord))
    if ord < 2:
        scaled = self.sgn() * self.abs().pow(ord - 1)
    else:
        scaled = self * (self.abs() if ord == 3 else self.abs().pow(ord - 2))
    return scaled * (grad / result.pow(ord - 1)).masked_fill(result == 0, 0)


def norm_samples(make: Any) -> Any:
    for ord in (2, 1, 0, 3, 0.5, 1.5, 2.5, INFINITY, -INFINITY, -1):
        yield sample(make(3, 4), ord)
        yield sample(make(2, 3), ord, 0)
        yield sample(make(2, 3, 2), ord, (-1, 0), True)
    yield sample(make.strided(3, 4), 2, 1)
    yield sample(make(), 2)
    yield sample(make(), 3, 0)
    yield sample(make(0, 3), 2)
    yield sample(make(3, 0), 1, 0)
    yield sample(make.special(6), 2)
    yield sample(make.special(6), INFINITY)
    yield sample(make(3), 2, dtype=dtypes.float64)


linalg_vector_norm = op(
    "linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, "
    "ScalarType? dtype=None) -> Tensor",
    sparse=late("sparse.math:vector_norm"),
    kind=REDUCTION,
    method=False,
    function=False,
    samples=norm_samples,
    errors=lambda make: [(RuntimeError, (make(0), INFINITY)), (RuntimeError, (make(0, 2), -1, 0))],
    vjp=lambda grad, self, ord, result, dim, keepdim: norm_gradient(
        grad, self, ord, result, dim, keepdim
    ),
)


@linalg_vector_norm.shape
def _(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = check_norm_dtype("linalg.vector_norm", self._dtype, dtype)
    check_norm_extent(self.shape, ord, dim)
    return reduced_spec(self, dim, keepdim, result_dtype.to_real())


@linalg_vector_norm.lower
def _(build: Any, op: Any, self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = check_norm_dtype("linalg.vector_norm", self.dtype, dtype)
    m, axes = build.m, build.axes(dim, len(self.shape))
    if ord not in (1, 2, INFINITY) or 0 in self.shape or result_dtype.is_complex:
        build.refuse(f"a norm of order {ord}")
    x = build.cast(build.widen(self), build.working(result_dtype))
    x = m.multiply(x, x) if ord == 2 else m.abs(x)
    found = build.fold("max" if ord == INFINITY else "sum", x, self.shape, axes)
    found = m.sqrt(found) if ord == 2 else found
    return build.cast(build.without(found, axes, keepdim), result_dtype)


@linalg_vector_norm.kernel
def _(xp: Any, self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    result_dtype = check_norm_dtype("linalg.vector_norm", dtypes.from_numpy(self.dtype), dtype)
    check_norm_extent(self.shape, ord, dim)
    return vector_norm_array(self, ord, dim, keepdim, result_dtype)


def vector_norm_array(array: Any, ord: Any, dim: Any, keepdim: bool, dtype: DType) -> Any:
    check_computable("linalg_vector_norm_cpu", dtype)
    work = working(dtype)
    axes = reduced_axes(dim, array.ndim)
    return norm_of(cast(array, work), ord, axes, keepdim).astype(dtype.to_real().np)


def refuse_complex_request(dtype: DType | None) -> None:
    # torch: these overloads make their result in the dtype asked for, and norms are real.
    if dtype is not None and dtype.is_complex:
        raise RuntimeError(
            f"Expected out tensor to have dtype {dtype.to_real().cpp_name}, but got "
            f"{dtype.cpp_name} instead"
        )


def norm_op(schema: str, index: int, form: Any, samples: Any) -> Any:
    """One of aten's norm overloads; `form` gives (dim, keepdim, dtype) from its arguments."""
    given = [part.split()[-1].split("=")[0] for part in schema.split(", ")]
    formula = NORM_FORMULAS["dim" in given]
    record = op(
        schema,
        kind=REDUCTION,
        method=False,
        function=None,
        node_index=index,
        batch=None if "dim" in given else late("reduction.batched:norm"),
        vjp=formula,
        samples=samples,
    )

    @record.shape
    def _(self: Any, p: Any, *rest: Any) -> Any:
        dim, keepdim, dtype = form(*rest)
        refuse_complex_request(dtype)
        result_dtype = check_norm_dtype("linalg.vector_norm", self._dtype, dtype)
        check_norm_extent(self.shape, 2 if p is None else p, dim)
        return reduced_spec(self, dim, keepdim, result_dtype.to_real())

    @record.kernel
    def _(xp: Any, self: Any, p: Any, *rest: Any) -> Any:
        dim, keepdim, dtype = form(*rest)
        refuse_complex_request(dtype)
        p = 2 if p is None else p
        result_dtype = check_norm_dtype("linalg.vector_norm", dtypes.from_numpy(self.dtype), dtype)
        check_norm_extent(self.shape, p, dim)
        return vector_norm_array(self, p, dim, keepdim, result_dtype)

    return record


def order_samples(*after: Any, widened: bool = False) -> Any:
    """Samples of a norm: its order and whatever follows."""

    def samples(make: Any) -> Any:
        kind = {"dtype": wider(make.dtype)} if widened else {}
        for p in (2, 1, 3.5, INFINITY):
            yield sample(make(2, 3), p, *after, **kind)
        yield sample(make.strided(2, 3), 0, *after, **kind)
        if after and after[0] == [0]:
            yield sample(make(), None, *after, **kind)

    return samples


def wider(dtype: DType) -> DType:
    """The widest dtype of a floating point dtype's kind."""
    return dtypes.complex128 if dtype.is_complex else dtypes.float64


NORM_FORMULAS = (
    lambda grad, self, p, result: norm_gradient(grad, self, p, result, None, False),
    lambda grad, self, p, result, dim, keepdim: norm_gradient(grad, self, p, result, dim, keepdim),
)

norm_op(
    "norm.Scalar(Tensor self, Scalar p=2) -> Tensor",
    0,
    lambda: (None, False, None),
    order_samples(),
)
norm_op(
    "norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor",
    1,
    lambda dim, keepdim: (dim, keepdim, None),
    order_samples([0]),
)
norm_op(
    "norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor",
    2,
    lambda dtype: (None, False, dtype),
    order_samples(widened=True),
)
norm_op(
    "norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, "
    "ScalarType dtype) -> Tensor",
    3,
    lambda dim, keepdim, dtype: (dim, keepdim, dtype),
    order_samples([0], True, widened=True),
)


@composite(
    "norm_except_dim(Tensor v, int pow=2, int dim=0) -> Tensor",
    method=False,
    samples=lambda make: [
        (make(2, 3),),
        (make.strided(2, 3), 2, 1),
        (make(2, 3, 2), 3, 1),
        (make(2, 3), 2, -1),
    ],
)
def norm_except_dim(v: Any, pow: int, dim: int) -> Any:
    if dim == -1:
        return v.norm(pow)
    if 0 < dim < v.dim() - 1:
        return packet("norm_except_dim")(v.transpose(0, dim), pow, 0).transpose(0, dim)
    shape = [1] * v.dim()
    shape[dim] = v.shape[dim]
    rest = geometry.numel(v.shape[1:] if dim == 0 else v.shape[:-1])
    if dim == 0:
        return v.contiguous().view(v.shape[0], rest).norm(pow, 1).view(shape)
    return v.contiguous().view(rest, v.shape[dim]).norm(pow, 0).view(shape)


def norm(
    input: Any,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """The vector norm of order `p`, or the matrix norm "nuc"."""
    from rushlight.core.dispatch import try_function_override

    if type(input) is not Tensor:
        options = {"p": p, "dim": dim, "keepdim": keepdim, "out": out, "dtype": dtype}
        handled, value = try_function_override(norm, (input,), options)
        if handled:
            return value
    dims = dim if dim is None or isinstance(dim, (list, tuple)) else [dim]
    options = {"dtype": dtype} if out is None else {"dtype": dtype, "out": out}
    if isinstance(p, str) and not (p == "fro" and (dims is None or len(dims) <= 2)):
        dims = list(range(input.dim())) if dims is None else dims
        return packet("linalg_matrix_norm")(input, p, dims, keepdim, **options)
    order = 2 if p is None or isinstance(p, str) else p
    return packet("linalg_vector_norm")(input, order, dims, keepdim, **options)


def norm_method(
    self: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Any:
    """See `torch.norm`."""
    return norm(self, p, dim, keepdim, None, dtype)


norm_method.__name__ = norm_method.__qualname__ = "norm"
attribute("norm", norm_method)


# -- distances ------------------------------------------------------------------------------------

dist = op(
    "dist(Tensor self, Tensor other, Scalar p=2) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2, 3), make(2))),
        (TypeError, (make(2), make(2), "x")),
    ],
    kind=REDUCTION,
    batch=late("reduction.batched:dist"),
    vjp={
        "self": lambda grad, self, other, p, result: norm_gradient(
            grad, self - other, p, result, None, False
        ),
        "other": lambda grad, self, other, p, result: norm_gradient(
            -grad, self - other, p, result, None, False
        ),
    },
)


@dist.samples
def _(make: Any) -> Any:
    for p in (2, 1, 0, 3.5, INFINITY, -INFINITY):
        yield make(2, 3), make(2, 3), p
    yield make(2, 3), make(3)
    yield make(), make()
    yield make.strided(3, 4), make(3, 4), 1.5


def difference_dtype(self: Any, other: Any) -> DType:
    operands = []
    for tensor in (self, other):
        dtype = tensor._dtype if isinstance(tensor, Tensor) else dtypes.from_numpy(tensor.dtype)
        operands.append((dtype, DIM if len(tensor.shape) else ZERO_DIM))
    return result_type(operands)


@dist.shape
def _(self: Any, other: Any, p: Any) -> Any:
    dtype = check_norm_dtype("linalg.vector_norm", difference_dtype(self, other), None)
    shape = geometry.broadcast_shapes(self.shape, other.shape)
    check_norm_extent(shape, p, None)
    return Spec((), dtype.to_real())


@dist.kernel
def _(xp: Any, self: Any, other: Any, p: Any) -> Any:
    dtype = check_norm_dtype("linalg.vector_norm", difference_dtype(self, other), None)
    check_norm_extent(geometry.broadcast_shapes(self.shape, other.shape), p, None)
    work = working(dtype)
    difference = cast(self, work) - cast(other, work)
    return vector_norm_array(difference, p, None, False, dtype)


# -- renorm ---------------------------------------------------------------------------------------

renorm = op(
    "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(3), 2, 0, 1.0)),
        (RuntimeError, (make(2, 3), -1, 0, 1.0)),
        (RuntimeError, (make(2, 3), 2, 0, -1.0)),
    ],
    batch=late("reduction.batched:renorm"),
    kind=REDUCTION,
    inplace=True,
)


@renorm.samples
def _(make: Any) -> Any:
    yield make(3, 4), 2, 0, 1.0
    yield make(3, 4), 1, -1, 2.5
    yield make(2, 3, 2), 3, 1, 0.5
    yield make.strided(3, 4), 2, 1, 2.0


def check_renorm(shape: Any, dtype: DType, p: Any, maxnorm: Any) -> None:
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if len(shape) < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {len(shape)} dimensions"
        )
    check_norm_dtype("linalg.vector_norm", dtype, None)


def other_dims(ndim: int, dim: int) -> tuple[int, ...]:
    kept = geometry.wrap_dim(dim, ndim)
    return tuple([axis for axis in range(ndim) if axis != kept])


@renorm.shape
def _(self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    check_renorm(self.shape, self._dtype, p, maxnorm)
    geometry.wrap_dim(dim, self.dim())
    return Spec(self.shape, self._dtype)


@renorm.kernel
def _(xp: Any, self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    dtype = dtypes.from_numpy(self.dtype)
    check_renorm(self.shape, dtype, p, maxnorm)
    array = cast(self, working(dtype))
    norms = norm_of(array, p, other_dims(self.ndim, dim), True)
    limit = norms.dtype.type(maxnorm)
    factors = xp.where(norms > limit, limit / (norms + norms.dtype.type(1e-7)), 1)
    return (array * factors.astype(norms.dtype)).astype(self.dtype)


@renorm.vjp
def _(grad: Any, self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    dims = other_dims(self.dim(), dim)
    norms = packet("linalg_vector_norm")(self, p, dims, True)
    weighted = conj(self) * grad
    if weighted.is_complex():
        weighted = weighted.real
    along = norm_gradient(weighted.sum(dims, True), self, p, norms, dims, True)
    inverse = (norms + 1e-7).reciprocal()
    return (maxnorm * inverse * (grad - inverse * along)).where(norms > maxnorm, grad)


# -- logsumexp ------------------------------------------------------------------------------------


def float_dtype(dtype: DType) -> DType:
    return dtypes.get_default_dtype() if dtype.category < dtypes.FLOAT else dtype


logsumexp = op(
    "logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor",
    errors=lambda make: [(IndexError, (make(2, 3), 2))],
    exact_out=False,
    kind=REDUCTION,
    answers=lambda dtype, given: float_dtype(dtype),
    samples=lambda make: [s for s in reduction_samples()(make) if s.args[1] != ()],
)


@logsumexp.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    dtype = float_dtype(dtypes.from_numpy(self.dtype))
    check_computable("logsumexp_cpu", dtype)
    array = cast(self, working(dtype))
    axes = reduced_axes(dim, self.ndim)
    if array.size == 0:
        result = xp.log(sum_array(xp.exp(array), axes, keepdim))
        return result.astype(dtype.np)
    highest = xp.maximum.reduce(array.real, axis=axes, keepdims=True)
    highest = xp.where(xp.isinf(highest), highest.dtype.type(0), highest)
    result = xp.log(sum_array(xp.exp(array - highest), axes, True)) + highest
    if not keepdim:
        result = result.reshape(geometry.reduced_shape(self.shape, axes, False))
    return result.astype(dtype.np)


@logsumexp.vjp
def _(grad: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
    grad = restored(grad, dim, keepdim, self.dim())
    result = restored(result, dim, keepdim, self.dim())
    return grad * conj((self - result).exp())
