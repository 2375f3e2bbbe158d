"""Convolutions of float32 images whose channels lie last in memory: plans, and calls.

Arrays have their sizes in the order of batch, channels, rows, columns, whatever lies where. Results
go where they are to be, and have their channels last there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen.kernels import last, library
from rushlight.codegen.kernels.convolution import (
    BAND,
    SLICES,
    SUMS,
    Ints,
    Plan,
    dense,
    forward,
    fresh,
    input_gradient,
    planned,
    result_sizes,
    takes_winograd,
    transformed_filters,
    weight_gradient,
    winograd_plan,
    winograd_sums,
)
from rushlight.codegen.kernels.pool import threads
from rushlight.codegen.kernels.words import address

__all__ = ["fresh_last", "input_gradient_last", "is_last", "results_last", "weight_gradient_last"]

# Taps by their numbers, each with the row and the column of what it reads.
Taps = list[tuple[int, tuple[int, int]]]


def is_last(array: Any) -> bool:
    return array.ndim == 4 and bool(array.transpose(0, 2, 3, 1).flags.c_contiguous)


def fresh_last(shape: Ints) -> Any:
    batch, channels, height, width = shape
    return fresh((batch, height, width, channels)).transpose(0, 3, 1, 2)


def turned(x: Any, y: Any, rows: int, columns: int) -> None:
    """Each sample's matrix of `rows` transposed."""
    words = last.TURNED.fill(x=address(x), y=address(y), rows=rows, columns=columns)
    work = x.size * 4
    library.run("turn_samples", words, x.shape[0], threads(x.shape[0], work), work)


def to_last(x: Any) -> Any:
    if is_last(x):
        return x
    x = dense(x)
    found = fresh_last(x.shape)
    turned(x, found, x.shape[1], math.prod(x.shape[2:]))
    return found


def to_first(x: Any) -> Any:
    if x.flags.c_contiguous or not is_last(x):
        return dense(x)
    found = fresh(x.shape)
    turned(x, found, math.prod(x.shape[2:]), x.shape[1])
    return found


# -- plans -----------------------------------------------------------------------------------------


