"""Convolutions of 3 x 3 windows one step apart by Winograd's F(2 x 2, 3 x 3), in LLVM IR.

y = AT [(G g G^T) * (BT d B)] A for tiles of 2 x 2 results; its transpose gives the gradient of the
weights. It takes 16 products for 36, and its factors are halves, so it is as accurate as summing
36. An infinity or NaN of the input may reach results of its tile whose own window does not hold it.
Channels lie side by side here: a chunk's part of the operands is transposed on the way in and out.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.layout import turned
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["FILTERS", "WINOGRAD", "winograd_texts"]

Matrix = Sequence[Sequence[float]]
Grid = list[list[str]]

BT: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
G: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
AT: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))
# Entries of a transformed tile, and taps of a window.
POINTS = 16
TAPS = 9

WINOGRAD = Words(
    "x y u sums bias zeros zero_tap scratch scratch_step samples samples_each bands band_tiles "
    "tile_rows tile_columns group channels channels_wide height width top left outputs "
    "outputs_wide y_height y_width v_at m_at y_at x_sample y_sample chunks slices sums_slice parts "
    "result x_last y_last apart"
)
FILTERS = Words("w u outputs channels w_output w_channel flips panels")
POINTERS = ("x", "y", "u", "sums", "bias", "zeros", "zero_tap", "scratch", "w", "parts", "result")


def transpose(matrix: Matrix) -> Matrix:
    return list(zip(*matrix, strict=True))


def combined(f: Function, factors: Sequence[float], values: Sequence[str]) -> str:
    """A sum of multiples, without products by 0, 1 and -1."""
    terms = sorted(
        [(c, v) for c, v in zip(factors, values, strict=True) if c], key=lambda term: term[0] != 1
    )
    (factor, found), *rest = terms
    if factor != 1:
        found = f.two("fmul", found, f.constant(factor))
    for factor, value in rest:
        if factor in (1, -1):
            found = f.two("fadd" if factor == 1 else "fsub", found, value)
        else:
            found = f.fma(value, f.constant(factor), found)
    return found


def transformed(f: Function, matrix: Matrix, grid: Grid) -> Grid:
    """matrix @ grid @ matrix^T, each entry a vector of channels."""
    columns = [
        [combined(f, row, [line[j] for line in grid]) for row in matrix]
        for j in range(len(grid[0]))
    ]
    half = [list(line) for line in zip(*columns, strict=True)]
    return [[combined(f, row, line) for row in matrix] for line in half]


class Tiles:
    """Tiles one after another: sample, row and column of each, counted and not divided for."""

    def __init__(self, f: Function, first: Int, rows: Int, columns: Int) -> None:
        self.f, self.rows, self.columns = f, rows, columns
        self.slots = [f.slot("i64") for _ in range(3)]
        rest = f.rem(first, f.mul(rows, columns))
        values = f.div(first, f.mul(rows, columns)), f.div(rest, columns), f.rem(rest, columns)
        self.put(*values)

    def put(self, *values: Int) -> None:
        for slot, value in zip(self.slots, values, strict=True):
            self.f.store(value, slot, "i64", 8)

    def place(self) -> list[str]:
        """Sample, row and column of a tile; the next one's are asked for next."""
        f = self.f
        sample, row, column = found = [f.load(slot, "i64", 8) for slot in self.slots]
        after = f.add(column, 1)
        is_end = f.compare("eq", after, self.columns)
        below = f.add(row, f.value(f"zext i1 {is_end} to i64"))
        is_last = f.compare("eq", below, self.rows)
        self.put(
            f.add(sample, f.value(f"zext i1 {is_last} to i64")), f.select(is_last, 0, below),
            f.select(is_end, 0, after),
        )  # fmt: skip
        return found


