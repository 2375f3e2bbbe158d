"""Scratch memory: temporaries of a segment share one block, placed by when they are used.

Those of known size lie at fixed offsets; behind them are slots of sizes that only a call tells,
each for buffers of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rushlight.arrays.buffers import ALIGNMENT
from rushlight.codegen.extents import Extent
from rushlight.codegen.loops import Buffer

__all__ = ["Plan", "plan"]


class Plan:
    """Where buffers lie. `offsets` are in bytes, or numbers of `slots` for those in `slotted`;
    `fixed` is how much lies in front of the slots."""

    __slots__ = ("fixed", "offsets", "slots", "slotted")

    def __init__(self) -> None:
        self.offsets: dict[Buffer, int] = {}
        self.slotted: dict[Buffer, int] = {}
        self.slots: list[Extent] = []
        self.fixed = 0

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self.offsets or buffer in self.slotted

    @property
    def is_empty(self) -> bool:
        return not self.fixed and not self.slots

    def size_text(self) -> str:
        """How many bytes there are, as Python computes it."""
        parts = [f"({slot} + {ALIGNMENT - 1} & -{ALIGNMENT})" for slot in self.slots]
        return " + ".join([str(self.fixed), *parts])


class User(Protocol):
    """What uses memory at its turn."""

    def buffers(self) -> list[Buffer]: ...


def plan(kernels: Sequence[User]) -> Plan:
    """Places for temporaries and locals: two may share one if their uses do not overlap."""
    spans: dict[Buffer, list[int]] = {}
    for at, kernel in enumerate(kernels):
        for buffer in kernel.buffers():
            if buffer.role in ("temporary", "local"):
                spans.setdefault(buffer, [at, at])[1] = at
    found = Plan()
    sizes: dict[Buffer, Any] = {buffer: buffer.nbytes for buffer in spans}
    place_fixed(found, spans, {b: size for b, size in sizes.items() if type(size) is int})
    place_slotted(found, spans, {b: size for b, size in sizes.items() if type(size) is not int})
    return found


def place_fixed(found: Plan, spans: dict[Buffer, list[int]], sizes: dict[Buffer, int]) -> None:
    placed: list[tuple[int, int, Buffer]] = []
    for buffer in sorted(sizes, key=lambda b: -sizes[b]):
        first, last = spans[buffer]
        size = -(-sizes[buffer] // ALIGNMENT) * ALIGNMENT
        place = 0
        for start, end, other in sorted(placed, key=lambda entry: entry[0]):
            apart = spans[other][1] < first or last < spans[other][0]
            if not apart and start < place + size and place < end:
                place = end
        placed.append((place, place + size, buffer))
        found.offsets[buffer] = place
        found.fixed = max(found.fixed, place + size)


def place_slotted(found: Plan, spans: dict[Buffer, list[int]], sizes: dict[Buffer, Extent]) -> None:
    # When each slot is free again.
    ends: list[int] = []
    for buffer in sorted(sizes, key=lambda b: spans[b][0]):
        first, last = spans[buffer]
        for number, slot in enumerate(found.slots):
            if slot is sizes[buffer] and ends[number] < first:
                break
        else:
            number = len(ends)
            found.slots.append(sizes[buffer])
            ends.append(last)
        ends[number] = last
        found.slotted[buffer] = number