class Band:
    """How a band of rows is read, in two dims."""

    def __init__(
        self, sizes: Ints, places: Ints, steps: Ints, before: Ints, taps: Taps, channels: int
    ) -> None:
        reach = [max([at[d] for _, at in taps]) for d in range(2)]
        ends = [(n - 1) * s + r for n, s, r in zip(places, steps, reach, strict=True)]
        stays = all([end < size for end, size in zip(ends, sizes, strict=True)])
        self.is_padded = any(before) or not stays
        self.channels = channels
        pitch = ends[1] + 1 if self.is_padded else sizes[1]
        self.line = pitch * channels
        fit = max(BAND // (4 * self.line * steps[0]), 1)
        self.bands = -(-places[0] // min(fit, places[0]))
        self.band_rows = -(-places[0] // self.bands)
        height = (self.band_rows - 1) * steps[0] + reach[0] + 1
        self.spread = height * self.line + 2 * library.target().lanes if self.is_padded else 0
        self.row_offsets = np.arange(self.band_rows, dtype=np.int64) * (steps[0] * self.line)
        self.words = {
            "bands": self.bands, "band_rows": self.band_rows, "channels": channels,
            "height": sizes[0], "width": sizes[1], "padded": int(self.is_padded),
            "top": before[0], "left": before[1], "row_step": steps[0], "step": steps[1],
            "rows_more": reach[0] + 1, "pitch": pitch, "line": self.line, "y_rows": places[0],
            "y_width": places[1],
        }  # fmt: skip

    def stretches(self, taps: Taps) -> tuple[list[int], Any, int]:
        """Taps in the order of their stretches, where each stretch begins, and how many elements it
        has: taps beside one another are one, if all such runs are as long."""
        runs: list[Taps] = []
        for number, (row, column) in sorted(taps, key=lambda tap: tap[1]):
            if runs and runs[-1][-1][1] == (row, column - 1):
                runs[-1].append((number, (row, column)))
            else:
                runs.append([(number, (row, column))])
        if len({len(run) for run in runs}) > 1:
            runs = [[tap] for run in runs for tap in run]
        starts = [row * self.line + column * self.channels for ((_, (row, column)), *_) in runs]
        order = [number for run in runs for number, _ in run]
        depth = self.channels * len(runs[0]) if runs else 0
        return order, np.array([*starts, 0], np.int64), depth


class Sweep:
    """A plan of results, and the taps of each of its phases in the order that weights take."""

    def __init__(
        self, band: Band, phases: list[tuple[dict[str, int], Taps]], batch: int, outputs: int,
        **values: int,
    ) -> None:  # fmt: skip
        self.orders, self.phases, kept = [], [], []
        for words, taps in phases:
            order, starts, depth = band.stretches(taps)
            self.orders.append(order)
            kept.append(starts)
            count = len(order) * band.channels // depth if depth else 0
            self.phases.append(
                last.LAST_PHASE.fill(count=count, depth=depth, offsets=address(starts), **words)
            )
        self.outputs = outputs
        self.channels = band.channels
        given = {**band.words, "outputs": outputs, "phases": len(phases), **values}
        self.plan = Plan(last.LAST, given, batch * band.bands, band.spread, (band, kept))

    def run(self, x: Any, w: Any, bias: Any, y: Any) -> None:
        """`w`: by outputs, channels and taps."""
        panel, panels = library.target().panel, []
        blocks = -(-self.outputs // panel)
        listed = []
        for words, order in zip(self.phases, self.orders, strict=True):
            packed = np.zeros((blocks, len(order), self.channels, panel), np.float32)
            for block in range(blocks):
                part = w[block * panel : (block + 1) * panel]
                packed[block, :, :, : len(part)] = part[:, :, order].transpose(2, 1, 0)
            words = words.copy()
            words[last.LAST_PHASE.places["w"]] = address(packed)
            listed.append(words)
            panels.append(packed)
        phases = np.concatenate(listed)
        memory = {"x": x, "y": y, "phase_list": phases}
        if bias is not None:
            memory["bias"] = dense(bias)
        work = y.size * self.channels * sum([len(order) for order in self.orders])
        self.plan.run("last", self.plan.chunks, work, **memory)


@planned
def forward_sweep(shape: Ints, filters: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Sweep:
    sizes, kernel = shape[2:], filters[2:]
    places = result_sizes(sizes, kernel, stride, padding, dilation)
    taps = taps_of(kernel, dilation)
    band = Band(sizes, places, stride, padding, taps, filters[1])
    outputs = filters[0]
    row = places[1] * outputs
    phase = {"rows": places[0], "width": places[1]}
    return Sweep(
        band, [(phase, taps)], shape[0], outputs, y_sample=places[0] * row, y_row=row,
        y_column=outputs,
    )  # fmt: skip


def taps_of(kernel: Ints, dilation: Ints) -> Taps:
    return [
        (number, (row * dilation[0], column * dilation[1]))
        for number, (row, column) in enumerate(np.ndindex(*kernel))
    ]


@planned
def backward_sweep(
    shape: Ints, filters: Ints, result: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Sweep | None:
    """None where nothing but zeros would be read in front."""
    found: list[tuple[tuple[int, ...], Taps]] = []
    for phase in np.ndindex(*[min(s, n) for s, n in zip(stride, result, strict=True)]):
        taps: Taps = []
        for number, tap in enumerate(np.ndindex(*filters[2:])):
            entries = list(zip(phase, padding, tap, dilation, stride, strict=True))
            if all([(q + p - k * d) % s == 0 for q, p, k, d, s in entries]):
                row, column = [(q + p - k * d) // s for q, p, k, d, s in entries]
                taps.append((number, (row, column)))
        found.append((phase, taps))
    lows = [min([at[d] for _, taps in found for _, at in taps]) for d in range(2)]
    if max(lows) > 0:
        return None
    before = tuple([-low for low in lows])
    shifted = [
        [(number, (row - lows[0], column - lows[1])) for number, (row, column) in taps]
        for _, taps in found
    ]
    places = tuple([-(-n // s) for n, s in zip(result, stride, strict=True)])
    together = [tap for taps in shifted for tap in taps]
    band = Band(shape[2:], places, (1, 1), before, together, filters[0])
    outputs = filters[1]
    row = result[1] * outputs
    phases = []
    for (phase, _), taps in zip(found, shifted, strict=True):
        left = [-(-(n - q) // s) for n, q, s in zip(result, phase, stride, strict=True)]
        first = phase[0] * row + phase[1] * outputs
        phases.append(({"rows": left[0], "width": left[1], "first": first}, taps))
    return Sweep(
        band, phases, shape[0], outputs, y_sample=result[0] * row, y_row=stride[0] * row,
        y_column=stride[1] * outputs,
    )  # fmt: skip


@planned
def weight_plan_last(
    shape: Ints, grad: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> tuple[Plan, list[int], int]:
    taps = taps_of(kernel, dilation)
    channels, outputs, places = shape[1], grad[1], grad[2:]
    band = Band(shape[2:], places, stride, padding, taps, channels)
    order, starts, depth = band.stretches(taps)
    sums = channels * len(taps) * outputs
    chunks = shape[0] * band.bands
    slices = max(1, min(SLICES, chunks, SUMS // (4 * sums)))
    wide = readable(outputs)
    given = {
        **band.words, "g_sample": math.prod(places) * wide, "g_wide": wide, "outputs": outputs,
        "count": len(starts) - 1, "depth": depth, "offsets": address(starts),
        "row_offsets": address(band.row_offsets), "chunks": chunks, "slices": slices,
        "sums_slice": sums,
    }  # fmt: skip
    return Plan(last.LAST_WEIGHTS, given, slices, band.spread, (band, starts)), order, sums


def readable(outputs: int) -> int:
    """How many outputs rows have that products may read in whole vectors."""
    target = library.target()
    rest = outputs % target.panel
    width = target.panel
    while rest and width // 2 >= rest and width // 2 >= target.lanes:
        width //= 2
    return outputs - rest + width if rest else outputs


# -- calls -----------------------------------------------------------------------------------------


def is_winograd(
    batch: int, places: Ints, channels: int, outputs: int, kernel: Ints, stride: Ints,
    dilation: Ints,
) -> bool:  # fmt: skip
    """Whether Winograd's way is taken: channels and outputs are read in whole vectors."""
    lanes = library.target().lanes
    whole = channels % lanes == 0 and outputs % lanes == 0
    return whole and takes_winograd(batch, places, channels, outputs, kernel, stride, dilation, 1)


def results_last(
    x: Any, w: Any, bias: Any, y: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> None:
    """A convolution into `y`."""
    ends = w.shape[1], w.shape[0]
    if groups != 1:
        y[...] = forward(to_first(x), w, bias, stride, padding, dilation, groups)
        return
    x, w = to_last(x), dense(w)
    if is_winograd(x.shape[0], y.shape[2:], *ends, w.shape[2:], stride, dilation):
        winograd_last(x, w, bias, y, padding, False)
        return
    sweep = forward_sweep(x.shape, w.shape, stride, padding, dilation)
    sweep.run(x, w.reshape(*w.shape[:2], -1), bias, y)


def input_gradient_last(
    grad: Any, w: Any, y: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> None:
    """What a convolution's input has of its result's gradient, into `y`."""
    ends = w.shape[0], w.shape[1]
    sweep = None
    if groups == 1:
        before = tuple([2 - p for p in padding])
        wanted = is_winograd(grad.shape[0], y.shape[2:], *ends, w.shape[2:], stride, dilation)
        if wanted and min(before) >= 0:
            winograd_last(to_last(grad), dense(w), None, y, before, True)
            return
        sweep = backward_sweep(grad.shape, w.shape, y.shape[2:], stride, padding, dilation)
    if sweep is None:
        sizes = y.shape[2:]
        y[...] = input_gradient(to_first(grad), w, None, sizes, stride, padding, dilation, groups)
        return
    sweep.run(to_last(grad), dense(w).reshape(*w.shape[:2], -1).transpose(1, 0, 2), None, y)


def winograd_last(x: Any, w: Any, bias: Any, y: Any, before: Ints, flips: bool) -> None:
    channels, outputs = x.shape[1], y.shape[1]
    plan = winograd_plan(
        x.shape[0], channels, outputs, x.shape[2:], y.shape[2:], before, True, True
    )
    steps = (9, outputs * 9) if flips else (channels * 9, 9)
    memory = {"x": x, "u": transformed_filters(w, outputs, channels, steps, flips), "y": y}
    if bias is not None:
        memory["bias"] = dense(bias)
    plan.run("winograd", plan.chunks, y.size * channels * 4, **memory)


def weight_gradient_last(
    x: Any, grad: Any, y: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> None:
    """The gradient of a convolution's weights, into the dense `y`."""
    kernel = y.shape[2:]
    if groups != 1:
        y[...] = weight_gradient(
            to_first(x), to_first(grad), kernel, stride, padding, dilation, groups
        )
        return
    ends = x.shape[1], grad.shape[1]
    x, grad = to_last(x), to_last(grad)
    if is_winograd(x.shape[0], grad.shape[2:], *ends, kernel, stride, dilation):
        plan = winograd_plan(x.shape[0], *ends, x.shape[2:], grad.shape[2:], padding, True, True)
        winograd_sums(plan, x, grad, y)
        return
    plan, order, sums = weight_plan_last(x.shape, grad.shape, kernel, stride, padding, dilation)
    wide = readable(ends[1])
    if wide != ends[1]:
        # Rows of whole vectors, so that no product reads behind the end.
        more = np.zeros((grad.shape[0], *grad.shape[2:], wide), np.float32)
        more[..., : ends[1]] = grad.transpose(0, 2, 3, 1)
        grad = more
    parts = buffers.empty((plan.chunks, sums), np.float32, 4 * plan.chunks * sums)
    plan.run("last_weights", plan.chunks, grad.size * ends[0] * len(order), x=x, g=grad, sums=parts)
    total = parts[0]
    for part in parts[1:]:
        total += part
    found = total.reshape(len(order), *ends)
    y.reshape(ends[1], ends[0], -1)[:, :, order] = found.transpose(2, 1, 0)