def patch_text(target: Target, name: str, matrix: Matrix, size: int) -> str:
    """Transformed tiles: to[entry][tile - first][channel] from patches of size x size, two places
    apart; places outside of the image are zeros."""
    f = Function(
        target,
        name,
        (
            "ptr %x", "ptr %to", "ptr %zeros", "i64 %first", "i64 %count", "i64 %rows",
            "i64 %columns", "i64 %sample", "i64 %top", "i64 %left", "i64 %low", "i64 %height",
            "i64 %width", "i64 %wide", "i64 %group",
        ),
    )  # fmt: skip
    acrosses = [f.mul("%wide", j) for j in range(size)]
    below = f.mul("%width", "%wide")
    apart = f.mul("%group", "%wide")
    tiles = Tiles(f, "%first", "%rows", "%columns")
    ends = f.sub("%height", size), f.sub("%width", size)

    def transform(pointers: list[str], line: str) -> None:
        with f.loop(0, "%wide", f.lanes) as channel:
            grid = [
                [f.load(f.at(pointers[i * size + j], channel)) for j in range(size)]
                for i in range(size)
            ]
            to = f.at(line, channel)
            for entries in transformed(f, matrix, grid):
                for value in entries:
                    f.store(value, to)
                    to = f.at(to, apart)

    with f.loop(0, "%count") as number:
        sample, row, column = tiles.place()
        y, x = f.add(f.mul(row, 2), "%top"), f.add(f.mul(column, 2), "%left")
        base = f.at("%x", f.mul(sample, "%sample"))
        corner = f.at(base, f.mul(f.add(f.mul(f.sub(y, "%low"), "%width"), x), "%wide"))
        starts = [corner]
        for _ in range(size - 1):
            starts.append(f.at(starts[-1], below))
        pointers = [f.at(start, across) for start in starts for across in acrosses]
        line = f.at("%to", f.mul(number, "%wide"))
        is_whole = f.compare("sle", y, ends[0])
        for test in (
            f.compare("sle", x, ends[1]), f.compare("sge", y, 0), f.compare("sge", x, 0),
        ):  # fmt: skip
            is_whole = f.value(f"and i1 {is_whole}, {test}")
        with f.when(is_whole):
            transform(pointers, line)
        with f.when(f.value(f"xor i1 {is_whole}, true")):
            lines = [f.value(f"icmp ult i64 {f.add(y, i)}, %height") for i in range(size)]
            places = [f.value(f"icmp ult i64 {f.add(x, j)}, %width") for j in range(size)]
            chosen = []
            for at, pointer in enumerate(pointers):
                both = f.value(f"and i1 {lines[at // size]}, {places[at % size]}")
                chosen.append(f.select(both, pointer, "%zeros", "ptr"))
            transform(chosen, line)
    return f.text()


def results_text(target: Target) -> str:
    """Tiles of results from the products: y[row][column][output]."""
    f = Function(
        target,
        "results",
        (
            "ptr %m", "ptr %y", "ptr %bias", "i64 %first", "i64 %count", "i64 %rows",
            "i64 %columns", "i64 %sample", "i64 %height", "i64 %width", "i64 %wide", "i64 %group",
            "i64 %outputs",
        ),
    )  # fmt: skip
    tiles = Tiles(f, "%first", "%rows", "%columns")
    below = f.mul("%width", "%wide")
    apart = f.mul("%group", "%wide")
    with f.loop(0, "%count") as number:
        sample, row, column = tiles.place()
        y, x = f.mul(row, 2), f.mul(column, 2)
        base = f.at("%y", f.mul(sample, "%sample"))
        corner = f.at(base, f.mul(f.add(f.mul(y, "%width"), x), "%wide"))
        has_below = f.compare("slt", f.add(y, 1), "%height")
        has_beside = f.compare("slt", f.add(x, 1), "%width")
        has_both = f.value(f"and i1 {has_below}, {has_beside}")
        with f.loop(0, "%wide", f.lanes) as output:
            at = f.at(f.at("%m", f.mul(number, "%wide")), output)
            values = []
            for _ in range(POINTS):
                values.append(f.load(at))
                at = f.at(at, apart)
            grid = [values[i : i + 4] for i in range(0, POINTS, 4)]
            bias = f.load_first(f.at("%bias", output), f.sub("%outputs", output))
            (first, beside), (under, last) = [
                [f.two("fadd", value, bias) for value in entries]
                for entries in transformed(f, AT, grid)
            ]
            place = f.at(corner, output)
            f.store(first, place)
            with f.when(has_beside):
                f.store(beside, f.at(place, "%wide"))
            with f.when(has_below):
                f.store(under, f.at(place, below))
            with f.when(has_both):
                f.store(last, f.at(f.at(place, below), "%wide"))
    return f.text()


