"""Upsampling, windows and their inverses as programs over core ops."""

from __future__ import annotations

from typing import Any

from rushlight.aot.decompositions.moving import view_or_copy
from rushlight.aot.decompositions.texts import cast, wide
from rushlight.aot.decompositions.written import program
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset.rules import aten

__all__: list[str] = []


def nearest(self: Tensor, output_size: Any, scales: Any, shift: float) -> Any:
    """Each element of the result is the one of the input whose cell it falls into."""
    result = self
    for number, (size, scale) in enumerate(zip(output_size, scales, strict=True)):
        dim = self.dim() - len(output_size) + number
        length = self.shape[dim]
        step = 1 / scale if scale else length / size
        place = aten.arange(0, size, 1, dtype=dtypes.float32, device=self.device)
        if shift:
            place = aten.add(place, shift)
        index = cast(aten.floor(aten.mul(place, step)), dtypes.int64)
        result = aten.index_select(result, dim, aten.clamp(index, 0, length - 1))
    return result


def nearest_program(shift: float) -> Any:
    def upsample(self: Tensor, output_size: Any, *scales: Any) -> Any:
        given = [*scales, *[None] * (len(output_size) - len(scales))]
        return nearest(self, output_size, given, shift)

    return upsample


for rank in (1, 2, 3):
    program(f"upsample_nearest{rank}d")(nearest_program(0.0))
    program(f"_upsample_nearest_exact{rank}d")(nearest_program(0.5))


@program("upsample_linear1d")
def upsample_linear1d(
    self: Tensor, output_size: Any, align_corners: bool, scales: Any = None
) -> Any:
    length, size = self.shape[-1], output_size[0]
    work = dtypes.float64 if self.dtype is dtypes.float64 else dtypes.float32
    place = aten.arange(0, size, 1, dtype=work, device=self.device)
    if align_corners:
        place = aten.mul(place, (length - 1) / (size - 1) if size > 1 else 0.0)
    else:
        step = 1 / scales if scales else length / size
        place = aten.clamp(aten.sub(aten.mul(aten.add(place, 0.5), step), 0.5), 0)
    below = cast(aten.floor(place), dtypes.int64)
    above = aten.clamp(aten.add(below, 1), None, length - 1)
    share = aten.sub(place, cast(below, work))
    x = wide(self)
    left, right = aten.index_select(x, -1, below), aten.index_select(x, -1, above)
    found = aten.add(aten.mul(left, aten.add(aten.neg(share), 1)), aten.mul(right, share))
    return cast(found, self.dtype)


@program("affine_grid_generator")
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    if theta.dtype.category != dtypes.FLOAT:
        return NotImplemented
    batch, _, *sizes = size
    axes = []
    for number, length in enumerate(sizes):
        place = aten.arange(0, length, 1, dtype=theta.dtype, device=theta.device)
        if length <= 1:
            line = aten.full([length], 0, dtype=theta.dtype, device=theta.device)
        elif align_corners:
            line = aten.sub(aten.mul(place, 2 / (length - 1)), 1)
        else:
            line = aten.sub(aten.div(aten.add(aten.mul(place, 2), 1), length), 1)
        shape = [length if d == number else 1 for d in range(len(sizes))]
        axes.append(aten.expand(aten.view(line, shape), sizes))
    ones = aten.full(list(sizes), 1, dtype=theta.dtype, device=theta.device)
    # The last dim of the input is the first coordinate.
    parts = [aten.unsqueeze(entry, -1) for entry in [*reversed(axes), ones]]
    grid = view_or_copy(aten.cat(parts, -1), [1, -1, len(sizes) + 1])
    spread = aten.expand(grid, [batch, grid.shape[1], len(sizes) + 1])
    found = aten.bmm(spread, aten.permute(theta, [0, 2, 1]))
    return aten.view(found, [batch, *sizes, len(sizes)])


@program("im2col")
def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    picture = self if self.dim() == 4 else aten.unsqueeze(self, 0)
    padded = aten.constant_pad_nd(picture, [padding[1], padding[1], padding[0], padding[0]], 0)
    places = []
    for number in (0, 1):
        length = padded.shape[2 + number]
        reach = dilation[number] * (kernel_size[number] - 1) + 1
        starts = aten.arange(0, length - reach + 1, stride[number], device=self.device)
        inside = aten.arange(
            0, kernel_size[number] * dilation[number], dilation[number], device=self.device
        )
        places.append(aten.add(aten.unsqueeze(inside, 1), starts))
    rows = aten.unsqueeze(aten.unsqueeze(places[0], -1), -1)
    taken = aten.index(padded, [None, None, rows, places[1]])
    # (batch, channels, kernel rows, rows, kernel columns, columns)
    ordered = aten.permute(taken, [0, 1, 2, 4, 3, 5])
    batch, channels = picture.shape[0], picture.shape[1]
    result = view_or_copy(
        ordered,
        [
            batch,
            channels * kernel_size[0] * kernel_size[1],
            places[0].shape[1] * places[1].shape[1],
        ],
    )
    return result if self.dim() == 4 else aten.squeeze(result, 0)


def unpooled(self: Tensor, indices: Tensor, output_size: Any) -> Any:
    """Values put where they were the largest."""
    rank = len(output_size)
    lead = list(self.shape[: self.dim() - rank])
    count: Any = 1
    for size in output_size:
        count = count * size
    shape = [*lead, -1] if self.numel() else [*lead, 0]
    blank = aten.full([*lead, count], 0, dtype=self.dtype, device=self.device)
    found = aten.scatter(blank, -1, view_or_copy(indices, shape), view_or_copy(self, shape))
    return aten.view(found, [*lead, *output_size])


@program("max_unpool2d")
def max_unpool2d(self: Tensor, indices: Tensor, output_size: Any) -> Any:
    return unpooled(self, indices, output_size)


@program("max_unpool3d")
def max_unpool3d(self: Tensor, indices: Tensor, output_size: Any, stride: Any, padding: Any) -> Any:
    return unpooled(self, indices, output_size)
