"""Softmax and log_softmax with the ops of their backward passes.

Results are contiguous; halves compute in float32 and round once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.precision import cast, check_computable, working
from rushlight.arrays.summation import sum_array
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dtype import dtype as DType
from rushlight.core.dtype import unsupported
from rushlight.opset.kinds import OPAQUE, Spec
from rushlight.opset.large import LARGE
from rushlight.opset.reduction.reduce import one_axis
from rushlight.opset.registry import composite, find, op
from rushlight.opset.rules import aten, sample


def softmax_samples(make: Any) -> Any:
    yield make(3, 4), 0, False
    yield make(3, 4), -1, False
    yield make(2, 3, 2), 1, False
    yield make.strided(3, 4), 0, False
    yield make(), 0, False
    yield make(0, 3), 0, False
    yield make.special(3, 4), 1, False


def backward_samples(make: Any) -> Any:
    yield make(3, 4), make(3, 4), 0, make.dtype
    yield make(2, 3, 2), make(2, 3, 2), -1, make.dtype
    yield make.strided(3, 4), make(3, 4), 1, make.dtype
    yield make(), make(), 0, make.dtype


def public_samples(make: Any) -> Any:
    yield sample(make(3, 4), 1)
    yield sample(make(3, 4), 0, dtypes.float64)
    yield sample(make(), -1)


def check_dim(half_to_float: bool, ndim: int, dim: int) -> int:
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    return geometry.wrap_dim(dim, ndim)


def check_floating(name: str, dtype: DType, ndim: int, position: int) -> None:
    if dtype.category != dtypes.FLOAT:
        last = "lastdim_" if ndim == 0 or position == ndim - 1 else ""
        raise unsupported(f"{name}_{last}kernel_impl", dtype)
    check_computable(f"{name}_kernel_impl", dtype)


def check_same_size(name: str, grad_output: Any, output: Any) -> None:
    if not geometry.same_sizes(grad_output.shape, output.shape):
        raise RuntimeError(
            "Expected tensor for argument #1 'grad' to have same size as tensor for argument #2 "
            f"'output'; but {geometry.show(grad_output.shape)} does not equal "
            f"{geometry.show(output.shape)} (while checking arguments for {name}_backward)"
        )


max_reduce: Any = np.maximum.reduce
ONES = {np.dtype(name): np.ones(128, name) for name in ("float32", "float64")}


def row_sums(matrix: Any) -> Any:
    """Sums of short rows, as a column: BLAS is there sooner than a reduction."""
    return matrix.dot(ONES[matrix.dtype][: matrix.shape[1]])[:, None]


def is_small_matrix(array: Any, dim: int) -> bool:
    """The shape met most: rows to normalise, short enough for plain sums to be accurate. On more
    elements native code is sooner."""
    return (
        array.ndim == 2
        and (dim == 1 or dim == -1)
        and array.dtype.char in "fd"
        and array.shape[1] <= 128
        and 0 < array.size < LARGE
    )


def example_array(tensor: Any) -> Any:
    """An array of a tensor's sizes and dtype, for questions about those."""
    return np.broadcast_to(np.empty((), tensor._dtype.np), tuple(tensor.shape))


def small_log_softmax(matrix: Any) -> Any:
    values = matrix - max_reduce(matrix, 1, None, None, True)
    sums = row_sums(np.exp(values))
    values -= np.log(sums, sums)
    return values


def small_softmax(matrix: Any) -> Any:
    powers = np.exp(matrix - max_reduce(matrix, 1, None, None, True))
    return powers / row_sums(powers)


def small_backward(grad: Any, output: Any) -> Any:
    return (grad - row_sums(grad * output)) * output


def small_log_backward(grad: Any, output: Any) -> Any:
    return grad - np.exp(output) * row_sums(grad)


def prepared_backward(logarithmic: bool) -> Any:
    def prepared(grad: Any, output: Any, dim: int, input_dtype: DType) -> Any:
        alike = geometry.same_sizes(tuple(grad.shape), tuple(output.shape))
        if not alike or not input_dtype is output._dtype is grad._dtype:
            return None
        if not is_small_matrix(example_array(output), dim):
            return None
        return small_log_backward if logarithmic else small_backward

    return prepared


def lower_softmax(logarithmic: bool) -> Any:
    def lower(build: Any, op: Any, self: Any, dim: int, half_to_float: bool) -> Any:
        if half_to_float:
            build.refuse("half_to_float")
        m, shape, axes = build.m, self.shape, build.axis(self, dim)
        x = build.floating(self)
        gap = m.subtract(x, build.fold("max", x, shape, axes))
        if logarithmic:
            total = build.fold("sum", m.exp(gap), shape, axes)
            return build.cast(m.subtract(gap, m.log(total)), self.dtype)
        powers = build.stored(m.exp(gap), shape)
        total = build.fold("sum", powers, shape, axes)
        return build.cast(m.multiply(powers, m.reciprocal(total)), self.dtype)

    return lower


