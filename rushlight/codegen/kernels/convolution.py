"""Convolutions of float32 arrays by native kernels: plans by sizes, and calls.

A plan holds the words that drivers read and knows nothing of a call's memory; sizes are words, so
that one compiled text serves all of them. Which kernel is used follows from sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, TypeVar, cast

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen.kernels import depthwise, direct, library, winograd
from rushlight.codegen.kernels.emit import Target
from rushlight.codegen.kernels.pool import threads
from rushlight.codegen.kernels.recipes import Recipe
from rushlight.codegen.kernels.words import Words, address

__all__ = ["forward", "input_gradient", "weight_gradient"]

Ints = tuple[int, ...]
# Bytes of a band's padded input, and elements of a panel of windows: both stay in the second cache.
BAND = 256 << 10
PANEL = 1024
# Slices of the work whose sums are added in their order, and what they may take.
SLICES = 8
SUMS = 64 << 20
SLICE = 512


def three(values: Sequence[int], filler: int) -> Ints:
    """One value for each of planes, rows and columns."""
    return (*[filler] * (3 - len(values)), *values)


Make = TypeVar("Make", bound=Callable[..., Any])


def planned(make: Make) -> Make:
    """Remember plans by sizes, for each kind of machine."""

    @lru_cache(maxsize=4096)
    def remembered(target: Target, *sizes: Any) -> Any:
        return make(*sizes)

    @wraps(make)
    def plan(*sizes: Any) -> Any:
        return remembered(library.target(), *sizes)

    return cast(Make, plan)


class Geometry:
    """How windows of an operand lie, in three dims: what padding and splitting it takes, and where
    each tap is found then."""

    def __init__(
        self, sizes: Ints, places: Ints, steps: Ints, before: Ints, taps: list[Ints],
        channels: int, whole: bool = False,
    ) -> None:  # fmt: skip
        """`taps` are offsets of what a place reads, from the padded place; `before` is padding.
        Bands are the whole image where `whole` says so."""
        reach = [max([tap[d] for tap in taps]) for d in range(3)]
        self.channels, self.places = channels, places
        self.sizes = sizes
        self.step = steps[2]
        self.pitch = places[2] + reach[2] // self.step
        # What no tap reads is not copied: columns between, and rows between where a window has one.
        self.phases = max([tap[2] % self.step for tap in taps]) + 1
        self.line = self.pitch * self.phases
        self.jump = steps[1] if reach[1] == 0 else 1
        self.kept = steps[1] // self.jump
        self.slabs = len({tap[0] for tap in taps})
        gaps = sorted({tap[0] for tap in taps})
        self.gap = gaps[1] - gaps[0] if len(gaps) > 1 else 1
        self.steps, self.before, self.reach = steps, before, reach
        is_plain = not any(before) and steps == (1, 1, 1) and self.slabs == 1
        stays = [n + r <= size for n, r, size in zip(places, reach, sizes, strict=True)]
        self.is_padded = whole or not is_plain or not all(stays) or sizes[2] != self.line
        self.band_rows = places[1] if whole else self.rows_of_band()
        self.bands = -(-places[1] // self.band_rows)
        self.rows = (self.band_rows - 1) * self.kept + reach[1] + 1
        self.slab = self.rows * self.line
        self.offsets = np.array([self.offset(tap) for tap in taps], np.int64)

    def rows_of_band(self) -> int:
        """Rows of results whose input fits, and fill a panel; bands as equal as they can be."""
        row = 4 * self.channels * self.slabs * self.line * self.kept
        fit = max(BAND // row, -(-library.target().panel // self.places[2]), 1)
        bands = -(-self.places[1] // min(fit, self.places[1]))
        return -(-self.places[1] // bands)

    def offset(self, tap: Ints) -> int:
        z, row, column = tap
        line = self.line if self.is_padded else self.sizes[2]
        place = column // self.step + column % self.step * self.pitch
        return z // self.gap * self.slab + row * line + place

    @property
    def spread(self) -> int:
        """Elements of a band's padded input."""
        return self.channels * self.slabs * self.slab + 2 * library.target().lanes

    def words(self) -> dict[str, int]:
        depth, height, width = self.sizes
        plane = depth * height * width
        return {
            "bands": self.bands, "band_rows": self.band_rows, "planes": self.places[0],
            "channels": self.channels, "plane": plane, "group": self.channels * plane,
            "depth": depth, "height": height, "width": width, "padded": int(self.is_padded),
            "first_plane": -self.before[0], "plane_step": self.steps[0], "plane_gap": self.gap,
            "slabs": self.slabs, "slab": self.slab, "first_row": -self.before[1],
            "row_step": self.steps[1], "rows_kept": self.kept, "rows_more": self.reach[1] + 1,
            "jump": self.jump, "left": self.before[2], "step": self.step,
            "phases_read": self.phases, "pitch": self.pitch, "line": self.line,
            "spread_plane": self.slabs * self.slab,
            "row": self.kept * self.line if self.is_padded else width,
        }  # fmt: skip


