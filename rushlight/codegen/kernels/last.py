"""Convolutions of operands whose channels lie last in memory, in LLVM IR.

A chunk is a band of rows of one sample, padded where its windows reach over the edge. Places are
the rows of a product then, outputs its columns, and windows are read where they lie: the taps that
lie beside one another are one stretch of the sum. The gradient of the input is the same once for
each residue of the stride; that of the weights multiplies by windows turned round.
"""

from __future__ import annotations

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.layout import copied, zeroed
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["LAST", "LAST_PHASE", "LAST_WEIGHTS", "PACKED", "TURNED", "last_texts"]

# What both drivers know of the operand whose windows are read.
SOURCE = (
    "x scratch scratch_step bands band_rows channels height width padded top left row_step step "
    "rows_more pitch line y_rows y_width "
)
LAST = Words(
    SOURCE + "y y_sample y_row y_column bias outputs phases phase_list"
)  # fmt: skip
# One entry of the list of phases: stretches, where each begins, and the result's first place.
LAST_PHASE = Words("w count depth offsets rows width first")
LAST_WEIGHTS = Words(
    SOURCE
    + "g g_sample g_wide outputs count depth offsets row_offsets chunks slices sums sums_slice "
    "taps parts wide result"
)
# Weights of some taps of a window as panels: to[block][tap][channel][output].
PACKED = Words("w to order count taps channels outputs w_output w_channel scratch scratch_step")
TURNED = Words("x y rows columns")
POINTERS = (
    "x", "scratch", "w", "y", "bias", "phase_list", "g", "offsets", "row_offsets", "sums",
    "parts", "result", "to", "order",
)  # fmt: skip


def padded_rows(f: Function, c: Reader, sample: Int, first: Int, rows: Int, to: str) -> str:
    """Where the windows of a band begin: in the operand, or in a copy with zeros around it."""
    row = f.mul(c.width, c.channels)
    x = f.at(c.x, f.mul(f.mul(sample, c.height), row))
    top = f.sub(f.mul(first, c.row_step), c.top)
    found = f.slot("ptr")
    f.store(f.at(x, f.mul(top, row)), found, "ptr", 8)
    with f.when(f.compare("ne", c.padded, 0)):
        f.store(to, found, "ptr", 8)
        before = f.mul(c.left, c.channels)
        # The pitch may end before the row does, and then nothing behind is read.
        copies = f.least(row, f.sub(c.line, before))
        behind = f.add(before, copies)
        count = f.add(f.mul(f.sub(rows, 1), c.row_step), c.rows_more)
        with f.loop(0, count) as number:
            place = f.at(to, f.mul(number, c.line))
            at = f.add(top, number)
            inside = f.value(f"icmp ult i64 {at}, {c.height}")
            with f.when(inside):
                zeroed(f, place, before)
                copied(f, f.at(x, f.mul(at, row)), f.at(place, before), copies)
                zeroed(f, f.at(place, behind), f.sub(c.line, behind))
            with f.when(f.value(f"xor i1 {inside}, true")):
                zeroed(f, place, c.line)
    return f.load(found, "ptr", 8)


def band_of(f: Function, c: Reader, chunk: Int) -> tuple[Int, Int, Int]:
    """Sample, first row and number of rows of a chunk."""
    first = f.mul(f.rem(chunk, c.bands), c.band_rows)
    return f.div(chunk, c.bands), first, f.least(c.band_rows, f.sub(c.y_rows, first))