def lower_backward(logarithmic: bool) -> Any:
    def lower(build: Any, op: Any, grad: Any, output: Any, dim: int, dtype: DType) -> Any:
        m, shape, axes = build.m, output.shape, build.axis(output, dim)
        if not geometry.same_sizes(grad.shape, shape) or grad.dtype is not output.dtype:
            build.refuse("mixed operands")
        g, y = build.floating(grad), build.floating(output)
        if logarithmic:
            total = build.fold("sum", g, shape, axes)
            return build.cast(m.subtract(g, m.multiply(m.exp(y), total)), dtype)
        total = build.fold("sum", m.multiply(g, y), shape, axes)
        return build.cast(m.multiply(m.subtract(g, total), y), dtype)

    return lower


def softmax_pair(name: str) -> None:
    logarithmic = name == "log_softmax"
    node = "LogSoftmax" if logarithmic else "Softmax"

    record = op(
        f"_{name}(Tensor self, int dim, bool half_to_float) -> Tensor",
        kind=OPAQUE,
        batch="along",
        lower=lower_softmax(logarithmic),
        recompute=True,
        method=False,
        node=f"{node}Backward0",
        samples=softmax_samples,
        vjp=lambda grad, result, dim, self_dtype: backward(grad, result, dim, self_dtype),
    )

    @record.shape
    def _(self: Any, dim: int, half_to_float: bool) -> Any:
        check_dim(half_to_float, self.dim(), dim)
        return Spec(self.shape, self._dtype)

    @record.kernel
    def _(xp: Any, self: Any, dim: int, half_to_float: bool) -> Any:
        if is_small_matrix(self, dim) and not half_to_float:
            return small_log_softmax(self) if logarithmic else small_softmax(self)
        dtype = dtypes.from_numpy(self.dtype)
        position = check_dim(half_to_float, self.ndim, dim)
        if not self.size:
            return self.copy()
        check_floating(name, dtype, self.ndim, position)
        lanes, axis = one_axis(cast(self, working(dtype)), dim)
        values = lanes - xp.maximum.reduce(lanes, axis=axis, keepdims=True)
        if logarithmic:
            values -= xp.log(sum_array(xp.exp(values), (axis,), True))
        else:
            xp.exp(values, values)
            values /= sum_array(values, (axis,), True)
        return values.astype(self.dtype, copy=False).reshape(self.shape)

    data = op(
        f"_{name}_backward_data(Tensor grad_output, Tensor output, int dim, "
        "ScalarType input_dtype) -> Tensor",
        kind=OPAQUE,
        batch="along",
        lower=lower_backward(logarithmic),
        prepared=prepared_backward(logarithmic),
        method=False,
        out_name="out",
        samples=backward_samples,
    )

    @data.shape
    def _(grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
        geometry.wrap_dim(dim, output.dim())
        check_same_size(name, grad_output, output)
        return Spec(output.shape, input_dtype)

    @data.kernel
    def _(xp: Any, grad_output: Any, output: Any, dim: int, input_dtype: Any) -> Any:
        if (
            is_small_matrix(output, dim)
            and grad_output.shape == output.shape
            and input_dtype.np is output.dtype is grad_output.dtype
        ):
            return (small_log_backward if logarithmic else small_backward)(grad_output, output)
        check_same_size(name, grad_output, output)
        dtype = dtypes.from_numpy(output.dtype)
        if dtype.category != dtypes.FLOAT:
            last = dim in (-1, output.ndim - 1) or not output.ndim
            where = f"{name}_backward_lastdim" if last else f"{name}_backward"
            raise unsupported(f"{where}_kernel_impl", dtype)
        work = working(dtype)
        grad, axis = one_axis(cast(grad_output, work), dim)
        value, axis = one_axis(cast(output, work), dim)
        if logarithmic:
            result = grad - xp.exp(value) * sum_array(grad, (axis,), True)
        else:
            result = (grad - sum_array(grad * value, (axis,), True)) * value
        return cast(result, input_dtype).reshape(output.shape)

    def backward(grad: Any, result: Any, dim: int, dtype: DType) -> Any:
        return getattr(aten, f"_{name}_backward_data")(grad, result, dim, dtype)

    if logarithmic:
        data.vjp = {
            "grad_output": lambda grad, output, dim: grad - (grad * output.exp()).sum(dim, True),
            "output": lambda grad, grad_output, output, dim: (
                -grad_output.sum(dim, True) * output.exp() * grad
            ),
        }
    else:
        data.vjp = {
            "grad_output": lambda grad, output, dim, input_dtype: backward(
                grad, output, dim, input_dtype
            ),
            "output": lambda grad, grad_output, output, dim: (
                grad_output * grad
                - (output * grad_output).sum(dim, True) * grad
                - grad_output * (output * grad).sum(dim, True)
            ),
        }

    @composite(
        f"{name}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        samples=public_samples,
        out_name="int_out",
        exact_out=True,
    )
    def public(self: Any, dim: int, dtype: Any) -> Any:
        return getattr(aten, f"_{name}")(self if dtype is None else self.to(dtype), dim, False)


softmax_pair("softmax")
softmax_pair("log_softmax")
find("softmax", "int").errors = lambda make: [
    (IndexError, (make(2, 3), 2)),
    (NotImplementedError, (make.ints(3), 0)),
]
find("log_softmax", "int").errors = lambda make: [
    (IndexError, (make(2, 3), -3)),
    (NotImplementedError, (make.ints(3), 0)),
]
