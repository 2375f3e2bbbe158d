"""Convolutions of each channel by itself, in LLVM IR: a sum over taps for vectors of places.

A plane is padded and split by the stride, so that what a tap reads for places beside one another
lies beside one another. Four rows at a time keep the multipliers busy.
"""

from __future__ import annotations

from rushlight.codegen.kernels.direct import CHUNK, SOURCE, spread_source
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["DEPTHWISE", "depthwise_texts"]

DEPTHWISE = Words(
    SOURCE + "planes_each planes_all factor w taps offsets reads y y_rows y_width bias g samples "
    "result"
)
POINTERS = ("x", "scratch", "w", "offsets", "reads", "y", "bias", "g", "result")
ROWS = 4


def spread_plane(f: Function, c: Reader, plane: Int, to: str) -> None:
    spread_source(f, c, f.at(c.x, f.mul(plane, c.plane)), to, 0, 0, c.y_rows)


def depthwise_text(target: Target) -> str:
    """`@depthwise`: results of some planes, `factor` for each."""
    f = Function(target, "depthwise", CHUNK)
    c = Reader(f, DEPTHWISE, POINTERS)
    to = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    first = f.mul("%chunk", c.planes_each)
    last = f.least(f.add(first, c.planes_each), c.planes_all)
    sums = [f.slot(f.vector) for _ in range(ROWS)]
    size = f.mul(c.y_rows, c.y_width)
    with f.loop(first, last) as plane:
        spread_plane(f, c, plane, to)
        with f.loop(0, c.factor) as number:
            output = f.add(f.mul(f.rem(plane, c.groups), c.factor), number)
            w = f.at(c.w, f.mul(output, c.taps))
            y = f.at(c.y, f.mul(f.add(f.mul(plane, c.factor), number), size))
            bias = f.splat(f.at(c.bias, output))
            with f.loop(0, c.y_rows, ROWS) as row, f.loop(0, c.y_width, f.lanes) as column:
                # Rows past the end are the last one again.
                rows = [f.least(f.add(row, i), f.sub(c.y_rows, 1)) for i in range(ROWS)]
                places = [f.at(to, f.add(f.mul(r, c.row), column)) for r in rows]
                for total in sums:
                    f.store(bias, total)
                with f.loop(0, c.taps) as tap:
                    offset = f.word(c.offsets, tap)
                    factor = f.splat(f.at(w, f.word(c.reads, tap)))
                    for total, place in zip(sums, places, strict=True):
                        found = f.fma(f.load(f.at(place, offset)), factor, f.load(total))
                        f.store(found, total)
                rest = f.sub(c.y_width, column)
                for total, r in zip(sums, rows, strict=True):
                    end = f.at(y, f.add(f.mul(r, c.y_width), column))
                    f.store_first(f.load(total), end, rest)
    return f.text("")


def weights_text(target: Target) -> str:
    """`@depthwise_weights`: the gradient of the weights of one channel, sample after sample."""
    f = Function(target, "depthwise_weights", CHUNK)
    c = Reader(f, DEPTHWISE, POINTERS)
    to = f.at(c.scratch, f.mul("%worker", c.scratch_step))
    size = f.mul(c.y_rows, c.y_width)
    result = f.at(c.result, f.mul("%chunk", f.mul(c.factor, c.taps)))
    with f.loop(0, f.mul(c.factor, c.taps)) as at:
        f.store("0.0", f.at(result, at), "float")
    sums = [f.slot(f.vector) for _ in range(ROWS)]
    with f.loop(0, c.samples) as sample:
        plane = f.add(f.mul(sample, c.groups), "%chunk")
        spread_plane(f, c, plane, to)
        with f.loop(0, c.factor) as number, f.loop(0, c.taps) as tap:
            g = f.at(c.g, f.mul(f.add(f.mul(plane, c.factor), number), size))
            source = f.at(to, f.word(c.offsets, tap))
            for total in sums:
                f.store("zeroinitializer", total)
            with f.loop(0, c.y_rows, ROWS) as row, f.loop(0, c.y_width, f.lanes) as column:
                for i, total in enumerate(sums):
                    r = f.add(row, i)
                    there = f.compare("slt", r, c.y_rows)
                    count = f.select(there, f.sub(c.y_width, column), 0)
                    r = f.select(there, r, row)
                    grads = f.load_first(f.at(g, f.add(f.mul(r, c.y_width), column)), count)
                    values = f.load_first(f.at(source, f.add(f.mul(r, c.row), column)), count)
                    f.store(f.fma(values, grads, f.load(total)), total)
            low, high = f.load(sums[0]), f.load(sums[2])
            low = f.two("fadd", low, f.load(sums[1]))
            high = f.two("fadd", high, f.load(sums[3]))
            whole = f.folded(f.two("fadd", low, high))
            place = f.at(result, f.add(f.mul(number, c.taps), tap))
            more = f.value(f"fadd float {f.load(place, 'float')}, {whole}")
            f.store(more, place, "float")
    return f.text("")


def depthwise_texts(target: Target) -> list[str]:
    return [depthwise_text(target), weights_text(target)]