def last_text(target: Target) -> str:
    """`@last`: results of one chunk."""
    f = Function(target, "last", CHUNK)
    c = Reader(f, LAST, POINTERS)
    sample, first, rows = band_of(f, c, "%chunk")
    x = padded_rows(f, c, sample, first, rows, f.at(c.scratch, f.mul("%worker", c.scratch_step)))
    y = f.at(f.at(c.y, f.mul(sample, c.y_sample)), f.mul(first, c.y_row))
    has_bias = f.compare("ne", f.value(f"ptrtoint ptr {c.bias} to i64"), 0)
    with f.loop(0, c.phases) as number:
        phase = f.at(c.phase_list, f.mul(number, len(LAST_PHASE.names)), "i64")
        own = {
            name: f.word(phase, place, "ptr" if name in POINTERS else "i64")
            for name, place in LAST_PHASE.places.items()
        }
        lines = f.most(f.least(rows, f.sub(own["rows"], first)), 0)
        reach = f.mul(f.mul(own["count"], own["depth"]), target.panel)
        with f.loop(0, lines) as line:
            source = f.at(x, f.mul(f.mul(line, c.row_step), c.line))
            to = f.at(f.at(y, f.mul(line, c.y_row)), own["first"])
            with f.when(has_bias), f.loop(0, own["width"]) as place:
                copied_first(f, c.bias, f.at(to, f.mul(place, c.y_column)), c.outputs)
            with f.loop(0, c.outputs, target.panel) as output:
                columns = f.least(f.sub(c.outputs, output), target.panel)
                w = f.at(own["w"], f.mul(f.div(output, target.panel), reach))
                f.call(
                    "@block", f"ptr {source}", f"i64 {f.mul(c.step, c.channels)}", "i64 1",
                    f"ptr {own['offsets']}", f"i64 {own['count']}", f"i64 {own['depth']}",
                    f"ptr {w}", f"i64 {target.panel}", f"ptr {f.at(to, output)}",
                    f"i64 {c.y_column}", f"i64 {own['width']}", f"i64 {columns}", f"i1 {has_bias}",
                )  # fmt: skip
    return f.text("")


def copied_first(f: Function, source: str, target: str, count: Int) -> None:
    """Copy floats, and touch none behind them."""
    with f.loop(0, count, f.lanes) as at:
        rest = f.sub(count, at)
        f.store_first(f.load_first(f.at(source, at), rest), f.at(target, at), rest)


def weights_text(target: Target) -> str:
    """`@last_weights`: what one slice of the chunks adds to the sums: sums[stretch][window's place
    in it][output]."""
    f = Function(target, "last_weights", CHUNK)
    c = Reader(f, LAST_WEIGHTS, POINTERS)
    scratch = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    sums = f.at(c.sums, f.mul("%chunk", c.sums_slice))
    low = f.div(f.mul("%chunk", c.chunks), c.slices)
    high = f.div(f.mul(f.add("%chunk", 1), c.chunks), c.slices)
    with f.loop(low, high) as chunk:
        sample, first, rows = band_of(f, c, chunk)
        x = padded_rows(f, c, sample, first, rows, scratch)
        g = f.at(c.g, f.mul(sample, c.g_sample))
        g = f.at(g, f.mul(f.mul(first, c.y_width), c.g_wide))
        later = f.compare("sgt", chunk, low)
        with f.loop(0, c.count) as stretch, f.loop(0, c.outputs, target.panel) as output:
            columns = f.least(f.sub(c.outputs, output), target.panel)
            to = f.at(sums, f.mul(f.mul(stretch, c.depth), c.outputs))
            f.call(
                "@block", f"ptr {f.at(x, f.word(c.offsets, stretch))}", "i64 1",
                f"i64 {f.mul(c.step, c.channels)}", f"ptr {c.row_offsets}", f"i64 {rows}",
                f"i64 {c.y_width}", f"ptr {f.at(g, output)}", f"i64 {c.g_wide}",
                f"ptr {f.at(to, output)}", f"i64 {c.outputs}", f"i64 {c.depth}", f"i64 {columns}",
                f"i1 {later}",
            )  # fmt: skip
    return f.text("")


