"""Facts of tensors as operators: what a graph computes a symbolic size with, and what tensors whose
class answers for them ask it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import geometry
from rushlight.core.device import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    memory_format,
)
from rushlight.core.tensor import Tensor, sizes_of, strides_of
from rushlight.opset.kinds import Native
from rushlight.opset.registry import op

ORDERS = {
    channels_last: geometry.CHANNELS_LAST_ORDER,
    channels_last_3d: geometry.CHANNELS_LAST_3D_ORDER,
}
FACT = Native("FACT", "value", recompute=True)


def fact(schema: str, kernel: Callable[..., Any]) -> Any:
    takes_dim = "int dim" in schema
    takes_format = "MemoryFormat" in schema
    return op(
        schema,
        kind=FACT,
        method=False,
        function=False,
        kernel=kernel,
        shape=kernel,
        # A batched tensor has the geometry of one sample.
        batch=lambda level, op, *args: kernel(*args),
        samples=lambda make: (
            [(make.strided(2, 3), 1), (make(4), -1)]
            if takes_dim
            else [(make(2, 3, 4, 5), channels_last)]
            if takes_format
            else [(make.strided(2, 3),), (make(),)]
        ),
        errors=(lambda make: [(IndexError, (make(2), 3))]) if takes_dim else None,
    )


def entry(values: Any, dim: int) -> Any:
    return values[geometry.wrap_dim(dim, len(values))]


def is_contiguous(self: Tensor, memory_format: memory_format = contiguous_format) -> bool:
    return geometry.is_contiguous_in(sizes_of(self), strides_of(self), memory_format)


def reads_like(self: Tensor, memory_format: memory_format) -> bool:
    order = ORDERS.get(memory_format)
    sizes = sizes_of(self)
    if order is None or len(sizes) != len(order):
        return False
    return geometry.strides_ascend_in_order(sizes, strides_of(self), order)


fact("sym_size(Tensor self) -> SymInt[]", lambda self: tuple(self.shape))
fact("sym_size.int(Tensor self, int dim) -> SymInt", lambda self, dim: entry(self.shape, dim))
fact("sym_stride(Tensor self) -> SymInt[]", lambda self: strides_of(self))
fact(
    "sym_stride.int(Tensor self, int dim) -> SymInt",
    lambda self, dim: entry(strides_of(self), dim),
)
fact("sym_numel(Tensor self) -> SymInt", lambda self: geometry.numel(sizes_of(self)))
fact("sym_storage_offset(Tensor self) -> SymInt", lambda self: self._offset)
fact("size(Tensor self) -> int[]", lambda self: tuple(self.shape))
fact("size.int(Tensor self, int dim) -> int", lambda self, dim: entry(self.shape, dim))
fact("stride(Tensor self) -> int[]", lambda self: strides_of(self))
fact("stride.int(Tensor self, int dim) -> int", lambda self, dim: entry(strides_of(self), dim))
fact("dim(Tensor self) -> int", lambda self: len(sizes_of(self)))
fact("numel(Tensor self) -> int", lambda self: geometry.numel(sizes_of(self)))
fact("is_contiguous(Tensor self) -> bool", is_contiguous)
fact("is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool", is_contiguous)
fact(
    "is_strides_like_format(Tensor self, MemoryFormat memory_format) -> bool",
    reads_like,
)
fact(
    "is_non_overlapping_and_dense(Tensor self) -> bool",
    lambda self: geometry.is_non_overlapping_and_dense(sizes_of(self), strides_of(self)),
)
fact("prim::device(Tensor a) -> Device", lambda a: a.device)
fact("prim::layout(Tensor a) -> Layout", lambda a: a.layout)
fact("prim::dtype(Tensor a) -> int", lambda a: a.dtype.code)
