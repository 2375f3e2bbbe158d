"""`torchvision::deform_conv2d`: a convolution whose taps are moved by offsets, each by its own.

A tap reads four pixels, with zeros outside the picture. What the taps of a picture have read is a
matrix, and the rest is a product with the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of
from rushlight.opset.kinds import Spec
from rushlight.opset.registry import op
from rushlight.opset.vision.regions import NAMESPACE, NO_SECOND

SETTINGS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
OPERANDS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"


class Settings(NamedTuple):
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    dilation_h: int
    dilation_w: int
    groups: int
    offset_groups: int
    use_mask: bool


class Taps:
    """Where the taps of one picture read. Arrays are (offset group, tap, place)."""

    __slots__ = ("across", "down", "height", "left", "top", "width")

    def __init__(self, offset: Any, kernel: tuple[int, int], sizes: Any, with_: Settings) -> None:
        self.height, self.width = sizes
        out_height, out_width = offset.shape[1:]
        moved = offset.reshape(with_.offset_groups, kernel[0] * kernel[1], 2, -1)
        rows = np.arange(out_height) * with_.stride_h - with_.pad_h
        columns = np.arange(out_width) * with_.stride_w - with_.pad_w
        down = np.repeat(np.arange(kernel[0]) * with_.dilation_h, kernel[1])
        across = np.tile(np.arange(kernel[1]) * with_.dilation_w, kernel[0])
        y = down[:, None] + np.repeat(rows, out_width) + moved[:, :, 0]
        x = across[:, None] + np.tile(columns, out_height) + moved[:, :, 1]
        top, left = np.floor(y), np.floor(x)
        self.down, self.across = y - top, x - left
        # What is far away, or no number, reads nothing but zeros.
        self.top = np.clip(np.nan_to_num(top, nan=-2), -2, self.height).astype(np.int64)
        self.left = np.clip(np.nan_to_num(left, nan=-2), -2, self.width).astype(np.int64)

    def corners(self) -> Iterator[tuple[Any, Any, Any, Any]]:
        """Of the four pixels: flat place, weight, and its derivatives down and across; all zero
        where the pixel is outside."""
        for lower in (0, 1):
            for right in (0, 1):
                row, column = self.top + lower, self.left + right
                inside = (row >= 0) & (row < self.height) & (column >= 0) & (column < self.width)
                down = self.down if lower else 1 - self.down
                across = self.across if right else 1 - self.across
                place = np.where(inside, row * self.width + column, 0)
                turn = (1 if lower else -1) * across, (1 if right else -1) * down
                yield (
                    place,
                    np.where(inside, down * across, 0),
                    np.where(inside, turn[0], 0),
                    np.where(inside, turn[1], 0),
                )


def grouped(picture: Any, with_: Settings) -> Any:
    """(offset group, channel of it, pixel)."""
    return picture.reshape(
        with_.offset_groups, picture.shape[0] // with_.offset_groups, picture[0].size
    )


def pixels_at(planes: Any, place: Any) -> Any:
    """(offset group, channel, tap, place): what every channel has there."""
    return np.stack([plane[:, spots] for plane, spots in zip(planes, place, strict=True)])


def read(planes: Any, taps: Taps) -> Any:
    total: Any = 0
    for place, weight, _, _ in taps.corners():
        total = total + pixels_at(planes, place) * weight[:, None]
    return total


def factors(mask: Any, with_: Settings, taps: int) -> Any:
    """(offset group, 1, tap, place): what each reading is multiplied by; 1 without a mask."""
    return mask.reshape(with_.offset_groups, 1, taps, -1) if with_.use_mask else np.float32(1)


deform_conv2d_backward: OpOverload


def weight_rows(weight: Any, groups: int) -> Any:
    return weight.reshape(groups, weight.shape[0] // groups, -1)


deform_conv2d = op(
    f"deform_conv2d({OPERANDS}, {SETTINGS}) -> Tensor",
    namespace=NAMESPACE,
    differentiable=("input", "weight", "offset", "mask", "bias"),
    vjp=lambda grad, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w,
    dilation_h, dilation_w, groups, offset_groups, use_mask: deform_conv2d_backward(
        grad, input, weight, offset, mask, bias, stride_h, stride_w, pad_h, pad_w, dilation_h,
        dilation_w, groups, offset_groups, use_mask,
    ),
)  # fmt: skip


@deform_conv2d.requires
def _(
    input: Any, weight: Any, offset: Any, mask: Any, stride_h: Any, stride_w: Any, pad_h: Any,
    pad_w: Any, dilation_h: Any, dilation_w: Any, groups: Any, offset_groups: Any, use_mask: bool,
) -> None:  # fmt: skip
    for name, tensor in (("input", input), ("weight", weight), ("offset", offset)):
        if tensor.dim() != 4:
            raise RuntimeError(f"{name} should be a 4d tensor, got {tensor.dim()}D")
    kernel, moved = sizes_of(weight)[2:], sizes_of(offset)
    taps = kernel[0] * kernel[1]
    if sizes_of(weight)[1] * groups != sizes_of(input)[1]:
        raise RuntimeError(
            f"input has {sizes_of(input)[1]} channels, but weight takes "
            f"{sizes_of(weight)[1]} of each of {groups} groups"
        )
    if moved[1] != offset_groups * 2 * taps:
        raise RuntimeError(
            f"offset.shape[1] is not valid: got: {moved[1]} expected: {offset_groups * 2 * taps}"
        )
    if use_mask and sizes_of(mask)[1] != offset_groups * taps:
        raise RuntimeError(
            f"mask.shape[1] is not valid: got: {sizes_of(mask)[1]} expected: {offset_groups * taps}"
        )
    places = zip(
        sizes_of(input)[2:], kernel, (stride_h, stride_w), (pad_h, pad_w),
        (dilation_h, dilation_w), strict=True,
    )  # fmt: skip
    out = [
        (size + 2 * pad - (dilation * (width - 1) + 1)) // stride + 1
        for size, width, stride, pad, dilation in places
    ]
    if [*moved[2:]] != out:
        raise RuntimeError(
            f"offset output dims: ({moved[2]}, {moved[3]}) - computed output dims: "
            f"({out[0]}, {out[1]})"
        )


@deform_conv2d.shape
def _(
    input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: Any, stride_w: Any,
    pad_h: Any, pad_w: Any, dilation_h: Any, dilation_w: Any, groups: Any, offset_groups: Any,
    use_mask: bool,
) -> Any:  # fmt: skip
    shape = (sizes_of(input)[0], sizes_of(weight)[0], *sizes_of(offset)[2:])
    return Spec(shape, input._dtype)


@deform_conv2d.kernel
def _(xp: Any, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, *settings: Any) -> Any:
    with_ = Settings(*settings)
    kernel, rows = weight.shape[2:], weight_rows(widen(weight), with_.groups)
    taps = kernel[0] * kernel[1]
    results = []
    for picture, moved, mark in zip(
        widen(input), widen(offset), marks(mask, with_, len(input)), strict=True
    ):
        found = Taps(moved, kernel, picture.shape[1:], with_)
        columns = read(grouped(picture, with_), found) * factors(mark, with_, taps)
        product = rows @ columns.reshape(with_.groups, rows.shape[2], -1).astype(rows.dtype)
        results.append(product.reshape(len(weight), *moved.shape[1:]))
    shape = (0, len(weight), *offset.shape[2:])
    result = np.stack(results) if results else np.zeros(shape, rows.dtype)
    return (result + widen(bias)[:, None, None]).astype(input.dtype)


def marks(mask: Any, with_: Settings, count: int) -> Any:
    return widen(mask) if with_.use_mask else [None] * count


deform_conv2d_backward = op(
    f"_deform_conv2d_backward(Tensor grad, {OPERANDS}, {SETTINGS}) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor)",
    namespace=NAMESPACE,
    vjp=NO_SECOND,
)


@deform_conv2d_backward.shape
def _(
    grad: Any, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, stride_h: Any,
    stride_w: Any, pad_h: Any, pad_w: Any, dilation_h: Any, dilation_w: Any, groups: Any,
    offset_groups: Any, use_mask: bool,
) -> Any:  # fmt: skip
    operands = (input, weight, offset, mask, bias)
    return [Spec(tuple(sizes_of(operand)), operand._dtype) for operand in operands]


@deform_conv2d_backward.kernel
def _(
    xp: Any, grad: Any, input: Any, weight: Any, offset: Any, mask: Any, bias: Any, *settings: Any
) -> Any:
    with_ = Settings(*settings)
    kernel, rows = weight.shape[2:], weight_rows(widen(weight), with_.groups)
    taps = kernel[0] * kernel[1]
    over_input, over_weight = np.zeros(input.shape, rows.dtype), np.zeros(rows.shape, rows.dtype)
    over_offset, over_mask = np.zeros(offset.shape, rows.dtype), np.zeros(mask.shape, rows.dtype)
    for number, (flow, picture, moved, mark) in enumerate(
        zip(widen(grad), widen(input), widen(offset), marks(mask, with_, len(input)), strict=True)
    ):
        found = Taps(moved, kernel, picture.shape[1:], with_)
        planes, marked = grouped(picture, with_), factors(mark, with_, taps)
        values = read(planes, found)
        flow = flow.reshape(with_.groups, rows.shape[1], -1)
        columns = (values * marked).reshape(with_.groups, rows.shape[2], -1)
        over_weight += flow @ columns.swapaxes(1, 2)
        wanted = (rows.swapaxes(1, 2) @ flow).reshape(values.shape)
        if with_.use_mask:
            over_mask[number] = (wanted * values).sum(1).reshape(mark.shape)
        wanted = wanted * marked
        spread(over_input[number], wanted, found, with_)
        over_offset[number] = turned(planes, wanted, found).reshape(moved.shape)
    return (
        over_input.astype(input.dtype),
        over_weight.reshape(weight.shape).astype(weight.dtype),
        over_offset.astype(offset.dtype),
        over_mask.astype(mask.dtype),
        widen(grad).sum((0, 2, 3)).astype(bias.dtype),
    )


def spread(out: Any, wanted: Any, taps: Taps, with_: Settings) -> None:
    """Add what every tap passes on to the pixels that it read."""
    planes = grouped(out, with_)
    count = planes.shape[2]
    for place, weight, _, _ in taps.corners():
        shares = wanted * weight[:, None]
        for group, spots in enumerate(place):
            for channel, plane in enumerate(planes[group]):
                plane += np.bincount(spots.ravel(), shares[group, channel].ravel(), count)


def turned(planes: Any, wanted: Any, taps: Taps) -> Any:
    """(offset group, tap, 2, place): what a move down and a move across of each tap changes."""
    down: Any = 0
    across: Any = 0
    for place, _, turn_down, turn_across in taps.corners():
        together = (pixels_at(planes, place) * wanted).sum(1)
        down = down + together * turn_down
        across = across + together * turn_across
    return np.stack([down, across], 2)
