"""Statistics of batch norm for operands whose channels lie last in memory, in LLVM IR.

A chunk is a block of places that stays in the cache, and leaves two sums for every channel; then
those of all blocks are put together in double, channel by channel, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.norms import single
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["LAST_NORM", "last_norm_texts"]

LAST_NORM = Words(
    "x grad mean variance rstd eps for_weight for_bias parts channels places block blocks"
)
POINTERS = ("x", "grad", "mean", "variance", "rstd", "eps", "for_weight", "for_bias", "parts")
# Places that are summed side by side.
APART = 4


def summed(
    f: Function, first: Int, end: Int, count: int, terms: Callable[[Int], Sequence[str]]
) -> list[str]:
    """Sums over places of vectors of channels."""
    sums = [[f.slot(f.vector) for _ in range(count)] for _ in range(APART)]
    for lane in sums:
        for total in lane:
            f.store("zeroinitializer", total)
    whole = f.add(first, f.value(f"and i64 {f.sub(end, first)}, {-APART}"))

    def add(place: Int, lane: list[str]) -> None:
        for total, term in zip(lane, terms(place), strict=True):
            f.store(f.two("fadd", f.load(total), term), total)

    with f.loop(first, whole, APART) as place:
        for number, lane in enumerate(sums):
            add(f.add(place, number), lane)
    with f.loop(whole, end) as place:
        add(place, sums[0])
    found = []
    for parts in zip(*sums, strict=True):
        vector = f.load(parts[0])
        for part in parts[1:]:
            vector = f.two("fadd", vector, f.load(part))
        found.append(vector)
    return found


def block_of(f: Function, c: Reader) -> tuple[Int, Int, str]:
    """The first place of a block, the one behind its last, and where its sums go."""
    first = f.mul("%chunk", c.block)
    end = f.least(f.add(first, c.block), c.places)
    return first, end, f.at(c.parts, f.mul(f.mul("%chunk", 2), c.channels))


def statistics_text(target: Target) -> str:
    """`@last_norm`: for each channel, a block's sum and that of squares about its mean."""
    f = Function(target, "last_norm", CHUNK)
    c = Reader(f, LAST_NORM, POINTERS)
    first, end, to = block_of(f, c)
    x, channels = c.x, c.channels
    size = f.value(f"sitofp i64 {f.sub(end, first)} to float")
    share = f.splat_of(f.value(f"fdiv float 1.0, {size}"))
    with f.loop(0, channels, f.lanes) as channel:
        rest = f.sub(channels, channel)
        source = f.at(x, channel)

        def read(place: Int) -> str:
            return f.load_first(f.at(source, f.mul(place, channels)), rest)

        (total,) = summed(f, first, end, 1, lambda place: [read(place)])
        middle = f.two("fmul", total, share)

        def square(place: Int) -> list[str]:
            apart = f.two("fsub", read(place), middle)
            return [f.two("fmul", apart, apart)]

        (squares,) = summed(f, first, end, 1, square)
        f.store_first(total, f.at(to, channel), rest)
        f.store_first(squares, f.at(f.at(to, channels), channel), rest)
    return f.text("")


def gradients_text(target: Target) -> str:
    """`@last_norm_backward`: a block's sums of the gradient, and of it by what it is the gradient
    of less the mean."""
    f = Function(target, "last_norm_backward", CHUNK)
    c = Reader(f, LAST_NORM, POINTERS)
    first, end, to = block_of(f, c)
    x, grad, channels, mean = c.x, c.grad, c.channels, c.mean
    with f.loop(0, channels, f.lanes) as channel:
        rest = f.sub(channels, channel)
        source, grads = f.at(x, channel), f.at(grad, channel)
        middle = f.load_first(f.at(mean, channel), rest)

        def terms(place: Int) -> list[str]:
            offset = f.mul(place, channels)
            g = f.load_first(f.at(grads, offset), rest)
            apart = f.two("fsub", f.load_first(f.at(source, offset), rest), middle)
            return [g, f.two("fmul", apart, g)]

        for at, vector in enumerate(summed(f, first, end, 2, terms)):
            f.store_first(vector, f.at(f.at(to, f.mul(at, channels)), channel), rest)
    return f.text("")


def over_blocks(
    f: Function, c: Reader, count: int, terms: Callable[[Int, Sequence[str]], Sequence[str]]
) -> list[str]:
    """Sums in double over blocks; `terms` has the two sums of a block."""
    totals = [f.slot("double") for _ in range(count)]
    for total in totals:
        f.store("0.0", total, "double", 8)
    parts, channels = f.at(c.parts, "%chunk"), c.channels
    with f.loop(0, c.blocks) as number:
        at = f.at(parts, f.mul(f.mul(number, 2), channels))
        pair = [
            f.value(f"fpext float {f.load(place, 'float')} to double")
            for place in (at, f.at(at, channels))
        ]
        for total, term in zip(totals, terms(number, pair), strict=True):
            more = f.value(f"fadd double {f.load(total, 'double', 8)}, {term}")
            f.store(more, total, "double", 8)
    return [f.load(total, "double", 8) for total in totals]


def whole_statistics_text(target: Target) -> str:
    """`@last_norm_whole`: mean, biased variance and 1 / standard deviation of a channel."""
    f = Function(target, "last_norm_whole", CHUNK)
    c = Reader(f, LAST_NORM, POINTERS)
    block, places = c.block, c.places
    count = f.value(f"sitofp i64 {places} to double")
    (total,) = over_blocks(f, c, 1, lambda number, pair: pair[:1])
    mean = f.value(f"fdiv double {total}, {count}")

    def squares(number: Int, pair: Sequence[str]) -> list[str]:
        # Squares about the mean of all: those about the block's, and its distance.
        size = f.least(block, f.sub(places, f.mul(number, block)))
        wide = f.value(f"sitofp i64 {size} to double")
        apart = f.value(f"fsub double {f.value(f'fdiv double {pair[0]}, {wide}')}, {mean}")
        far = f.value(f"fmul double {f.value(f'fmul double {apart}, {apart}')}, {wide}")
        return [f.value(f"fadd double {pair[1]}, {far}")]

    (total,) = over_blocks(f, c, 1, squares)
    variance = f.value(f"fdiv double {total}, {count}")
    added = f.value(f"fadd double {variance}, {f.load(c.eps, 'double', 8)}")
    root = f.value(f"call double @llvm.sqrt.f64(double {added})")
    rstd = f.value(f"fdiv double 1.0, {root}")
    for found, pointer in ((mean, c.mean), (variance, c.variance), (rstd, c.rstd)):
        f.store(single(f, found), f.at(pointer, "%chunk"), "float")
    return f.text("")


def whole_gradients_text(target: Target) -> str:
    """`@last_norm_gradients`: the gradients of a channel's weight and bias."""
    f = Function(target, "last_norm_gradients", CHUNK)
    c = Reader(f, LAST_NORM, POINTERS)
    total, shared = over_blocks(f, c, 2, lambda number, pair: pair)
    rstd = f.value(f"fpext float {f.load(f.at(c.rstd, '%chunk'), 'float')} to double")
    for_weight = f.value(f"fmul double {shared}, {rstd}")
    f.store(single(f, for_weight), f.at(c.for_weight, "%chunk"), "float")
    f.store(single(f, total), f.at(c.for_bias, "%chunk"), "float")
    return f.text("")


def last_norm_texts(target: Target) -> list[str]:
    return [
        make(target)
        for make in (statistics_text, gradients_text, whole_statistics_text, whole_gradients_text)
    ]
