"""Batch rules of views that take more than a dim's shift: where one sample's memory ends, which
view stands for another."""

from __future__ import annotations

from typing import Any

from rushlight.core import geometry
from rushlight.core.tensor import strides_of
from rushlight.opset.registry import find

__all__ = ["as_strided", "expand", "permute", "squeeze", "t", "view"]


def as_strided(level: Any, op: Any, self: Any, size: Any, stride: Any, offset: Any) -> Any:
    """Within the memory that one sample covers: beyond it lie the other samples."""
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
