"""Convolutions of float32 images whose channels lie last in memory: plans, and calls.

Arrays have their sizes in the order of batch, channels, rows, columns, whatever lies where. Results
go where they are to be, and have their channels last there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

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
    rounded,
    takes_winograd,
    weight_gradient,
    winograd_recipe,
    winograd_weight_recipe,
)
from rushlight.codegen.kernels.pool import threads
from rushlight.codegen.kernels.recipes import Recipe
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
    """A plan of results, and the taps of each of its phases in the order that weights take;
    `result` are the sizes of all results."""

    def __init__(
        self, band: Band, phases: list[tuple[dict[str, int], Taps]], batch: int, outputs: int,
        result: Ints, **values: int,
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
        self.size = math.prod(result)
        self.channels = band.channels
        given = {**band.words, "outputs": outputs, "phases": len(phases), **values}
        self.plan = Plan(last.LAST, given, batch * band.bands, band.spread, (band, kept))

    def recipe(self, w_output: int, w_channel: int, taps: int, is_biased: bool) -> Recipe:
        """Of an operand, weights with such strides, results and, where there is one, a bias."""
        panel, outputs, channels = library.target().panel, self.outputs, self.channels
        blocks = -(-outputs // panel)
        recipe = Recipe(self)
        counts = [len(order) for order in self.orders]
        rooms = [recipe.room(blocks * count * channels * panel) for count in counts]
        phases = [
            recipe.table(last.LAST_PHASE, words, w=room)
            for words, room in zip(self.phases, rooms, strict=True)
        ]
        for order, room in zip(self.orders, rooms, strict=True):
            if not order:
                continue
            taken = np.array(order, np.int64)
            recipe.kept += (taken,)
            given = last.PACKED.fill(
                order=address(taken), count=len(order), taps=taps, channels=channels,
                outputs=outputs, w_output=w_output, w_channel=w_channel,
            )  # fmt: skip
            work = blocks * len(order) * channels * panel
            floats = (taps + 1) * panel
            recipe.then("last_pack", last.PACKED, given, blocks, work, floats, w=1, to=room)
        work = self.size * channels * sum(counts)
        memory = {"bias": 3} if is_biased else {}
        self.plan.add_to(recipe, "last", work, x=0, y=2, phase_list=phases[0], **memory)
        return recipe


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
        band, [(phase, taps)], shape[0], outputs, (shape[0], *places, outputs),
        y_sample=places[0] * row, y_row=row, y_column=outputs,
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
        band, phases, shape[0], outputs, (shape[0], *result, outputs), y_sample=result[0] * row,
        y_row=stride[0] * row, y_column=stride[1] * outputs,
    )  # fmt: skip


@planned
def direct_weights_recipe(
    shape: Ints, grad: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Recipe:
    """Of an operand, the gradient of results with rows as wide as `readable` says, and the gradient
    of the weights."""
    taps = taps_of(kernel, dilation)
    channels, outputs, places = shape[1], grad[1], grad[2:]
    band = Band(shape[2:], places, stride, padding, taps, channels)
    # In the order of the taps, for stretches begin where their first tap does.
    _, starts, depth = band.stretches(taps)
    sums = channels * len(taps) * outputs
    chunks = shape[0] * band.bands
    slices = max(1, min(SLICES, chunks, SUMS // (4 * sums)))
    wide = readable(outputs)
    recipe = Recipe()
    parts = rounded(outputs, library.target().lanes)
    given = {
        **band.words, "g_sample": math.prod(places) * wide, "g_wide": wide, "outputs": outputs,
        "count": len(starts) - 1, "depth": depth, "offsets": address(starts),
        "row_offsets": address(band.row_offsets), "chunks": chunks, "slices": slices,
        "sums_slice": sums, "taps": len(taps), "wide": parts,
    }  # fmt: skip
    plan = Plan(last.LAST_WEIGHTS, given, slices, band.spread, (band, starts))
    memory: dict[str, Any] = {"x": 0, "g": 1, "sums": recipe.room(slices * sums)}
    plan.add_to(recipe, "last_weights", math.prod(grad) * channels * len(taps), **memory)
    memory |= {"parts": recipe.room(len(taps) * channels * parts), "result": 2}
    recipe.then("last_sum", plan.names, plan.words, channels, slices * sums, **memory)
    return recipe


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
    if groups != 1:
        y[...] = forward(to_first(x), w, bias, stride, padding, dilation, groups)
        return
    is_biased = bias is not None
    recipe = results_recipe(x.shape, w.shape, y.shape[2:], stride, padding, dilation, is_biased)
    recipe.run(to_last(x), dense(w), y, dense(bias) if is_biased else None)


@planned
def results_recipe(
    shape: Ints, filters: Ints, places: Ints, stride: Ints, padding: Ints, dilation: Ints,
    is_biased: bool,
) -> Recipe:  # fmt: skip
    """Of an operand, weights, results and, where there is one, a bias."""
    outputs, channels, *kernel = filters
    if is_winograd(shape[0], places, channels, outputs, tuple(kernel), stride, dilation):
        return winograd_recipe(shape, outputs, places, padding, False, is_biased, True)
    taps = math.prod(kernel)
    sweep = forward_sweep(shape, filters, stride, padding, dilation)
    return sweep.recipe(channels * taps, taps, taps, is_biased)


def input_gradient_last(
    grad: Any, w: Any, y: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> None:
    """What a convolution's input has of its result's gradient, into `y`."""
    recipe = None
    if groups == 1:
        recipe = gradient_recipe(grad.shape, w.shape, y.shape[2:], stride, padding, dilation)
    if recipe is None:
        sizes = y.shape[2:]
        y[...] = input_gradient(to_first(grad), w, None, sizes, stride, padding, dilation, groups)
        return
    recipe.run(to_last(grad), dense(w), y)


@planned
def gradient_recipe(
    shape: Ints, filters: Ints, result: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Recipe | None:
    """Of the gradient of results, weights and the gradient of the input."""
    channels, outputs, *kernel = filters
    before = tuple([2 - p for p in padding])
    wanted = is_winograd(shape[0], result, channels, outputs, tuple(kernel), stride, dilation)
    if wanted and min(before) >= 0:
        return winograd_recipe(shape, outputs, result, before, True, False, True)
    sweep = backward_sweep(shape, filters, result, stride, padding, dilation)
    taps = math.prod(kernel)
    return None if sweep is None else sweep.recipe(taps, outputs * taps, taps, False)


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
    x, grad = to_last(x), to_last(grad)
    recipe = weights_recipe(x.shape, grad.shape, kernel, stride, padding, dilation)
    if recipe is None:
        recipe = direct_weights_recipe(x.shape, grad.shape, kernel, stride, padding, dilation)
        # Rows of whole vectors, so that no product reads behind the end.
        outputs = grad.shape[1]
        more = np.zeros((grad.shape[0], *grad.shape[2:], readable(outputs)), np.float32)
        more[..., :outputs] = grad.transpose(0, 2, 3, 1)
        grad = more
    recipe.run(x, grad, y)


def weights_recipe(
    shape: Ints, grad: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Recipe | None:
    """Of an operand, the gradient of results and that of the weights; None where rows of the
    gradient are to be wider."""
    ends = shape[1], grad[1]
    if is_winograd(shape[0], grad[2:], *ends, kernel, stride, dilation):
        return winograd_weight_recipe(shape, grad, padding, True)
    if readable(grad[1]) != grad[1]:
        return None
    return direct_weights_recipe(shape, grad, kernel, stride, padding, dilation)
