"""Convolutions as products with windows laid out in panels, in LLVM IR.

A chunk is a band of output rows of one sample (and of one plane, where there are planes). Its part
of the input is padded and split by the stride; `panel` places at a time, windows are gathered into
a panel that stays in the cache, and multiplied by the weights where they lie. The gradient of the
input is the same with weights read the other way, in one phase for each residue of the stride; the
gradient of the weights multiplies panels by gradients that were transposed.
"""

from __future__ import annotations

from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.layout import zeroed
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["CHUNK", "DIRECT", "PHASE", "WEIGHTS", "direct_texts"]

CHUNK = ("ptr %ctx", "i64 %chunk", "i64 %worker")

# What both drivers know of the operand whose windows are read.
SOURCE = (
    "x scratch scratch_step bands band_rows planes groups channels sample group plane height width "
    "depth padded first_plane plane_step plane_gap slabs slab first_row row_step rows_kept "
    "rows_more jump left step phases_read pitch line spread_plane row "
)
DIRECT = Words(
    SOURCE + "w w_group w_channel w_row aks sums_taps y y_sample y_group y_channel y_rows y_width "
    "y_plane bias outputs channel_block phases phase_list panel_at place_at place_channel weaves "
    "row_weaves column_weaves"
)
# One entry of the list of phases. `row` and `column` are those of the phase's first result.
PHASE = Words("taps offsets reads rows width row column first")
WEIGHTS = Words(
    SOURCE
    + "g g_sample g_group g_channel g_rows g_width g_plane outputs taps offsets panel_at grad_at "
    "size chunks slices sums sums_slice sums_group zero_tap result result_group"
)
POINTERS = ("x", "scratch", "w", "y", "bias", "phase_list", "g", "offsets", "sums", "zero_tap",
            "result", "reads")  # fmt: skip


def parts(f: Function, c: Reader, chunk: Int, rows: Int) -> tuple[Int, Int, Int, Int]:
    """Sample, plane, first row and number of rows of a chunk."""
    band = f.rem(chunk, c.bands)
    rest = f.div(chunk, c.bands)
    first = f.mul(band, c.band_rows)
    count = f.least(c.band_rows, f.sub(rows, first))
    return f.div(rest, c.planes), f.rem(rest, c.planes), first, count


def spread_source(
    f: Function, c: Reader, x: str, target: str, plane: Int, first: Int, rows: Int
) -> None:
    """Pad what a band of one sample and group reads; every channel has `slabs` planes."""
    row = f.add(f.mul(first, c.row_step), c.first_row)
    count = f.add(f.mul(f.sub(rows, 1), c.rows_kept), c.rows_more)
    begin = f.add(f.mul(plane, c.plane_step), c.first_plane)
    shared = (
        f"i64 {row}", f"i64 {count}", f"i64 {c.width}", f"i64 {c.left}", f"i64 {c.step}",
        f"i64 {c.pitch}", f"i64 {c.line}", f"i64 {c.phases_read}", f"i64 {c.jump}",
    )  # fmt: skip
    start, number, width, *rest = shared
    with f.loop(0, c.channels) as channel, f.loop(0, c.slabs) as slab:
        at = f.add(begin, f.mul(slab, c.plane_gap))
        inside = f.value(f"icmp ult i64 {at}, {c.depth}")
        # Of a plane outside of the image, every row is.
        height = f.select(inside, c.height, 0)
        place = f.mul(f.select(inside, at, 0), f.mul(c.height, c.width))
        source = f.at(f.at(x, f.mul(channel, c.plane)), place)
        to = f.at(f.at(target, f.mul(channel, c.spread_plane)), f.mul(slab, c.slab))
        f.call(
            "@spread", f"ptr {source}", f"ptr {to}", start, number, f"i64 {height}", width, *rest
        )


def source_of(
    f: Function, c: Reader, sample: Int, group: Int, plane: Int, first: Int, rows: Int, to: str
) -> tuple[str, Int]:
    """Where windows of a chunk are read, and how far channels lie apart there."""
    x = f.at(f.at(c.x, f.mul(sample, c.sample)), f.mul(group, c.group))
    found, apart = f.slot("ptr"), f.slot("i64")
    direct = f.at(f.at(x, f.mul(plane, f.mul(c.height, c.width))), f.mul(first, c.width))
    f.store(direct, found, "ptr", 8)
    f.store(c.plane, apart, "i64", 8)
    with f.when(f.compare("ne", c.padded, 0)):
        spread_source(f, c, x, to, plane, first, rows)
        f.store(to, found, "ptr", 8)
        f.store(c.spread_plane, apart, "i64", 8)
    return f.load(found, "ptr", 8), f.load(apart, "i64", 8)


