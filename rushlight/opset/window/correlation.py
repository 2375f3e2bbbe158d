"""Convolution of arrays: large ones by native kernels, others as one product of windows laid out as
columns, times the weights.

The input's gradient is the same product with flipped weights or, where windows lie more than one
step apart, columns that are added up where their windows lay; a transposed convolution is that
gradient.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.opset.heavy import heavy_kernels

__all__ = [
    "convolved",
    "input_gradient",
    "plain_sizes",
    "transposed_sizes",
    "weight_gradient",
    "widen",
]


def widen(array: Any) -> Any:
    return (
        array.astype(np.float32)
        if array.dtype.kind not in "iubc" and array.itemsize == 2
        else array
    )


def padded(array: Any, widths: list[tuple[int, int]]) -> Any:
    """Zeros around the trailing axes; a negative width cuts off instead."""
    cut: list[Any] = [slice(None)] * (array.ndim - len(widths))
    for (lo, hi), size in zip(widths, array.shape[-len(widths) :], strict=True):
        cut.append(slice(max(-lo, 0), size - max(-hi, 0)))
    array = array[tuple(cut)]
    added = [(max(lo, 0), max(hi, 0)) for lo, hi in widths]
    if not any(lo or hi for lo, hi in added):
        return array
    sizes = array.shape[-len(widths) :]
    within: list[Any] = [slice(lo, lo + size) for (lo, _), size in zip(added, sizes, strict=True)]
    grown = [size + lo + hi for (lo, hi), size in zip(added, sizes, strict=True)]
    result = np.zeros((*array.shape[: -len(widths)], *grown), array.dtype)
    result[(..., *within)] = array
    return result


def windows(
    array: Any, kernel: Any, stride: Any, dilation: Any, groups: int, by_sample: bool = False
) -> Any:
    """Columns (group, channel of the group × kernel place, sample × output place), and the places.

    `by_sample` gives (sample, group, channel of the group × kernel place, output place).
    """
    batch, channels = array.shape[:2]
    places = [
        (size - d * (k - 1) - 1) // s + 1
        for size, k, s, d in zip(array.shape[2:], kernel, stride, dilation, strict=True)
    ]
    steps = array.strides
    each = channels // groups
    row_steps = [step * d for step, d in zip(steps[2:], dilation, strict=True)]
    rows = ((groups, each, *kernel), (each * steps[1], steps[1], *row_steps))
    place_steps = [step * s for step, s in zip(steps[2:], stride, strict=True)]
    shape: tuple[int, ...]
    laid: tuple[int, ...]
    if by_sample:
        shape = (batch, *rows[0], *places)
        strides = (steps[0], *rows[1], *place_steps)
        laid = (batch, groups, each * math.prod(kernel), math.prod(places))
    else:
        shape = (*rows[0], batch, *places)
        strides = (*rows[1], steps[0], *place_steps)
        laid = (groups, each * math.prod(kernel), batch * math.prod(places))
    view = np.lib.stride_tricks.as_strided(array, shape, strides, writeable=False)
    return view.reshape(laid), places


# Elements of columns made at a time: they are read while they are still in the cache.
BLOCK = 1 << 19


def blocks(batch: int, each: int) -> list[slice]:
    """The samples in parts of about BLOCK elements, `each` from a sample; one part at least."""
    size = max(BLOCK // max(each, 1), 1)
    return [slice(start, start + size) for start in range(0, max(batch, 1), size)]


# Elements of columns that one sample may need; above it the output is computed in two halves.
LARGEST = 1 << 27


def correlate(array: Any, weight: Any, stride: Any, dilation: Any, groups: int) -> Any:
    """Plain convolution without padding."""
    kernel, batch, outputs = weight.shape[2:], array.shape[0], weight.shape[0]
    extent = plain_sizes(array.shape[2:], kernel, stride, [0] * len(kernel), dilation)
    spots = math.prod(extent)
    if array.shape[1] * math.prod(kernel) * spots > LARGEST and max(extent) > 1:
        axis = extent.index(max(extent)) + 2
        parts = halves(array, axis, extent[axis - 2], kernel, stride, dilation)
        found = [correlate(part, weight, stride, dilation, groups) for part in parts]
        return np.concatenate(found, axis)
    filters = weight.reshape(groups, outputs // groups, math.prod(weight.shape[1:]))
    # A product for each sample comes out in order; it pays while a sample alone fills a product.
    if spots >= outputs // groups:
        result = np.empty((batch, groups, outputs // groups, spots), np.result_type(array, weight))
        places: list[int] = []
        for some in blocks(batch, array.shape[1] * math.prod(kernel) * spots):
            columns, places = windows(array[some], kernel, stride, dilation, groups, by_sample=True)
            np.matmul(filters, columns, out=result[some])
        return result.reshape(batch, outputs, *places)
    columns, places = windows(array, kernel, stride, dilation, groups)
    result = np.matmul(filters, columns).reshape(outputs, batch, *places)
    return np.swapaxes(result, 0, 1)


def halves(
    array: Any, axis: int, places: int, kernel: Any, stride: Any, dilation: Any
) -> tuple[Any, Any]:
    """What the first and the second half of the output places along an axis read."""
    step, reach = stride[axis - 2], dilation[axis - 2] * (kernel[axis - 2] - 1) + 1
    before = (slice(None),) * axis
    half = places // 2
    first = array[(*before, slice(0, (half - 1) * step + reach))]
    return first, array[(*before, slice(half * step, None))]


def scattered(
    grad: Any, weight: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The adjoint of plain convolution in its input: each window's part is added to its place."""
    kernel, batch = weight.shape[2:], grad.shape[0]
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    places = grad.shape[2:]
    spots, volume = math.prod(places), math.prod(kernel)
    filters = np.swapaxes(weight.reshape(groups, outputs, inputs * volume), 1, 2)
    grown = [size + 2 * p for size, p in zip(sizes, padding, strict=True)]
    canvas = np.zeros((batch, groups * inputs, *grown), np.result_type(grad, weight))
    for some in blocks(batch, groups * inputs * volume * spots):
        target = canvas[some]
        columns = np.matmul(filters, grad[some].reshape(-1, groups, outputs, spots))
        columns = columns.reshape(target.shape[0], groups * inputs, *kernel, *places)
        for offsets in np.ndindex(*kernel):
            within: list[Any] = [
                slice(at * d, at * d + (count - 1) * s + 1, s)
                for at, d, s, count in zip(offsets, dilation, stride, places, strict=True)
            ]
            target[(..., *within)] += columns[(slice(None), slice(None), *offsets)]
    inner: list[Any] = [slice(p, p + size) for p, size in zip(padding, sizes, strict=True)]
    return canvas[(..., *inner)]