def sum_text(target: Target) -> str:
    """`@last_sum`: the slices of one channel's sums added in their order, as the weights lie. The
    stretches are all taps in their order."""
    f = Function(target, "last_sum", CHUNK)
    c = Reader(f, LAST_WEIGHTS, POINTERS)
    taps, outputs = c.taps, c.outputs
    parts = f.at(c.parts, f.mul(f.mul("%chunk", taps), c.wide))
    total = f.slot(f.vector)
    with f.loop(0, taps) as tap, f.loop(0, outputs, f.lanes) as output:
        rest = f.sub(outputs, output)
        place = f.mul(f.add(f.mul(tap, c.channels), "%chunk"), outputs)
        at = f.at(f.at(c.sums, place), output)
        f.store(f.load_first(at, rest), total)
        with f.loop(1, c.slices) as number:
            more = f.load_first(f.at(at, f.mul(number, c.sums_slice)), rest)
            f.store(f.two("fadd", f.load(total), more), total)
        f.store(f.load(total), f.at(f.at(parts, f.mul(tap, c.wide)), output))
    f.call(
        "@turn", f"ptr {parts}", f"i64 {c.wide}", f"ptr {f.at(c.result, f.mul('%chunk', taps))}",
        f"i64 {f.mul(c.channels, taps)}", f"i64 {taps}", f"i64 {outputs}",
    )  # fmt: skip
    return f.text("")


def packed_text(target: Target) -> str:
    """`@last_pack`: one block of outputs."""
    f = Function(target, "last_pack", CHUNK)
    c = Reader(f, PACKED, POINTERS)
    panel = target.panel
    own = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    first = f.mul("%chunk", panel)
    columns = f.least(f.sub(c.outputs, first), panel)
    start = f.at(c.w, f.mul(first, c.w_output))
    to = f.at(c.to, f.mul("%chunk", f.mul(f.mul(c.count, c.channels), panel)))
    is_one = f.compare("eq", c.taps, 1)
    is_turned = f.value(f"and i1 {is_one}, {f.compare('eq', c.w_channel, 1)}")
    with f.when(is_turned):
        with f.when(f.compare("slt", columns, panel)):
            zeroed(f, to, f.mul(c.channels, panel))
        f.call(
            "@turn", f"ptr {start}", f"i64 {c.w_output}", f"ptr {to}", f"i64 {panel}",
            f"i64 {columns}", f"i64 {c.channels}",
        )  # fmt: skip
    with f.when(f.value(f"xor i1 {is_turned}, true")):
        zeroed(f, own, f.mul(c.taps, panel))
        with f.loop(0, c.channels) as channel:
            source = f.at(start, f.mul(channel, c.w_channel))
            with f.when(is_one):
                copied(f, source, own, columns)
            with f.when(f.value(f"xor i1 {is_one}, true")):
                f.call(
                    "@turn", f"ptr {source}", f"i64 {c.w_output}", f"ptr {own}", f"i64 {panel}",
                    f"i64 {columns}", f"i64 {c.taps}",
                )  # fmt: skip
            with f.loop(0, c.count) as tap:
                line = f.at(own, f.mul(f.word(c.order, tap), panel))
                place = f.at(to, f.mul(f.add(f.mul(tap, c.channels), channel), panel))
                copied(f, line, place, panel)
    return f.text("")


def turned_text(target: Target) -> str:
    """`@turn_samples`: the transpose of each sample."""
    f = Function(target, "turn_samples", CHUNK)
    c = Reader(f, TURNED, ("x", "y"))
    begin = f.mul("%chunk", f.mul(c.rows, c.columns))
    f.call(
        "@turn", f"ptr {f.at(c.x, begin)}", f"i64 {c.columns}", f"ptr {f.at(c.y, begin)}",
        f"i64 {c.rows}", f"i64 {c.rows}", f"i64 {c.columns}",
    )  # fmt: skip
    return f.text("")


def last_texts(target: Target) -> list[str]:
    return [make(target) for make in (last_text, weights_text, sum_text, packed_text, turned_text)]
