"""Sparse operands of ops that move or copy elements: transposes, selection, joining, copies."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.parts import copied_parts, parts_of
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.opset.kinds import no_sparse_shells
from rushlight.opset.registry import find
from rushlight.opset.sparse.compressed import (
    batch_dims,
    block_sizes,
    empty_compressed,
    flipped,
    is_compressed,
    with_indices_like,
)
from rushlight.opset.sparse.convert import coo_of
from rushlight.opset.sparse.coo import (
    coalesced,
    converted,
    dense_of,
    dims,
    empty_coo,
    expect_layout,
    index_array,
    is_coo,
    is_sparse,
    make_coo,
    replace_parts,
    sparse_dims,
    value_array,
    with_values,
)
from rushlight.opset.sparse.math import common_dtype

# -- geometry --------------------------------------------------------------------------------------


def transpose_matrix(self: Any) -> Any:
    if is_compressed(self):
        return flipped(self)
    sparse, dense = dims(self)
    if sparse > 2 or dense:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got "
            f"{sparse} sparse and {dense} dense dimensions"
        )
    return transpose(self, 0, 1) if sparse == 2 else self._alias(share_counter=False)


def transpose(self: Any, dim0: int, dim1: int) -> Any:
    count = self.dim()
    dim0, dim1 = geometry.wrap_dim(dim0, count), geometry.wrap_dim(dim1, count)
    if dim0 == dim1:
        return self._alias(share_counter=False)
    if is_compressed(self):
        start = batch_dims(self)
        if {dim0, dim1} != {start, start + 1}:
            raise RuntimeError(
                f"transpose(): only the two sparse dims of a {self.layout} tensor can change places"
            )
        return flipped(self)
    order = list(range(count))
    order[dim0], order[dim1] = dim1, dim0
    return permuted(self, order)


def permuted(self: Any, dims_: Any) -> Any:
    expect_layout(self, "permute")
    count = sparse_dims(self)
    order = [geometry.wrap_dim(d, self.dim()) for d in dims_]
    if len(order) == self.dim() and len(set(order)) != len(order):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if sorted(order) != list(range(self.dim())):
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            "length of the desired ordering of dimensions"
        )
    if any(d >= count for d in order[:count]):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not "
            "allowed."
        )
    parts = parts_of(self)
    values = parts.values
    if order[count:] != list(range(count, self.dim())):
        values = dense_of(values_of(values).transpose([0, *[d - count + 1 for d in order[count:]]]))
    kept = order[:count] == list(range(count))
    return make_coo(
        np.ascontiguousarray(index_array(self)[order[:count]]),
        values,
        [self.shape[d] for d in order],
        parts.coalesced and kept,
    )


def unsqueezed(self: Any, dim: int) -> Any:
    expect_layout(self, "unsqueeze")
    dim = geometry.wrap_dim(dim, self.dim() + 1)
    sizes = [*self.shape[:dim], 1, *self.shape[dim:]]
    count, parts = sparse_dims(self), parts_of(self)
    if dim > count:
        values = dense_of(np.expand_dims(values_of(parts.values), dim - count + 1))
        return make_coo(parts.indices, values, sizes, parts.coalesced)
    indices = np.insert(index_array(self), dim, 0, axis=0)
    return make_coo(indices, parts.values, sizes, parts.coalesced)


def selected(self: Any, dim: int, index: Any) -> Any:
    given = coo_of(self)
    dim = geometry.wrap_dim(dim, self.dim())
    size = self.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size "
            f"{geometry.show(self.shape)} at dimension {dim}"
        )
    index %= size
    count, parts = sparse_dims(given), parts_of(given)
    sizes = [n for d, n in enumerate(self.shape) if d != dim]
    if dim >= count:
        return make_coo(
            parts.indices,
            dense_of(np.take(values_of(parts.values), index, axis=dim - count + 1)),
            sizes,
            parts.coalesced,
        )
    indices = index_array(given)
    kept = np.flatnonzero(indices[dim] == index)
    values = value_array(given)[kept]
    if count == 1:
        return find("sum", "dim_IntList").backend(dense_of(values), [0], False, self._dtype)
    picked = np.delete(indices[:, kept], dim, axis=0)
    return make_coo(picked, values, sizes, parts.coalesced or None)


def index_selected(self: Any, dim: int, index: Any) -> Any:
    expect_layout(self, functions.index_select.__name__)
    dim = geometry.wrap_dim(dim, self.dim())
    if index.dim() != 1 or is_sparse(index) or index._dtype is not dtypes.int64:
        raise IndexError(
            "index_select() argument index must be 1-D strided (non-sparse) long-tensor."
        )
    places = values_of(index)
    size = self.shape[dim]
    outside = places[(places < -size) | (places >= size)]
    if outside.size:
        raise IndexError(
            f"index_select(): index contains {outside[0]} that is out of range for tensor of size "
            f"{geometry.show(self.shape)} at dimension {dim}"
        )
    places = places % max(size, 1)
    count, parts = sparse_dims(self), parts_of(self)
    sizes = list(self.shape)
    sizes[dim] = places.size
    if dim >= count:
        values = np.take(values_of(parts.values), places, axis=dim - count + 1)
        return make_coo(parts.indices, dense_of(values), sizes, parts.coalesced)
    given = coalesced(self)
    indices, values = index_array(given), value_array(given)
    # For each chosen place, the run of elements there, by a stable sort along `dim`.
    order = np.argsort(indices[dim], kind="stable")
    ends = np.zeros(size + 1, np.int64)
    np.cumsum(np.bincount(indices[dim], minlength=size), out=ends[1:])
    lengths = np.diff(ends)[places]
    target = np.repeat(np.arange(places.size), lengths)
    offsets = np.arange(target.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    chosen = order[ends[places[target]] + offsets]
    picked = indices[:, chosen]
    picked[dim] = target
    return make_coo(picked, values[chosen], sizes, dim == 0)


def joined(tensors: Any, dim: int) -> Any:
    if not all(map(is_coo, tensors)):
        raise RuntimeError("cat(): sparse tensors can be joined with sparse COO tensors only")
    first = tensors[0]
    dim = geometry.wrap_dim(dim, first.dim())
    count = sparse_dims(first)
    for position, other in enumerate(tensors[1:], 1):
        same = [d for d in range(first.dim()) if d != dim]
        if other.dim() != first.dim() or any(other.shape[d] != first.shape[d] for d in same):
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{geometry.show(first.shape)} (except in the concatenating dimension), but found "
                f"shape: {geometry.show(other.shape)} at position {position}."
            )
        if sparse_dims(other) != count:
            raise RuntimeError("cat(): all tensors must have the same number of sparse dimensions")
    dtype = common_dtype(*tensors)
    sizes = list(first.shape)
    sizes[dim] = sum(int(tensor.shape[dim]) for tensor in tensors)
    indices, values, offset = [], [], 0
    for tensor in tensors:
        place, found = index_array(tensor), values_of(converted(parts_of(tensor).values, dtype))
        if dim < count:
            place = place.copy()
            place[dim] += offset
        else:
            wide = np.zeros((found.shape[0], *sizes[count:]), found.dtype)
            inner = [slice(None)] * wide.ndim
            inner[dim - count + 1] = slice(offset, offset + tensor.shape[dim])
            wide[tuple(inner)] = found
            found = wide
        indices.append(place)
        values.append(found)
        offset += tensor.shape[dim]
    return make_coo(np.concatenate(indices, axis=1), np.concatenate(values), sizes)


def stacked(tensors: Any, dim: int) -> Any:
    dim = geometry.wrap_dim(dim, tensors[0].dim() + 1)
    return joined([unsqueezed(tensor, dim) for tensor in tensors], dim)


def refuse_reshape(self: Any, *rest: Any) -> Any:
    raise RuntimeError("reshape is not implemented for sparse tensors")


def refuse_expand(self: Any, *rest: Any) -> Any:
    raise RuntimeError("expand is unsupported for Sparse tensors")


def paired(self: Any) -> Any:
    """Complex numbers as a last dense dim of size 2, and back."""
    to_real = self._dtype.is_complex
    name = "view_as_real" if to_real else "view_as_complex"
    expect_layout(self, name)
    parts = parts_of(self)
    sizes = (*self.shape, 2) if to_real else tuple(self.shape)[:-1]
    return make_coo(parts.indices, find(name).backend(parts.values), sizes, parts.coalesced)


# -- copies ----------------------------------------------------------------------------------------


def cloned(self: Any, memory_format: Any) -> Any:
    if memory_format not in (None, devices.preserve_format):
        raise RuntimeError(f"unsupported memory format option {memory_format}")
    return copied_parts(self)


def aliased(self: Any) -> Any:
    return self._alias(share_counter=False)


def to_copy(
    self: Any,
    dtype: Any,
    layout: Any,
    device: Any,
    pin_memory: Any,
    non_blocking: Any,
    memory_format: Any,
) -> Any:
    if device is not None and device.type == "meta":
        raise no_sparse_shells("to")
    if device is not None and device.type != "cpu":
        raise error("RL0510", NotImplementedError, device=device)
    if layout not in (None, self.layout):
        raise error(
            "RL0502", source=self.layout, target=layout, instead="to_dense() or to_sparse()"
        )
    copied = copied_parts(self)
    values = parts_of(copied).values
    return with_values(copied, converted(values, dtype or self._dtype))


def copy_into(self: Any, src: Any, non_blocking: bool) -> Any:
    if not (is_sparse(self) and is_sparse(src)):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{self.type()} and src type = {src.type()}"
        )
    if self.layout is not src.layout or (
        is_compressed(self) and not geometry.same_sizes(tuple(self.shape), tuple(src.shape))
    ):
        raise RuntimeError(
            f"copy_(): expected two sparse tensors of one layout and size, got {self.layout} "
            f"{geometry.show(self.shape)} and {src.layout} {geometry.show(src.shape)}"
        )
    return replace_parts(self, copied_parts(src))


def emptied(self: Any, sizes: Any, dtype: Any) -> Any:
    if is_coo(self):
        count = sparse_dims(self) if len(sizes) == self.dim() else len(sizes)
        return empty_coo(tuple(sizes), count, dtype)
    if batch_dims(self) or len(sizes) != self.dim():
        raise error("RL0511", NotImplementedError, layout=self.layout, size=list(sizes))
    made = empty_compressed(tuple(sizes), self.layout, dtype, block_sizes(self))
    return with_indices_like(made, self)


def zero_in_place(self: Any) -> Any:
    return replace_parts(self, emptied(self, self.shape, self._dtype))


def zeros_like(self: Any, dtype: Any, layout: Any, device: Any, *rest: Any) -> Any:
    result_dtype = dtype or self._dtype
    if device is not None and device.type == "meta":
        raise no_sparse_shells("zeros_like")
    if layout is devices.strided:
        return wrap(np.zeros(tuple(self.shape), result_dtype.np), result_dtype)
    if layout not in (None, self.layout):
        return emptied_in(layout, self, result_dtype)
    return emptied(self, self.shape, result_dtype)


def emptied_in(layout: Any, like: Any, dtype: Any) -> Any:
    """No element specified, in another sparse layout."""
    sizes, dense = tuple(like.shape), dims(like)[1]
    if layout is devices.sparse_coo:
        return empty_coo(sizes, len(sizes) - dense, dtype)
    block = block_sizes(like) if is_compressed(like) else (1, 1)
    blocked = layout in (devices.sparse_bsr, devices.sparse_bsc)
    if len(sizes) - dense != 2 or (blocked and block == (1, 1)):
        raise error("RL0511", NotImplementedError, layout=layout, size=list(sizes))
    return empty_compressed(sizes, layout, dtype, block if blocked else (1, 1))


def empty_like(self: Any, dtype: Any, layout: Any, *rest: Any) -> Any:
    if is_compressed(self) and layout in (None, self.layout):
        return like_values("empty_like", self, dtype, layout, *rest)
    return zeros_like(self, dtype, layout, *rest)


def like_values(name: str, self: Any, *rest: Any) -> Any:
    """`ones_like` and its kin: other values at the places of a compressed tensor."""
    record = find(name)
    # Behind these come the device, pinning and the memory format.
    *given, layout = rest[:-3]
    if layout is devices.strided:
        return record.backend(wrap(np.zeros(tuple(self.shape), self._dtype.np), self._dtype), *rest)
    if not is_compressed(self) or layout not in (None, self.layout):
        raise error("RL0503", NotImplementedError, op=record.name(), layout=self.layout)
    return with_values(self, record.backend(parts_of(self).values, *given, None, *rest[-3:]))


ones_like = partial(like_values, "ones_like")
full_like = partial(like_values, "full_like")
rand_like = partial(like_values, "rand_like")
randn_like = partial(like_values, "randn_like")


def new_zeros(self: Any, size: Any, dtype: Any, layout: Any, device: Any, pin: Any) -> Any:
    result_dtype = dtype or self._dtype
    if device is not None and device.type == "meta":
        raise no_sparse_shells("new_zeros")
    if layout is devices.strided:
        return wrap(np.zeros(tuple(size), result_dtype.np), result_dtype)
    return emptied(self, tuple(size), result_dtype)


def made_sparse(size: Any, dtype: Any, layout: Any, *rest: Any) -> Any:
    """`zeros` and `empty` in a sparse layout: nothing is specified."""
    result_dtype = dtype or dtypes.get_default_dtype()
    if layout is devices.sparse_coo:
        return empty_coo(tuple(size), len(size), result_dtype)
    if layout not in (devices.sparse_csr, devices.sparse_csc) or len(size) != 2:
        raise error("RL0511", NotImplementedError, layout=layout, size=list(size))
    return empty_compressed(tuple(size), layout, result_dtype)
