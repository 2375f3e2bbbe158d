"""Views, copies of views and rearrangements as programs over core ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rushlight.aot.decompositions.texts import as_tensor, cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import geometry
from rushlight.core.device import contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten
from rushlight.symbolic.numbers import IntLike

__all__ = ["split_sizes", "swapped"]


@program("detach")
def detach(self: Tensor) -> Any:
    return aten.alias(self)


@program("alias_copy", "detach_copy", "lift_fresh_copy")
def alias_copy(self: Tensor) -> Any:
    return aten.clone(self)


@program("_reshape_alias")
def _reshape_alias(self: Tensor, size: Sequence[IntLike], stride: Sequence[IntLike]) -> Any:
    return aten.view(self, size)


@program("_unsafe_view")
def _unsafe_view(self: Tensor, size: Sequence[IntLike]) -> Any:
    return aten.view(self, size)


@program("view_copy")
def view_copy(self: Tensor, size: Sequence[IntLike]) -> Any:
    return aten.clone(aten.view(self, size))


def swapped(ndim: int, dim0: int, dim1: int) -> list[int]:
    """The order of dims in which two have changed places."""
    order = list(range(ndim))
    if ndim:
        dim0, dim1 = geometry.wrap_dim(dim0, ndim), geometry.wrap_dim(dim1, ndim)
        order[dim0], order[dim1] = order[dim1], order[dim0]
    return order


@program("transpose.int")
def transpose(self: Tensor, dim0: int, dim1: int) -> Any:
    return aten.permute(self, swapped(self.dim(), dim0, dim1))


@program("t")
def t(self: Tensor) -> Any:
    return aten.permute(self, [1, 0]) if self.dim() == 2 else aten.alias(self)


@program("squeeze")
def squeeze(self: Tensor) -> Any:
    return aten.squeeze(self, [dim for dim, size in enumerate(self.shape) if size == 1])


@program("transpose_copy.int")
def transpose_copy(self: Tensor, dim0: int, dim1: int) -> Any:
    return aten.clone(transpose(self, dim0, dim1))


@program("t_copy")
def t_copy(self: Tensor) -> Any:
    return aten.clone(t(self))


@program("squeeze_copy")
def squeeze_copy(self: Tensor) -> Any:
    return aten.clone(squeeze(self))


def copied(view: str) -> Any:
    """The copy of a view that is a core op."""

    def program_of_copy(self: Tensor, *args: Any, **options: Any) -> Any:
        return aten.clone(getattr(aten, view)(self, *args, **options))

    return program_of_copy


for name, overloads in (
    ("squeeze", (".dim", ".dims")),
    ("permute", ("",)),
    ("unsqueeze", ("",)),
    ("expand", ("",)),
    ("diagonal", ("",)),
    ("select", (".int",)),
    ("slice", (".Tensor",)),
):
    for overload in overloads:
        program(f"{name}_copy{overload}")(copied(name))


def split_sizes(size: Any, each: Any) -> list[Any]:
    """The lengths of pieces of `each`, the last of which is what is left."""
    if size == 0 or each == 0:
        return [size]
    count = -(-size // each)
    return [each] * (int(count) - 1) + [size - each * (int(count) - 1)]


@program("split.Tensor", "unsafe_split.Tensor")
def split(self: Tensor, split_size: Any, dim: int = 0) -> Any:
    return aten.split_with_sizes(self, split_sizes(self.shape[dim], split_size), dim)


@program("unsafe_split_with_sizes")
def unsafe_split_with_sizes(self: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    return aten.split_with_sizes(self, split_sizes, dim)


@program("split_with_sizes_copy")
def split_with_sizes_copy(self: Tensor, split_sizes: Any, dim: int = 0) -> Any:
    return [aten.clone(part) for part in aten.split_with_sizes(self, split_sizes, dim)]


@program("unbind.int")
def unbind(self: Tensor, dim: int = 0) -> Any:
    return [aten.select(self, dim, index) for index in range(int(self.shape[dim]))]


@program("unbind_copy.int")
def unbind_copy(self: Tensor, dim: int = 0) -> Any:
    return [aten.clone(part) for part in unbind(self, dim)]


@program("unfold")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Any:
    sizes, strides = list(self.shape), list(self.stride())
    if not sizes:
        return aten.as_strided(self, [size], [1])
    dim = geometry.wrap_dim(dimension, len(sizes))
    sizes[dim], taken = (sizes[dim] - size) // step + 1, strides[dim]
    strides[dim] = taken * step
    return aten.as_strided(self, [*sizes, size], [*strides, taken], self.storage_offset())


@program("unfold_copy")
def unfold_copy(self: Tensor, dimension: int, size: int, step: int) -> Any:
    if not self.dim():
        return aten.clone(aten.slice(aten.unsqueeze(self, 0), 0, 0, size))
    dim = geometry.wrap_dim(dimension, self.dim())
    starts = range(0, int(self.shape[dim]) - size + 1, step)
    windows = [aten.slice(self, dim, start, start + size) for start in starts]
    # The elements of a window come last.
    order = [axis for axis in range(self.dim()) if axis != dim] + [dim]
    return stack([aten.permute(window, order) for window in windows], dim)


@program("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    place = geometry.wrap_dim(dim, tensors[0].dim() + 1)
    return aten.cat([aten.unsqueeze(tensor, place) for tensor in tensors], place)


@program("roll")
def roll(self: Tensor, shifts: Any, dims: Any = ()) -> Any:
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not dims:
        flat = roll(aten.view(aten.clone(self, memory_format=contiguous_format), [-1]), shifts, [0])
        return aten.view(flat, self.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = self.shape[dim]
        start = (-shift) % size if size else 0
        self = aten.cat([aten.slice(self, dim, start), aten.slice(self, dim, 0, start)], dim)
    return self


@program("rot90")
def rot90(self: Tensor, k: int = 1, dims: Any = (0, 1)) -> Any:
    turns = k % 4
    if turns == 2:
        return aten.flip(self, list(dims))
    if turns == 0:
        return aten.clone(self, memory_format=contiguous_format)
    order = swapped(self.dim(), *dims)
    turned = aten.flip(aten.permute(self, order), [dims[0 if turns == 1 else 1]])
    return turned


@program("channel_shuffle")
def channel_shuffle(self: Tensor, groups: Any) -> Any:
    batch, channels, *rest = self.shape
    parts = view_or_copy(self, [batch, groups, channels // groups, *rest])
    order = [0, 2, 1, *range(3, self.dim() + 1)]
    return aten.view(
        aten.clone(aten.permute(parts, order), memory_format=contiguous_format), self.shape
    )


def view_or_copy(self: Tensor, size: Sequence[IntLike]) -> Any:
    """A reshape by core ops."""
    source = self if self.is_contiguous() else aten.clone(self, memory_format=contiguous_format)
    return aten.view(source, size)


@program("pixel_shuffle")
def pixel_shuffle(self: Tensor, upscale_factor: int) -> Any:
    *batch, channels, height, width = self.shape
    r, n = upscale_factor, len(batch)
    parts = view_or_copy(self, [*batch, channels // (r * r), r, r, height, width])
    moved = aten.permute(parts, [*range(n), n, n + 3, n + 1, n + 4, n + 2])
    return view_or_copy(
        aten.clone(moved, memory_format=contiguous_format),
        [*batch, channels // (r * r), height * r, width * r],
    )


@program("pixel_unshuffle")
def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Any:
    *batch, channels, height, width = self.shape
    r, n = downscale_factor, len(batch)
    parts = view_or_copy(self, [*batch, channels, height // r, r, width // r, r])
    moved = aten.permute(parts, [*range(n), n, n + 2, n + 4, n + 1, n + 3])
    return view_or_copy(
        aten.clone(moved, memory_format=contiguous_format),
        [*batch, channels * r * r, height // r, width // r],
    )


def places(self: Tensor, rows: Any, columns: Any) -> tuple[Any, Any]:
    """Row numbers as a column, column numbers as a row."""
    row = aten.arange(0, rows, 1, device=self.device)
    column = aten.arange(0, columns, 1, device=self.device)
    return aten.unsqueeze(row, -1), aten.unsqueeze(column, 0)


def triangle(self: Tensor, diagonal: Any, keeps: Any) -> Any:
    row, column = places(self, self.shape[-2], self.shape[-1])
    mask = keeps(column - row, diagonal)
    result = aten.where(mask, self, as_tensor(0, self))
    return aten.clone(result, memory_format=contiguous_format)


@program("tril")
def tril(self: Tensor, diagonal: Any = 0) -> Any:
    return triangle(self, diagonal, aten.le)


@program("triu")
def triu(self: Tensor, diagonal: Any = 0) -> Any:
    return triangle(self, diagonal, aten.ge)


@program("trace")
def trace(self: Tensor) -> Any:
    return aten.sum(aten.diagonal(self), [0])


@program("diag_embed")
def diag_embed(self: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    ndim = self.dim() + 1
    dim1, dim2 = geometry.wrap_dim(dim1, ndim), geometry.wrap_dim(dim2, ndim)
    if dim1 > dim2:
        dim1, dim2, offset = dim2, dim1, -offset
    length = self.shape[-1] + abs(offset)
    filler = aten.full([*self.shape[:-1], abs(offset)], 0, dtype=self.dtype, device=self.device)
    # The diagonal as rows, or columns, of the square, zero elsewhere.
    padded = aten.cat([filler, self] if offset >= 0 else [self, filler], -1)
    column = aten.unsqueeze(padded, -2)
    row_numbers, column_numbers = places(self, length, length)
    mask = aten.eq(column_numbers - row_numbers, offset)
    square = aten.where(mask, column, as_tensor(0, self))
    order = list(range(ndim - 2))
    order.insert(dim1, ndim - 2)
    order.insert(dim2, ndim - 1)
    return aten.clone(aten.permute(square, order), memory_format=contiguous_format)


@program("block_diag")
def block_diag(tensors: Any) -> Any:
    blocks = [
        aten.view(t, [1, -1]) if t.dim() < 2 and t.numel() else aten.view(t, [1, t.numel()])
        if t.dim() < 2 else t
        for t in tensors
    ]  # fmt: skip
    width = sum([block.shape[1] for block in blocks])
    rows, before = [], 0
    for block in blocks:
        after = width - before - block.shape[1]
        rows.append(aten.constant_pad_nd(block, [before, after], 0))
        before += block.shape[1]
    return aten.cat(rows, 0)


@program("take")
def take(self: Tensor, index: Tensor) -> Any:
    flat = view_or_copy(self, [self.numel()])
    if index.dim() == 0:
        return aten.squeeze(aten.index_select(flat, 0, aten.unsqueeze(index, 0)), 0)
    return aten.index(flat, [index])


@program("_unsafe_index.Tensor")
def _unsafe_index(self: Tensor, indices: Tensor) -> Any:
    return aten.index(self, indices)


def pad_positions(self: Tensor, size: Any, before: Any, after: Any) -> Any:
    place = aten.arange(-before, size + after, 1, device=self.device)
    return aten.clamp(place, 0, size - 1)


@program("replication_pad1d")
def replication_pad1d(self: Tensor, padding: Any) -> Any:
    size = self.shape[-1]
    before, after = padding
    index = pad_positions(self, size, before, after)
    return aten.index_select(self, -1, index)


def unreflected(grad_output: Tensor, self: Tensor, padding: Any) -> Any:
    """The gradient of a reflected border: what fell outside is folded back in, dim by dim."""
    result = wide(grad_output)
    for number in range(len(padding) // 2):
        dim = self.dim() - 1 - number
        before, after = padding[2 * number], padding[2 * number + 1]
        size = self.shape[dim]
        inner = aten.slice(result, dim, before, before + size)
        if before:
            edge = aten.flip(aten.slice(result, dim, 0, before), [dim])
            inner = inner + padded_along(edge, dim, 1, size - before - 1)
        if after:
            edge = aten.flip(aten.slice(result, dim, before + size, before + size + after), [dim])
            inner = inner + padded_along(edge, dim, size - after - 1, 1)
        result = inner
    return cast(result, grad_output.dtype)


def padded_along(self: Tensor, dim: int, before: Any, after: Any) -> Any:
    pad = [0, 0] * (self.dim() - 1 - dim) + [before, after]
    return aten.constant_pad_nd(self, pad, 0)


for number in (1, 2, 3):
    program(f"reflection_pad{number}d_backward")(unreflected)


@program("_euclidean_dist")
def _euclidean_dist(x1: Any, x2: Any) -> Any:
    first = aten.sum(aten.pow(x1, 2), [-1], True)
    second = aten.sum(aten.pow(x2, 2), [-1], True)
    ones = aten.full_like(first, 1), aten.full_like(second, 1)
    left = aten.cat([aten.mul(x1, -2), first, ones[0]], -1)
    right = aten.cat([x2, ones[1], second], -1)
    product = matrix_product(left, aten.permute(right, swapped(right.dim(), -2, -1)))
    return aten.sqrt(aten.clamp(product, 0))


def matrix_product(left: Any, right: Any) -> Any:
    """mm or, over batch dims of equal sizes, bmm."""
    if left.dim() == 2:
        return aten.mm(left, right)
    *batch, rows, inner = left.shape
    columns = right.shape[-1]
    count = math.prod(batch)
    product = aten.bmm(
        view_or_copy(left, [count, rows, inner]), view_or_copy(right, [count, inner, columns])
    )
    return aten.view(product, [*batch, rows, columns])
