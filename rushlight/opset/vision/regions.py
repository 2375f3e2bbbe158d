"""Boxes and regions of interest: `torchvision::nms` and the four ways to pool regions.

A bilinear sample is separable: how much a row and a column count does not depend on the other. So
an aligned region is its picture between two small matrices, whose transposes give the gradient.
Rounded regions and their bins are those of the compiled operators, in the dtype of the boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.base.errors import MissingFeature
from rushlight.core import dtype as dtypes
from rushlight.core.op import OpOverload, Tag, refuse
from rushlight.core.refusals import unknown_size
from rushlight.core.tensor import sizes_of
from rushlight.opset.kinds import Spec
from rushlight.opset.registry import composite, op

NAMESPACE = "torchvision"
NO_SECOND = refuse("its gradient formula is used up by the first derivative")


# -- overlapping boxes -----------------------------------------------------------------------------

nms = op(
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    namespace=NAMESPACE,
    vjp=refuse("its results are indices"),
    tags=(Tag.dynamic_output_shape,),
)


@nms.requires
def _(dets: Any, scores: Any) -> None:
    boxes, marks = sizes_of(dets), sizes_of(scores)
    if len(boxes) != 2:
        raise RuntimeError(f"boxes should be a 2d tensor, got {len(boxes)}D")
    if boxes[1] != 4:
        raise RuntimeError(f"boxes should have 4 elements in dimension 1, got {boxes[1]}")
    if len(marks) != 1:
        raise RuntimeError(f"scores should be a 1d tensor, got {len(marks)}D")
    if boxes[0] != marks[0]:
        raise RuntimeError(
            "boxes and scores should have same number of elements in dimension 0, got "
            f"{boxes[0]} and {marks[0]}"
        )
    if dets._dtype is not scores._dtype:
        raise RuntimeError("dets should have the same type as scores")


@nms.shape
def _(dets: Any, scores: Any, iou_threshold: float) -> Any:
    count = unknown_size(nms, "the number of boxes kept", sizes_of(dets)[0])
    return Spec((count,), dtypes.int64)


@nms.kernel
def _(xp: Any, dets: Any, scores: Any, iou_threshold: float) -> Any:
    order = np.argsort(-widen(scores), kind="stable")
    left, top, right, bottom = widen(dets)[order].T
    areas = (right - left) * (bottom - top)
    alive = np.ones(len(order), bool)
    for place in range(len(order)):
        if not alive[place]:
            continue
        rest = place + 1 + np.flatnonzero(alive[place + 1 :])
        wide = np.minimum(right[place], right[rest]) - np.maximum(left[place], left[rest])
        high = np.minimum(bottom[place], bottom[rest]) - np.maximum(top[place], top[rest])
        shared = np.maximum(wide, 0) * np.maximum(high, 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            overlap = shared / (areas[place] + areas[rest] - shared)
        alive[rest[overlap > iou_threshold]] = False
    return order[alive].astype(np.int64)


# -- what all regions share ------------------------------------------------------------------------


def check_regions(name: str, input: Any, rois: Any) -> None:
    if len(sizes_of(rois)) != 2 or sizes_of(rois)[1] != 5:
        raise RuntimeError("rois must have shape as Tensor[K, 5]")
    if input._dtype is not rois._dtype:
        raise RuntimeError(
            f"Expected tensor for input to have the same type as tensor for rois in {name}; "
            f"but type {input._dtype} does not equal {rois._dtype}"
        )


def check_channels(input: Any, pooled_height: Any, pooled_width: Any) -> None:
    if sizes_of(input)[1] % (pooled_height * pooled_width) != 0:
        raise RuntimeError("input channels must be a multiple of pooling height * pooling width")


def picture_of(roi: Any) -> int:
    return int(roi[0])


def rounded(values: Any) -> Any:
    """To whole numbers, halves away from zero."""
    return np.trunc(values + np.copysign(values.dtype.type(0.5), values)).astype(np.int64)


# -- aligned regions -------------------------------------------------------------------------------


def sampling_matrix(start: Any, length: Any, bins: int, ratio: int, size: int) -> tuple[Any, int]:
    """(bins, size): how much each row of the picture counts in each bin, and samples a bin."""
    width = length / bins
    count = ratio if ratio > 0 else int(np.ceil(width))
    matrix = np.zeros((bins, size), width.dtype)
    if count <= 0 or not size:
        return matrix, max(count, 0)
    steps = (np.arange(count, dtype=width.dtype) + width.dtype.type(0.5)) * width / count
    places = start + np.arange(bins, dtype=width.dtype)[:, None] * width + steps
    inside = (places >= -1) & (places <= size)
    places = np.clip(np.where(inside, places, 0), 0, size - 1)
    low = places.astype(np.int64)
    part = (places - low) * inside
    rows = np.broadcast_to(np.arange(bins)[:, None], low.shape)
    np.add.at(matrix, (rows, low), inside - part)
    np.add.at(matrix, (rows, np.minimum(low + 1, size - 1)), part)
    return matrix, count


class Aligned:
    """One region between two matrices; a slice of the picture that holds all it reads."""

    __slots__ = ("columns", "count", "picture", "rows", "where")

    def __init__(
        self, roi: Any, scale: Any, bins: tuple[int, int], ratio: int, sizes: tuple[int, int],
        shift: float, at_least: Any,
    ) -> None:  # fmt: skip
        kind = roi.dtype.type
        left, top, right, bottom = roi[1:] * kind(scale) - kind(shift)
        high, wide = bottom - top, right - left
        if at_least is not None:
            high, wide = max(high, kind(at_least)), max(wide, kind(at_least))
        rows, down = sampling_matrix(top, high, bins[0], ratio, sizes[0])
        columns, across = sampling_matrix(left, wide, bins[1], ratio, sizes[1])
        self.picture = picture_of(roi)
        self.count = down * across
        self.where = tuple(slice(*bounds(matrix)) for matrix in (rows, columns))
        self.rows, self.columns = rows[:, self.where[0]], columns[:, self.where[1]]


def bounds(matrix: Any) -> tuple[int, int]:
    used = np.flatnonzero(matrix.any(0))
    return (int(used[0]), int(used[-1]) + 1) if used.size else (0, 0)


def aligned_regions(
    rois: Any, scale: float, bins: tuple[int, int], ratio: int, sizes: tuple[int, int],
    aligned: bool, clipped: bool,
) -> Iterator[tuple[int, Aligned]]:  # fmt: skip
    for number, roi in enumerate(widen(rois)):
        yield (
            number,
            Aligned(
                roi, scale, bins, ratio, sizes, 0.5 if aligned else 0.0, 1.0 if clipped else None
            ),
        )


roi_align_backward: OpOverload

roi_align = op(
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    namespace=NAMESPACE,
    vjp={
        "input": lambda grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio,
        aligned, input_shape: roi_align_backward(
            grad, rois, spatial_scale, pooled_height, pooled_width, *input_shape, sampling_ratio,
            aligned,
        ),
    },
)  # fmt: skip


@roi_align.requires
def _(input: Any, rois: Any) -> None:
    check_regions("roi_align", input, rois)


@roi_align.shape
def _(
    input: Any, rois: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any,
    sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    count, channels = sizes_of(rois)[0], sizes_of(input)[1]
    return Spec((count, channels, pooled_height, pooled_width), input._dtype)


@roi_align.kernel
def _(
    xp: Any, input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    bins, source = (pooled_height, pooled_width), widen(input)
    result = np.zeros((len(rois), input.shape[1], *bins), source.dtype)
    for number, region in aligned_regions(
        rois, spatial_scale, bins, sampling_ratio, input.shape[2:], aligned, not aligned
    ):
        part = source[(region.picture, slice(None), *region.where)]
        result[number] = region.rows @ part @ region.columns.T / max(region.count, 1)
    return result.astype(input.dtype)


roi_align_backward = op(
    "_roi_align_backward(Tensor grad, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, SymInt batch_size, SymInt channels, SymInt height, SymInt width, "
    "int sampling_ratio, bool aligned) -> Tensor",
    namespace=NAMESPACE,
    vjp={
        "grad": lambda grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio,
        aligned: roi_align(
            grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned
        ),
    },
)  # fmt: skip


@roi_align_backward.shape
def _(
    grad: Any, rois: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any,
    batch_size: Any, channels: Any, height: Any, width: Any, sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    return Spec((batch_size, channels, height, width), grad._dtype)


@roi_align_backward.kernel
def _(
    xp: Any, grad: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Any:  # fmt: skip
    flow = widen(grad)
    result = np.zeros((batch_size, channels, height, width), flow.dtype)
    for number, region in aligned_regions(
        rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, (height, width),
        aligned, not aligned,
    ):  # fmt: skip
        share = region.rows.T @ (flow[number] / max(region.count, 1)) @ region.columns
        place: Any = (region.picture, slice(None), *region.where)
        result[place] += share
    return result.astype(grad.dtype)


# -- aligned regions of channels that stand for places ---------------------------------------------

ps_roi_align_backward: OpOverload

ps_roi_align = op(
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    namespace=NAMESPACE,
    non_differentiable=(1,),
    vjp={
        "input": lambda grad, rois, result1, spatial_scale, pooled_height, pooled_width,
        sampling_ratio, input_shape: ps_roi_align_backward(
            grad, rois, result1, spatial_scale, pooled_height, pooled_width, sampling_ratio,
            *input_shape,
        ),
    },
)  # fmt: skip


def placed_spec(input: Any, rois: Any, pooled_height: Any, pooled_width: Any) -> Any:
    channels = sizes_of(input)[1] // (pooled_height * pooled_width)
    shape = (sizes_of(rois)[0], channels, pooled_height, pooled_width)
    return [Spec(shape, input._dtype), Spec(shape, dtypes.int32)]


def channel_mapping(count: int, channels: int, bins: tuple[int, int]) -> Any:
    """The channel that each number of a result was read from."""
    places = np.arange(channels * bins[0] * bins[1], dtype=np.int32)
    return np.broadcast_to(places.reshape(channels, *bins), (count, channels, *bins)).copy()


@ps_roi_align.requires
def _(input: Any, rois: Any, pooled_height: Any, pooled_width: Any) -> None:
    check_regions("ps_roi_align", input, rois)
    check_channels(input, pooled_height, pooled_width)


@ps_roi_align.shape
def _(
    input: Any, rois: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any,
    sampling_ratio: int,
) -> Any:  # fmt: skip
    return placed_spec(input, rois, pooled_height, pooled_width)


@ps_roi_align.kernel
def _(
    xp: Any, input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int,
    sampling_ratio: int,
) -> Any:  # fmt: skip
    bins, source = (pooled_height, pooled_width), widen(input)
    channels = input.shape[1] // (pooled_height * pooled_width)
    placed = source.reshape(len(source), channels, *bins, *input.shape[2:])
    result = np.zeros((len(rois), channels, *bins), source.dtype)
    for number, region in aligned_regions(
        rois, spatial_scale, bins, sampling_ratio, input.shape[2:], True, False
    ):
        part = placed[(region.picture, ..., *region.where)]
        sampled = np.einsum("ph,cpqhw,qw->cpq", region.rows, part, region.columns)
        with np.errstate(invalid="ignore", divide="ignore"):
            result[number] = sampled / source.dtype.type(region.count)
    return result.astype(input.dtype), channel_mapping(len(rois), channels, bins)


ps_roi_align_backward = op(
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, int sampling_ratio, SymInt batch_size, "
    "SymInt channels, SymInt height, SymInt width) -> Tensor",
    namespace=NAMESPACE,
    vjp={
        "grad": lambda grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio: (
            ps_roi_align(
                grad, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio
            )[0]
        ),
    },
)  # fmt: skip


@ps_roi_align_backward.shape
def _(
    grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: Any,
    pooled_width: Any, sampling_ratio: int, batch_size: Any, channels: Any, height: Any,
    width: Any,
) -> Any:  # fmt: skip
    return Spec((batch_size, channels, height, width), grad._dtype)


@ps_roi_align_backward.kernel
def _(
    xp: Any, grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int,
    width: int,
) -> Any:  # fmt: skip
    flow, bins = widen(grad), (pooled_height, pooled_width)
    result = np.zeros((batch_size, grad.shape[1], *bins, height, width), flow.dtype)
    for number, region in aligned_regions(
        rois, spatial_scale, bins, sampling_ratio, (height, width), True, False
    ):
        with np.errstate(invalid="ignore", divide="ignore"):
            share = flow[number] / flow.dtype.type(region.count)
        place: Any = (region.picture, ..., *region.where)
        result[place] += np.einsum("ph,cpq,qw->cpqhw", region.rows, share, region.columns)
    return result.reshape(batch_size, channels, height, width).astype(grad.dtype)


# -- rounded regions -------------------------------------------------------------------------------


def bin_edges(start: Any, length: Any, bins: int, last: int) -> tuple[Any, Any]:
    """Where the bins of a region begin and end, within `[0, last]`."""
    width = length / bins
    numbers = np.arange(bins, dtype=width.dtype)
    low = np.floor(numbers * width).astype(np.int64) + start
    high = np.ceil((numbers + 1) * width).astype(np.int64) + start
    return low.clip(0, last), high.clip(0, last)


def rounded_bins(
    roi: Any, scale: float, bins: tuple[int, int], last: tuple[int, int], inclusive: bool
) -> Iterator[tuple[int, int, slice, slice]]:
    """The bins of a region that hold something: their row, column and part of the picture."""
    kind = roi.dtype.type
    left, top, right, bottom = rounded(roi[1:] * kind(scale))
    extra = int(inclusive)
    tops, ends = bin_edges(top, kind(max(bottom - top + extra, 1)), bins[0], last[0])
    lefts, rights = bin_edges(left, kind(max(right - left + extra, 1)), bins[1], last[1])
    for row in range(bins[0]):
        for column in range(bins[1]):
            if ends[row] > tops[row] and rights[column] > lefts[column]:
                down, across = (tops[row], ends[row]), (lefts[column], rights[column])
                yield row, column, slice(*map(int, down)), slice(*map(int, across))


roi_pool_backward: OpOverload

roi_pool = op(
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    namespace=NAMESPACE,
    non_differentiable=(1,),
    vjp={
        "input": lambda grad, rois, result1, spatial_scale, pooled_height, pooled_width,
        input_shape: roi_pool_backward(
            grad, rois, result1, spatial_scale, pooled_height, pooled_width, *input_shape
        ),
    },
)  # fmt: skip


@roi_pool.requires
def _(input: Any, rois: Any) -> None:
    check_regions("roi_pool", input, rois)


@roi_pool.shape
def _(input: Any, rois: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any) -> Any:
    shape = (sizes_of(rois)[0], sizes_of(input)[1], pooled_height, pooled_width)
    return [Spec(shape, input._dtype), Spec(shape, dtypes.int32)]


@roi_pool.kernel
def _(
    xp: Any, input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int
) -> Any:
    bins, (channels, height, width) = (pooled_height, pooled_width), input.shape[1:]
    source = widen(input)
    result = np.zeros((len(rois), channels, *bins), source.dtype)
    where = np.full(result.shape, -1, np.int32)
    for number, roi in enumerate(widen(rois)):
        picture = source[picture_of(roi)]
        for row, column, down, across in rounded_bins(
            roi, spatial_scale, bins, (height, width), True
        ):
            part = picture[:, down, across].reshape(channels, -1)
            best = part.argmax(1)
            result[number, :, row, column] = part[np.arange(channels), best]
            wide = across.stop - across.start
            places = (down.start + best // wide) * width + across.start + best % wide
            where[number, :, row, column] = places
    return result.astype(input.dtype), where


roi_pool_backward = op(
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    namespace=NAMESPACE,
    vjp=NO_SECOND,
)


@roi_pool_backward.shape
def _(
    grad: Any, rois: Any, argmax: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any,
    batch_size: Any, channels: Any, height: Any, width: Any,
) -> Any:  # fmt: skip
    return Spec((batch_size, channels, height, width), grad._dtype)


@roi_pool_backward.kernel
def _(
    xp: Any, grad: Any, rois: Any, argmax: Any, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Any:  # fmt: skip
    flow = widen(grad)
    result = np.zeros((batch_size, channels, height * width), flow.dtype)
    rows = np.arange(channels)[:, None, None]
    for number, roi in enumerate(rois):
        there = argmax[number] >= 0
        places = (np.broadcast_to(rows, there.shape)[there], argmax[number][there])
        np.add.at(result[picture_of(roi)], places, flow[number][there])
    return result.reshape(batch_size, channels, height, width).astype(grad.dtype)


# -- rounded regions of channels that stand for places ---------------------------------------------

ps_roi_pool_backward: OpOverload

ps_roi_pool = op(
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    namespace=NAMESPACE,
    non_differentiable=(1,),
    vjp={
        "input": lambda grad, rois, result1, spatial_scale, pooled_height, pooled_width,
        input_shape: ps_roi_pool_backward(
            grad, rois, result1, spatial_scale, pooled_height, pooled_width, *input_shape
        ),
    },
)  # fmt: skip


@ps_roi_pool.requires
def _(input: Any, rois: Any, pooled_height: Any, pooled_width: Any) -> None:
    check_regions("ps_roi_pool", input, rois)
    check_channels(input, pooled_height, pooled_width)


@ps_roi_pool.shape
def _(input: Any, rois: Any, spatial_scale: float, pooled_height: Any, pooled_width: Any) -> Any:
    return placed_spec(input, rois, pooled_height, pooled_width)


@ps_roi_pool.kernel
def _(
    xp: Any, input: Any, rois: Any, spatial_scale: float, pooled_height: int, pooled_width: int
) -> Any:
    bins, (height, width) = (pooled_height, pooled_width), input.shape[2:]
    source, channels = widen(input), input.shape[1] // (pooled_height * pooled_width)
    placed = source.reshape(len(source), channels, *bins, height, width)
    result = np.zeros((len(rois), channels, *bins), source.dtype)
    for number, roi in enumerate(widen(rois)):
        picture = placed[picture_of(roi)]
        for row, column, down, across in rounded_bins(
            roi, spatial_scale, bins, (height - 1, width - 1), False
        ):
            part = picture[:, row, column, down, across]
            result[number, :, row, column] = part.mean((1, 2))
    return result.astype(input.dtype), channel_mapping(len(rois), channels, bins)


ps_roi_pool_backward = op(
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    "SymInt pooled_height, SymInt pooled_width, SymInt batch_size, SymInt channels, "
    "SymInt height, SymInt width) -> Tensor",
    namespace=NAMESPACE,
    # The compiled gradient is not quite the forward's: bins may reach the last row and column.
    vjp=NO_SECOND,
)


@ps_roi_pool_backward.shape
def _(
    grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: Any,
    pooled_width: Any, batch_size: Any, channels: Any, height: Any, width: Any,
) -> Any:  # fmt: skip
    return Spec((batch_size, channels, height, width), grad._dtype)


@ps_roi_pool_backward.kernel
def _(
    xp: Any, grad: Any, rois: Any, channel_mapping: Any, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Any:  # fmt: skip
    flow, bins = widen(grad), (pooled_height, pooled_width)
    result = np.zeros((batch_size, grad.shape[1], *bins, height, width), flow.dtype)
    for number, roi in enumerate(widen(rois)):
        picture = result[picture_of(roi)]
        for row, column, down, across in rounded_bins(
            roi, spatial_scale, bins, (height, width), False
        ):
            part = picture[:, row, column, down, across]
            part += flow[number, :, row, column, None, None] / (part.shape[1] * part.shape[2])
    return result.reshape(batch_size, channels, height, width).astype(grad.dtype)


# -- what such a library has besides ---------------------------------------------------------------


def absent(name: str) -> Any:
    """A kernel that says there is none."""

    def kernel(xp: Any, *operands: Any) -> Any:
        raise MissingFeature(f"{NAMESPACE}::{name}", code="RL1331")

    return kernel


for _schema in (
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, "
    "float rois_scale, int rois_zero_point, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
):
    op(
        _schema,
        namespace=NAMESPACE,
        kernel=absent(_schema.partition("(")[0]),
        vjp=refuse("the operator itself is refused"),
    )


@composite("_cuda_version() -> int", namespace=NAMESPACE, method=False)
def cuda_version() -> int:
    # What such a library says of itself when it was compiled without CUDA.
    return -1
