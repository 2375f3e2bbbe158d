"""Batch norm of one channel at a time, forward and backward, in LLVM IR.

A channel's places are read two or three times while they are in the cache. Rows are summed in
float32 and added to the rest in double, always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["NORM", "norm_texts"]

NORM = Words(
    "x y grad weight bias mean variance rstd eps for_input for_weight for_bias samples channels "
    "places trains wants"
)
POINTERS = ("x", "y", "grad", "weight", "bias", "mean", "variance", "rstd", "eps", "for_input",
            "for_weight", "for_bias")  # fmt: skip
# Vectors of a row that are summed side by side.
APART = 4


def rows(f: Function, c: Reader, body: Callable[[Int], None]) -> None:
    """A channel's row in each sample, by the place where it begins."""
    with f.loop(0, c.samples) as sample:
        body(f.mul(f.add(f.mul(sample, c.channels), "%chunk"), c.places))


def summed(
    f: Function, c: Reader, count: int, terms: Callable[[Int, Int], Sequence[str]]
) -> list[str]:
    """Sums over a channel, in double; `terms` (place, how many are there) answers the vectors to
    add, whose lanes past the end are zeros."""
    totals = [f.slot("double") for _ in range(count)]
    parts = [[f.slot(f.vector) for _ in range(count)] for _ in range(APART)]
    for total in totals:
        f.store("0.0", total, "double", 8)

    def row(begin: Int) -> None:
        for lane in parts:
            for part in lane:
                f.store("zeroinitializer", part)
        with f.loop(0, c.places, APART * f.lanes) as place:
            for number, lane in enumerate(parts):
                at = f.add(place, number * f.lanes)
                left = f.sub(c.places, at)
                # A vector that begins past the end is read where the row begins, none of it.
                at = f.select(f.compare("sgt", left, 0), at, 0)
                for part, term in zip(lane, terms(f.add(begin, at), left), strict=True):
                    f.store(f.two("fadd", f.load(part), term), part)
        for total, *found in zip(totals, *parts, strict=True):
            vector = f.load(found[0])
            for part in found[1:]:
                vector = f.two("fadd", vector, f.load(part))
            wide = f.value(f"fpext float {f.folded(vector)} to double")
            more = f.value(f"fadd double {f.load(total, 'double', 8)}, {wide}")
            f.store(more, total, "double", 8)

    rows(f, c, row)
    return [f.load(total, "double", 8) for total in totals]


def each(f: Function, c: Reader, body: Callable[[Int, Int], None]) -> None:
    """All vectors of a channel: place, and how many elements there are from it on."""

    def row(begin: Int) -> None:
        with f.loop(0, c.places, f.lanes) as place:
            body(f.add(begin, place), f.sub(c.places, place))

    rows(f, c, row)


def number(f: Function, pointer: str) -> str:
    """A channel's entry of an array."""
    return f.load(f.at(pointer, "%chunk"), "float")


def single(f: Function, double: str) -> str:
    return f.value(f"fptrunc double {double} to float")


def count_of(f: Function, c: Reader) -> str:
    return f.value(f"sitofp i64 {f.mul(c.samples, c.places)} to double")


def forward_text(target: Target) -> str:
    """`@norm`: statistics where it trains, and results."""
    f = Function(target, "norm", CHUNK)
    c = Reader(f, NORM, POINTERS)
    with f.when(f.compare("ne", c.trains, 0)):
        x, count = c.x, count_of(f, c)
        (total,) = summed(f, c, 1, lambda at, left: [f.load_first(f.at(x, at), left)])
        mean = single(f, f.value(f"fdiv double {total}, {count}"))
        wide = f.splat_of(mean)
        zero = "zeroinitializer"

        def square(at: Int, left: Int) -> list[str]:
            apart = f.two("fsub", f.load_first(f.at(x, at), left), wide)
            found = f.two("fmul", apart, apart)
            mask = f.first(left)
            return [f.value(f"select {f.mask} {mask}, {f.vector} {found}, {f.vector} {zero}")]

        (total,) = summed(f, c, 1, square)
        variance = f.value(f"fdiv double {total}, {count}")
        added = f.value(f"fadd double {variance}, {f.load(c.eps, 'double', 8)}")
        root = f.value(f"call double @llvm.sqrt.f64(double {added})")
        rstd = single(f, f.value(f"fdiv double 1.0, {root}"))
        for found, pointer in ((mean, c.mean), (single(f, variance), c.variance), (rstd, c.rstd)):
            f.store(found, f.at(pointer, "%chunk"), "float")
    mean = f.splat_of(number(f, c.mean))
    factor = f.splat_of(f.value(f"fmul float {number(f, c.rstd)}, {number(f, c.weight)}"))
    bias = f.splat_of(number(f, c.bias))
    x, y = c.x, c.y

    def apply(at: Int, left: Int) -> None:
        apart = f.two("fsub", f.load_first(f.at(x, at), left), mean)
        f.store_first(f.fma(apart, factor, bias), f.at(y, at), left)

    each(f, c, apply)
    return f.text("")


def backward_text(target: Target) -> str:
    """`@norm_backward`: gradients of the input, the weight and the bias."""
    f = Function(target, "norm_backward", CHUNK)
    c = Reader(f, NORM, POINTERS)
    x, grad, y = c.x, c.grad, c.for_input
    mean, rstd = f.splat_of(number(f, c.mean)), number(f, c.rstd)

    def terms(at: Int, left: Int) -> list[str]:
        g = f.load_first(f.at(grad, at), left)
        apart = f.two("fsub", f.load_first(f.at(x, at), left), mean)
        found = f.two("fmul", apart, g)
        mask = f.first(left)
        inside = f"select {f.mask} {mask}, {f.vector} {found}, {f.vector} zeroinitializer"
        return [g, f.value(inside)]

    total, shared = summed(f, c, 2, terms)
    wide = f.value(f"fpext float {rstd} to double")
    for_weight = f.value(f"fmul double {shared}, {wide}")
    f.store(single(f, for_weight), f.at(c.for_weight, "%chunk"), "float")
    f.store(single(f, total), f.at(c.for_bias, "%chunk"), "float")
    with f.when(f.compare("ne", c.wants, 0)):
        count = count_of(f, c)
        trains = f.compare("ne", c.trains, 0)
        level = f.value(f"fdiv double {total}, {count}")
        slope = f.value(f"fmul double {for_weight}, {f.value(f'fdiv double {wide}, {count}')}")
        parts = []
        for found in (level, slope):
            part = f.select(trains, found, "0.0", "double")
            parts.append(f.splat_of(single(f, part)))
        factor = f.splat_of(f.value(f"fmul float {rstd}, {number(f, c.weight)}"))

        def apply(at: Int, left: Int) -> None:
            g = f.two("fsub", f.load_first(f.at(grad, at), left), parts[0])
            apart = f.two("fsub", f.load_first(f.at(x, at), left), mean)
            found = f.two("fsub", g, f.two("fmul", apart, parts[1]))
            f.store_first(f.two("fmul", found, factor), f.at(y, at), left)

        each(f, c, apply)
    return f.text("")


def norm_texts(target: Target) -> list[str]:
    return [forward_text(target), backward_text(target)]
