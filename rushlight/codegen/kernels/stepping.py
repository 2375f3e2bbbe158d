"""A step of gradient descent on all parameters at once, in LLVM IR: one pass over their memory.

A list says where the pieces of all parameters lie, a chunk is one of them. Each number is computed
as NumPy does, operation by operation, so that it does not matter who takes the step.
"""

from __future__ import annotations

from rushlight.codegen.kernels.direct import CHUNK
from rushlight.codegen.kernels.emit import Function, Int, Target
from rushlight.codegen.kernels.words import Reader, Words

__all__ = ["NUMBERS", "PIECE", "SGD", "WAYS", "step_texts"]

SGD = Words("pieces way decay momentum kept rate")
# An entry of the list of pieces.
PIECE = ("value", "grad", "buffer", "size")
# Without a buffer, with one, and with Nesterov's; weights decay in the ways behind these.
WAYS = 3
NUMBERS = ("decay", "momentum", "kept", "rate")


def sgd_text(target: Target) -> str:
    """`@sgd`: one piece."""
    f = Function(target, "sgd", CHUNK)
    c = Reader(f, SGD, ("pieces",))
    entry = f.at(c.pieces, f.mul("%chunk", len(PIECE)), "i64")
    *pointers, size = [
        f.word(entry, place, "i64" if name == "size" else "ptr") for place, name in enumerate(PIECE)
    ]
    way = c.way
    decay, momentum, kept, rate = [
        f.splat(f.at("%ctx", SGD.places[name], "i64")) for name in NUMBERS
    ]
    whole = f.value(f"and i64 {size}, {-target.lanes}")
    for number in range(2 * WAYS):
        decays, kind = divmod(number, WAYS)

        def move(at: Int, count: Int, decays: int = decays, kind: int = kind) -> None:
            places = [f.at(pointer, at) for pointer in pointers]
            value, step = [f.load_first(place, count) for place in places[:2]]
            if decays:
                step = f.two("fadd", step, f.two("fmul", value, decay))
            if kind:
                buffer = f.two("fmul", f.load_first(places[2], count), momentum)
                buffer = f.two("fadd", buffer, f.two("fmul", step, kept))
                f.store_first(buffer, places[2], count)
                if kind == 2:
                    step = f.two("fadd", step, f.two("fmul", buffer, momentum))
                else:
                    step = buffer
            value = f.two("fsub", value, f.two("fmul", step, rate))
            f.store_first(value, places[0], count)

        with f.when(f.compare("eq", way, number)):
            with f.loop(0, whole, target.lanes) as at:
                move(at, target.lanes)
            with f.loop(whole, size, target.lanes) as at:
                move(at, f.sub(size, at))
    return f.text("")


def step_texts(target: Target) -> list[str]:
    return [sgd_text(target)]