def filters_text(target: Target) -> str:
    """`@winograd_filters`: u[entry][panel][channel][output] of as many outputs as a vector has."""
    f = Function(target, "winograd_filters", CHUNK)
    c = Reader(f, FILTERS, POINTERS)
    lanes = target.lanes
    first = f.mul("%chunk", lanes)
    end = f.sub(f.sub(c.outputs, first), 1)
    panel, place = f.div(first, target.panel), f.rem(first, target.panel)
    apart = f.mul(c.panels, f.mul(c.channels, target.panel))
    step, across = c.w_output, c.w_channel
    begin = f.at(c.w, f.mul(first, step))
    lines = [f.at(begin, f.mul(step, f.least(i, end))) for i in range(lanes)]
    flips = f.compare("ne", c.flips, 0)
    start = f.at(c.u, f.mul(panel, f.mul(c.channels, target.panel)))
    with f.loop(0, c.channels) as channel:
        offset = f.mul(channel, across)
        taps: list[str] = []
        for at in range(0, TAPS, lanes):
            count = min(lanes, TAPS - at)
            rows = [f.load_first(f.at(f.at(line, offset), at), count) for line in lines]
            taps += turned(f, rows)[:count]
        kind = f.vector
        turned_taps = [f.select(flips, taps[TAPS - 1 - i], taps[i], kind) for i in range(TAPS)]
        grid = [turned_taps[i : i + 3] for i in range(0, TAPS, 3)]
        to = f.at(f.at(start, f.mul(channel, target.panel)), place)
        for entries in transformed(f, G, grid):
            for value in entries:
                f.store(value, to)
                to = f.at(to, apart)
    return f.text("")


class Part:
    """What one chunk covers: samples and rows of tiles."""

    def __init__(self, f: Function, c: Reader, chunk: Int) -> None:
        band = f.rem(chunk, c.bands)
        self.first = f.mul(f.div(chunk, c.bands), c.samples_each)
        self.samples = f.least(c.samples_each, f.sub(c.samples, self.first))
        self.row = f.mul(band, c.band_tiles)
        self.rows = f.least(c.band_tiles, f.sub(c.tile_rows, self.row))
        self.top = f.sub(f.mul(self.row, 2), c.top)
        # Rows of the input that are there, and rows of results.
        self.low = f.most(self.top, 0)
        self.high = f.least(f.add(f.add(self.top, f.mul(self.rows, 2)), 2), c.height)
        self.y_low = f.mul(self.row, 2)
        self.y_rows = f.least(f.mul(self.rows, 2), f.sub(c.y_height, self.y_low))
        self.tiles = f.mul(f.mul(self.samples, self.rows), c.tile_columns)


def rows_last(f: Function, x: str, part: Part, sample: Int, low: Int, row: Int) -> str:
    """Where a chunk's rows begin in memory with channels last."""
    return f.at(x, f.add(f.mul(part.first, sample), f.mul(low, row)))


def channels_last(
    f: Function, x: str, to: str, part: Part, channels: Int, wide: Int, height: Int, width: Int,
    low: Int, rows: Int, sample: Int, is_last: str,
) -> str:  # fmt: skip
    """Rows of a chunk's samples with channels last: where they are, or transposed."""
    found = f.slot("ptr")
    is_turned = f.compare("eq", is_last, 0)
    f.store(rows_last(f, x, part, sample, low, f.mul(width, wide)), found, "ptr", 8)
    with f.when(is_turned):
        f.store(to, found, "ptr", 8)
        plane = f.mul(height, width)
        with f.loop(0, part.samples) as number:
            source = f.at(x, f.mul(f.add(part.first, number), f.mul(channels, plane)))
            f.call(
                "@turn", f"ptr {f.at(source, f.mul(low, width))}", f"i64 {plane}",
                f"ptr {f.at(to, f.mul(number, sample))}", f"i64 {wide}", f"i64 {channels}",
                f"i64 {f.mul(rows, width)}",
            )  # fmt: skip
    return f.load(found, "ptr", 8)


