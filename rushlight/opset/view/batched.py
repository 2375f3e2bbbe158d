"""Batch rules of views that take more than a dim's shift: where one sample's memory ends, which
view stands for another."""

from __future__ import annotations

import math
from typing import Any

from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.batching import show
from rushlight.core.device import contiguous_format
from rushlight.core.tensor import strides_of
from rushlight.opset.registry import find

__all__ = ["as_strided", "expand", "permute", "resize", "squeeze", "t", "view"]


def as_strided(level: Any, op: Any, self: Any, size: Any, stride: Any, offset: Any) -> Any:
    """Within the memory that one sample covers: beyond it lie the other samples."""
    if len(size) != len(stride):
        raise RuntimeError(
            "Tensor.as_strided(size, stride, ...): size and stride must have the same length! Got "
            f"size {list(size)} and stride {list(stride)}"
        )
    value = level.front(self)
    start = value.storage_offset()
    low = start if offset is None else offset
    own = geometry.storage_extent(tuple(self.shape), strides_of(self), 0)
    high = low + geometry.storage_extent(tuple(size), tuple(stride), 0)
    if high > low and (low < start or high > start + own):
        raise RuntimeError(
            f"result = tensor.as_strided({list(size)}, {list(stride)}, {low}) can access memory "
            f"outside of `tensor`. `result` can access some memory in range [{low}, {high}], but "
            f"`tensor` can only access some memory in range [{start}, {start + own}]. This is not "
            "supported inside of vmap, please try to rewrite the `as_strided` call as a sequence "
            "of PyTorch view operations"
        )
    moved = (value, (level.size, *size), (value.stride(0), *stride), low)
    return level.wrap(level.below(op, moved))


def resize(level: Any, op: Any, self: Any, size: Any, memory_format: Any) -> Any:
    if memory_format not in (None, contiguous_format):
        raise RuntimeError("resize_: batching rule only supports None or Contiguous MemoryFormat")
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    value = self._value
    if self._axis != 0 or not value.is_contiguous():
        raise error("RL0604", op=op.name(), reason="the samples do not lie one after another.")

    def change() -> None:
        before = value.reshape((level.size, -1)).clone() if value.numel() else None
        wanted = (level.size, *size)
        if before is not None and math.prod(size) <= before.shape[1]:
            # The samples stay where they are: views of them may exist.
            inner = geometry.contiguous_strides(tuple(size))
            value.as_strided_(wanted, (before.shape[1], *inner))
            return
        value.resize_(wanted)
        if before is not None:
            value.reshape((level.size, -1))[:, : before.shape[1]].copy_(before)

    level.run(change)
    show(self, value, 0)
    return self


def squeeze(level: Any, op: Any, self: Any, dim: Any = None) -> Any:
    rank = self.dim()
    chosen = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    dims = [level.shift(entry, max(rank, 1)) for entry in chosen]
    dims = [entry for entry in dims if rank and self.shape[entry - 1] == 1]
    named = find("squeeze" if op.is_view_op else "squeeze_copy", "dims")
    return level.wrap(level.below(named, (level.front(self), tuple(dims))))


def t(level: Any, op: Any, self: Any) -> Any:
    value, rank = level.front(self), self.dim()
    copies = "" if op.is_view_op else "_copy"
    if rank > 2:
        return level.loop(op, (self,))
    if rank == 2:
        return level.wrap(level.below(find("transpose" + copies, "int"), (value, 1, 2)))
    return level.wrap(level.below(find("alias" + copies), (value,)))


def expand(level: Any, op: Any, self: Any, size: Any, implicit: bool) -> Any:
    missing = len(size) - self.dim()
    if missing < 0 or any([entry == -1 for entry in size[:missing]]):
        return level.loop(op, (self, size, implicit))
    moved = (level.front(self, len(size)), (level.size, *size), implicit)
    return level.wrap(level.below(op, moved))


def permute(level: Any, op: Any, self: Any, dims: Any) -> Any:
    rank = self.dim()
    if len(dims) != rank:
        return level.loop(op, (self, dims))
    moved = (0, *[level.shift(dim, rank) for dim in dims])
    return level.wrap(level.below(op, (level.front(self), moved)))


def view(level: Any, op: Any, self: Any, size: Any) -> Any:
    sizes = (level.size, *geometry.infer_size(tuple(size), self.numel()))
    return level.wrap(level.below(op, (level.front(self), sizes)))
