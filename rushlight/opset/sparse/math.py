"""What ordinary ops do with sparse operands: the "sparse" rules of their records.

A rule gets the op's bound arguments, at least one of them sparse, and answers tensors. Gradients
are those of the ops themselves: their formulas run on sparse gradients by these same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays.casting import cast
from rushlight.arrays.precision import widen
from rushlight.base.errors import error
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.op import refuse
from rushlight.core.parts import parts_of
from rushlight.core.promotion import DIM, WRAPPED, ZERO_DIM, result_type, scalar_dtype
from rushlight.core.tensor import Tensor, values_of, wrap
from rushlight.opset.pointwise.arithmetic import check_sub
from rushlight.opset.registry import alias, find
from rushlight.opset.rules import aten, conj, sample
from rushlight.opset.sparse.compressed import (
    BLOCKED,
    batch_dims,
    block_sizes,
    coo_to_compressed,
    expanded,
    is_compressed,
    to_compressed,
    with_indices_like,
)
from rushlight.opset.sparse.convert import coo_of, looked_up
from rushlight.opset.sparse.coo import (
    coalesced,
    converted,
    coo_sample,
    dense_of,
    dims,
    expect_layout,
    gathered,
    index_array,
    is_coo,
    is_sparse,
    linear_keys,
    make_coo,
    native,
    run_starts,
    scattered,
    segment_sum,
    sparse_composite,
    sparse_dims,
    value_array,
    with_values,
)

Rule = Callable[..., Any]


def over_values(self: Any, backend: Rule, *rest: Any, linear: bool = False) -> Any:
    """The same pattern with a function applied to the values; sums first unless it is linear."""
    if is_coo(self) and not linear:
        self = coalesced(self)
    return with_values(self, backend(parts_of(self).values, *rest))


def restored(result: Any, like: Any) -> Any:
    """A COO result in the layout of an operand."""
    if is_coo(like):
        return result
    if batch_dims(like):
        block = block_sizes(like) if like.layout in BLOCKED else None
        return to_compressed(dense_of(scattered(result)), like.layout, block, None)
    return coo_to_compressed(result, like.layout, block_sizes(like))


def common_dtype(*operands: Any) -> Any:
    ranked = []
    for value in operands:
        if isinstance(value, Tensor):
            ranked.append((value._dtype, DIM if value.dim() else ZERO_DIM))
        else:
            ranked.append((scalar_dtype(value), WRAPPED))
    return result_type(ranked)


def is_number(value: Any) -> bool:
    """A Python number, or a dense tensor of no dimensions."""
    return not isinstance(value, Tensor) or (value.dim() == 0 and not is_sparse(value))


# -- sums ------------------------------------------------------------------------------------------


def add(self: Any, other: Any, alpha: Any) -> Any:
    if not is_sparse(self):
        return add_to_dense(self, other, alpha)
    if not is_sparse(other):
        if is_compressed(self) and isinstance(other, Tensor):
            return find("add", "Tensor").backend(dense_of(expanded(self)), other, alpha)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not geometry.same_sizes(tuple(self.shape), tuple(other.shape)):
        raise RuntimeError(
            "add: expected sizes of 'self' and 'other' to match, but "
            f"{geometry.show(self.shape)} != {geometry.show(other.shape)}"
        )
    if self.layout is not other.layout:
        raise RuntimeError(
            f"add: expected operands of one sparse layout, got {self.layout} and {other.layout}"
        )
    if is_coo(self):
        return add_coo(self, other, alpha)
    made = restored(add_coo(coo_of(self), coo_of(other), alpha), self)
    return with_indices_like(made, self)


def sub(self: Any, other: Any, alpha: Any) -> Any:
    check_sub(common_dtype(self, other), (self, other, alpha))
    return add(self, other, -alpha)


def refuse_number(self: Any, other: Any, alpha: Any) -> Any:
    raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")


def rsub(self: Any, other: Any, alpha: Any) -> Any:
    return sub(other, self, alpha)


def scaled(values: Any, alpha: Any) -> Any:
    if alpha == 1:
        return values
    if values.dtype.kind == "u":
        # Modulo what the dtype holds: -1 too is a factor.
        alpha = values.dtype.type(alpha % (1 << 8 * values.dtype.itemsize))
    return (values * alpha).astype(values.dtype)


def add_coo(self: Any, other: Any, alpha: Any) -> Any:
    dtype = common_dtype(self, other)
    if index_array(other).shape[1] == 0:
        return with_values(self, converted(parts_of(self).values, dtype).clone())
    if index_array(self).shape[1] == 0:
        theirs = scaled(values_of(converted(parts_of(other).values, dtype)), alpha)
        return with_values(other, dense_of(theirs.copy()))
    if sparse_dims(self) != sparse_dims(other):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have the same number of sparse dimensions, got "
            f"{sparse_dims(self)} and {sparse_dims(other)}"
        )
    mine = values_of(converted(parts_of(self).values, dtype))
    theirs = scaled(values_of(converted(parts_of(other).values, dtype)), alpha)
    first, second = index_array(self), index_array(other)
    both = parts_of(self).coalesced and parts_of(other).coalesced
    if np.array_equal(first, second):
        return make_coo(first.copy(), mine + theirs, self.shape, both)
    indices = np.concatenate([first, second], axis=1)
    result = make_coo(indices, np.concatenate([mine, theirs]), self.shape)
    return coalesced(result) if both else result


def add_to_dense(self: Any, other: Any, alpha: Any) -> Any:
    if not isinstance(self, Tensor) or not geometry.same_sizes(
        tuple(self.shape), tuple(other.shape)
    ):
        sizes = geometry.show(self.shape) if isinstance(self, Tensor) else "[]"
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {sizes} while "
            f"other has size {geometry.show(other.shape)} (FYI: dense-sparse addition does not "
            "currently support broadcasting)"
        )
    dtype = common_dtype(self, other)
    result = np.array(cast(values_of(self), self._dtype, dtype), order="C")
    if is_compressed(other):
        addend = values_of(converted(wrap(expanded(other), other._dtype), dtype))
        return wrap(result + scaled(addend, alpha), dtype)
    add_at(result, coalesced(other), dtype, alpha)
    return wrap(result, dtype)


def add_at(target: Any, other: Any, dtype: Any, alpha: Any) -> None:
    """Add a coalesced COO tensor to an array."""
    values = scaled(values_of(converted(parts_of(other).values, dtype)), alpha)
    indices = index_array(other)
    if indices.shape[0] == 0:
        if indices.shape[1]:
            target[...] += values[0]
    else:
        target[tuple(indices)] += values


def add_in_place(self: Any, other: Any, alpha: Any) -> Any:
    """A sparse addend straight into dense memory; None where the general way must do it."""
    if is_sparse(self) or not is_coo(other) or self._unusual is not None:
        return None
    if (
        not geometry.same_sizes(tuple(self.shape), tuple(other.shape))
        or common_dtype(self, other) is not self._dtype
    ):
        return None
    add_at(self._array, coalesced(other), self._dtype, alpha)
    return self


# -- products --------------------------------------------------------------------------------------


def mul(self: Any, other: Any) -> Any:
    product = find("mul", "Tensor").backend
    if is_number(other):
        return over_values(self, product, other, linear=True)
    if is_number(self):
        return over_values(other, lambda values, number: product(number, values), self, linear=True)
    if is_sparse(self) and is_sparse(other):
        if not other.dim():
            return over_values(self, product, dense_of(scattered(other)), linear=True)
        if not self.dim():
            return mul(other, self)
        return mul_sparse(self, other)
    sparse, dense = (self, other) if is_sparse(self) else (other, self)
    found = geometry.broadcast_shapes(tuple(sparse.shape), tuple(dense.shape))
    if not geometry.same_sizes(found, tuple(sparse.shape)):
        raise RuntimeError(
            f"mul: a dense operand of size {geometry.show(dense.shape)} does not broadcast to the "
            f"sparse operand's size {geometry.show(sparse.shape)}"
        )
    given = coo_of(sparse)
    factors = gathered(np.broadcast_to(values_of(dense), found), index_array(given))
    values = product(parts_of(given).values, wrap(np.ascontiguousarray(factors), dense._dtype))
    return restored(with_values(given, values), sparse)


def mul_sparse(self: Any, other: Any) -> Any:
    if not geometry.same_sizes(tuple(self.shape), tuple(other.shape)) or dims(self) != dims(other):
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal "
            "dimensionality, number of sparse dimensions, and shape of sparse dimensions"
        )
    first, second = coalesced(coo_of(self)), coalesced(coo_of(other))
    sizes = tuple(self.shape)[: sparse_dims(first)]
    keys = linear_keys(index_array(first), sizes)
    others = linear_keys(index_array(second), sizes)
    mine, theirs = np.intersect1d(keys, others, assume_unique=True, return_indices=True)[1:]
    values = find("mul", "Tensor").backend(
        dense_of(value_array(first)[mine]), dense_of(value_array(second)[theirs])
    )
    return restored(make_coo(index_array(first)[:, mine], values, self.shape, True), self)


def div(self: Any, other: Any, *rest: Any) -> Any:
    if not is_number(other):
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{geometry.show(other.shape)} for divisor)"
        )
    if not is_sparse(self):
        raise RuntimeError("Sparse division requires a sparse dividend")
    divide = find("div", "Tensor_mode" if rest else "Tensor").backend
    return over_values(self, divide, other, *rest, linear=not rest)


def floor_divide(self: Any, other: Any) -> Any:
    if not is_number(other):
        raise RuntimeError(
            "Sparse floor division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{geometry.show(other.shape)} for divisor)"
        )
    if not is_sparse(self):
        raise RuntimeError("Sparse floor division requires a sparse dividend")
    return over_values(self, find("floor_divide").backend, other)


def power(self: Any, exponent: Any) -> Any:
    if exponent == 0:
        raise error("RL0509", NotImplementedError, what="pow of a sparse tensor with exponent 0")
    return over_values(self, find("pow", "Tensor_Scalar").backend, exponent)


def map_values(op: Any, self: Any, *rest: Any) -> Any:
    """An op that maps zero to zero: only specified elements change."""
    return over_values(self, op.backend, *rest, linear=op.options["zero_preserving"] == "linear")


def threshold_backward(grad: Any, self: Any, threshold: Any) -> Any:
    """Of the gradient, what belongs to values above the threshold."""
    passes = coalesced(coo_of(self))
    above = values_of(parts_of(passes).values) > threshold
    mask = with_values(passes, wrap(above.astype(self._dtype.np), self._dtype))
    return restored(mul(coo_of(grad) if is_sparse(grad) else grad, mask), self)


# -- matrix products -------------------------------------------------------------------------------


def sparse_times_dense(self: Any, dense: Any) -> Any:
    """A sparse matrix times a dense one: rows of products, summed by row."""
    given = coalesced(coo_of(self))
    rows, columns = index_array(given)
    values = widen(value_array(given))
    factors = widen(dense)
    result = np.zeros((self.shape[0], dense.shape[1]), np.result_type(values, factors))
    if rows.size:
        starts = run_starts(rows)
        terms = values[:, None] * factors[columns]
        result[rows[starts]] = np.add.reduceat(terms, starts, axis=0)
    return result.astype(dense.dtype, copy=False)


def sparse_times_sparse(self: Any, other: Any) -> Any:
    """Both sparse: every specified element meets the row of `other` that its column names."""
    if self._dtype.category < dtypes.FLOAT or self._dtype.itemsize == 2:
        raise NotImplementedError(
            f"\"sparse_matmul\" not implemented for '{self._dtype.scalar_type_name}'"
        )
    first, second = coalesced(coo_of(self)), coalesced(coo_of(other))
    rows, inner = index_array(first)
    their_rows, their_columns = index_array(second)
    ends = np.zeros(int(self.shape[1]) + 1, np.int64)
    np.cumsum(np.bincount(their_rows, minlength=int(self.shape[1])), out=ends[1:])
    lengths = np.diff(ends)[inner]
    left = np.repeat(np.arange(inner.size), lengths)
    offsets = np.arange(left.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    right = ends[inner[left]] + offsets
    values = value_array(first)[left] * value_array(second)[right]
    indices = np.stack([rows[left], their_columns[right]])
    return coalesced(make_coo(indices, values, (self.shape[0], other.shape[1])))


def check_factors(self: Any, other: Any) -> None:
    if self.dim() != 2 or other.dim() != 2:
        raise RuntimeError(
            f"sparse matrix product: expected matrices, got {self.dim()}-D and {other.dim()}-D"
        )
    if self.shape[1] != other.shape[0]:
        raise RuntimeError(
            f"addmm: Argument #3 (dense): Expected dim 0 size {self.shape[1]}, got {other.shape[0]}"
        )
    if self._dtype is dtypes.bool_:
        raise NotImplementedError("\"addmm_sparse_dense\" not implemented for 'Bool'")
    if self._dtype is not other._dtype:
        raise RuntimeError(
            f"expected scalar type {self._dtype.scalar_type_name} but found "
            f"{other._dtype.scalar_type_name}"
        )


def mm(self: Any, mat2: Any) -> Any:
    check_factors(self, mat2)
    if is_sparse(self) and is_sparse(mat2):
        return restored(sparse_times_sparse(self, mat2), self)
    return wrap(product_array(self, mat2), self._dtype)


def product_array(mat1: Any, mat2: Any) -> Any:
    """A product with one sparse factor at least, dense."""
    if is_sparse(mat1) and is_sparse(mat2):
        return scattered(sparse_times_sparse(mat1, mat2))
    if is_sparse(mat1):
        return sparse_times_dense(mat1, values_of(mat2))
    if not is_sparse(mat2):
        return values_of(find("mm").backend(mat1, mat2))
    turned = coo_of(mat2)
    turned = make_coo(index_array(turned)[::-1], parts_of(turned).values, mat2.shape[::-1])
    return np.ascontiguousarray(sparse_times_dense(turned, values_of(mat1).T).T)


def addmm(self: Any, mat1: Any, mat2: Any, beta: Any, alpha: Any) -> Any:
    check_factors(mat1, mat2)
    if is_sparse(self):
        product = restored(sparse_times_sparse(mat1, mat2), self)
        return add(mul(self, beta), product, alpha)
    product = wrap(product_array(mat1, mat2), mat1._dtype)
    product = find("mul", "Tensor").backend(product, alpha) if alpha != 1 else product
    if beta == 0:
        return product
    base = find("mul", "Tensor").backend(self, beta) if beta != 1 else self
    return find("add", "Tensor").backend(base, product, 1)


def mv(self: Any, vec: Any) -> Any:
    column = wrap(values_of(vec).reshape(-1, 1), vec._dtype)
    check_factors(self, column)
    return wrap(product_array(self, column).reshape(-1), self._dtype)


def bmm(self: Any, mat2: Any) -> Any:
    """A batch of sparse matrices times dense ones: one product of block-diagonal shape."""
    if is_sparse(mat2):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    if not is_coo(self) or dims(self)[1]:
        raise RuntimeError(
            "bmm_sparse: Tensor 'self' must be a COO tensor of three sparse dims, got layout "
            f"{self.layout}"
        )
    if self.dim() != 3 or mat2.dim() != 3 or self.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            "bmm_sparse: expected batches of equal length, got sizes "
            f"{geometry.show(self.shape)} and {geometry.show(mat2.shape)}"
        )
    batch, rows, inner = [int(size) for size in self.shape]
    sample, row, column = index_array(self)
    flat = make_coo(
        np.stack([sample * rows + row, sample * inner + column]),
        parts_of(self).values,
        (batch * rows, batch * inner),
    )
    wide = int(mat2.shape[2])
    factors = wrap(values_of(mat2).reshape(batch * int(mat2.shape[1]), wide), mat2._dtype)
    check_factors(flat, factors)
    product = sparse_times_dense(flat, factors._array)
    return wrap(product.reshape(batch, rows, wide), self._dtype)


def first_grad(grad: Any, mat1: Any, mat2: Any, alpha: Any) -> Any:
    """Gradient of a sparse factor: that of a dense one at its specified elements."""
    found = grad.mm(mat2.t().conj())
    found = found if alpha == 1 else found * conj(alpha)
    return found.sparse_mask(mat1.detach()) if is_sparse(mat1) else found


def second_grad(grad: Any, mat1: Any, alpha: Any) -> Any:
    found = mat1.t().conj().mm(grad)
    return found if alpha == 1 else found * conj(alpha)


sparse_addmm = native(
    "_sparse_addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
    "-> Tensor",
    method=False,
    function=False,
    vjp={
        "self": lambda grad, beta: grad if beta == 1 else grad * conj(beta),
        "mat1": first_grad,
        "mat2": lambda grad, mat1, alpha: second_grad(grad, mat1, alpha),
    },
    kernel=lambda self, mat1, mat2, beta, alpha: addmm(self, mat1, mat2, beta, alpha),
    samples=lambda make: [(make(3, 2), coo_sample(make, 3, 4), make(4, 2))],
)


@sparse_composite(
    "_sparse_mm(Tensor sparse, Tensor dense) -> Tensor",
    method=False,
    function=False,
    samples=lambda make: [(coo_sample(make, 3, 4), make(4, 2))],
)
def sparse_mm(sparse: Any, dense: Any) -> Any:
    if is_sparse(sparse) and is_sparse(dense):
        return aten._sparse_sparse_matmul(sparse, dense)
    if is_sparse(sparse) or is_compressed(dense):
        start = aten.zeros((), dtype=sparse._dtype)
        return aten._sparse_addmm(start, sparse, dense, beta=0, alpha=1)
    turned = aten._sparse_mm(dense.t(), sparse.t()) if is_sparse(dense) else None
    return sparse.mm(dense) if turned is None else turned.t()


sparse_sparse_matmul = native(
    "_sparse_sparse_matmul(Tensor self, Tensor other) -> Tensor",
    method=False,
    vjp={
        "self": lambda grad, self, other: aten._sparse_sparse_matmul(
            grad, other.conj().t()
        ).sparse_mask(self.detach().coalesce()),
        "other": lambda grad, self, other: aten._sparse_sparse_matmul(
            self.conj().t(), grad
        ).sparse_mask(other.detach().coalesce()),
    },
    kernel=mm,
    samples=lambda make: [(coo_sample(make, 3, 4), coo_sample(make, 4, 2))],
)


# -- reductions ------------------------------------------------------------------------------------


def total(self: Any, dtype: Any) -> Any:
    return find("sum").backend(parts_of(self).values, dtype)


def summed(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """Sums over some dims; dense when no sparse dim is left."""
    if dim is None or len(dim) == 0:
        dim = range(self.dim())
    wanted = sorted(geometry.wrap_dims(dim, self.dim()))
    given = coo_of(self)
    count = sparse_dims(given)
    values = parts_of(given).values
    inner = [d - count + 1 for d in wanted if d >= count]
    if inner:
        values = find("sum", "dim_IntList").backend(values, inner, keepdim, dtype)
    elif dtype is not None:
        values = converted(values, dtype)
    sizes = [1 if d in wanted else n for d, n in enumerate(self.shape)]
    left = [d for d in range(count) if d not in wanted]
    if not left and not keepdim:
        return find("sum", "dim_IntList").backend(values, [0], False, None)
    indices = index_array(given)
    if keepdim:
        indices = indices.copy()
        indices[[d for d in wanted if d < count]] = 0
    else:
        indices = indices[left]
        sizes = [n for d, n in enumerate(self.shape) if d not in wanted]
    return coalesced(make_coo(np.ascontiguousarray(indices), values, sizes))


def sum_dims(self: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is None and self._dtype.category < dtypes.FLOAT:
        dtype = dtypes.int64
    result = summed(self, dim, keepdim, dtype)
    return result if is_coo(self) or not is_sparse(result) else dense_of(scattered(result))


def sparse_sum_grad(grad: Any, self: Any, dim: Any) -> Any:
    return aten._sparse_sum_backward(grad, self, dim)


sparse_sum_dim = native(
    "_sparse_sum.dim(Tensor self, int[1] dim) -> Tensor",
    method=False,
    vjp=sparse_sum_grad,
    differentiable=["self"],
    kernel=lambda self, dim: summed(self, dim, False, None),
    samples=lambda make: [(coo_sample(make, 3, 4), [0])],
)


@sparse_composite(
    "_sparse_sum(Tensor self) -> Tensor",
    method=False,
    samples=lambda make: [(coo_sample(make, 3, 4),)],
)
def sparse_sum(self: Any) -> Any:
    return self.coalesce().values().sum()


@sparse_composite(
    "_sparse_sum.dtype(Tensor self, *, ScalarType dtype) -> Tensor",
    method=False,
    samples=lambda make: [sample(coo_sample(make, 3, 4), dtype=dtypes.complex128)],
)
def sparse_sum_dtype(self: Any, dtype: Any) -> Any:
    return self.coalesce().values().sum(dtype=dtype)


@sparse_composite(
    "_sparse_sum.dim_dtype(Tensor self, int[1] dim, *, ScalarType dtype) -> Tensor",
    method=False,
    samples=lambda make: [sample(coo_sample(make, 3, 4), [0], dtype=dtypes.complex128)],
)
def sparse_sum_dim_dtype(self: Any, dim: Any, dtype: Any) -> Any:
    return aten._sparse_sum(self.to(dtype), dim)


sum_backward = native(
    "_sparse_sum_backward(Tensor grad, Tensor self, int[] dim) -> Tensor",
    method=False,
    vjp={"grad": lambda grad, dim: summed_again(grad, dim)},
    samples=lambda make: [(coo_sample(make, 4), coo_sample(make, 3, 4), [0])],
)


def summed_again(grad: Any, dim: Any) -> Any:
    return aten._sparse_sum(grad, dim) if is_sparse(grad) else grad.sum(dim)


@sum_backward.kernel
def _(grad: Any, self: Any, dim: Any) -> Any:
    """The gradient of a sum, spread over the elements that `self` specifies."""
    wanted = {geometry.wrap_dim(d, self.dim()) for d in dim}
    given = coalesced(self)
    count = sparse_dims(given)
    left = [d for d in range(count) if d not in wanted]
    indices = index_array(given)
    if is_sparse(grad):
        values = looked_up(grad, indices[left], len(left))
    else:
        values = gathered(values_of(grad), indices[left])
    for d in sorted(d - count + 1 for d in wanted if d >= count):
        values = np.expand_dims(values, d)
    values = np.broadcast_to(values, tuple(parts_of(given).values.shape))
    return with_values(given, wrap(np.array(values, order="C"), grad._dtype))


def vector_norm(self: Any, ord: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dim is not None and len(geometry.wrap_dims(dim, self.dim())) not in (0, self.dim()):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    if ord != ord or ord <= 0 or ord == -float("inf"):
        raise error("RL0509", NotImplementedError, what=f"norm of a sparse tensor with order {ord}")
    values = parts_of(coalesced(self) if is_coo(self) else self).values
    return find("linalg_vector_norm").backend(values, ord, None, False, dtype)


def any_specified(self: Any) -> Any:
    return find("any").backend(parts_of(coalesced(self) if is_coo(self) else self).values)


# -- softmax over specified elements ---------------------------------------------------------------


def softmax_groups(self: Any, dim: int) -> tuple[Any, Any, Any]:
    """(values ordered so that elements of one row along `dim` are together, starts, the order)."""
    count = sparse_dims(self)
    indices = np.delete(index_array(self), dim, axis=0)
    keys = linear_keys(indices, [n for d, n in enumerate(self.shape[:count]) if d != dim])
    order = np.argsort(keys, kind="stable")
    return value_array(self)[order], run_starts(keys[order]), order


def spread(totals: Any, starts: Any, count: int) -> Any:
    return np.repeat(totals, np.diff(np.append(starts, count)), axis=0)


def softmax_kernel(log: bool) -> Rule:
    def kernel(self: Any, dim: int, half_to_float: bool) -> Any:
        expect_layout(self, "softmax")
        if self._dtype not in (dtypes.float32, dtypes.float64):
            raise NotImplementedError(
                f'"{"log_softmax" if log else "softmax"}" not implemented for '
                f"'{self._dtype.scalar_type_name}'"
            )
        given = coalesced(self)
        dim = geometry.wrap_dim(dim, self.dim())
        dense = find("_log_softmax" if log else "_softmax")
        if dim >= sparse_dims(given):
            inner = dim - sparse_dims(given) + 1
            return with_values(given, dense.backend(parts_of(given).values, inner, False))
        values, starts, order = softmax_groups(given, dim)
        if not values.size:
            return with_values(given, dense_of(values))
        wide = widen(values)
        shifted = wide - spread(np.maximum.reduceat(wide, starts, axis=0), starts, len(wide))
        powers = np.exp(shifted)
        sums = spread(np.add.reduceat(powers, starts, axis=0), starts, len(wide))
        result = np.empty_like(values)
        result[order] = shifted - np.log(sums) if log else powers / sums
        return with_values(given, dense_of(result))

    return kernel


def softmax_backward_kernel(log: bool) -> Rule:
    def kernel(grad_output: Any, output: Any, dim: int, self: Any) -> Any:
        given = coalesced(output)
        dim = geometry.wrap_dim(dim, output.dim())
        indices = index_array(given)
        grads = looked_up(coo_of(grad_output), indices, sparse_dims(given))
        if dim >= sparse_dims(given):
            axis = dim - sparse_dims(given) + 1
            out = value_array(given)
            sums = (grads if log else grads * out).sum(axis=axis, keepdims=True)
            made = grads - np.exp(out) * sums if log else (grads - sums) * out
            return with_values(given, dense_of(made.astype(out.dtype)))
        out, starts, order = softmax_groups(given, dim)
        ordered = grads[order]
        sums = segment_sum(ordered if log else ordered * out, starts)
        sums = spread(sums, starts, len(out))
        result = np.empty_like(out)
        result[order] = ordered - np.exp(out) * sums if log else (ordered - sums) * out
        return with_values(given, dense_of(result))

    return kernel


def softmax_op(log: bool) -> None:
    name = "_sparse_log_softmax" if log else "_sparse_softmax"
    floating = refuse("the second derivative of a softmax over specified elements is not written")

    def samples(make: Any) -> Any:
        if make.dtype in (dtypes.float32, dtypes.float64):
            yield coo_sample(make, 3, 4), 1, False

    def backward_samples(make: Any) -> Any:
        for given, dim, _ in samples(make):
            yield given, given, dim, given

    backward = native(
        f"{name}_backward_data(Tensor grad_output, Tensor output, int dim, Tensor self) -> Tensor",
        method=False,
        vjp=floating,
        jvp=floating,
        kernel=softmax_backward_kernel(log),
        samples=backward_samples,
    )

    def gradient(grad: Any, result: Any, dim: Any, self: Any) -> Any:
        return backward(grad, result, dim, self)

    primitive = native(
        f"{name}(Tensor self, int dim, bool half_to_float) -> Tensor",
        method=False,
        function=False,
        vjp=gradient,
        differentiable=["self"],
        kernel=softmax_kernel(log),
        samples=samples,
    )

    @sparse_composite(
        f"{name}.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
        method=False,
        function=False,
        samples=lambda make: [(given, dim) for given, dim, _ in samples(make)],
    )
    def body(self: Any, dim: int, dtype: Any = None) -> Any:
        return primitive(self if dtype is None else self.to(dtype), dim, False)


softmax_op(False)
softmax_op(True)

# The product by its older names.
alias("dsmm", "mm", method=False)
alias("spmm", "mm", method=False)
