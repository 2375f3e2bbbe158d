"""Statistics: variance, order statistics (median, mode, kthvalue, quantile), covariance.

Order statistics count NaN as the greatest value, except nanmedian and nanquantile, which leave it
out. Variances of moderate size accumulate in float64.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload
from rushlight.opset.kinds import REDUCTION, SORT, same_dtype
from rushlight.opset.reduction.extrema import (
    check_nonempty_dims,
    comparable,
    selected_gradient,
    selected_tangent,
    shared_by_ties,
)
from rushlight.opset.reduction.reduce import (
    count_of,
    full_samples,
    has_values,
    one_axis,
    reduced_axes,
    restored,
)
from rushlight.opset.registry import composite, find, op, packet
from rushlight.opset.rules import conj, late, sample

# -- variance -------------------------------------------------------------------------------------


def check_variance(name: str, dtype: DType) -> None:
    if dtype.category < dtypes.FLOAT:
        if name in ("var", "std"):
            raise RuntimeError("std and var only support floating point and complex dtypes")
        raise RuntimeError(f"{name} only support floating point and complex dtypes")


def compute_variance(
    name: str, array: Any, dim: Any, correction: Any, keepdim: bool
) -> tuple[Any, Any]:
    """(variance, mean) of an array, in the dtypes of the results."""
    dtype = dtypes.from_numpy(array.dtype)
    check_variance(name, dtype)
    check_computable("std_cpu", dtype)
    count = count_of(array.shape, dim)
    freedom = count - (1 if correction is None else correction)
    if freedom <= 0:
        warnings.warn(
            f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "reduction factor (input numel divided by output numel).",
            UserWarning,
            stacklevel=2,
        )
    exact = array.size <= WIDENED or dtype.itemsize < 4
    wide = WIDE.get(dtype, dtype) if exact else dtype
    values = cast(array, wide)
    axes = reduced_axes(dim, array.ndim)
    real = wide.to_real().np.type
    mean = sum_array(values, axes, True) / real(count)
    centred = values - mean
    if wide.is_complex:
        squares = centred.real * centred.real + centred.imag * centred.imag
    else:
        squares = centred * centred
    total = sum_array(squares, axes, keepdim)
    if not exact:
        # What the rounded mean left over, taken out again.
        rest = np.abs(sum_array(centred, axes, keepdim))
        total = total - rest * rest / real(count)
    variance = total / real(max(freedom, 0))
    if not keepdim:
        mean = mean.reshape(np.shape(variance))
    return variance, mean.astype(dtype.np)


# Arrays up to this size are widened whole; larger ones make do with a corrected second pass.
WIDENED = 1 << 16
WIDE = {
    dtypes.float16: dtypes.float64,
    dtypes.bfloat16: dtypes.float64,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}


def variance_gradient(grad: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
    correction = 1 if correction is None else correction
    freedom = count_of(self.shape, dim) - correction
    if not self.dim() or dim is None or dim == ():
        if freedom <= 0:
            real = self._dtype.to_real()
            known = self.new_full((), NAN, dtype=real)
            return grad * known.where(self == self.mean(), known.new_full((), INFINITY))
        return (2.0 / freedom) * grad * (self - self.mean())
    grad = restored(grad, dim, keepdim, self.dim())
    mean = self.mean(dim, True)
    return (2.0 / freedom if freedom else INFINITY) * grad * (self - mean)


INFINITY = float("inf")
NAN = float("nan")


def deviation_gradient(
    result: Any, grad: Any, self: Any, dim: Any, correction: Any, keepdim: bool
) -> Any:
    share = (grad / (result * 2)).masked_fill(result == 0, 0)
    return variance_gradient(share, self, dim, correction, keepdim)


def mean_gradient(grad: Any, self: Any, dim: Any, keepdim: bool) -> Any:
    whole = restored(grad, dim, keepdim, self.dim()).expand(self.shape)
    return whole / count_of(self.shape, dim)


def variance_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    for dim in (0, -1, (0, 2)):
        yield sample(make(2, 3, 2), dim)
    yield sample(make(3, 4), 0, correction=0)
    yield sample(make(3, 4), 1, correction=1.5, keepdim=True)
    yield sample(make(3, 4), None, correction=2)
    yield sample(make.strided(3, 4), 0)
    yield sample(make.expanded(3, 4), 1)
    yield sample(make())
    yield sample(make(2, 1), 1)
    yield sample(make(0, 3), 0)
    yield sample(make.special(4))


def biased_samples(make: Any) -> Any:
    yield make(3, 4), True
    yield make(5), False


def biased_dim_samples(make: Any) -> Any:
    yield make(3, 4), 0, True
    yield make.strided(3, 4), (0, 1), False
    yield make(2, 3, 2), (0, -1), True, True
    yield make(2, 3), None, False


def lower_spread(root: bool, with_mean: bool) -> Any:
    def lower(build: Any, op: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        """Variance and mean, in double: differences of near numbers are all that counts here."""
        m, shape, double = build.m, self.shape, dtypes.float64
        if self.dtype.itemsize == 2:
            build.refuse("double to half")
        values = build.cast(build.floating(self), double)
        axes = build.axes(dim, len(shape))
        freedom = math.prod([shape[axis] for axis in axes]) - (
            1 if correction is None else correction
        )
        if freedom <= 0:
            # The op warns.
            build.refuse("no degrees of freedom")
        mean = build.mean(values, shape, axes)
        centred = m.subtract(values, mean)
        total = build.fold("sum", m.multiply(centred, centred), shape, axes)
        variance = m.divide(total, freedom)
        first = m.sqrt(variance) if root else variance
        found = [build.cast(build.without(e, axes, keepdim), self.dtype) for e in (first, mean)]
        return tuple(found) if with_mean else found[0]

    return lower


def variance_family(name: str) -> None:
    """var or std with the mean's companion; only `.correction` is primitive."""
    with_mean = f"{name}_mean"
    tail = "int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> "
    root = name == "std"

    def alone_default(self: Any, unbiased: bool) -> Any:
        return getattr(self, name)(None, correction=int(unbiased))

    def alone_dim(self: Any, dim: Any, unbiased: bool, keepdim: bool) -> Any:
        return getattr(self, name)(dim, correction=int(unbiased), keepdim=keepdim)

    def pair_default(self: Any, unbiased: bool) -> Any:
        return packet(with_mean)(self, None, correction=int(unbiased))

    def pair_dim(self: Any, dim: Any, unbiased: bool, keepdim: bool) -> Any:
        return packet(with_mean)(self, dim, correction=int(unbiased), keepdim=keepdim)

    simple = "(Tensor self, bool unbiased=True) -> "
    along = ".dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> "
    composite(f"{name}{simple}Tensor", out=False, samples=biased_samples)(alone_default)
    composite(f"{name}{along}Tensor", out_name="out", samples=biased_dim_samples)(alone_dim)
    record = op(
        f"{name}.correction(Tensor self, {tail}Tensor",
        exact_out=False,
        kind=REDUCTION,
        answers=lambda dtype, given: dtype.to_real(),
        requires=lambda self: check_variance(name, self._dtype),
        lower=lower_spread(root, False),
        samples=variance_samples,
    )

    @record.kernel
    def _(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        variance, mean = compute_variance(name, self, dim, correction, keepdim)
        return (np.sqrt(variance) if root else variance).astype(mean.real.dtype)

    if root:
        record.vjp = lambda grad, self, result, dim, correction, keepdim: deviation_gradient(
            result, grad, self, dim, correction, keepdim
        )
    else:
        record.vjp = lambda grad, self, dim, correction, keepdim: variance_gradient(
            grad, self, dim, correction, keepdim
        )

    function_only = {"method": False, "out": False}
    composite(f"{with_mean}{simple}(Tensor, Tensor)", samples=biased_samples, **function_only)(
        pair_default
    )
    composite(f"{with_mean}{along}(Tensor, Tensor)", samples=biased_dim_samples, **function_only)(
        pair_dim
    )
    pair = op(
        f"{with_mean}.correction(Tensor self, {tail}(Tensor, Tensor)",
        kind=REDUCTION,
        answers=lambda dtype, given: (dtype.to_real(), dtype),
        requires=lambda self: check_variance(with_mean, self._dtype),
        lower=lower_spread(root, True),
        method=False,
        samples=variance_samples,
    )

    @pair.kernel
    def _(xp: Any, self: Any, dim: Any, correction: Any, keepdim: bool) -> Any:
        variance, mean = compute_variance(with_mean, self, dim, correction, keepdim)
        return (np.sqrt(variance) if root else variance).astype(mean.real.dtype), mean

    def pair_gradient(
        grads: Any, self: Any, result0: Any, dim: Any, correction: Any, keepdim: bool
    ) -> Any:
        total = None
        if grads[0] is not None:
            if root:
                total = deviation_gradient(result0, grads[0], self, dim, correction, keepdim)
            else:
                total = variance_gradient(grads[0], self, dim, correction, keepdim)
        if grads[1] is not None:
            share = mean_gradient(grads[1], self, dim, keepdim)
            total = share if total is None else total + share
        return total

    # Only the root's formula needs the result; saving it would forbid writing to the variance.
    pair.vjp = (
        pair_gradient
        if root
        else lambda grads, self, dim, correction, keepdim: pair_gradient(
            grads, self, None, dim, correction, keepdim
        )
    )


variance_family("var")
variance_family("std")
find("var", "correction").errors = lambda make: [
    (RuntimeError, (make.ints(3),)),
    (IndexError, (make(2, 3), 2)),
]
find("std_mean", "correction").errors = lambda make: [
    (RuntimeError, (make.ints(3),)),
    (RuntimeError, (make(2, 3), (0, 0))),
]


# -- order statistics -----------------------------------------------------------------------------


def selecting_op(schema: str, **options: Any) -> OpOverload:
    """An op that picks elements along `dim` and tells their indices."""
    name = schema.split("(")[0].split(".")[0]
    return op(
        schema,
        kind=SORT,
        requires=lambda self, dim: check_nonempty_dims(name, self.shape, dim),
        non_differentiable=(1,),
        vjp=lambda grad, self_shape, dim, indices, keepdim: selected_gradient(
            grad, self_shape, dim, indices, keepdim
        ),
        jvp=lambda self_t, dim, indices, keepdim: (
            selected_tangent(self_t, dim, indices, keepdim),
            None,
        ),
        **options,
    )


def pick_along(array: Any, indices: Any, axis: int, keepdim: bool, scalar: bool) -> tuple[Any, Any]:
    """(values, indices) for indices that keep their axis."""
    values = np.take_along_axis(array, indices, axis)
    if scalar:
        return values.reshape(()), indices.reshape(())
    if not keepdim:
        return values.squeeze(axis), indices.squeeze(axis)
    return values, indices


def ordered(kernel: str, array: Any) -> Any:
    if array.dtype.kind == "b":
        raise unsupported(kernel, dtypes.bool_)
    return comparable(kernel, array, True)


def is_nan(array: Any) -> Any:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, np.bool_)


