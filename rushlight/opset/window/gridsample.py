"""Sampling images at places that a grid names, and the grids of affine maps.

Along each axis a place has a few taps: an index, a weight, and the weight's first and second
derivative in the place. The kernels and the second derivative, which is made of ops, share the
code that finds them: `m` is NumPy or the ops.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from rushlight.arrays.precision import widen
from rushlight.core import dtype as dtypes
from rushlight.core import geometry
from rushlight.core.dispatch import call
from rushlight.core.dtype import FLOAT, unsupported
from rushlight.core.op import OpOverload
from rushlight.core.tensor import sizes_of
from rushlight.opset.kinds import WINDOW, Spec
from rushlight.opset.registry import composite, op
from rushlight.opset.rules import aten, late, linear_in

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2

# -- taps ------------------------------------------------------------------------------------------


class Tap:
    """One tap along one axis: places, whether they are inside, weights and their derivatives."""

    __slots__ = ("index", "inside", "weights")

    def __init__(self, index: Any, inside: Any, *weights: Any) -> None:
        self.index = index
        self.inside = inside
        self.weights = weights


def to_pixels(place: Any, size: Any, align: bool) -> tuple[Any, Any]:
    """A place in [-1, 1] as a pixel's, and the factor between them."""
    if align:
        return (place + 1) * ((size - 1) / 2), (size - 1) / 2
    return ((place + 1) * size - 1) / 2, size / 2


def clipped(m: Any, place: Any, size: Any) -> tuple[Any, Any]:
    """(places within the axis, 0 where they were not and 1 elsewhere)."""
    low, high = place <= 0, place >= size - 1
    moved = m.where(low, m.zeros_like(place), place)
    moved = m.where(high, m.full_like(place, size - 1), moved)
    # A place that is no number goes to the first pixel.
    moved = m.where(place == place, moved, m.zeros_like(place))
    stays = m.where(low | high, m.zeros_like(place), m.ones_like(place))
    return moved, stays


def reflected(m: Any, place: Any, size: Any, align: bool) -> tuple[Any, Any]:
    """(places mirrored at the ends until they are inside, 1 or -1)."""
    low, span = (0.0, size - 1) if align else (-0.5, size)
    if align and size == 1:
        return m.zeros_like(place), m.zeros_like(place)
    shifted = place - low
    sign = m.where(shifted < 0, -m.ones_like(place), m.ones_like(place))
    shifted = m.abs(shifted)
    extra = m.fmod(shifted, span)
    even = m.fmod(m.floor(shifted / span), 2) == 0
    moved = m.where(even, extra + low, span - extra + low)
    return moved, m.where(even, sign, -sign)


def moved_inside(m: Any, place: Any, size: Any, padding: int, align: bool) -> tuple[Any, Any]:
    if padding == BORDER:
        return clipped(m, place, size)
    if padding == REFLECTION:
        mirrored, sign = reflected(m, place, size, align)
        mirrored, stays = clipped(m, mirrored, size)
        return mirrored, sign * stays
    return place, None


def whole(m: Any, value: Any) -> Any:
    """Places as integers; what is no number or far away lies outside."""
    near = m.abs(value) < 2.0**30
    value = m.where(near, value, m.full_like(value, -100.0))
    return value.astype(np.int64) if m is np else value.detach().to(dtypes.int64)


def tap_at(m: Any, place: Any, size: Any, *weights: Any) -> Tap:
    index = whole(m, place)
    inside = (index >= 0) & (index < size)
    return Tap(m.where(inside, index, m.zeros_like(index)), inside, *weights)


