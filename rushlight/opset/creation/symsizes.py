"""Sizes, strides and offsets as operators: what a graph computes a symbolic size with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import geometry
from rushlight.core.tensor import sizes_of, strides_of
from rushlight.opset.kinds import Native
from rushlight.opset.registry import op

FACT = Native("FACT", "value", recompute=True)


def fact(schema: str, kernel: Callable[..., Any]) -> Any:
    takes_dim = "dim" in schema
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
            else [(make.strided(2, 3),), (make(),)]
        ),
        errors=(lambda make: [(IndexError, (make(2), 3))]) if takes_dim else None,
    )


def entry(values: Any, dim: int) -> Any:
    return values[geometry.wrap_dim(dim, len(values))]


fact("sym_size(Tensor self) -> SymInt[]", lambda self: tuple(self.shape))
fact("sym_size.int(Tensor self, int dim) -> SymInt", lambda self, dim: entry(self.shape, dim))
fact("sym_stride(Tensor self) -> SymInt[]", lambda self: strides_of(self))
fact(
    "sym_stride.int(Tensor self, int dim) -> SymInt",
    lambda self, dim: entry(strides_of(self), dim),
)
fact("sym_numel(Tensor self) -> SymInt", lambda self: geometry.numel(sizes_of(self)))
fact("sym_storage_offset(Tensor self) -> SymInt", lambda self: self._offset)
