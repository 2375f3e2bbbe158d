"""Extrema: amax, max, argmax and their like.

NaN wins over every number, and the first of equal elements is the one whose index counts. Values
spread their gradient evenly over ties; results that come with an index send it to that element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable, working
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.promotion import BAREBONES_UNSIGNED
from rushlight.opset.kinds import REDUCTION, same_dtype
from rushlight.opset.reduction.reduce import (
    full_samples,
    has_values,
    reduced_axes,
    restored,
)
from rushlight.opset.registry import composite, find, op
from rushlight.opset.rules import sample


def comparable(kernel: str, array: Any, strict: bool = False) -> Any:
    """The array in a dtype NumPy compares well; complex numbers have no order.

    An empty array is refused only where `strict`.
    """
    dtype = dtypes.from_numpy(array.dtype)
    check_computable(kernel, dtype)
    if (dtype.is_complex or dtype in BAREBONES_UNSIGNED) and (strict or array.size):
        raise unsupported(kernel, dtype)
    return cast(array, working(dtype))


def check_nonempty_dims(name: str, shape: Any, dim: Any) -> None:
    """Refuse to reduce over nothing, since an extremum has no identity."""
    if dim is None or dim == ():
        if geometry.is_size(geometry.numel(shape), 0):
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for position in geometry.wrap_dims((dim,) if type(dim) is int else dim, len(shape)):
        if shape and geometry.is_size(shape[position], 0):
            raise IndexError(f"{name}(): Expected reduction dim {position} to have non-zero size.")


def evenly(grad: Any, mask: Any, dim: Any = None) -> Any:
    """A gradient shared by the elements that a mask marks."""
    count = mask.sum() if dim is None or dim == () else mask.sum(dim, True)
    return grad * mask / count


def same_value(self: Any, result: Any) -> Any:
    """Where the input equals the reduced value, NaN being equal to NaN."""
    return (self == result).logical_or(self.isnan().logical_and(result.isnan()))


def shared_by_ties(grad: Any, self: Any, result: Any) -> Any:
    """The gradient of an extremum of all elements."""
    mask = same_value(self, result)
    share = grad / mask.sum()
    if has_values(self):
        # A product would carry a gradient of inf into the other elements.
        return grad.new_zeros(self.shape).masked_fill(mask, share)
    return mask * share


def selected_gradient(grad: Any, self_shape: Any, dim: int, indices: Any, keepdim: bool) -> Any:
    """The gradient of results that were picked by index along `dim`."""
    if not self_shape:
        return grad.clone()
    if not keepdim:
        grad, indices = grad.unsqueeze(dim), indices.unsqueeze(dim)
    return grad.new_zeros(self_shape).scatter(dim, indices, grad)


def selected_tangent(tangent: Any, dim: int, indices: Any, keepdim: bool) -> Any:
    if not tangent.dim():
        return tangent
    if keepdim:
        return tangent.gather(dim, indices)
    return tangent.gather(dim, indices.unsqueeze(dim)).squeeze(dim)


def dim_samples(make: Any) -> Any:
    yield sample(make.distinct(3, 4), 0)
    yield sample(make.distinct(3, 4), -1, True)
    yield sample(make.distinct(2, 3, 2), 1)
    yield sample(make.strided(3, 4), 0)
    yield sample(make(), 0)
    yield sample(make(0, 3), 1)
    yield sample(make.special(3, 4), 0)


def amax_samples(make: Any) -> Any:
    yield sample(make.distinct(3, 4))
    for dim in (0, -1, (0, 2), (), (-1, 0)):
        yield sample(make.distinct(2, 3, 2), dim)
    yield sample(make.distinct(2, 3), 1, True)
    yield sample(make.strided(3, 4), 0)
    yield sample(make.expanded(3, 4), (0, 1))
    yield sample(make(), 0)
    yield sample(make(0, 3), 1)
    yield sample(make.special(4, 2), 0)


max_reduce: Any = np.maximum.reduce
min_reduce: Any = np.minimum.reduce


def value_ops(name: str, reduce: Any) -> None:
    """amax and max of everything, or their opposites."""
    a_name, values_kernel = f"a{name}", f"{name}_values_cpu"

    amax = op(
        f"{a_name}(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor",
        kind=REDUCTION,
        answers=same_dtype,
        requires=lambda self, dim: check_nonempty_dims(a_name, self.shape, dim),
        fold=name,
        samples=amax_samples,
        errors=lambda make: [(IndexError, (make(0, 3), 0)), (RuntimeError, (make(0, 3),))],
    )

    @amax.kernel
    def _(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
        check_nonempty_dims(a_name, self.shape, dim)
        array = comparable(values_kernel, self)
        axes = reduced_axes(dim, self.ndim)
        result = reduce(array, axis=axes, keepdims=keepdim)
        return result.astype(self.dtype)

    @amax.vjp
    def _(grad: Any, self: Any, result: Any, dim: Any, keepdim: bool) -> Any:
        grad = restored(grad, dim, keepdim, self.dim())
        return evenly(grad, restored(result, dim, keepdim, self.dim()) == self, dim)

    full = op(
        f"{name}(Tensor self) -> Tensor",
        kind=REDUCTION,
        answers=same_dtype,
        requires=lambda self: check_nonempty_dims(name, self.shape, None),
        fold=name,
        over_dim=(a_name, "default"),
        node_index=1,
        exact_out=False,
        out_name="unary_out",
        samples=full_samples,
        errors=lambda make: [(RuntimeError, (make(0, 3),))],
        vjp=lambda grad, self, result: shared_by_ties(grad, self, result),
    )

    @full.kernel
    def _(xp: Any, self: Any) -> Any:
        check_nonempty_dims(name, self.shape, None)
        return reduce(comparable(f"{name}_all", self), axis=None).astype(self.dtype)

    @composite(
        f"{name}.other(Tensor self, Tensor other) -> Tensor",
        out_name="out",
        samples=lambda make: ((make.distinct(2, 3), make.distinct(3)), (make(), make(2))),
    )
    def other(self: Any, other: Any) -> Any:
        return self.maximum(other) if name == "max" else self.minimum(other)


def index_ops(name: str, where: Any) -> None:
    """max along a dimension and argmax, or their opposites."""
    arg_name = f"arg{name}"
    along = op(
        f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        kind=REDUCTION,
        requires=lambda self, dim: check_nonempty_dims(name, self.shape, dim),
        out_name=f"dim_{name}",
        non_differentiable=(1,),
        samples=dim_samples,
        errors=lambda make: [(IndexError, (make(0, 3), 0)), (IndexError, (make(2, 3), 2))],
        vjp=lambda grad, self_shape, dim, indices, keepdim: selected_gradient(
            grad, self_shape, dim, indices, keepdim
        ),
        jvp=lambda self_t, dim, indices, keepdim: (
            selected_tangent(self_t, dim, indices, keepdim),
            None,
        ),
    )

    @along.kernel
    def _(xp: Any, self: Any, dim: int, keepdim: bool) -> Any:
        check_nonempty_dims(name, self.shape, dim)
        if self.dtype.kind == "c":
            raise RuntimeError(f"{name}(): does not support complex input")
        array = comparable(f"{name}_cpu", self)
        if not array.ndim:
            return self.copy(), np.zeros((), np.int64)
        axis = geometry.wrap_dim(dim, array.ndim)
        if 0 in array.shape:
            shape = geometry.reduced_shape(array.shape, (axis,), keepdim)
            return np.empty(shape, self.dtype), np.empty(shape, np.int64)
        indices = where(array, axis=axis, keepdims=True)
        values = np.take_along_axis(self, indices, axis)
        if not keepdim:
            indices, values = indices.squeeze(axis), values.squeeze(axis)
        return values, indices

    argmax = op(
        f"{arg_name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor",
        kind=REDUCTION,
        answers=lambda dtype, given: dtypes.int64,
        requires=lambda self, dim: check_arg(self.shape, self._dtype, dim),
        samples=lambda make: [*full_samples(make), *dim_samples(make)],
        errors=lambda make: [(IndexError, (make(0, 3),)), (IndexError, (make(0, 3), 0))],
    )

    def check_arg(shape: Any, dtype: DType, dim: Any) -> None:
        if dim is None:
            if geometry.is_size(geometry.numel(shape), 0):
                raise IndexError(
                    f"{arg_name}(): Expected reduction dim to be specified for input.numel() == 0."
                )
        else:
            check_nonempty_dims(arg_name, shape, dim)
        if dtype.is_complex or dtype is dtypes.bool_:
            word = "complex" if dtype.is_complex else "bool"
            raise RuntimeError(f"{arg_name}(): does not support {word} input")

    @argmax.kernel
    def _(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
        check_arg(self.shape, dtypes.from_numpy(self.dtype), dim)
        array = comparable(f"{arg_name}_cpu", self)
        if not array.ndim:
            return np.zeros((), np.int64)
        if dim is not None and 0 in array.shape:
            return np.empty(geometry.reduced_shape(array.shape, (dim,), keepdim), np.int64)
        return where(array, axis=dim, keepdims=keepdim)


value_ops("max", max_reduce)
value_ops("min", min_reduce)
find("amax").errors = lambda make: [
    (IndexError, (make(0, 3), 0)),
    (RuntimeError, (make(0, 3),)),
    (NotImplementedError, (make.ints(2, dtype=dtypes.complex64), 0)),
]
index_ops("max", np.argmax)
index_ops("min", np.argmin)


# -- aminmax --------------------------------------------------------------------------------------

aminmax = op(
    "aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)",
    kind=REDUCTION,
    answers=lambda dtype, given: (dtype, dtype),
    requires=lambda self, dim: check_aminmax(self.shape, dim),
    out_name="out",
)


@aminmax.samples
def _(make: Any) -> Any:
    yield sample(make.distinct(3, 4))
    yield sample(make.distinct(3, 4), keepdim=True)
    yield sample(make.distinct(3, 4), dim=0)
    yield sample(make.distinct(3, 4), dim=-1, keepdim=True)
    yield sample(make.special(5))
    if not make.dtype.is_complex:
        yield sample(make(), dim=0)


def check_aminmax(shape: Any, dim: Any) -> None:
    if dim is None:
        if geometry.is_size(geometry.numel(shape), 0):
            raise RuntimeError(
                "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
                "identity."
            )
        return
    position = geometry.wrap_dim(dim, len(shape))
    if shape and geometry.is_size(shape[position], 0):
        raise IndexError(f"aminmax: Expected reduction dim {position} to have non-zero size.")


@aminmax.kernel
def _(xp: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    check_aminmax(self.shape, dim)
    array = comparable("aminmax_cpu", self)
    axes = reduced_axes(dim, self.ndim)
    low = min_reduce(array, axis=axes, keepdims=keepdim)
    high = max_reduce(array, axis=axes, keepdims=keepdim)
    return low.astype(self.dtype), high.astype(self.dtype)


@aminmax.vjp
def _(grads: Any, self: Any, min: Any, max: Any, dim: Any, keepdim: bool) -> Any:
    total = None
    for grad, value in zip(grads, (min, max), strict=True):
        if grad is None:
            continue
        if dim is not None:
            grad = restored(grad, dim, keepdim, self.dim())
            value = restored(value, dim, keepdim, self.dim())
        share = evenly(grad, value == self, dim)
        total = share if total is None else total + share
    return total