def cubic_weights(part: Any) -> list[tuple[Any, Any, Any]]:
    """Weights of the places at -1, 0, 1, 2 with their first and second derivative in `part`."""
    a = -0.75

    def near(x: Any) -> tuple[Any, Any, Any]:
        value = ((a + 2) * x - (a + 3)) * x * x + 1
        return value, (3 * (a + 2) * x - 2 * (a + 3)) * x, 6 * (a + 2) * x - 2 * (a + 3)

    def far(x: Any) -> tuple[Any, Any, Any]:
        value = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return value, (3 * a * x - 10 * a) * x + 8 * a, 6 * a * x - 10 * a

    def mirror(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        return found[0], -found[1], found[2]

    return [far(part + 1), near(part), mirror(near(1 - part)), mirror(far(2 - part))]


def axis_taps(
    m: Any, place: Any, size: Any, mode: int, padding: int, align: bool
) -> tuple[list[Tap], Any]:
    """The taps of all places along one axis, and the derivative of pixels in grid places."""
    pixel, factor = to_pixels(place, size, align)
    ones, zeros = m.ones_like(place), m.zeros_like(place)
    if mode == BICUBIC:
        first = m.floor(pixel)
        taps = []
        for offset, weights in zip(range(-1, 3), cubic_weights(pixel - first), strict=True):
            spot, _ = moved_inside(m, first + offset, size, padding, align)
            taps.append(tap_at(m, spot, size, *weights))
        return taps, factor
    pixel, slope = moved_inside(m, pixel, size, padding, align)
    slope = factor if slope is None else slope * factor
    if mode == NEAREST:
        return [tap_at(m, m.round(pixel), size, ones, zeros, zeros)], slope
    first = m.floor(pixel)
    part = pixel - first
    return [
        tap_at(m, first, size, 1 - part, -ones, zeros),
        tap_at(m, first + 1, size, part, ones, zeros),
    ], slope


def flattened(value: Any, count: int) -> Any:
    """The last `count` dims as one, which NumPy does not find out itself where nothing is left."""
    if not isinstance(value, np.ndarray):
        return value.flatten(value.dim() - count)
    return value.reshape(*value.shape[:-count], int(np.prod(value.shape[-count:], dtype=np.int64)))


class Sampling:
    """The taps of a whole grid. Arrays are (batch, channel, place), places and taps flattened."""

    __slots__ = ("axes", "m", "sizes", "slopes")

    def __init__(self, m: Any, sizes: Any, grid: Any, mode: int, padding: int, align: bool) -> None:
        self.m = m
        self.sizes = sizes
        count = len(sizes)
        self.axes, self.slopes = [], []
        for axis, size in enumerate(sizes):
            # The last coordinate of a grid belongs to the first axis.
            place = flattened(grid[..., count - 1 - axis], count)
            taps, slope = axis_taps(m, place, size, mode, padding, align)
            self.axes.append(taps)
            self.slopes.append(slope)

    def combinations(self) -> Iterator[tuple[Any, Any, tuple[Tap, ...]]]:
        """(flat places, whether they are inside, taps) of every tap of the box."""
        for taps in product(*self.axes):
            flat: Any = 0
            inside: Any = None
            for tap, size in zip(taps, self.sizes, strict=True):
                flat = flat * size + tap.index
                inside = tap.inside if inside is None else inside & tap.inside
            yield flat, inside, taps

    def weight(self, taps: tuple[Tap, ...], inside: Any, *along: int) -> Any:
        """The product of weights, derived once for every axis named."""
        found: Any = None
        for axis, tap in enumerate(taps):
            factor = tap.weights[along.count(axis)]
            found = factor if found is None else found * factor
        return found if inside is None else self.m.where(inside, found, self.m.zeros_like(found))


# -- kernels ---------------------------------------------------------------------------------------


def between_pixels(source: Any, grid: Any, align: bool) -> Any:
    """The commonest sampling, as `Sampling` would do it: bilinear, of images with zeros around
    them."""
    batch, channels, height, width = source.shape
    right, down = parts = grid.reshape(-1, 2).T.copy()
    # `to_pixels`, in place.
    parts += 1
    right *= (width - align) / 2
    down *= (height - align) / 2
    if not align:
        parts -= 0.5
    column, row = first = np.floor(parts)
    parts -= first
    lowest, (last_column, last_row) = first.min(), first.max(1)
    margin = 0
    if not (lowest >= 0 and last_column < width - 1 and last_row < height - 1):
        # Two pixels on each side: a place that is far away reads nothing but zeros. What is no
        # number stays so and is read anywhere: its weights are no numbers either.
        margin = 2
        column.clip(-2, width, column)
        row.clip(-2, height, row)
    high, wide = height + 2 * margin, width + 2 * margin
    size = batch * high * wide
    # Channels come first, since all of them are read at the same places. What follows the last of
    # them lets all be read from a few pixels further on.
    make = np.zeros if margin else np.empty
    store = make(channels * size + wide + 1, source.dtype)
    framed = store[: channels * size].reshape(channels, batch, high, wide)
    framed[:, :, margin : margin + height, margin : margin + width] = source.swapaxes(0, 1)
    # Numbers of 32 bits are quick to make; NumPy reads at those of 64.
    column, row = first.astype(np.int32 if size < 2**31 else np.int64)
    row *= wide
    row += column
    starts = np.arange(margin * wide + margin, size, high * wide, dtype=row.dtype)
    rows = row.reshape(batch, -1)
    rows += starts[:, None]
    index = row.astype(np.int64, copy=False)
    # All within bounds, which NumPy sees soonest when it would wrap them. Those made of no numbers
    # are not, and may be so far away that it would wrap them for long.
    mode: Any = "wrap" if lowest == lowest else "clip"

    def weighted(step: int, weight: Any, out: Any = None) -> Any:
        planes = store[step : step + channels * size].reshape(channels, size)
        values = planes.take(index, 1, out, mode)
        values *= weight
        return values

    left, up = 1 - parts
    result = weighted(0, up * left)
    result += (values := weighted(1, up * right))
    result += weighted(wide, down * left, values)
    result += weighted(wide + 1, down * right, values)
    return result.reshape(channels, batch, index.size // batch).swapaxes(0, 1)


def sampled(input: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    count = input.ndim - 2
    if not grid.size:
        return np.zeros((*input.shape[:2], *grid.shape[1:-1]), input.dtype)
    source, places = widen(input), widen(grid)
    with np.errstate(invalid="ignore"):
        if (mode, padding, count) == (BILINEAR, ZEROS, 2) and source.dtype == places.dtype:
            found = between_pixels(source, places, align)
            return found.astype(input.dtype, "C").reshape(*input.shape[:2], *grid.shape[1:-1])
        sampling = Sampling(np, input.shape[2:], places, mode, padding, align)
        planes = flattened(source, count)
        result = np.zeros((*planes.shape[:2], *sampling.axes[0][0].index.shape[1:]), source.dtype)
        for flat, inside, taps in sampling.combinations():
            values = np.take_along_axis(planes, flat[:, None], 2)
            values = np.where(inside[:, None], values, 0)
            # A place that is no number gives no number, inside or not.
            result += values * sampling.weight(taps, None)[:, None]
    return result.reshape(*input.shape[:2], *grid.shape[1:-1]).astype(input.dtype)


def sample_gradients(
    grad: Any, input: Any, grid: Any, mode: int, padding: int, align: bool, mask: Any
) -> Any:
    count = input.ndim - 2
    batch, channels = input.shape[:2]
    source, places = widen(input), widen(grid)
    planes, flow = flattened(source, count), flattened(widen(grad), count)
    size = planes.shape[2]
    with np.errstate(invalid="ignore"):
        sampling = Sampling(np, input.shape[2:], places, mode, padding, align)
        total = np.zeros(batch * channels * size, np.float64)
        rows = np.arange(batch * channels).reshape(batch, channels, 1) * size
        over_grid = np.zeros((*grid.shape[:1], flow.shape[2], count), places.dtype)
        for flat, inside, taps in sampling.combinations():
            if mask[0]:
                shares = flow * sampling.weight(taps, inside)[:, None]
                spots = (rows + flat[:, None]).reshape(-1)
                total += np.bincount(spots, shares.reshape(-1), total.size)
            if mode == NEAREST:
                continue
            values = np.take_along_axis(planes, flat[:, None], 2)
            values = np.where(inside[:, None], values, 0)
            together = (values * flow).sum(1)
            for axis in range(count):
                part = together * sampling.weight(taps, inside, axis) * sampling.slopes[axis]
                over_grid[..., count - 1 - axis] += part
    found = total.reshape(input.shape).astype(input.dtype) if mask[0] else None
    return found, over_grid.reshape(grid.shape).astype(grid.dtype)


# -- the second derivative -------------------------------------------------------------------------


def double_backward(
    grads: Any, grad_output: Any, input: Any, grid: Any, mode: int, padding: int, align: bool,
    needs: Any,
) -> Any:  # fmt: skip
    """What the backward pass adds to its operands: it is the derivative of one sampling, linear
    in the gradient, so its adjoint is the sampling's derivative in a direction."""
    over_input, over_grid = grads
    count = input.dim() - 2
    channels = input.shape[1]
    sampling = Sampling(aten, input.shape[2:], grid, mode, padding, align)
    planes, flow = input.flatten(2), grad_output.flatten(2)
    moves = None if over_grid is None else moved_by(sampling, over_grid)
    for_flow = aten.zeros_like(flow)
    for_planes = aten.zeros_like(planes)
    for_axes: list[Any] = [None] * count
    for flat, inside, taps in sampling.combinations():
        index = flat.unsqueeze(1).expand(flat.shape[0], channels, flat.shape[1])
        values = planes.gather(2, index)
        if over_input is not None:
            direction = over_input.flatten(2).gather(2, index)
            for_flow = for_flow + direction * sampling.weight(taps, inside).unsqueeze(1)
            if mode != NEAREST:
                together = (direction * flow).sum(1)
                for axis in range(count):
                    part = together * sampling.weight(taps, inside, axis)
                    for_axes[axis] = part if for_axes[axis] is None else for_axes[axis] + part
        if moves is None or mode == NEAREST:
            continue
        together = (values * flow).sum(1)
        for axis in range(count):
            turn = (sampling.weight(taps, inside, axis) * moves[axis]).unsqueeze(1)
            for_flow = for_flow + values * turn
            for_planes = for_planes.scatter_add(2, index, flow * turn)
            for other in range(count):
                part = together * sampling.weight(taps, inside, axis, other) * moves[axis]
                for_axes[other] = part if for_axes[other] is None else for_axes[other] + part
    for_grid = None
    if needs[2]:
        parts = []
        for axis in range(count - 1, -1, -1):
            part = for_axes[axis]
            if part is None:
                part = aten.zeros_like(sampling.axes[axis][0].weights[0])
            parts.append((part * sampling.slopes[axis]).reshape(grid.shape[:-1]))
        for_grid = aten.stack(parts, -1)
    return (
        for_flow.reshape(grad_output.shape) if needs[0] else None,
        # torch: not zeros but nothing.
        for_planes.reshape(input.shape) if needs[1] and mode != NEAREST else None,
        for_grid,
    )


def moved_by(sampling: Sampling, grid_t: Any) -> list[Any]:
    """How far every place moves along each axis when the grid moves by its tangent."""
    count = len(sampling.sizes)
    return [
        grid_t[..., count - 1 - axis].flatten(1) * sampling.slopes[axis] for axis in range(count)
    ]


def tangent(
    input_t: Any, grid_t: Any, input: Any, grid: Any, mode: int, padding: int, align: bool
) -> Any:
    """How the samples change with the input and the grid."""
    sampling = Sampling(aten, input.shape[2:], grid, mode, padding, align)
    planes, channels = input.flatten(2), input.shape[1]
    turns = None if grid_t is None or mode == NEAREST else moved_by(sampling, grid_t)
    total: Any = 0
    for flat, inside, taps in sampling.combinations():
        index = flat.unsqueeze(1).expand(flat.shape[0], channels, flat.shape[1])
        if input_t is not None:
            weight = sampling.weight(taps, inside).unsqueeze(1)
            total = total + input_t.flatten(2).gather(2, index) * weight
        for axis, move in enumerate(turns or ()):
            turn = (sampling.weight(taps, inside, axis) * move).unsqueeze(1)
            total = total + planes.gather(2, index) * turn
    shape = (*input.shape[:2], *grid.shape[1:-1])
    return input.new_zeros(shape) if isinstance(total, int) else total.reshape(shape)


def gradient_tangents(
    grad_output_t: Any, input_t: Any, grid_t: Any, grad_output: Any, input: Any, grid: Any,
    mode: int, padding: int, align: bool, mask: Any,
) -> Any:  # fmt: skip
    """How the gradients of sampling change with all that they depend on."""
    count = input.dim() - 2
    channels = input.shape[1]
    sampling = Sampling(aten, input.shape[2:], grid, mode, padding, align)
    planes, flow = input.flatten(2), grad_output.flatten(2)
    turns = None if grid_t is None or mode == NEAREST else moved_by(sampling, grid_t)
    for_planes = aten.zeros_like(planes)
    for_axes = [aten.zeros_like(tap[0].weights[0]) for tap in sampling.axes]
    for flat, inside, taps in sampling.combinations():
        index = flat.unsqueeze(1).expand(flat.shape[0], channels, flat.shape[1])
        values = planes.gather(2, index)
        share: Any = 0
        change: Any = 0
        if grad_output_t is not None:
            flow_t = grad_output_t.flatten(2)
            share = share + flow_t * sampling.weight(taps, inside).unsqueeze(1)
            change = change + (values * flow_t).sum(1)
        if input_t is not None:
            change = change + (input_t.flatten(2).gather(2, index) * flow).sum(1)
        for axis, move in enumerate(turns or ()):
            share = share + flow * (sampling.weight(taps, inside, axis) * move).unsqueeze(1)
        if not isinstance(share, int):
            for_planes = for_planes.scatter_add(2, index, share)
        if mode == NEAREST:
            continue
        together = (values * flow).sum(1)
        for axis in range(count):
            if not isinstance(change, int):
                for_axes[axis] = for_axes[axis] + change * sampling.weight(taps, inside, axis)
            for other, move in enumerate(turns or ()):
                bend = sampling.weight(taps, inside, axis, other) * move
                for_axes[axis] = for_axes[axis] + together * bend
    parts = [
        (for_axes[axis] * sampling.slopes[axis]).reshape(grid.shape[:-1])
        for axis in range(count - 1, -1, -1)
    ]
    return for_planes.reshape(input.shape) if mask[0] else None, aten.stack(parts, -1)


# -- the ops ---------------------------------------------------------------------------------------


def check_sampling(input: Any, grid: Any, mode: int) -> None:
    shape, places = sizes_of(input), sizes_of(grid)
    if shape[0] != places[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {geometry.show(shape)} and grid with sizes {geometry.show(places)}"
        )
    if not geometry.plausible(places[-1] == len(shape) - 2):
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {len(shape) - 2} in last dimension, but "
            f"got grid with sizes {geometry.show(places)}"
        )
    for axis in range(2, len(shape)):
        if geometry.decided(shape[axis] <= 0):
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input "
                f"has sizes {geometry.show(shape)} with dimension {axis} being empty"
            )


def check_ranks(input: Any, grid: Any, count: int, mode: int) -> None:
    check_sampling(input, grid, mode)
    if input.dim() != count + 2 or grid.dim() != count + 2:
        raise RuntimeError(
            f"grid_sampler(): expected {count + 2}D input and grid with same number of dimensions, "
            f"but got input with sizes {geometry.show(sizes_of(input))} and grid with sizes "
            f"{geometry.show(sizes_of(grid))}"
        )
    if count == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def check_types(name: str, input: Any, grid: Any) -> None:
    if input._dtype.category != FLOAT:
        empty = any([geometry.is_size(size, 0) for size in (*sizes_of(input), *sizes_of(grid))])
        if not (empty and input.dim() == 4):
            raise unsupported(name, input._dtype)
    if grid._dtype is not input._dtype:
        raise RuntimeError(
            f"expected scalar type {input._dtype.scalar_type_name} but found "
            f"{grid._dtype.scalar_type_name}"
        )


def define(count: int) -> OpOverload:
    """grid_sampler_{count}d and its backward; gives the former."""
    name = f"grid_sampler_{count}d"
    options = "int interpolation_mode, int padding_mode, bool align_corners"
    backward: OpOverload
    forward = op(
        f"{name}(Tensor input, Tensor grid, {options}) -> Tensor",
        autocast="float32",
        kind=WINDOW.checked,
        fold=count + 2,
        method=False,
        node=f"GridSampler{count}DBackward0",
        vjp=lambda grad, input, grid, interpolation_mode, padding_mode, align_corners, needs: (
            backward(
                grad, input, grid, interpolation_mode, padding_mode, align_corners, list(needs)
            )
        ),
        jvp=lambda input_t, grid_t, input, grid, interpolation_mode, padding_mode, align_corners: (
            tangent(input_t, grid_t, input, grid, interpolation_mode, padding_mode, align_corners)
        ),
    )

    @forward.shape
    def _(
        input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Any:
        check_ranks(input, grid, count, interpolation_mode)
        check_types(
            "grid_sampler_2d_cpu_kernel_impl" if count == 2 else "grid_sampler3d_cpu", input, grid
        )
        return Spec((*sizes_of(input)[:2], *sizes_of(grid)[1:-1]), input._dtype)

    @forward.kernel
    def _(
        xp: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int,
        align_corners: bool,
    ) -> Any:  # fmt: skip
        return sampled(input, grid, interpolation_mode, padding_mode, align_corners)

    backward = op(
        f"{name}_backward(Tensor grad_output, Tensor input, Tensor grid, {options}, "
        "bool[2] output_mask) -> (Tensor, Tensor)",
        kind=WINDOW.checked,
        fold=count + 2,
        method=False,
        function=False,
        out=False,
        differentiable=["grad_output", "input", "grid"],
        node=f"GridSampler{count}DBackwardBackward0",
        vjp=lambda grads, grad_output, input, grid, interpolation_mode, padding_mode, align_corners,
        needs: double_backward(
            grads, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, needs
        ),
        jvp=lambda grad_output_t, input_t, grid_t, grad_output, input, grid, interpolation_mode,
        padding_mode, align_corners, output_mask: gradient_tangents(
            grad_output_t, input_t, grid_t, grad_output, input, grid, interpolation_mode,
            padding_mode, align_corners, output_mask,
        ),
    )  # fmt: skip

    @backward.shape
    def _(
        grad_output: Any, input: Any, grid: Any, interpolation_mode: int, padding_mode: int,
        align_corners: bool, output_mask: Any,
    ) -> Any:  # fmt: skip
        check_ranks(input, grid, count, interpolation_mode)
        kernel = "_cpu_kernel_impl" if count == 2 else "_cpu"
        check_types(f"{name}_backward{kernel}", input, grid)
        wanted = (*sizes_of(input)[:2], *sizes_of(grid)[1:-1])
        if not geometry.fitting(sizes_of(grad_output), wanted):
            raise RuntimeError(
                f"{name}_backward(): expected grad_output of size {geometry.show(wanted)}, but got "
                f"{geometry.show(sizes_of(grad_output))}"
            )
        first = Spec(sizes_of(input), input._dtype) if output_mask[0] else None
        return first, Spec(sizes_of(grid), grid._dtype)

    @backward.kernel
    def _(
        xp: Any, grad_output: Any, input: Any, grid: Any, interpolation_mode: int,
        padding_mode: int, align_corners: bool, output_mask: Any,
    ) -> Any:  # fmt: skip
        return sample_gradients(
            grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
        )

    small = (1, 2, 3, 4) if count == 2 else (1, 1, 2, 3, 3)
    places = (1, 2, 3, 2) if count == 2 else (1, 2, 1, 2, 3)
    modes = (BILINEAR, NEAREST, BICUBIC) if count == 2 else (BILINEAR, NEAREST)

    def samples(make: Any) -> Any:
        for mode in modes:
            for padding in (ZEROS, BORDER, REFLECTION):
                align = padding == BORDER
                yield make(small), make(places, low=-1.3, high=1.3), mode, padding, align
                yield make(small), make(places, low=-2.9, high=2.9), mode, padding, not align
        yield make.strided(small), make.strided(places, low=-1, high=1), BILINEAR, ZEROS, False
        yield make(0, *small[1:]), make(0, *places[1:]), BILINEAR, ZEROS, False

    forward.samples = samples
    forward.errors = lambda make: [
        (RuntimeError, (make(2, *small[1:]), make(places), 0, 0, False)),
        (RuntimeError, (make(small), make(*places[:-1], 4), 0, 0, False)),
        (RuntimeError, (make(small), make(places, dtype=dtypes.float64), 0, 0, False)),
        (RuntimeError, (make(*small[:-1], 0), make(places), 0, 0, False)),
    ]
    answer = (*small[:2], *places[1:-1])

    def backward_samples(make: Any) -> Any:
        for mode in modes:
            for padding in (ZEROS, BORDER, REFLECTION):
                grid = make(places, low=-1.3, high=1.3)
                yield make(answer), make(small), grid, mode, padding, False, [True, True]
        yield make(answer), make(small), make(places), BILINEAR, ZEROS, True, [False, True]

    backward.samples = backward_samples
    backward.errors = lambda make: [
        (RuntimeError, (make(answer), make(small), make(4, 4), 0, 0, False, [True, True])),
    ]
    return forward


SAMPLERS = {4: define(2), 5: define(3)}


@composite(
    "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "
    "bool align_corners) -> Tensor",
    autocast="float32",
    method=False,
    out=False,
)
def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    check_sampling(input, grid, interpolation_mode)
    sampler = SAMPLERS.get(input.dim())
    if sampler is None:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {geometry.show(sizes_of(input))} and grid with sizes "
            f"{geometry.show(sizes_of(grid))}"
        )
    return call(sampler, (input, grid, interpolation_mode, padding_mode, align_corners))


grid_sampler.samples = lambda make: [
    (make(1, 2, 3, 4), make(1, 2, 3, 2, low=-1, high=1), 0, 0, False),
    (make(1, 1, 2, 3, 3), make(1, 2, 1, 2, 3, low=-1, high=1), 0, 1, True),
]
grid_sampler.errors = lambda make: [
    (RuntimeError, (make(1, 2, 3, 4), make(2, 2, 3, 2), 0, 0, False)),
    (RuntimeError, (make(1, 2, 3), make(1, 2, 3, 2), 0, 0, False)),
]

# -- affine grids ----------------------------------------------------------------------------------


def steps(theta: Any, count: Any, align: bool) -> Any:
    """`count` coordinates from -1 to 1; centers of pixels unless the corners are aligned."""
    if geometry.is_size(count, 1):
        return theta.new_zeros((1,))
    # torch: coordinates are made in the dtype of theta.
    line = aten.linspace(-1, 1, count, dtype=theta.dtype, device=theta.device)
    return line if align else (line * (count - 1) / count).to(theta.dtype)


def base_grid(theta: Any, size: Any, align: bool) -> Any:
    """(batch, places, dims + 1): homogeneous coordinates of every pixel, the last dim's first."""
    shape = tuple(size[2:])
    parts = []
    for axis in range(len(shape) - 1, -1, -1):
        line = steps(theta, shape[axis], align)
        line = line.view([-1 if other == axis else 1 for other in range(len(shape))])
        parts.append(line.expand(shape))
    parts.append(theta.new_ones(shape))
    return aten.stack(parts, -1).unsqueeze(0).expand((size[0], *shape, len(shape) + 1))


def check_affine(size: Any) -> None:
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")


affine_grid_generator = op(
    "affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor",
    batch=late("window.batched:affine_grid"),
    kind=WINDOW.checked,
    method=False,
    vjp=lambda grad, size, align_corners: aten.affine_grid_generator_backward(
        grad, size, align_corners
    ),
    jvp=linear_in("theta"),
)


@affine_grid_generator.shape
def _(theta: Any, size: Any, align_corners: bool) -> Any:
    check_affine(size)
    if theta._dtype is dtypes.bool_:
        raise unsupported("linspace_cpu", theta._dtype)
    shape, count = sizes_of(theta), len(size) - 2
    if (
        len(shape) != 3
        or geometry.decided(shape[0] != size[0])
        or geometry.decided(shape[2] != count + 1)
    ):
        raise RuntimeError(
            "Expected size for first two dimensions of batch2 tensor to be: "
            f"[{size[0]}, {count + 1}] but got: {geometry.show((shape[0], *shape[:1:-1]))}."
        )
    if geometry.decided(shape[1] != count):
        wanted = (size[0], *size[2:], count)
        held = geometry.numel((size[0], *size[2:], shape[1]))
        raise RuntimeError(f"shape '{geometry.show(wanted)}' is invalid for input of size {held}")
    return Spec((size[0], *size[2:], count), theta._dtype)


@affine_grid_generator.kernel
def _(xp: Any, theta: Any, size: Any, align_corners: bool) -> Any:
    places = array_grid(size, align_corners, theta.dtype)
    source = widen(theta)
    grid = xp.matmul(places.reshape(1, -1, places.shape[-1]), xp.swapaxes(source, 1, 2))
    return grid.reshape(size[0], *size[2:], len(size) - 2).astype(theta.dtype)


def array_grid(size: Any, align: bool, dtype: Any) -> Any:
    """The places of all pixels with a one behind them, as `affine_grid_generator` maps them."""
    shape = tuple(size[2:])
    result = np.ones((*shape, len(shape) + 1), dtype)
    for axis, count in enumerate(shape):
        line: Any = np.zeros(1)
        if count > 1:
            line = np.linspace(-1, 1, count)
        if not align and dtype.kind in "iu":
            line = np.trunc(line) * (count - 1)
            line = np.sign(line) * (np.abs(line) // count)
        elif not align:
            line = line.astype(dtype) * np.asarray(count - 1, dtype) / np.asarray(count, dtype)
        lengths = [1] * len(shape)
        lengths[axis] = count
        result[..., len(shape) - 1 - axis] = line.astype(dtype).reshape(lengths)
    return widen(result)


@composite(
    "affine_grid_generator_backward(Tensor grad, SymInt[] size, bool align_corners) -> Tensor",
    method=False,
    function=False,
    out=False,
)
def affine_grid_generator_backward(grad: Any, size: Any, align_corners: bool) -> Any:
    check_affine(size)
    count = len(size) - 2
    places = base_grid(grad, size, align_corners).reshape((size[0], -1, count + 1))
    return places.transpose(1, 2).bmm(grad.reshape((size[0], -1, count))).transpose(1, 2)


affine_grid_generator.samples = lambda make: [
    (make(1, 2, 3), [1, 1, 2, 3], False),
    (make(2, 2, 3), [2, 1, 2, 2], True),
    (make.strided(1, 3, 4), [1, 1, 2, 1, 2], False),
    (make(1, 3, 4), [1, 1, 1, 2, 2], True),
]
affine_grid_generator.errors = lambda make: [
    (RuntimeError, (make(1, 2, 3), [1, 1, 2], False)),
    (RuntimeError, (make(2, 2, 3), [1, 1, 2, 2], False)),
    (RuntimeError, (make(1, 3, 3), [1, 1, 2, 2], False)),
]
affine_grid_generator_backward.samples = lambda make: [
    (make(1, 2, 3, 2), [1, 1, 2, 3], False),
    (make(1, 2, 1, 2, 3), [1, 1, 2, 1, 2], True),
]