def input_tiles(f: Function, c: Reader, part: Part, x: str, v: str, tile: Int, count: Int) -> None:
    f.call(
        "@patch", f"ptr {x}", f"ptr {v}", f"ptr {c.zeros}", f"i64 {tile}", f"i64 {count}",
        f"i64 {part.rows}", f"i64 {c.tile_columns}", f"i64 {c.x_sample}", f"i64 {part.top}",
        f"i64 {f.sub(0, c.left)}", f"i64 {part.low}", f"i64 {c.height}", f"i64 {c.width}",
        f"i64 {c.channels_wide}", f"i64 {c.apart}",
    )  # fmt: skip


def winograd_text(target: Target) -> str:
    """`@winograd`: results of one chunk."""
    f = Function(target, "winograd", CHUNK)
    c = Reader(f, WINOGRAD, POINTERS)
    x = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    v, m, y = f.at(x, c.v_at), f.at(x, c.m_at), f.at(x, c.y_at)
    part = Part(f, c, "%chunk")
    rows = f.sub(part.high, part.low)
    x = channels_last(
        f, c.x, x, part, c.channels, c.channels_wide, c.height, c.width, part.low, rows,
        c.x_sample, c.x_last,
    )  # fmt: skip
    y_rows = rows_last(f, c.y, part, c.y_sample, part.y_low, f.mul(c.y_width, c.outputs_wide))
    is_turned = f.compare("eq", c.y_last, 0)
    y = f.select(is_turned, y, y_rows, "ptr")
    with f.loop(0, part.tiles, c.group) as tile:
        count = f.least(c.group, f.sub(part.tiles, tile))
        input_tiles(f, c, part, x, v, tile, count)
        with f.loop(0, POINTS) as point, f.loop(0, c.outputs_wide, target.panel) as output:
            columns = f.least(f.sub(c.outputs_wide, output), target.panel)
            left = f.at(v, f.mul(point, f.mul(c.apart, c.channels_wide)))
            wide = f.mul(f.div(f.add(c.outputs_wide, target.panel - 1), target.panel), target.panel)
            right = f.at(c.u, f.mul(c.channels, f.add(f.mul(point, wide), output)))
            to = f.at(f.at(m, f.mul(point, f.mul(c.apart, c.outputs_wide))), output)
            f.call(
                "@block", f"ptr {left}", f"i64 {c.channels_wide}", "i64 1", f"ptr {c.zero_tap}",
                "i64 1", f"i64 {c.channels}", f"ptr {right}", f"i64 {target.panel}", f"ptr {to}",
                f"i64 {c.outputs_wide}", f"i64 {count}", f"i64 {columns}", "i1 false",
            )  # fmt: skip
        f.call(
            "@results", f"ptr {m}", f"ptr {y}", f"ptr {c.bias}", f"i64 {tile}", f"i64 {count}",
            f"i64 {part.rows}", f"i64 {c.tile_columns}", f"i64 {c.y_sample}", f"i64 {part.y_rows}",
            f"i64 {c.y_width}", f"i64 {c.outputs_wide}", f"i64 {c.apart}", f"i64 {c.outputs}",
        )  # fmt: skip
    plane = f.mul(c.y_height, c.y_width)
    with f.when(is_turned), f.loop(0, part.samples) as number:
        to = f.at(c.y, f.mul(f.add(part.first, number), f.mul(c.outputs, plane)))
        f.call(
            "@turn", f"ptr {f.at(y, f.mul(number, c.y_sample))}", f"i64 {c.outputs_wide}",
            f"ptr {f.at(to, f.mul(part.y_low, c.y_width))}", f"i64 {plane}",
            f"i64 {f.mul(part.y_rows, c.y_width)}", f"i64 {c.outputs}",
        )  # fmt: skip
    return f.text("")