def order_samples(make: Any) -> Any:
    yield sample(make.distinct(3, 4), 0)
    yield sample(make.distinct(3, 4), -1, True)
    yield sample(make.distinct(2, 3, 2), 1)
    yield sample(make.distinct(5), 0)
    yield sample(make(), 0)
    yield sample(make(0, 3), 1)
    yield sample(make.distinct(4, 3).t(), 1)


def nan_samples(make: Any) -> Any:
    yield from order_samples(make)
    if make.dtype.category == dtypes.FLOAT:
        tensor = make.distinct(3, 4)
        tensor._array[1, 2] = tensor._array[0, 2] = tensor._array[2, 0] = NAN
        yield tensor, 0
        yield tensor, 1


def median_full_samples(make: Any) -> Any:
    yield from full_samples(make)
    if make.dtype.category == dtypes.FLOAT:
        yield (make(0),)


def median_family(name: str, skips_nan: bool) -> None:
    full = op(
        f"{name}(Tensor self) -> Tensor",
        kind=SORT,
        answers=same_dtype,
        batch=late("reduction.batched:median"),
        samples=median_full_samples,
        vjp=lambda grad, self, result: shared_by_ties(grad, self, result),
    )

    @full.kernel
    def _(xp: Any, self: Any) -> Any:
        array = ordered("median_cpu", self).reshape(-1)
        if not array.size:
            return np.array(NAN).astype(self.dtype)
        missing = is_nan(array)
        if missing.any():
            if not skips_nan or missing.all():
                return np.array(NAN, self.dtype)
            array = array[~missing]
        middle = (array.size - 1) // 2
        return np.partition(array, middle)[middle].astype(self.dtype)

    along = selecting_op(
        f"{name}.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
        node_index=1,
        out_name="dim_values",
        samples=nan_samples,
    )

    @along.kernel
    def _(xp: Any, self: Any, dim: int, keepdim: bool) -> Any:
        check_nonempty_dims(name, self.shape, dim)
        scalar = not self.ndim
        array, axis = one_axis(ordered("median_out", self), dim)
        self = self.reshape(array.shape)
        if not array.size:
            return nothing(self, axis, keepdim)
        order = xp.argsort(array, axis, kind="stable")
        missing = is_nan(array)
        count = array.shape[axis] - xp.add.reduce(missing, axis, np.int64, None, True)
        if skips_nan:
            middle = xp.maximum(count - 1, 0) // 2
            indices = xp.take_along_axis(order, middle, axis)
        else:
            middle = xp.full_like(count, (array.shape[axis] - 1) // 2)
            indices = xp.take_along_axis(order, middle, axis)
            # The first NaN, where there is one, stands for the whole.
            first = xp.argmax(missing, axis, keepdims=True)
            indices = xp.where(count < array.shape[axis], first, indices)
        return pick_along(self, indices, axis, keepdim, scalar)


def nothing(array: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """Results of a selection from an array without elements."""
    shape = geometry.reduced_shape(array.shape, (axis,), keepdim)
    return np.empty(shape, array.dtype), np.empty(shape, np.int64)


median_family("median", False)
median_family("nanmedian", True)
find("median", "dim").errors = lambda make: [
    (IndexError, (make(2, 3), 2)),
    (IndexError, (make(0, 3), 0)),
    (NotImplementedError, (make(2, dtype=dtypes.complex64), 0)),
]

mode = selecting_op(
    "mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)",
    errors=lambda make: [(IndexError, (make(2, 3), 2)), (IndexError, (make(0, 3), 0))],
    out_name="values",
)


@mode.samples
def _(make: Any) -> Any:
    yield sample(make.ints(3, 5, low=0, high=2, dtype=make.dtype))
    yield sample(make.ints(6, 2, low=0, high=2, dtype=make.dtype), 0, True)
    yield sample(make.distinct(3, 4), 1)
    yield sample(make())
    yield sample(make(0, 3), 1)


@mode.kernel
def _(xp: Any, self: Any, dim: int, keepdim: bool) -> Any:
    check_nonempty_dims("mode", self.shape, dim)
    scalar = not self.ndim
    if scalar:
        return self.copy(), np.zeros((), np.int64)
    array, axis = one_axis(comparable("mode_cpu", self), dim)
    self = self.reshape(array.shape)
    if not array.size:
        return nothing(self, axis, keepdim)
    length = array.shape[axis]
    lanes = xp.moveaxis(array, axis, -1)
    order = xp.argsort(lanes, -1, kind="stable")
    values = xp.take_along_axis(lanes, order, -1)
    # The length of the run of equal values that ends at each place; NaN equals nothing.
    starts = xp.ones(values.shape, np.bool_)
    starts[..., 1:] = values[..., 1:] != values[..., :-1]
    places = xp.arange(length)
    begin = xp.maximum.accumulate(xp.where(starts, places, 0), -1)
    best = xp.argmax(places - begin, -1)[..., None]
    indices = xp.moveaxis(xp.take_along_axis(order, best, -1), -1, axis)
    return pick_along(self, indices, axis, keepdim, scalar)


kthvalue = selecting_op(
    "kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False)"
    " -> (Tensor values, Tensor indices)",
    errors=lambda make: [
        (RuntimeError, (make(3), 4)),
        (RuntimeError, (make(3), 0)),
        (IndexError, (make(2, 3), 1, 5)),
    ],
    out_name="values",
)


@kthvalue.samples
def _(make: Any) -> Any:
    yield sample(make.distinct(3, 4), 2)
    yield sample(make.distinct(3, 4), 3, 0)
    yield sample(make.distinct(3, 4), 1, -1, True)
    yield sample(make.distinct(3, 4), 4, 1)
    yield sample(make(), 1)
    yield sample(make.distinct(4, 3).t(), 2, 1)


def check_kth(shape: Any, k: Any, dim: int) -> None:
    position = geometry.wrap_dim(dim, len(shape))
    size = shape[position] if shape else 1
    if geometry.decided(k < 1) or geometry.decided(k > size):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {position}")


@kthvalue.requires
def _(self: Any, k: Any, dim: int) -> None:
    check_nonempty_dims("kthvalue", self.shape, dim)
    check_kth(self.shape, k, dim)


@kthvalue.kernel
def _(xp: Any, self: Any, k: int, dim: int, keepdim: bool) -> Any:
    check_nonempty_dims("kthvalue", self.shape, dim)
    check_kth(self.shape, k, dim)
    scalar = not self.ndim
    if scalar:
        return self.copy(), np.zeros((), np.int64)
    array, axis = one_axis(ordered("kthvalue_cpu", self), dim)
    self = self.reshape(array.shape)
    if not array.size:
        return nothing(self, axis, keepdim)
    order = xp.argsort(array, axis, kind="stable")
    indices = order.take([k - 1], axis)
    return pick_along(self, indices, axis, keepdim, scalar)


# -- quantiles ------------------------------------------------------------------------------------

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")
ROUNDINGS = {"lower": "floor", "higher": "ceil", "nearest": "round"}


def checked_q(name: str, self: Any, q: Any, interpolation: str) -> Any:
    """The quantiles asked for, as a tensor."""
    if geometry.is_size(self.numel(), 0):
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if self._dtype not in (dtypes.float32, dtypes.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not hasattr(q, "_dtype"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
        return self.new_full((), q)
    if q.dim() > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q._dtype is not self._dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if has_values(q) and not bool(((q >= 0).logical_and(q <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def quantile_of(
    name: str, self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, skips_nan: bool
) -> Any:
    q = checked_q(name, self, q, interpolation)
    ndim = self.dim()
    shape = tuple(self.shape)
    if dim is None:
        kept = geometry.reduced_shape(shape, None, keepdim)
        lanes = self.reshape(-1)
    else:
        position = geometry.wrap_dim(dim, ndim)
        kept = geometry.reduced_shape(shape, (dim,), keepdim)
        lanes = self.unsqueeze(-1).transpose(position, -1) if ndim else self.reshape(-1)
        if ndim:
            lanes = lanes.squeeze(position)
    values = lanes.sort(-1)[0]
    flat = q.reshape(-1)
    missing = values.isnan()
    if skips_nan:
        ranks = flat * (missing.logical_not().sum(-1, True) - 1).to(self._dtype)
        ranks = ranks.masked_fill(ranks < 0, 0)
    else:
        last = values.shape[-1] - 1
        ranks = (flat * last).expand(*values.shape[:-1], flat.shape[0])
        ranks = ranks.masked_fill(missing.any(-1, True), last)
    rounding = ROUNDINGS.get(interpolation)
    if rounding is not None:
        ranks = getattr(ranks, rounding)()
    below = ranks.detach().to(dtypes.int64)
    result = values.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        weights = ranks - below if interpolation == "linear" else ranks.new_full(ranks.shape, 0.5)
        result = result.lerp(values.gather(-1, ranks.detach().ceil().to(dtypes.int64)), weights)
    if not q.dim():
        return result.squeeze(-1).reshape(kept)
    return result.movedim(-1, 0).reshape((q.shape[0], *kept))


def quantile_samples(make: Any) -> Any:
    for way in INTERPOLATIONS:
        yield sample(make.distinct(3, 4), 0.4, interpolation=way)
        yield sample(make.distinct(3, 4), 0.7, 0, True, interpolation=way)
    yield sample(make.distinct(2, 3, 2), 0.25, 1)
    yield sample(make(), 0.5)
    yield sample(make.special(5), 0.5)
    yield sample(make.special(3, 4), 0.3, 1)


def quantiles_samples(make: Any) -> Any:
    q = make(3, low=0, high=1)
    yield sample(make.distinct(3, 4), q)
    yield sample(make.distinct(3, 4), q, 0)
    yield sample(make.distinct(2, 3, 2), q, -1, True)
    yield sample(make.special(3, 4), q, 1)
    yield sample(make.distinct(3, 4), make(low=0, high=1), 1)


def quantile_family(name: str, skips_nan: bool) -> None:
    tail = "int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor"

    def body(self: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
        return quantile_of(name, self, q, dim, keepdim, interpolation, skips_nan)

    facts: dict[str, Any] = {"autocast": "float32", "exact_out": True}
    composite(f"{name}(Tensor self, Tensor q, {tail}", samples=quantiles_samples, **facts)(body)
    composite(
        f"{name}.scalar(Tensor self, float q, {tail}",
        samples=quantile_samples,
        **facts,
    )(body)


quantile_family("quantile", False)
quantile_family("nanquantile", True)
find("quantile").errors = lambda make: [
    (RuntimeError, (make(3), make(2, 2))),
    (RuntimeError, (make(3), make(2, dtype=dtypes.float64))),
]
find("quantile", "scalar").errors = lambda make: [
    (RuntimeError, (make(3), 1.5)),
    (RuntimeError, (make.ints(3), 0.5)),
    (RuntimeError, (make(0), 0.5)),
    (RuntimeError, sample(make(3), 0.5, interpolation="cubic")),
]


# -- covariance -----------------------------------------------------------------------------------


def check_weights(name: str, weights: Any, integral: bool, count: Any) -> None:
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
            f"{weights.dim()} dimensions"
        )
    dtype = weights._dtype
    wanted = dtypes.INTEGER if integral else dtypes.FLOAT
    if dtype.category != wanted:
        word = "integral" if integral else "floating point"
        raise RuntimeError(
            f"cov(): expected {name} to have {word} dtype but got {name} with "
            f"{dtype.scalar_type_name} dtype"
        )
    if weights.numel() != count:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input "
            f"but got {weights.numel()} != {count}"
        )
    if count and has_values(weights) and bool((weights < 0).any()):
        raise RuntimeError(f"cov(): {name} cannot be negative")


def cov_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make(5))
    yield sample(make(3, 4), correction=0)
    yield sample(make(3, 4), fweights=make.ints(4, low=1, high=3))
    yield sample(make(3, 4), aweights=make.positive(4, dtype=dtypes.float64))


@composite(
    "cov(Tensor self, *, int correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor",
    errors=lambda make: [
        (RuntimeError, (make(2, 2, 2),)),
        (RuntimeError, sample(make(2, 3), fweights=make(3))),
        (RuntimeError, sample(make(2, 3), aweights=make.positive(2))),
        (RuntimeError, (make.mask(2, 3),)),
    ],
    samples=cov_samples,
)
def cov(self: Any, correction: int, fweights: Any, aweights: Any) -> Any:
    if self.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{self.dim()} dimensions"
        )
    if self._dtype is dtypes.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = self if self.dim() == 2 else self.reshape(1, -1)
    observations = rows.shape[1]
    weights = None
    if fweights is not None:
        check_weights("fweights", fweights, True, observations)
        weights = fweights
    if aweights is not None:
        check_weights("aweights", aweights, False, observations)
        weights = aweights if weights is None else weights * aweights
    if weights is None:
        total = observations
    else:
        total = weights.sum()
        if has_values(total) and float(total) == 0:
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = (rows if weights is None else rows * weights).sum(1) / total
    if weights is not None and aweights is not None and correction != 0:
        freedom = total - correction * (weights * aweights).sum() / total
    else:
        freedom = total - correction
    known = not hasattr(freedom, "_dtype") or has_values(freedom)
    if known and bool(freedom <= 0):
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the "
            "number of observations.",
            UserWarning,
            stacklevel=2,
        )
        freedom = 0
    centred = rows - mean.unsqueeze(1)
    right = (centred if weights is None else centred * weights).t()
    product = centred @ conj(right).to(centred._dtype)
    if not hasattr(freedom, "_dtype"):
        freedom = product.new_full((), freedom)
    return product.true_divide(freedom).squeeze()


@composite(
    "corrcoef(Tensor self) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(2, 2, 2),))],
    samples=lambda make: [(make(3, 4),), (make(5),), (make(),)],
)
def corrcoef(self: Any) -> Any:
    if self.dim() > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{self.dim()} dimensions"
        )
    found = self.cov()
    if not found.dim():
        return found / found
    deviation = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / deviation.view(-1, 1) / deviation.view(1, -1)
    if found.is_complex():
        return packet("complex")(found.real.clip(-1, 1), found.imag.clip(-1, 1))
    return found.clip(-1, 1)