class Plan:
    """Words of a driver, memory that it needs, and chunks that it can be split into."""

    def __init__(
        self, names: Words, words: dict[str, int], number: int, floats: int, kept: Any
    ) -> None:
        self.names, self.chunks, self.floats, self.kept = names, number, floats, kept
        self.words = names.fill(**words)

    def run(self, driver: str, chunks: int, work: int, **memory: Any) -> None:
        """`memory`: arrays, each by the name of the word that has its address."""
        workers = threads(chunks, work)
        step = -(-self.floats // 64) * 64
        scratch = buffers.empty((workers * step,), np.float32, workers * step * 4)
        words = self.words.copy()
        places = self.names.places
        words[places["scratch"]], words[places["scratch_step"]] = address(scratch), step
        for name, array in memory.items():
            words[places[name]] = address(array)
        library.run(driver, words, chunks, workers, work)

    def add_to(
        self, recipe: Recipe, driver: str, work: int, chunks: int = 0, **memory: Any
    ) -> None:
        recipe.kept += (self,)
        chunks = chunks or self.chunks
        recipe.then(driver, self.names, self.words, chunks, work, self.floats, **memory)


def kernel_places(kernel: Ints) -> list[Ints]:
    return list(np.ndindex(*kernel))


def phase_words(rows: list[dict[str, Any]]) -> Any:
    """The list of phases; addresses are those of arrays that the plan keeps."""
    return np.concatenate(
        [
            direct.PHASE.fill(
                **{name: address(v) if isinstance(v, np.ndarray) else v for name, v in row.items()}
            )
            for row in rows
        ]
    )


def direct_plan(
    geometry: Geometry, phases: list[dict[str, Any]], batch: int, groups: int, outputs: int,
    result: Ints, **values: int,
) -> Plan:  # fmt: skip
    target = library.target()
    taps = max([phase["taps"] for phase in phases])
    blocks = -(-geometry.channels * taps // PANEL)
    block = -(-geometry.channels // blocks)
    spread = -(-geometry.spread // 64) * 64 if geometry.is_padded else 0
    panel = (block * taps) * (target.panel + target.lanes) + target.lanes
    panel = -(-panel // 64) * 64
    widest = max([phase["width"] for phase in phases])
    place = geometry.band_rows * widest + target.lanes
    weaves = values.get("weaves", 0)
    floats = spread + panel + (outputs * place if weaves else 0)
    listed = phase_words(phases)
    volume = math.prod(result)
    plane = math.prod(geometry.sizes)
    given = {
        **geometry.words(), "sample": groups * geometry.channels * plane, "groups": groups,
        "y_sample": groups * outputs * volume, "y_group": outputs * volume, "y_channel": volume,
        "y_rows": geometry.places[1], "y_width": result[2], "y_plane": result[1] * result[2],
        "outputs": outputs, "channel_block": block, "phases": len(phases),
        "phase_list": address(listed), "panel_at": spread, "place_at": spread + panel,
        "place_channel": place, **values,
    }  # fmt: skip
    chunks = batch * geometry.places[0] * geometry.bands
    return Plan(direct.DIRECT, given, chunks, floats, (phases, listed))


@planned
def forward_plan(
    shape: Ints, filters: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> tuple[Plan, Ints]:
    batch, sizes, kernel = shape[0], three(shape[2:], 1), three(filters[2:], 1)
    steps, before, gaps = three(stride, 1), three(padding, 0), three(dilation, 1)
    places = result_sizes(sizes, kernel, steps, before, gaps)
    taps = [tuple([k * d for k, d in zip(tap, gaps, strict=True)]) for tap in kernel_places(kernel)]
    channels, outputs = filters[1], filters[0] // groups
    geometry = Geometry(sizes, places, steps, before, taps, channels)
    count = len(taps)
    phase = {
        "taps": count, "offsets": geometry.offsets, "reads": np.zeros(1, np.int64),
        "rows": places[1], "width": places[2],
    }  # fmt: skip
    plan = direct_plan(
        geometry, [phase], batch, groups, outputs, places, w_group=outputs * channels * count,
        w_channel=count, w_row=channels * count, aks=1,
    )  # fmt: skip
    return plan, places[3 - len(stride) :]


def result_sizes(sizes: Ints, kernel: Ints, steps: Ints, before: Ints, gaps: Ints) -> Ints:
    entries = zip(sizes, kernel, steps, before, gaps, strict=True)
    return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in entries])


def dense(array: Any) -> Any:
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def forward(
    x: Any, w: Any, bias: Any, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    plan, places = forward_plan(x.shape, w.shape, stride, padding, dilation, groups)
    ends = w.shape[1], w.shape[0]
    if takes_winograd(x.shape[0], places, *ends, w.shape[2:], stride, dilation, groups):
        return winograd_products(x, w, bias, w.shape[0], places, padding, False)
    if takes_depthwise(w.shape, groups):
        return depthwise_results(x, w, bias, places, stride, padding, dilation, False)
    y = fresh((x.shape[0], w.shape[0], *places))
    memory = {"x": dense(x), "w": dense(w), "y": y}
    if bias is not None:
        memory["bias"] = dense(bias)
    plan.run("direct", plan.chunks, math.prod(y.shape) * math.prod(w.shape[1:]), **memory)
    return y


def fresh(shape: Ints) -> Any:
    return buffers.empty(shape, np.float32, 4 * math.prod(shape))


@planned
def backward_plan(
    shape: Ints, filters: Ints, result: Ints, stride: Ints, padding: Ints, dilation: Ints,
    groups: int,
) -> Plan:  # fmt: skip
    batch, sizes, kernel = shape[0], three(shape[2:], 1), three(filters[2:], 1)
    steps, before, gaps = three(stride, 1), three(padding, 0), three(dilation, 1)
    results = three(result, 1)
    channels, outputs = filters[0] // groups, filters[1]
    every = kernel_places(kernel)
    found: list[tuple[Ints, list[tuple[int, Ints]]]] = []
    for phase in np.ndindex(*[min(s, n) for s, n in zip(steps, results, strict=True)]):
        reads = []
        for number, tap in enumerate(every):
            entries = list(zip(phase, before, tap, gaps, steps, strict=True))
            if all([(q + p - k * d) % s == 0 for q, p, k, d, s in entries]):
                reads.append((number, tuple([(q + p - k * d) // s for q, p, k, d, s in entries])))
        found.append((phase, reads))
    lows = tuple([min([at[d] for _, reads in found for _, at in reads]) for d in range(3)])
    places = tuple([-(-n // s) for n, s in zip(results, steps, strict=True)])
    shifted = [
        [tuple([a - low for a, low in zip(at, lows, strict=True)]) for _, at in reads]
        for _, reads in found
    ]
    together = [tap for taps in shifted for tap in taps]
    before = tuple([-low for low in lows])
    geometry = Geometry(sizes, places, (1, 1, 1), before, together, channels)
    count = len(every)
    phases = []
    for (phase, reads), taps in zip(found, shifted, strict=True):
        phases.append(
            {
                "taps": len(taps),
                "offsets": np.array([geometry.offset(tap) for tap in taps], np.int64),
                "reads": np.array([number for number, _ in reads], np.int64),
                "rows": -(-(results[1] - phase[1]) // steps[1]),
                "width": -(-(results[2] - phase[2]) // steps[2]), "row": phase[1],
                "column": phase[2],
            }
        )  # fmt: skip
    weaves = any([s > 1 for s in steps])
    return direct_plan(
        geometry, phases, batch, groups, outputs, results, w_group=channels * outputs * count,
        w_channel=outputs * count, w_row=count, aks=outputs * count, sums_taps=1,
        weaves=int(weaves), row_weaves=steps[1], column_weaves=steps[2],
    )  # fmt: skip


def input_gradient(
    grad: Any, w: Any, bias: Any, result: Ints, stride: Ints, padding: Ints, dilation: Ints,
    groups: int,
) -> Any:  # fmt: skip
    """What a convolution's input has of its result's gradient, or a transposed one's result."""
    kernel = w.shape[2:]
    ends = w.shape[0], w.shape[1]
    if takes_winograd(grad.shape[0], result, *ends, kernel, stride, dilation, groups):
        before = tuple([2 - p for p in padding])
        if min(before) >= 0:
            return winograd_products(grad, w, bias, w.shape[1], result, before, True)
    if len(stride) == 3 and stride[0] > 1:
        return None
    if takes_depthwise(w.shape, groups) and w.shape[0] == groups and max(stride) == 1:
        reach = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
        before = tuple([r - p for r, p in zip(reach, padding, strict=True)])
        return depthwise_results(grad, w, bias, result, stride, before, dilation, True)
    plan = backward_plan(grad.shape, w.shape, result, stride, padding, dilation, groups)
    found = fresh((grad.shape[0], w.shape[1] * groups, *result))
    memory = {"x": dense(grad), "w": dense(w), "y": found}
    if bias is not None:
        memory["bias"] = dense(bias)
    plan.run("direct", plan.chunks, math.prod(grad.shape) * math.prod(w.shape[1:]), **memory)
    return found


@planned
def weight_plan(
    shape: Ints, grad: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> tuple[Plan, int]:
    target = library.target()
    batch, sizes = shape[0], three(shape[2:], 1)
    extent, places = three(kernel, 1), three(grad[2:], 1)
    steps, before, gaps = three(stride, 1), three(padding, 0), three(dilation, 1)
    taps = [tuple([k * d for k, d in zip(tap, gaps, strict=True)]) for tap in kernel_places(extent)]
    channels, outputs = shape[1] // groups, grad[1] // groups
    geometry = Geometry(sizes, places, steps, before, taps, channels)
    rows = channels * len(taps)
    most = PANEL * 100 // rows // target.panel * target.panel
    size = min(max(most, target.panel), 512)
    chunks = batch * places[0] * geometry.bands
    sums = groups * rows * outputs
    volume = math.prod(places)
    slices = max(1, min(SLICES, chunks, SUMS // (4 * sums), batch * volume // SLICE))
    spread = -(-geometry.spread // 64) * 64 if geometry.is_padded else 0
    panel = -(-(rows * (size + target.lanes) + target.lanes) // 64) * 64
    grads = (size + 1) * target.panel
    tap = np.zeros(1, np.int64)
    given = {
        **geometry.words(), "sample": shape[1] * math.prod(sizes), "groups": groups,
        "g_sample": grad[1] * volume, "g_group": outputs * volume, "g_channel": volume,
        "g_rows": places[1], "g_width": places[2], "g_plane": places[1] * places[2],
        "outputs": outputs, "taps": len(taps), "offsets": address(geometry.offsets),
        "panel_at": spread, "grad_at": spread + panel, "size": size, "chunks": chunks,
        "slices": slices, "sums_slice": sums, "sums_group": rows * outputs,
        "zero_tap": address(tap), "result_group": outputs * rows,
    }  # fmt: skip
    return Plan(direct.WEIGHTS, given, slices, spread + panel + grads, (geometry, tap)), sums


def weight_gradient(
    x: Any, grad: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> Any:
    ends = x.shape[1], grad.shape[1]
    if takes_winograd(x.shape[0], grad.shape[2:], *ends, kernel, stride, dilation, groups):
        return winograd_weights(x, grad, padding)
    filters = (grad.shape[1], x.shape[1] // groups, *kernel)
    if takes_depthwise(filters, groups):
        return depthwise_weights(x, grad, kernel, stride, padding, dilation)
    plan, sums = weight_plan(x.shape, grad.shape, kernel, stride, padding, dilation, groups)
    parts = fresh((plan.chunks * sums + 64,))
    found = fresh((grad.shape[1], x.shape[1] // groups, *kernel))
    memory = {"x": dense(x), "g": dense(grad), "sums": parts, "result": found}
    work = math.prod(grad.shape) * x.shape[1] // groups * math.prod(kernel)
    plan.run("direct_weights", plan.chunks, work, **memory)
    plan.run("sum_weights", groups, plan.chunks * sums, **memory)
    return found


# -- Winograd --------------------------------------------------------------------------------------

# Tiles from which on transforming the weights pays.
LEAST_TILES = 48
TAPS = winograd.TAPS


def takes_winograd(
    batch: int, places: Ints, channels: int, outputs: int, kernel: Ints, stride: Ints,
    dilation: Ints, groups: int,
) -> bool:  # fmt: skip
    if len(places) != 2 or groups != 1 or kernel != (3, 3) or (*stride, *dilation) != (1, 1, 1, 1):
        return False
    tiles = batch * math.prod([-(-size // 2) for size in places])
    return tiles >= LEAST_TILES and min(channels, outputs) >= library.target().lanes


def rounded(number: int, step: int) -> int:
    return -(-number // step) * step


@planned
def winograd_plan(
    batch: int, channels: int, outputs: int, sizes: Ints, places: Ints, before: Ints,
    x_last: bool = False, y_last: bool = False,
) -> Plan:  # fmt: skip
    """The plan of results and, with sums beside it, of the gradient of the weights; channels are
    last in memory where that is said, and whole vectors then."""
    lanes = library.target().lanes
    wide, y_wide = rounded(channels, lanes), rounded(outputs, lanes)
    rows, columns = [-(-size // 2) for size in places]
    # Tiles at a time: what is transformed of them stays in the cache.
    most = max(channels, outputs)
    group = 72 if most <= 64 else rounded(most * 3 // 4, 12)
    row = 4 * 2 * sizes[1] * wide
    bands = -(-rows // min(max(BAND // row, 1), rows))
    band = -(-rows // bands)
    each = 1 if bands > 1 else min(max(-(-group // (rows * columns)), 1), -(-batch // 2))
    group = min(group, each * band * columns)
    # Entries of a tile lie in different sets of the cache.
    apart = group + 1
    x_sample = (sizes[0] if x_last else 2 * band + 2) * sizes[1] * wide
    y_sample = (places[0] if y_last else 2 * band) * places[1] * y_wide
    v_at = 0 if x_last else rounded(each * x_sample + lanes, 64)
    m_at = v_at + rounded(winograd.POINTS * apart * wide + 64, 64)
    y_at = m_at + rounded(winograd.POINTS * apart * y_wide + 64, 64)
    floats = y_at + (0 if y_last else each * y_sample + lanes)
    zeros = np.zeros(max(wide, y_wide) + lanes, np.float32)
    tap = np.zeros(1, np.int64)
    chunks = -(-batch // each) * bands
    sums = winograd.POINTS * channels * y_wide
    slices = max(1, min(SLICES, chunks, SUMS // (4 * sums), batch * rows * columns // SLICE))
    given = {
        "bias": address(zeros), "zeros": address(zeros), "zero_tap": address(tap),
        "samples": batch, "samples_each": each, "bands": bands, "band_tiles": band,
        "tile_rows": rows, "tile_columns": columns, "group": group, "channels": channels,
        "channels_wide": wide, "height": sizes[0], "width": sizes[1], "top": before[0],
        "left": before[1], "outputs": outputs, "outputs_wide": y_wide, "y_height": places[0],
        "y_width": places[1], "v_at": v_at, "m_at": m_at, "y_at": y_at, "x_sample": x_sample,
        "y_sample": y_sample, "chunks": chunks, "slices": slices, "sums_slice": sums,
        "x_last": int(x_last), "y_last": int(y_last), "apart": apart,
    }  # fmt: skip
    return Plan(winograd.WINOGRAD, given, chunks, floats, (zeros, tap))


def filter_words(
    outputs: int, channels: int, steps: tuple[int, int], flips: bool
) -> tuple[Any, int, int]:
    """What transforming weights takes: words, chunks, and floats of the outcome."""
    target = library.target()
    panels = -(-outputs // target.panel)
    words = winograd.FILTERS.fill(
        outputs=outputs, channels=channels, w_output=steps[0], w_channel=steps[1],
        flips=int(flips), panels=panels,
    )  # fmt: skip
    floats = winograd.POINTS * panels * target.panel * channels + target.panel
    return words, -(-outputs // target.lanes), floats


@planned
def winograd_recipe(
    shape: Ints, outputs: int, places: Ints, before: Ints, flips: bool, is_biased: bool,
    is_last: bool,
) -> Recipe:  # fmt: skip
    """Of an operand, weights, results and, where there is one, a bias. `flips`: the weights of a
    plain convolution, for the gradient of its input."""
    batch, channels, *sizes = shape
    plan = winograd_plan(batch, channels, outputs, tuple(sizes), places, before, is_last, is_last)
    recipe = Recipe()
    steps = (TAPS, outputs * TAPS) if flips else (channels * TAPS, TAPS)
    words, blocks, floats = filter_words(outputs, channels, steps, flips)
    u = recipe.room(floats)
    recipe.then("winograd_filters", winograd.FILTERS, words, blocks, floats * 4, w=1, u=u)
    memory = {"bias": 3} if is_biased else {}
    work = batch * outputs * math.prod(places) * channels * 4
    plan.add_to(recipe, "winograd", work, x=0, u=u, y=2, **memory)
    return recipe


def winograd_products(
    x: Any, w: Any, bias: Any, outputs: int, places: Ints, before: Ints, flips: bool
) -> Any:
    is_biased = bias is not None
    recipe = winograd_recipe(x.shape, outputs, places, before, flips, is_biased, False)
    found = fresh((x.shape[0], outputs, *places))
    recipe.run(dense(x), dense(w), found, dense(bias) if is_biased else None)
    return found


@planned
def winograd_weight_recipe(shape: Ints, grad: Ints, padding: Ints, is_last: bool) -> Recipe:
    """Of an operand, the gradient of results and that of the weights."""
    batch, channels, *sizes = shape
    _, outputs, *places = grad
    plan = winograd_plan(
        batch, channels, outputs, tuple(sizes), tuple(places), padding, is_last, is_last
    )
    at = plan.names.places
    slices, sums, wide = [
        int(plan.words[at[name]]) for name in ("slices", "sums_slice", "outputs_wide")
    ]
    recipe = Recipe()
    memory: dict[str, Any] = {"x": 0, "y": 1, "sums": recipe.room(slices * sums + 64)}
    plan.add_to(recipe, "winograd_weights", math.prod(grad) * channels * 4, slices, **memory)
    memory |= {"parts": recipe.room(TAPS * channels * wide + 64), "result": 2}
    recipe.then("winograd_sum", plan.names, plan.words, channels, slices * sums, **memory)
    return recipe


def winograd_weights(x: Any, grad: Any, before: Ints) -> Any:
    found = fresh((grad.shape[1], x.shape[1], 3, 3))
    winograd_weight_recipe(x.shape, grad.shape, before, False).run(dense(x), dense(grad), found)
    return found


# -- depthwise -------------------------------------------------------------------------------------

# Planes that a chunk takes at least, in elements of results.
PLANES = 1 << 14


def takes_depthwise(filters: Ints, groups: int) -> bool:
    return filters[1] == 1 and groups > 1 and len(filters) < 5


@planned
def depthwise_plan(
    shape: Ints, kernel: Ints, places: Ints, stride: Ints, before: Ints, dilation: Ints,
    factor: int, flips: bool,
) -> Plan:  # fmt: skip
    steps, gaps = three(stride, 1), three(dilation, 1)
    extent = three(kernel, 1)
    every = kernel_places(extent)
    taps = [tuple([k * d for k, d in zip(tap, gaps, strict=True)]) for tap in every]
    geometry = Geometry(
        three(shape[2:], 1), three(places, 1), steps, three(before, 0), taps, 1, True
    )
    reads = np.arange(len(every), dtype=np.int64)
    if flips:
        reads = reads[::-1].copy()
    volume = math.prod(places)
    planes = shape[0] * shape[1]
    each = min(max(PLANES // (volume * factor), 1), planes)
    given = {
        **geometry.words(), "planes_each": each, "planes_all": planes, "factor": factor,
        "groups": shape[1], "taps": len(every), "offsets": address(geometry.offsets),
        "reads": address(reads), "y_rows": geometry.places[1], "y_width": geometry.places[2],
        "samples": shape[0],
    }  # fmt: skip
    return Plan(depthwise.DEPTHWISE, given, -(-planes // each), geometry.spread, (geometry, reads))


def depthwise_results(
    x: Any, w: Any, bias: Any, places: Ints, stride: Ints, before: Ints, dilation: Ints, flips: bool
) -> Any:
    factor = w.shape[0] // x.shape[1]
    kernel = w.shape[2:]
    plan = depthwise_plan(x.shape, kernel, places, stride, before, dilation, factor, flips)
    found = fresh((x.shape[0], w.shape[0], *places))
    bias = np.zeros(w.shape[0], np.float32) if bias is None else dense(bias)
    memory = {"x": dense(x), "w": dense(w), "y": found, "bias": bias}
    plan.run("depthwise", plan.chunks, found.size * math.prod(kernel), **memory)
    return found


def depthwise_weights(
    x: Any, grad: Any, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> Any:
    channels = x.shape[1]
    factor = grad.shape[1] // channels
    places = grad.shape[2:]
    plan = depthwise_plan(x.shape, kernel, places, stride, padding, dilation, factor, False)
    found = fresh((grad.shape[1], 1, *kernel))
    memory = {"x": dense(x), "g": dense(grad), "result": found}
    plan.run("depthwise_weights", channels, grad.size * math.prod(kernel), **memory)
    return found