def filled(f: Function, y: str, step: Int, bias: str, rows: Int, count: Int) -> None:
    """Each row one number."""
    with f.loop(0, rows) as row:
        value = f.splat(f.at(bias, row))
        line = f.at(y, f.mul(row, step))
        with f.loop(0, count, f.lanes) as at:
            f.store_first(value, f.at(line, at), f.sub(count, at))


def direct_text(target: Target) -> str:
    """`@direct`: results of one chunk."""
    f = Function(target, "direct", CHUNK)
    c = Reader(f, DIRECT, POINTERS)
    scratch = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    panel = f.at(scratch, c.panel_at)
    bks = target.panel + target.lanes
    sample, plane, first, rows = parts(f, c, "%chunk", c.y_rows)
    with f.loop(0, c.groups) as group:
        x, apart = source_of(f, c, sample, group, plane, first, rows, scratch)
        w = f.at(c.w, f.mul(group, c.w_group))
        y = f.at(f.at(c.y, f.mul(sample, c.y_sample)), f.mul(group, c.y_group))
        y = f.at(y, f.mul(plane, c.y_plane))
        with f.loop(0, c.phases) as number:
            phase = f.at(c.phase_list, f.mul(number, len(PHASE.names)), "i64")
            own = {
                name: f.word(phase, place, "ptr" if name in POINTERS else "i64")
                for name, place in PHASE.places.items()
            }
            lines = f.most(f.least(rows, f.sub(own["rows"], first)), 0)
            count = f.mul(lines, own["width"])
            out, crs = f.slot("ptr"), f.slot("i64")
            f.store(f.at(y, f.mul(first, c.y_width)), out, "ptr", 8)
            f.store(c.y_channel, crs, "i64", 8)
            woven = f.compare("ne", c.weaves, 0)
            with f.when(woven):
                f.store(f.at(scratch, c.place_at), out, "ptr", 8)
                f.store(c.place_channel, crs, "i64", 8)
            to, step = f.load(out, "ptr", 8), f.load(crs, "i64", 8)
            has_bias = f.compare("ne", f.value(f"ptrtoint ptr {c.bias} to i64"), 0)
            with f.when(has_bias):
                bias = f.at(c.bias, f.mul(group, c.outputs))
                filled(f, to, step, bias, c.outputs, count)
            with f.when(f.compare("eq", own["taps"], 0)), f.loop(0, c.outputs) as row:
                zeroed(f, f.at(to, f.mul(row, step)), count)
            with f.when(f.compare("ne", own["taps"], 0)):
                products(f, c, own, x, apart, w, panel, to, step, count, has_bias, bks)
            with f.when(woven):
                weave(f, c, own, to, step, y, first, lines)
    return f.text("")


def products(
    f: Function, c: Reader, own: dict[str, str], x: str, apart: Int, w: str, panel: str,
    to: str, step: Int, count: Int, has_bias: str, bks: int,
) -> None:  # fmt: skip
    """All places of a phase, a panel at a time; channels in blocks whose panel fits the cache."""
    taps = own["taps"]
    source = f.at(x, own["first"])
    by_tap = f.compare("ne", c.sums_taps, 0)
    width = f.target.panel
    with f.loop(0, count, width) as place, f.loop(0, c.channels, c.channel_block) as channel:
        size = f.least(f.sub(count, place), width)
        block = f.least(c.channel_block, f.sub(c.channels, channel))
        crow, trow = f.select(by_tap, 1, taps), f.select(by_tap, block, 1)
        f.call(
            "@gather", f"ptr {f.at(source, f.mul(channel, apart))}", f"ptr {panel}", f"i64 {block}",
            f"i64 {apart}", f"ptr {own['offsets']}", f"i64 {taps}", f"i64 {crow}", f"i64 {trow}",
            f"i64 {bks}", f"i64 {c.row}", f"i64 {own['width']}", f"i64 {place}", f"i64 {size}",
        )  # fmt: skip
        stretches = f.select(by_tap, taps, 1)
        depth = f.select(by_tap, block, f.mul(block, taps))
        adds = f.value(f"or i1 {has_bias}, {f.compare('sgt', channel, 0)}")
        f.call(
            "@block", f"ptr {f.at(w, f.mul(channel, c.w_channel))}", f"i64 {c.w_row}",
            f"i64 {c.aks}", f"ptr {own['reads']}", f"i64 {stretches}", f"i64 {depth}",
            f"ptr {panel}", f"i64 {bks}", f"ptr {f.at(to, place)}", f"i64 {step}",
            f"i64 {c.outputs}", f"i64 {size}", f"i1 {adds}",
        )  # fmt: skip


