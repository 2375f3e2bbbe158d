"""Scans: running sums, products, extrema, and what is made of differences and sums.

Results are contiguous. Running sums and products of floats accumulate one precision up and round
at the end; of integers, in int64. Among equal elements cummax and cummin point to the latest.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import BLOCK, MATH
from rushlight.arrays.precision import cast, check_computable
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.core.op import OpOverload
from rushlight.core.state import LOCAL
from rushlight.opset.kinds import SCAN, same_dtype
from rushlight.opset.large import LARGE, native_loop
from rushlight.opset.reduction.extrema import comparable
from rushlight.opset.reduction.reduce import has_values, one_axis, summed_dtype
from rushlight.opset.registry import alias, composite, op, packet
from rushlight.opset.rules import aten, conj, linear_in, sample

# From so many columns on, they are worked off row by row.
WIDE = 256
WIDER = {
    dtypes.float16: dtypes.float32,
    dtypes.bfloat16: dtypes.float32,
    dtypes.float32: dtypes.float64,
    dtypes.complex64: dtypes.complex128,
}


def scan_samples(make: Any) -> Any:
    yield make(3, 4), 0
    yield make(3, 4), -1
    yield make(2, 3, 2), 1
    yield make.strided(3, 4), 1
    yield make.expanded(3, 4), 0
    yield make(), 0
    yield make(0, 3), 0
    yield make(3, 1), 1
    yield make.special(3, 4), 1


def accumulated(ufunc: Any, name: str, array: Any, dim: int, dtype: Any) -> Any:
    result_dtype = summed_dtype(dtypes.from_numpy(array.dtype), dtype)
    check_computable(name, result_dtype)
    wide = WIDER.get(result_dtype, result_dtype)
    if array.dtype == result_dtype.np and wide is not result_dtype and array.size >= LARGE:
        return wide_accumulated(ufunc, array, geometry.wrap_dim(dim, array.ndim), wide)
    lanes, axis = one_axis(cast(cast(array, result_dtype), wide), dim)
    if result_dtype is dtypes.bool_:
        lanes = lanes.astype(np.int64)
    result = cast(ufunc.accumulate(lanes, axis), result_dtype)
    return result.reshape(array.shape)


def wide_accumulated(ufunc: Any, array: Any, axis: int, wide: DType) -> Any:
    """A large array's scan one precision up, some lanes at a time: what is wide stays in the
    cache."""
    length = array.shape[axis]
    outer = prod(array.shape[:axis])
    source = np.ascontiguousarray(array).reshape(outer, length, -1)
    result = np.empty(source.shape, array.dtype)
    inner = source.shape[2]
    name = "cumsum" if ufunc is np.add else "cumprod"
    scan = native_loop(name if inner == 1 else f"{name} columns", array.dtype)
    if scan is not None and inner == 1:
        scan(result, source, outer, length)
    elif scan is not None:
        for part, answer in zip(source, result, strict=True):
            totals = np.full(inner, -0.0 if ufunc is np.add else 1.0)
            scan(answer, part, totals, length, inner)
    elif inner >= WIDE:
        totals = np.full((outer, inner), -0.0 if ufunc is np.add else 1.0, wide.np)
        for step in range(length):
            ufunc(totals, source[:, step], totals)
            result[:, step] = totals
    else:
        rows = max(1, BLOCK // (length * inner))
        for first in range(0, outer, rows):
            part = source[first : first + rows].astype(wide.np)
            result[first : first + rows] = ufunc.accumulate(part, 1, None, part)
    return result.reshape(array.shape)


def scan_op(name: str, ufunc: Any) -> OpOverload:
    record = op(
        f"{name}(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor",
        kind=SCAN,
        answers=summed_dtype,
        inplace=True,
        out_decides=True,
        samples=scan_samples,
        errors=lambda make: [(IndexError, (make(3), 1)), (IndexError, (make(), 1))],
    )

    @record.kernel
    def _(xp: Any, self: Any, dim: int, dtype: Any) -> Any:
        return accumulated(ufunc, f"{name}_out_cpu", self, dim, dtype)

    return record


cumsum = scan_op("cumsum", np.add)
cumsum.jvp = linear_in("self")
cumsum.errors = lambda make: [
    (IndexError, (make(3), 1)),
    (IndexError, (make(), 1)),
    (IndexError, (make(2, 3), 2)),
]
cumprod = scan_op("cumprod", np.multiply)


def reversed_cumsum(value: Any, dim: int) -> Any:
    """Sums that run from the end."""
    if not value.dim() or value.shape[dim] == 1:
        return value
    return value.flip(dim).cumsum(dim).flip(dim)


cumsum.vjp = lambda grad, dim: reversed_cumsum(grad, dim)


@cumprod.vjp
def _(grad: Any, self: Any, result: Any, dim: int) -> Any:
    if not self.dim() or self.numel() == 0:
        return grad
    self = self.to(grad._dtype)
    if self.shape[dim] == 1:
        return grad
    zeros = self == 0
    if has_values(self) and not bool(zeros.any()):
        return reversed_cumsum(grad * conj(result), dim) / conj(self)
    if LOCAL.state.follows_gradients():
        return cumprod_gradient_twice(grad, self, dim)
    # Before the first zero the quotient serves; at it, products that leave it out; after it, all
    # products contain it.
    seen = zeros.cumsum(dim)
    first = zeros.logical_and(seen == 1)
    without = self.masked_fill(first, 1).cumprod(dim).masked_fill(seen == 0, 0)
    before = reversed_cumsum(grad * conj(result), dim) / conj(self.masked_fill(zeros, 1))
    at_first = reversed_cumsum(grad * conj(without), dim)
    return before.masked_fill(seen != 0, 0) + at_first.masked_fill(first.logical_not(), 0)


def cumprod_gradient_twice(grad: Any, self: Any, dim: int) -> Any:
    """The gradient as a sum over all products, which is right to any order even at zeros."""
    dim = geometry.wrap_dim(dim, self.dim())
    size = self.shape[dim]
    places = packet("arange")(size, device=self.device)
    rows, columns = places.unsqueeze(1), places.unsqueeze(0)
    # Row i: the input along the last dimension with element i replaced by 1.
    lanes = self.movedim(dim, -1).unsqueeze(-2)
    products = lanes.expand(*lanes.shape[:-2], size, size).masked_fill(rows == columns, 1)
    products = products.cumprod(-1).masked_fill(rows > columns, 0)
    share = grad.movedim(dim, -1).unsqueeze(-2) * conj(products)
    return share.sum(-1).movedim(-1, dim)


# -- running extrema ------------------------------------------------------------------------------


def running_extremum(name: str, ufunc: Any) -> OpOverload:
    record = op(
        f"{name}(Tensor self, int dim) -> (Tensor values, Tensor indices)",
        exact_out=True,
        kind=SCAN,
        non_differentiable=(1,),
        samples=scan_samples,
        vjp=lambda grad, self_shape, indices, dim: (
            grad.new_zeros(self_shape).scatter_add(dim, indices, grad) if self_shape else grad
        ),
        jvp=lambda self_t, dim, indices: (
            self_t.gather(dim, indices) if self_t.dim() else self_t,
            None,
        ),
    )

    @record.kernel
    def _(xp: Any, self: Any, dim: int) -> Any:
        geometry.wrap_dim(dim, self.ndim)
        if not self.size or not self.ndim:
            return self.copy(), np.zeros(self.shape, np.int64)
        lanes, axis = one_axis(comparable(f"{name}_cpu", self), dim)
        values = ufunc.accumulate(lanes, axis)
        places = xp.arange(lanes.shape[axis]).reshape(
            [-1 if at == axis else 1 for at in range(lanes.ndim)]
        )
        newest = lanes == values
        if lanes.dtype.kind == "f":
            newest |= xp.isnan(lanes)
        indices = xp.maximum.accumulate(xp.where(newest, places, 0), axis)
        return values.astype(self.dtype).reshape(self.shape), indices.reshape(self.shape)

    return record


cummax = running_extremum("cummax", np.maximum)
cummin = running_extremum("cummin", np.minimum)


# -- logcumsumexp ---------------------------------------------------------------------------------

logcumsumexp = op(
    "logcumsumexp(Tensor self, int dim) -> Tensor",
    exact_out=True,
    kind=SCAN,
    answers=same_dtype,
    samples=scan_samples,
)


@logcumsumexp.kernel
def _(xp: Any, self: Any, dim: int) -> Any:
    dtype: DType = dtypes.from_numpy(self.dtype)
    geometry.wrap_dim(dim, self.ndim)
    if dtype.category < dtypes.FLOAT:
        raise unsupported("logcumsumexp_out_cpu", dtype)
    check_computable("logcumsumexp_out_cpu", dtype)
    if not self.size:
        return self.copy()
    lanes, axis = one_axis(cast(self, WIDER.get(dtype, dtype)), dim)
    if dtype.is_complex:
        # torch: each step adds to the phase, which so may leave (-pi, pi].
        result = lanes.copy()
        steps = xp.moveaxis(result, axis, 0)
        for at in range(1, len(steps)):
            steps[at] = MATH.logaddexp(steps[at - 1], steps[at])
    else:
        result = xp.logaddexp.accumulate(lanes, axis)
    return result.astype(self.dtype).reshape(self.shape)


@logcumsumexp.jvp
def _(self_t: Any, self: Any, result: Any, dim: int) -> Any:
    if not self.dim() or self.numel() == 0:
        return self_t
    # Shares of every prefix by themselves: common weights underflow before a late maximum.
    powers = self.movedim(dim, -1).unsqueeze(-2) - result.movedim(dim, -1).unsqueeze(-1)
    later = aten.ones(powers.shape[-2:], dtype=dtypes.bool_, device=self.device).triu(1)
    shares = powers.masked_fill(later, float("-inf")).exp()
    return (shares * self_t.movedim(dim, -1).unsqueeze(-2)).sum(-1).movedim(-1, dim)


@logcumsumexp.vjp
def _(grad: Any, self: Any, result: Any, dim: int) -> Any:
    if not self.dim() or self.numel() == 0:
        return grad

    def share(log_grad: Any) -> Any:
        found = (log_grad - result).flip(dim).logcumsumexp(dim).flip(dim)
        return (found + self).exp()

    if grad.is_complex():
        return share(grad.conj().log()).conj()
    lowest = dtypes.finfo(grad._dtype).min
    sizes = grad.abs().log()
    positive = share(sizes.masked_fill(grad <= 0, lowest))
    negative = share(sizes.masked_fill(grad >= 0, lowest))
    return positive - negative


@composite("_logcumsumexp(Tensor self, int dim) -> Tensor", method=False, samples=scan_samples)
def _logcumsumexp(self: Any, dim: int) -> Any:
    return self.logcumsumexp(dim)


# -- differences ----------------------------------------------------------------------------------


def diff_samples(make: Any) -> Any:
    yield sample(make(5))
    yield sample(make(3, 4), 2)
    yield sample(make(3, 4), 1, 0)
    yield sample(make(3, 4), 5)
    yield sample(make(3, 4), 0)
    yield sample(make(3, 4), 1, -1, make(3, 2), make(3, 1))
    yield sample(make(3, 4), 2, 0, append=make(1, 4))


@composite(
    "diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor",
    samples=diff_samples,
    errors=lambda make: [
        (RuntimeError, (make(),)),
        (RuntimeError, (make(3), -1)),
        (RuntimeError, (make(),)),
        (RuntimeError, sample(make(3), prepend=make(2, 2))),
    ],
)
def diff(self: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    if not self.dim():
        raise RuntimeError("diff expects input to be at least one-dimensional")
    for extra in (prepend, append):
        if extra is not None and extra.dim() != self.dim():
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    dim = geometry.wrap_dim(dim, self.dim())
    for extra in (prepend, append):
        for at, size in enumerate(self.shape):
            if extra is not None and at != dim and extra.shape[at] != size:
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input "
                    f"except along the differencing dimension; input.size({at}) = {size}, but got "
                    f"tensor.size({at}) = {extra.shape[at]}"
                )
    if n == 0:
        # torch: nothing is joined either.
        return self.clone()
    if prepend is not None or append is not None:
        parts = [part for part in (prepend, self, append) if part is not None]
        self = packet("cat")(parts, dim)
    size = self.shape[dim]
    for _ in range(min(n, size) if type(size) is int else n):
        size = self.shape[dim]
        if geometry.is_size(size, 0):
            break
        after, before = self.narrow(dim, 1, size - 1), self.narrow(dim, 0, size - 1)
        self = after.logical_xor(before) if self._dtype is dtypes.bool_ else after - before
    return self


def refuse_bool(name: str, y: Any, x: Any = None) -> None:
    if y._dtype is dtypes.bool_ or (x is not None and x._dtype is dtypes.bool_):
        which = "`y`" if x is None else "`x` or `y`"
        raise RuntimeError(f"{name}: received a bool input for {which}, but bool is not supported")


def refuse_complex_step(name: str, dx: Any) -> None:
    if isinstance(dx, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def sides(value: Any, dim: int) -> tuple[Any, Any]:
    """All elements along `dim` but the last, and but the first."""
    size = value.shape[dim]
    return value.narrow(dim, 0, size - 1), value.narrow(dim, 1, size - 1)


def spacing(name: str, y: Any, x: Any, dim: int) -> Any:
    """The widths of the intervals, shaped to multiply those of `y`."""
    if x.dim() == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = x.view([-1 if at == dim else 1 for at in range(y.dim())])
    elif x.dim() < y.dim():
        x = x.view((1,) * (y.dim() - x.dim()) + tuple(x.shape))
    left, right = sides(x, dim)
    return right - left


def trapezoid_samples(make: Any) -> Any:
    yield sample(make(3, 4), make(4))
    yield sample(make(3, 4), make(3, 4), dim=0)
    yield sample(make(2, 3, 2), make(3, 2), dim=1)


def constant_samples(make: Any) -> Any:
    yield sample(make(3, 4))
    yield sample(make(3, 4), dx=2.5, dim=0)
    yield sample(make(5), dx=2)
    yield sample(make(0))


def along(y: Any, dim: int) -> int:
    return geometry.wrap_dim(dim, y.dim(), wrap_scalar=False)


@composite(
    "trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    errors=lambda make: [(RuntimeError, (make(3), make(4)))],
    method=False,
    out=False,
    samples=trapezoid_samples,
)
def trapezoid_x(y: Any, x: Any, dim: int) -> Any:
    dim = along(y, dim)
    if geometry.is_size(y.shape[dim], 0):
        return y.new_zeros(geometry.without(tuple(y.shape), dim))
    refuse_bool("trapezoid", y, x)
    left, right = sides(y, dim)
    return ((left + right) * spacing("trapezoid", y, x, dim)).sum(dim) / 2.0


@composite(
    "trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    method=False,
    out=False,
    samples=constant_samples,
)
def trapezoid_dx(y: Any, dx: Any, dim: int) -> Any:
    dim = along(y, dim)
    if geometry.is_size(y.shape[dim], 0):
        return y.new_zeros(geometry.without(tuple(y.shape), dim))
    refuse_bool("trapezoid", y)
    refuse_complex_step("trapezoid", dx)
    ends = y.select(dim, 0) + y.select(dim, -1)
    return (y.sum(dim) - ends * 0.5) * dx


alias("trapz", "trapezoid", method=False)


@composite(
    "cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor",
    method=False,
    out=False,
    samples=trapezoid_samples,
)
def cumulative_trapezoid_x(y: Any, x: Any, dim: int) -> Any:
    dim = along(y, dim)
    refuse_bool("cumulative_trapezoid", y, x)
    if geometry.is_size(y.shape[dim], 0):
        return y * 0.5
    left, right = sides(y, dim)
    return (spacing("cumulative_trapezoid", y, x, dim) * (left + right)).cumsum(dim) / 2.0


@composite(
    "cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor",
    method=False,
    out=False,
    samples=constant_samples,
)
def cumulative_trapezoid_dx(y: Any, dx: Any, dim: int) -> Any:
    dim = along(y, dim)
    refuse_bool("cumulative_trapezoid", y)
    refuse_complex_step("cumulative_trapezoid", dx)
    if geometry.is_size(y.shape[dim], 0):
        return y * 0.5
    left, right = sides(y, dim)
    return (dx / 2.0 * (left + right)).cumsum(dim)