def weights_text(target: Target) -> str:
    """`@winograd_weights`: what one slice of the chunks adds to the sums; `y` is the gradient."""
    f = Function(target, "winograd_weights", CHUNK)
    c = Reader(f, WINOGRAD, POINTERS)
    x = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    v, m, y = f.at(x, c.v_at), f.at(x, c.m_at), f.at(x, c.y_at)
    sums = f.at(c.sums, f.mul("%chunk", c.sums_slice))
    low = f.div(f.mul("%chunk", c.chunks), c.slices)
    high = f.div(f.mul(f.add("%chunk", 1), c.chunks), c.slices)
    with f.loop(low, high) as chunk:
        part = Part(f, c, chunk)
        rows = f.sub(part.high, part.low)
        x_rows = channels_last(
            f, c.x, x, part, c.channels, c.channels_wide, c.height, c.width, part.low, rows,
            c.x_sample, c.x_last,
        )  # fmt: skip
        y_rows = channels_last(
            f, c.y, y, part, c.outputs, c.outputs_wide, c.y_height, c.y_width, part.y_low,
            part.y_rows, c.y_sample, c.y_last,
        )  # fmt: skip
        with f.loop(0, part.tiles, c.group) as tile:
            count = f.least(c.group, f.sub(part.tiles, tile))
            input_tiles(f, c, part, x_rows, v, tile, count)
            f.call(
                "@grads", f"ptr {y_rows}", f"ptr {m}", f"ptr {c.zeros}", f"i64 {tile}",
                f"i64 {count}", f"i64 {part.rows}", f"i64 {c.tile_columns}", f"i64 {c.y_sample}",
                "i64 0", "i64 0", "i64 0", f"i64 {part.y_rows}", f"i64 {c.y_width}",
                f"i64 {c.outputs_wide}", f"i64 {c.apart}",
            )  # fmt: skip
            later = f.value(f"or i1 {f.compare('sgt', chunk, low)}, {f.compare('sgt', tile, 0)}")
            with f.loop(0, POINTS) as point, f.loop(0, c.outputs_wide, target.panel) as output:
                columns = f.least(f.sub(c.outputs_wide, output), target.panel)
                left = f.at(v, f.mul(point, f.mul(c.apart, c.channels_wide)))
                right = f.at(f.at(m, f.mul(point, f.mul(c.apart, c.outputs_wide))), output)
                to = f.at(f.at(sums, f.mul(point, f.mul(c.channels, c.outputs_wide))), output)
                f.call(
                    "@block", f"ptr {left}", "i64 1", f"i64 {c.channels_wide}", f"ptr {c.zero_tap}",
                    "i64 1", f"i64 {count}", f"ptr {right}", f"i64 {c.outputs_wide}", f"ptr {to}",
                    f"i64 {c.outputs_wide}", f"i64 {c.channels}", f"i64 {columns}", f"i1 {later}",
                )  # fmt: skip
    return f.text("")


def sum_text(target: Target) -> str:
    """`@winograd_sum`: the slices of one channel's sums added in their order, as taps of the
    weights in the order of channels, taps and outputs."""
    f = Function(target, "winograd_sum", CHUNK)
    c = Reader(f, WINOGRAD, POINTERS)
    apart = f.mul(c.channels, c.outputs_wide)
    start = f.at(c.sums, f.mul("%chunk", c.outputs_wide))
    parts = f.at(c.parts, f.mul(f.mul("%chunk", TAPS), c.outputs_wide))
    totals = [f.slot(f.vector) for _ in range(POINTS)]
    with f.loop(0, c.outputs_wide, f.lanes) as output:
        for total in totals:
            f.store("zeroinitializer", total)
        with f.loop(0, c.slices) as number:
            at = f.at(f.at(start, f.mul(number, c.sums_slice)), output)
            for total in totals:
                f.store(f.two("fadd", f.load(total), f.load(at)), total)
                at = f.at(at, apart)
        values = [f.load(total) for total in totals]
        grid = [values[i : i + 4] for i in range(0, POINTS, 4)]
        to = f.at(parts, output)
        for entries in transformed(f, transpose(G), grid):
            for value in entries:
                f.store(value, to)
                to = f.at(to, c.outputs_wide)
    f.call(
        "@turn", f"ptr {parts}", f"i64 {c.outputs_wide}",
        f"ptr {f.at(c.result, f.mul('%chunk', TAPS))}", f"i64 {f.mul(c.channels, TAPS)}",
        f"i64 {TAPS}", f"i64 {c.outputs}",
    )  # fmt: skip
    return f.text("")


def winograd_texts(target: Target) -> list[str]:
    return [
        patch_text(target, "patch", BT, 4),
        patch_text(target, "grads", transpose(AT), 2),
        *[
            make(target)
            for make in (results_text, filters_text, winograd_text, weights_text, sum_text)
        ],
    ]
