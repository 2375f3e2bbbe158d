"""Sparse tensors from and to other layouts, masking, and sparse gradients of lookups.

A conversion is a composite (nothing to do: the tensor itself) before a primitive, whose gradient
comes back in the layout of what was converted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.core import device as devices
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.op import refuse
from rushlight.core.parts import copied_parts, parts_of
from rushlight.core.tensor import shell, sizes_of, values_of, wrap
from rushlight.opset.rules import aten, linear_in, sample
from rushlight.opset.sparse.coo import (
    LAYOUT_NAMES,
    any_samples,
    coalesced,
    converted,
    coo_sample,
    coo_samples,
    dense_of,
    dims,
    empty_coo,
    expect_layout,
    gathered,
    index_array,
    is_coo,
    is_sparse,
    layout_name,
    linear_keys,
    make_coo,
    native,
    replace_parts,
    scattered,
    sparse_composite,
    sparse_dims,
    specified,
    value_array,
    with_values,
)

# -- to and from dense -----------------------------------------------------------------------------


def to_dense_grad(grad: Any, self: Any, masked_grad: Any) -> Any:
    return aten.to_dense_backward(grad, self, masked_grad)


to_dense_op = native(
    "_to_dense(Tensor self, ScalarType? dtype=None, bool? masked_grad=None) -> Tensor",
    function=False,
    structural=True,
    vjp=to_dense_grad,
    differentiable=["self"],
    node="ToDenseBackward0",
    samples=coo_samples,
)


@to_dense_op.kernel
def _(self: Any, dtype: Any, masked_grad: Any) -> Any:
    if parts_of(self).values._array is None:
        return shell(sizes_of(self), None, dtype or self._dtype, self.device)
    if is_coo(self):
        array = scattered(self)
    else:
        from rushlight.opset.sparse.compressed import expanded

        array = expanded(self)
    return converted(wrap(array, self._dtype), dtype or self._dtype)


@sparse_composite(
    "to_dense(Tensor self, ScalarType? dtype=None, *, bool? masked_grad=None) -> Tensor",
    function=False,
    samples=any_samples,
)
def to_dense(self: Any, dtype: Any = None, masked_grad: Any = None) -> Any:
    if is_sparse(self):
        return call(to_dense_op, (self, dtype, masked_grad))
    return self if dtype is None else self.to(dtype)


def block_of(tensor: Any) -> Any:
    """The block sizes of a block layout, as `to_sparse` takes them; None for others."""
    if tensor.layout not in (devices.sparse_bsr, devices.sparse_bsc):
        return None
    from rushlight.opset.sparse.compressed import block_sizes

    return list(block_sizes(tensor))


@sparse_composite(
    "to_dense_backward(Tensor grad, Tensor input, bool? masked_grad=None) -> Tensor",
    method=False,
    samples=lambda make: [(make(3, 4), coo_sample(make, 3, 4))],
)
def to_dense_backward(grad: Any, input: Any, masked_grad: Any = None) -> Any:
    if not is_sparse(input):
        return grad
    masked = masked_grad is None or masked_grad
    if is_coo(input):
        if masked:
            # Masked gradients take it that no element is given twice.
            return grad.sparse_mask(input.detach().coalesce())
        return grad.to_sparse(sparse_dims(input))
    if masked:
        return grad.sparse_mask(input.detach())
    return grad.to_sparse(layout=input.layout, blocksize=block_of(input), dense_dim=dims(input)[1])


def to_sparse_grad(grad: Any, self_meta: Any) -> Any:
    """The gradient in the layout that the converted tensor had."""
    if self_meta.layout is devices.strided:
        return grad if grad.layout is devices.strided else grad.to_dense()
    if grad.layout is self_meta.layout:
        return grad
    block = None
    if self_meta.layout in (devices.sparse_bsr, devices.sparse_bsc):
        block = self_meta.blocksize
    return grad.to_sparse(layout=self_meta.layout, blocksize=block)


to_sparse_dim = native(
    "_to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor",
    function=False,
    vjp=to_sparse_grad,
    samples=lambda make: [(make(2, 3), 1), (make.strided(2, 3), 2)],
)


@to_sparse_dim.kernel
def _(self: Any, sparse_dim: int) -> Any:
    if is_sparse(self):
        return coo_of(self)
    return dense_to_coo(self, sparse_dim)


def dense_to_coo(self: Any, sparse_dim: int) -> Any:
    if sparse_dim > self.dim() or sparse_dim < 0:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.dim()}] range, but "
            f"{sparse_dim} is given"
        )
    if sparse_dim == 0 and self.dim() > 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    indices, values = specified(values_of(self), sparse_dim)
    return make_coo(indices, values, self.shape, True)


def coo_of(self: Any) -> Any:
    """A sparse tensor of any layout as COO."""
    if is_coo(self):
        return self
    from rushlight.opset.sparse.compressed import compressed_to_coo

    return compressed_to_coo(self)


def same_sparse_dim(self: Any, sparse_dim: int) -> bool:
    """Whether a conversion to COO changes nothing; refuses what cannot be done."""
    if not is_sparse(self):
        return False
    if sparse_dim != dims(self)[0]:
        name = layout_name(self)
        raise RuntimeError(
            f"to_sparse: conversion from {name} to Sparse with sparse_dim argument "
            "!=self.sparse_dim() is not supported"
        )
    return is_coo(self)


@sparse_composite(
    "to_sparse.sparse_dim(Tensor self, int sparse_dim) -> Tensor",
    function=False,
    samples=lambda make: [(make(2, 3), 1), (make(2, 3), 2)],
)
def to_sparse_by_dim(self: Any, sparse_dim: int) -> Any:
    if same_sparse_dim(self, sparse_dim):
        return self
    return call(to_sparse_dim, (self, sparse_dim))


to_sparse_op = native(
    "_to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, "
    "int? dense_dim=None) -> Tensor",
    function=False,
    node_index=1,
    vjp=to_sparse_grad,
    samples=lambda make: [(make(2, 3),), sample(make(2, 2), layout=devices.sparse_csr)],
)


@to_sparse_op.kernel
def _(self: Any, layout: Any, blocksize: Any, dense_dim: Any) -> Any:
    wanted = layout or devices.sparse_coo
    if wanted is devices.sparse_coo:
        if is_sparse(self):
            return coo_of(self)
        return dense_to_coo(self, self.dim() - (dense_dim or 0))
    from rushlight.opset.sparse.compressed import to_compressed

    return to_compressed(self, wanted, blocksize, dense_dim)


@sparse_composite(
    "to_sparse(Tensor self, *, Layout? layout=None, int[2]? blocksize=None, "
    "int? dense_dim=None) -> Tensor",
    function=False,
    samples=lambda make: [(make(2, 3),), sample(make(2, 2), layout=devices.sparse_csr)],
)
def to_sparse(self: Any, layout: Any = None, blocksize: Any = None, dense_dim: Any = None) -> Any:
    wanted = layout or devices.sparse_coo
    check_block_request(layout_name(self), wanted, blocksize)
    if wanted is self.layout and (
        wanted is not devices.sparse_bsr and wanted is not devices.sparse_bsc
    ):
        return self
    if wanted is self.layout and block_of(self) == list(blocksize):
        return self
    if wanted is devices.strided:
        return self.to_dense()
    return call(to_sparse_op, (self, layout, blocksize, dense_dim))


def check_block_request(source: str, layout: Any, blocksize: Any) -> None:
    blocked = layout in (devices.sparse_bsr, devices.sparse_bsc)
    if blocked == (blocksize is not None):
        return
    raise RuntimeError(
        f"dense_to_sparse: conversion from {source} to {LAYOUT_NAMES[layout.name]} "
        f"{'without' if blocked else 'with'} blocksize argument given is not supported"
    )


# -- masking ---------------------------------------------------------------------------------------


def looked_up(tensor: Any, indices: Any, sparse_dim: int) -> Any:
    """Values of a COO tensor at index columns; zero where it specifies none."""
    tensor = coalesced(tensor)
    own, values = index_array(tensor), value_array(tensor)
    sizes = tuple(tensor.shape)[:sparse_dim]
    keys, wanted = linear_keys(own, sizes), linear_keys(indices, sizes)
    result = np.zeros((wanted.size, *values.shape[1:]), values.dtype)
    if keys.size:
        places = np.searchsorted(keys, wanted)
        places[places == keys.size] = 0
        found = keys[places] == wanted
        result[found] = values[places[found]]
    return result


def masked_by(self: Any, mask: Any) -> Any:
    if not geometry.same_sizes(tuple(self.shape), tuple(mask.shape)):
        raise RuntimeError(
            "sparse_mask(): operands have incompatible sizes; self has size "
            f"{geometry.show(self.shape)} but mask has size {geometry.show(mask.shape)}"
        )
    if not is_sparse(mask):
        raise error("RL0508", NotImplementedError, layout=mask.layout)
    if self is mask:
        return self._alias(share_counter=False)
    if not is_coo(mask):
        from rushlight.opset.sparse.compressed import masked_by_compressed

        return masked_by_compressed(self, mask)
    indices = index_array(mask)
    if is_sparse(self):
        values = looked_up(coo_of(self), indices, sparse_dims(mask))
    else:
        values = gathered(values_of(self), indices)
    return with_values(mask, dense_of(values))


sparse_mask = native(
    "sparse_mask(Tensor self, Tensor mask) -> Tensor",
    function=False,
    vjp={"self": lambda grad, mask, self_meta: sparse_mask_grad(grad, mask, self_meta)},
    jvp=linear_in("self"),
    kernel=masked_by,
    samples=lambda make: [(make(3, 4), coo_sample(make, 3, 4))],
)


def sparse_mask_grad(grad: Any, mask: Any, self_meta: Any) -> Any:
    masked = grad.sparse_mask(mask)
    if self_meta.layout is devices.strided:
        return masked.to_dense()
    return (
        masked if masked.layout is self_meta.layout else masked.to_sparse(layout=self_meta.layout)
    )


native(
    "_sparse_mask_projection(Tensor self, Tensor mask, bool accumulate_matches=False) -> Tensor",
    function=False,
    vjp={"self": lambda grad, mask, self_meta: sparse_mask_grad(grad, mask, self_meta)},
    kernel=lambda self, mask, accumulate_matches: masked_by(self, mask),
    samples=lambda make: [(coo_sample(make, 3, 4), coo_sample(make, 3, 4))],
)


# -- in place --------------------------------------------------------------------------------------

UNTRACKED = {
    "vjp": refuse("it gives the tensor another size"),
    "jvp": refuse("it gives the tensor another size"),
}


def resized(self: Any, size: Any, sparse_dim: int, dense_dim: int, clear: bool) -> Any:
    expect_layout(self, "sparse_resize_")
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    parts = parts_of(self)
    if clear or parts.indices.shape[1] == 0:
        return replace_parts(self, empty_coo(size, sparse_dim, self._dtype))
    keeps = dims(self) == (sparse_dim, dense_dim) and all(
        new >= old for new, old in zip(size, self.shape, strict=True)
    )
    if not keeps:
        raise RuntimeError(
            "sparse_resize_: changing the number of dims or shrinking a dim of a non-empty sparse "
            "tensor is not supported; use sparse_resize_and_clear_"
        )
    values = parts.values
    if not geometry.same_sizes(tuple(size[sparse_dim:]), tuple(self.shape[sparse_dim:])):
        # torch: the numbers stay in their order in memory, not at their places.
        values = values.clone().resize_((values.shape[0], *size[sparse_dim:]))
    made = make_coo(parts.indices, values, size, parts.coalesced)
    return replace_parts(self, made)


for name, clears in (("sparse_resize_", False), ("sparse_resize_and_clear_", True)):

    def resize_kernel(
        self: Any, size: Any, sparse_dim: int, dense_dim: int, clears: bool = clears
    ) -> Any:
        return resized(self, tuple(size), sparse_dim, dense_dim, clears)

    native(
        f"{name}(Tensor(a!) self, int[] size, int sparse_dim, int dense_dim) -> Tensor(a!)",
        function=False,
        kernel=resize_kernel,
        samples=lambda make: [(coo_sample(make, 3, 4), (3, 4), 2, 0)],
        **UNTRACKED,
    )


copy_sparse = native(
    "copy_sparse_to_sparse_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)",
    method=False,
    function=False,
    vjp=refuse("copy_ stands before it and has the gradient"),
    jvp=refuse("copy_ stands before it and has the tangent"),
    kernel=lambda self, src, non_blocking: replace_parts(self, copied_parts(src)),
    samples=lambda make: [(coo_sample(make, 3, 4), coo_sample(make, 3, 4))],
)


# -- sparse gradients of lookups -------------------------------------------------------------------


def gather_columns(self: Any, dim: int, index: Any) -> Any:
    """Index columns of the elements that `gather` reads, in the order of its result."""
    if not self.dim():
        return index.new_zeros((0, index.numel()), dtype=dtypes.int64)
    index = index.to(dtypes.int64)
    if not index.dim():
        return index.reshape((1, 1))
    dim = geometry.wrap_dim(dim, index.dim())
    rows = []
    for axis, size in enumerate(index.shape):
        places = index
        if axis != dim:
            rest = (1,) * (index.dim() - axis - 1)
            places = aten.arange(size, device=index.device).view((-1, *rest)).expand(index.shape)
        rows.append(places.reshape((-1,)))
    return aten.stack(rows)


@sparse_composite(
    "_gather_sparse_backward(Tensor self, int dim, Tensor index, Tensor grad) -> Tensor",
    method=False,
    samples=lambda make: [(make(3, 4), 0, make.index(2, 4, below=3), make(2, 4))],
)
def gather_sparse_backward(self: Any, dim: int, index: Any, grad: Any) -> Any:
    columns = gather_columns(self, dim, index)
    return aten._sparse_coo_tensor_unsafe(columns, grad.reshape((-1,)), tuple(self.shape))


@sparse_composite(
    "embedding_sparse_backward(Tensor grad, Tensor indices, int num_weights, int padding_idx, "
    "bool scale_grad_by_freq) -> Tensor",
    method=False,
    samples=lambda make: [(make(3, 2), make.index(3, below=4), 4, -1, False)],
)
def embedding_sparse_backward(
    grad: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    if padding_idx != -1:
        kept = indices != padding_idx
        indices = indices[kept]
        grad = grad[kept]
    width = grad.shape[-1]
    rows = indices.reshape((1, -1)).to(dtypes.int64)
    return aten._sparse_coo_tensor_unsafe(
        rows, grad.reshape((indices.numel(), width)), (num_weights, width)
    )