def weave(
    f: Function, c: Reader, own: dict[str, str], source: str, step: Int, y: str, first: Int,
    lines: Int,
) -> None:  # fmt: skip
    """A phase's rows to the places of the result that it has."""
    with f.loop(0, c.outputs) as channel, f.loop(0, lines) as line:
        row = f.add(f.mul(f.add(first, line), c.row_weaves), own["row"])
        to = f.at(f.at(y, f.mul(channel, c.y_channel)), f.mul(row, c.y_width))
        where = f.at(f.at(source, f.mul(channel, step)), f.mul(line, own["width"]))
        f.call(
            "@weave", f"ptr {where}", f"ptr {f.at(to, own['column'])}", f"i64 {c.column_weaves}",
            f"i64 {own['width']}",
        )  # fmt: skip


def weights_text(target: Target) -> str:
    """`@direct_weights`: what one slice of the chunks adds to the gradient of the weights."""
    f = Function(target, "direct_weights", CHUNK)
    c = Reader(f, WEIGHTS, POINTERS)
    scratch = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    panel, grads = f.at(scratch, c.panel_at), f.at(scratch, c.grad_at)
    bks = f.add(c.size, target.lanes)
    rows_of_sums = f.mul(c.channels, c.taps)
    low = f.div(f.mul("%chunk", c.chunks), c.slices)
    high = f.div(f.mul(f.add("%chunk", 1), c.chunks), c.slices)
    with f.loop(low, high) as chunk, f.loop(0, c.groups) as group:
        sample, plane, first, rows = parts(f, c, chunk, c.g_rows)
        x, apart = source_of(f, c, sample, group, plane, first, rows, scratch)
        g = f.at(f.at(c.g, f.mul(sample, c.g_sample)), f.mul(group, c.g_group))
        g = f.at(g, f.mul(plane, c.g_plane))
        g = f.at(g, f.mul(first, c.g_width))
        sums = f.at(f.at(c.sums, f.mul("%chunk", c.sums_slice)), f.mul(group, c.sums_group))
        count = f.mul(rows, c.g_width)
        with f.loop(0, count, c.size) as place:
            size = f.least(f.sub(count, place), c.size)
            f.call(
                "@gather", f"ptr {x}", f"ptr {panel}", f"i64 {c.channels}", f"i64 {apart}",
                f"ptr {c.offsets}", f"i64 {c.taps}", f"i64 {c.taps}", "i64 1", f"i64 {bks}",
                f"i64 {c.row}", f"i64 {c.g_width}", f"i64 {place}", f"i64 {size}",
            )  # fmt: skip
            later = f.value(f"or i1 {f.compare('sgt', chunk, low)}, {f.compare('sgt', place, 0)}")
            with f.loop(0, c.outputs, target.panel) as output:
                columns = f.least(f.sub(c.outputs, output), target.panel)
                source = f.at(f.at(g, f.mul(output, c.g_channel)), place)
                f.call(
                    "@turn", f"ptr {source}", f"i64 {c.g_channel}", f"ptr {grads}",
                    f"i64 {target.panel}", f"i64 {columns}", f"i64 {size}",
                )  # fmt: skip
                f.call(
                    "@block", f"ptr {panel}", f"i64 {bks}", "i64 1", f"ptr {c.zero_tap}", "i64 1",
                    f"i64 {size}", f"ptr {grads}", f"i64 {target.panel}",
                    f"ptr {f.at(sums, output)}", f"i64 {c.outputs}", f"i64 {rows_of_sums}",
                    f"i64 {columns}", f"i1 {later}",
                )  # fmt: skip
    return f.text("")


def sum_text(target: Target) -> str:
    """`@sum_weights`: the slices of one group's gradient added in their order, and turned into the
    order of weights."""
    f = Function(target, "sum_weights", CHUNK)
    c = Reader(f, WEIGHTS, POINTERS)
    rows = f.mul(c.channels, c.taps)
    total = f.mul(rows, c.outputs)
    sums = f.at(c.sums, f.mul("%chunk", c.sums_group))
    with f.loop(1, c.slices) as number, f.loop(0, total, f.lanes) as at:
        more = f.at(f.at(sums, f.mul(number, c.sums_slice)), at)
        rest, place = f.sub(total, at), f.at(sums, at)
        found = f.two("fadd", f.load_first(place, rest), f.load_first(more, rest))
        f.store_first(found, place, rest)
    to = f.at(c.result, f.mul("%chunk", c.result_group))
    f.call(
        "@turn", f"ptr {sums}", f"i64 {c.outputs}", f"ptr {to}", f"i64 {rows}", f"i64 {rows}",
        f"i64 {c.outputs}",
    )  # fmt: skip
    return f.text("")


def direct_texts(target: Target) -> list[str]:
    return [make(target) for make in (direct_text, weights_text, sum_text)]
