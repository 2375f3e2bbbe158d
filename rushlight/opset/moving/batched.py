"""Batch rules of ops that move elements about, over ops that have rules themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.opset import functions as aten
from rushlight.opset.window.batched import as_images

if TYPE_CHECKING:
    from rushlight.core.batching import VmapLevel
    from rushlight.core.op import OpOverload

__all__ = ["block_diag", "channel_shuffle", "roll", "trace", "view_copy"]


def block_diag(level: VmapLevel, op: OpOverload, tensors: Any) -> Any:
    """Every block in a band of zeros, the bands below each other."""
    if op.out_positions or any([value.dtype is not tensors[0].dtype for value in tensors]):
        return level.loop(op, (tensors,))
    blocks = [aten.atleast_2d(value) for value in tensors]
    width = sum([block.shape[1] for block in blocks])
    bands, before = [], 0
    for block in blocks:
        after = width - before - block.shape[1]
        bands.append(aten.constant_pad_nd(block, (before, after)))
        before = before + block.shape[1]
    return aten.cat(bands)


def channel_shuffle(level: VmapLevel, op: OpOverload, self: Any, groups: Any) -> Any:
    if op.out_positions or not level.size or self.dim() < 3:
        return level.loop(op, (self, groups))
    return as_images(level, op, (self, groups), (0,))


def roll(level: VmapLevel, op: OpOverload, self: Any, shifts: Any, dims: Any) -> Any:
    if op.out_positions or not shifts or (not dims and len(shifts) != 1):
        return level.loop(op, (self, shifts, dims))
    if self.dim() == 0:
        return self.clone()
    if not dims:
        return aten.roll(self.reshape((-1,)), shifts, [0]).reshape(self.shape)
    moved = tuple([level.shift(dim, self.dim()) for dim in dims])
    return level.wrap(level.below(op, (level.front(self), shifts, moved)))


def trace(level: VmapLevel, op: OpOverload, self: Any) -> Any:
    if op.out_positions or self.dim() != 2:
        return level.loop(op, (self,))
    return self.diagonal().sum()


def view_copy(level: VmapLevel, op: OpOverload, self: Any, size: Any) -> Any:
    if op.out_positions:
        return level.loop(op, (self, size))
    return self.reshape(size).clone()