def adjoint(
    grad: Any, weight: Any, sizes: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The adjoint of plain convolution in its input, whose spatial sizes are given."""
    kernel = weight.shape[2:]
    if any(s != 1 for s in stride):
        return scattered(grad, weight, sizes, stride, padding, dilation, groups)
    widths = []
    for size, k, p, d, have in zip(sizes, kernel, padding, dilation, grad.shape[2:], strict=True):
        before = d * (k - 1) - p
        # What the grid and the kernel's reach leave over lies at the end.
        widths.append((before, size - have - before + d * (k - 1)))
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]
    turned = np.flip(weight, tuple(range(2, weight.ndim)))
    turned = turned.reshape(groups, outputs, inputs, *kernel).swapaxes(1, 2)
    turned = turned.reshape(groups * inputs, outputs, *kernel)
    return correlate(padded(grad, widths), turned, (1,) * len(kernel), dilation, groups)


def weight_adjoint(
    array: Any, grad: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The adjoint of plain convolution in its weight."""
    source = padded(array, [(p, p) for p in padding])
    outputs = grad.shape[1]
    # Windows that the stride does not reach to carry no gradient.
    reach = [
        (have - 1) * s + d * (k - 1) + 1
        for have, s, d, k in zip(grad.shape[2:], stride, dilation, kernel, strict=True)
    ]
    source = source[(slice(None), slice(None), *[slice(0, size) for size in reach])]
    batch, inputs = source.shape[:2]
    extent = grad.shape[2:]
    if inputs * math.prod(kernel) * math.prod(extent) > LARGEST and max(extent) > 1:
        axis = extent.index(max(extent)) + 2
        parts = halves(source, axis, extent[axis - 2], kernel, stride, dilation)
        grads = np.split(grad, [extent[axis - 2] // 2], axis)
        found = [
            weight_adjoint(a, g, kernel, stride, [0] * len(kernel), dilation, groups)
            for a, g in zip(parts, grads, strict=True)
        ]
        return found[0] + found[1]
    product: Any = 0
    for some in blocks(batch, inputs * math.prod(kernel) * math.prod(grad.shape[2:])):
        columns, _ = windows(source[some], kernel, stride, dilation, groups)
        rows = np.swapaxes(grad[some], 0, 1).reshape(groups, outputs // groups, columns.shape[2])
        product += np.matmul(rows, np.swapaxes(columns, 1, 2))
    return product.reshape(outputs, inputs // groups, *kernel)


def transposed_sizes(
    sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, output_padding: Any
) -> list[Any]:
    entries = zip(sizes, kernel, stride, padding, dilation, output_padding, strict=True)
    return [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, k, s, p, d, o in entries]


def plain_sizes(sizes: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    entries = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in entries]


# -- the choice ------------------------------------------------------------------------------------


def volume_sizes(sizes: Any) -> tuple[int, ...]:
    return tuple([int(size) for size in sizes])


def convolved(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """Plain convolution."""
    extent = plain_sizes(input.shape[2:], weight.shape[2:], stride, padding, dilation)
    work = input.shape[0] * weight.size * math.prod(extent)
    kernels = heavy_kernels(work, input, weight)
    options = stride, padding, dilation
    if kernels is not None and (bias is None or bias.dtype == np.float32):
        return kernels.forward(input, weight, bias, *map(volume_sizes, options), groups)
    source = padded(widen(input), [(p, p) for p in padding])
    found = correlate(source, widen(weight), stride, dilation, groups)
    return with_bias(found, bias)


def with_bias(found: Any, bias: Any) -> Any:
    return found if bias is None else found + widen(bias).reshape(-1, *[1] * (found.ndim - 2))


def input_gradient(
    grad: Any, weight: Any, bias: Any, sizes: Any, stride: Any, padding: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """The adjoint of plain convolution in its input, whose spatial sizes are given, and a bias of
    a transposed convolution."""
    kernels = heavy_kernels(grad.size * math.prod(weight.shape[1:]), grad, weight)
    options = sizes, stride, padding, dilation
    if kernels is not None and (bias is None or bias.dtype == np.float32):
        found = kernels.input_gradient(grad, weight, bias, *map(volume_sizes, options), groups)
        if found is not None:
            return found
    found = adjoint(widen(grad), widen(weight), sizes, stride, padding, dilation, groups)
    return with_bias(found, bias)


def weight_gradient(
    input: Any, grad: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    """The adjoint of plain convolution in its weight."""
    work = grad.size * (input.shape[1] // groups) * math.prod(kernel)
    kernels = heavy_kernels(work, input, grad)
    options = kernel, stride, padding, dilation
    if kernels is not None:
        return kernels.weight_gradient(input, grad, *map(volume_sizes, options), groups)
    return weight_adjoint(widen(input), widen(grad), kernel, stride, padding, dilation, groups)
