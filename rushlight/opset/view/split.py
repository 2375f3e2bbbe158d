"""Ops that return several views of their argument: `unbind`, `split`, `chunk` and relatives."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import VIEW
from rushlight.opset.registry import composite, op, view
from rushlight.opset.view.gradients import (
    split_backward,
    split_with_sizes_backward,
    unbind_backward,
)
from rushlight.opset.view.view import slice_

unbind = view(
    "unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]",
    vjp=lambda grads, self_meta, dim: unbind_backward(grads, self_meta, dim),
    inverse=lambda source, changed, number, dim: source.select_scatter(changed, dim, number),
)


@unbind.shape
def _(self: Any, dim: int) -> Any:
    sizes, strides = sizes_of(self), strides_of(self)
    if not sizes:
        dim = geometry.wrap_dim(dim, 0)
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = geometry.wrap_dim(dim, len(sizes))
    kept, steps = geometry.without(sizes, dim), geometry.without(strides, dim)
    stride, offset = strides[dim], self._offset
    return [(kept, steps, offset + index * stride) for index in range(sizes[dim])]


unbind.samples = lambda make: [
    (make(2, 3),),
    (make.strided(2, 3), -1),
    (make.expanded(2, 3), 0),
    (make(0, 2),),
]
unbind.errors = lambda make: [(IndexError, (make(),)), (IndexError, (make(2), 1))]


def parts(self: Any, lengths: Any, dim: int) -> list[Any]:
    """Geometries of consecutive slices along a dimension."""
    sizes, strides = sizes_of(self), strides_of(self)
    stride, offset = strides[dim], self._offset
    found = []
    for length in lengths:
        found.append(((*sizes[:dim], length, *sizes[dim + 1 :]), strides, offset))
        offset = offset + length * stride
    return found


def split_lengths(size: Any, split_size: Any) -> list[Any]:
    if split_size < 0:
        raise RuntimeError(
            f"split expects split_size be non-negative, but got split_size={split_size}"
        )
    if split_size == 0:
        if size != 0:
            raise RuntimeError(
                f"split_size can only be 0 if dimension size is 0, but got dimension size of {size}"
            )
        return [0]
    # How many parts there are is settled here, whatever the sizes are.
    count = int(geometry.at_least_one((size + split_size - 1) // split_size))
    return [split_size] * (count - 1) + [size - split_size * (count - 1)]


def with_part(source: Any, changed: Any, lengths: Any, number: int, dim: int) -> Any:
    """A tensor with one of its consecutive slices replaced."""
    start = sum(lengths[:number])
    return source.slice_scatter(changed, dim, start, start + lengths[number])


split_tensor = view(
    "split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
    inverse=lambda source, changed, number, split_size, dim: with_part(
        source, changed, split_lengths(source.shape[dim], split_size), number, dim
    ),
    vjp=lambda grads, self_meta, split_size, dim: split_backward(grads, self_meta, split_size, dim),
)
unsafe_split = op(
    "unsafe_split.Tensor(Tensor self, SymInt split_size, int dim=0) -> Tensor[]",
    kind=VIEW,
    vjp=lambda grads, self_meta, split_size, dim: split_backward(grads, self_meta, split_size, dim),
)


@split_tensor.shape
def _(self: Any, split_size: Any, dim: int) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = geometry.wrap_dim(dim, len(sizes))
    return parts(self, split_lengths(sizes[dim], split_size), dim)


unsafe_split.rules["shape"] = split_tensor.rules["shape"]
for record in (split_tensor, unsafe_split):
    record.samples = lambda make: [
        (make(5, 2), 2),
        (make.strided(2, 3), 2, -1),
        (make(4), 4),
        (make(0, 2), 0),
        (make(2), 5),
    ]
split_tensor.errors = lambda make: [
    (RuntimeError, (make(4), -1)),
    (RuntimeError, (make(4), 0)),
    (RuntimeError, (make(), 1)),
]

split_with_sizes = view(
    "split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]",
    inverse=lambda source, changed, number, split_sizes, dim: with_part(
        source, changed, split_sizes, number, dim
    ),
    vjp=lambda grads, self_meta, split_sizes, dim: split_with_sizes_backward(
        grads, self_meta, split_sizes, dim
    ),
)
unsafe_split_with_sizes = op(
    "unsafe_split_with_sizes(Tensor self, SymInt[] split_sizes, int dim=0) -> Tensor[]",
    kind=VIEW,
    vjp=lambda grads, self_meta, split_sizes, dim: split_with_sizes_backward(
        grads, self_meta, split_sizes, dim
    ),
)


@split_with_sizes.shape
def _(self: Any, split_sizes: Any, dim: int) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = geometry.wrap_dim(dim, len(sizes))
    total: Any = 0
    for length in split_sizes:
        if length < 0:
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={geometry.show(split_sizes)}"
            )
        total = total + length
    if geometry.decided(total != sizes[dim]):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {sizes[dim]} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={geometry.show(split_sizes)}"
        )
    return parts(self, split_sizes, dim)


unsafe_split_with_sizes.rules["shape"] = split_with_sizes.rules["shape"]
for record in (split_with_sizes, unsafe_split_with_sizes):
    record.samples = lambda make: [
        (make(5, 2), (2, 3)),
        (make.strided(2, 3), (1, 0, 2), -1),
        (make(0, 2), ()),
    ]
split_with_sizes.errors = lambda make: [
    (RuntimeError, (make(4), (1, 2))),
    (RuntimeError, (make(4), (-1, 5))),
]


@composite("split.sizes(Tensor(a -> *) self, SymInt[] split_size, int dim=0) -> Tensor(a)[]")
def split_sizes(self: Any, split_size: Any, dim: int) -> Any:
    return list(self.split_with_sizes(split_size, dim))


def chunked(self: Any, chunks: int, dim: int, unsafe: bool) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = sizes[geometry.wrap_dim(dim, len(sizes))]
    length = (size + chunks - 1) // chunks
    if length == 0 and size == 0:
        lengths = (0,) * chunks
        return list(
            self.unsafe_split_with_sizes(lengths, dim)
            if unsafe
            else self.split_with_sizes(lengths, dim)
        )
    return list(self.unsafe_split(length, dim) if unsafe else self.split(length, dim))


@composite("chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]")
def chunk(self: Any, chunks: int, dim: int) -> Any:
    return chunked(self, chunks, dim, False)


@composite("unsafe_chunk(Tensor self, int chunks, int dim=0) -> Tensor[]")
def unsafe_chunk(self: Any, chunks: int, dim: int) -> Any:
    return chunked(self, chunks, dim, True)


for record in (chunk, unsafe_chunk):
    record.samples = lambda make: [
        (make(5, 2), 2),
        (make.strided(2, 4), 3, 1),
        (make(0, 2), 3),
    ]
chunk.errors = lambda make: [(RuntimeError, (make(4), 0)), (RuntimeError, (make(), 1))]


# Before the others: a tensor of one integer would do as a number of sections too.
@composite(
    "tensor_split.tensor_indices_or_sections(Tensor(a -> *) self, "
    "Tensor tensor_indices_or_sections, int dim=0) -> Tensor(a)[]",
    tags=("data_dependent_output",),
)
def tensor_split_tensor(self: Any, tensor_indices_or_sections: Any, dim: int) -> Any:
    given = tensor_indices_or_sections
    if given._dtype.name != "int64":
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to have dtype of long, but got "
            f"{given._dtype.scalar_type_name}"
        )
    if given.dim() > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
            f"one-dimensional tensor, but got a tensor with {given.dim()} dims"
        )
    return list(self.tensor_split(given.item() if given.dim() == 0 else given.tolist(), dim))


@composite("tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]")
def tensor_split(self: Any, sections: Any, dim: int) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = geometry.wrap_dim(dim, len(sizes))
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    least, extra = sizes[dim] // sections, sizes[dim] % sections
    pieces, start = [], 0
    for index in range(sections):
        length = least + (1 if index < extra else 0)
        pieces.append(call(slice_, (self, dim, start, start + length, 1)))
        start = start + length
    return pieces


@composite("tensor_split.indices(Tensor(a -> *) self, SymInt[] indices, int dim=0) -> Tensor(a)[]")
def tensor_split_indices(self: Any, indices: Any, dim: int) -> Any:
    sizes = self.shape
    if not sizes:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = geometry.wrap_dim(dim, len(sizes))
    pieces, start = [], 0
    for end in indices:
        pieces.append(call(slice_, (self, dim, start, end, 1)))
        start = end
    pieces.append(call(slice_, (self, dim, start, sizes[dim], 1)))
    return pieces


tensor_split.samples = lambda make: [(make(5, 2), 3), (make.strided(2, 3), 2, 1)]
tensor_split_indices.samples = lambda make: [
    (make(5, 2), (1, 3)),
    (make.strided(2, 3), (2, 1), 1),
    (make(3), (-1, 9)),
]


def even_split(self: Any, name: str, dim: int, sections: Any) -> Any:
    if sections <= 0 or geometry.decided(self.shape[dim] % sections != 0):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension "
            f"{self.shape[dim]} is not divisible by the split_size {sections}!"
        )
    return list(self.tensor_split(sections, dim))


def checked_rank(self: Any, name: str, least: int) -> None:
    if self.dim() < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
            f"with {self.dim()} dimensions!"
        )


@composite("hsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def hsplit(self: Any, sections: Any) -> Any:
    checked_rank(self, "hsplit", 1)
    return even_split(self, "hsplit", 0 if self.dim() == 1 else 1, sections)


@composite("hsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def hsplit_array(self: Any, indices: Any) -> Any:
    checked_rank(self, "hsplit", 1)
    return list(self.tensor_split(indices, 0 if self.dim() == 1 else 1))


@composite("vsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def vsplit(self: Any, sections: Any) -> Any:
    checked_rank(self, "vsplit", 2)
    return even_split(self, "vsplit", 0, sections)


@composite("vsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def vsplit_array(self: Any, indices: Any) -> Any:
    checked_rank(self, "vsplit", 2)
    return list(self.tensor_split(indices, 0))


@composite("dsplit.int(Tensor(a -> *) self, int sections) -> Tensor(a)[]")
def dsplit(self: Any, sections: Any) -> Any:
    checked_rank(self, "dsplit", 3)
    return even_split(self, "dsplit", 2, sections)


@composite("dsplit.array(Tensor(a -> *) self, int[] indices) -> Tensor(a)[]")
def dsplit_array(self: Any, indices: Any) -> Any:
    checked_rank(self, "dsplit", 3)
    return list(self.tensor_split(indices, 2))


hsplit.samples = lambda make: [(make(4), 2), (make(2, 4), 2)]
hsplit_array.samples = lambda make: [(make(4), (1, 3)), (make(2, 4), (1,))]
vsplit.samples = lambda make: [(make(4, 2), 2)]
vsplit_array.samples = lambda make: [(make(4, 2), (1, 3))]
dsplit.samples = lambda make: [(make(1, 2, 4), 2)]
dsplit_array.samples = lambda make: [(make(1, 2, 4), (1, 3))]
hsplit.errors = lambda make: [(RuntimeError, (make(4), 3)), (RuntimeError, (make(), 1))]
split_sizes.samples = lambda make: [(make(5, 2), (2, 3)), (make.strided(2, 3), (1, 2), 1)]
tensor_split_tensor.samples = lambda make: [
    (make(5, 2), make.ints(low=2, high=2)),
    (make(5, 2), make.ints(1, low=2, high=2)),
]
