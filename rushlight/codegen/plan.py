"""Scratch memory: temporaries of a segment share one block, placed by when they are used."""

from __future__ import annotations

from rushlight.codegen import buffers
from rushlight.codegen.loops import Buffer, Kernel

__all__ = ["plan"]


def plan(kernels: list[Kernel]) -> tuple[dict[Buffer, int], int]:
    """Places in a segment's scratch for temporaries and locals: two may share one if their uses
    do not overlap."""
    spans: dict[Buffer, list[int]] = {}
    for at, kernel in enumerate(kernels):
        for buffer in kernel.buffers():
            if buffer.role in ("temporary", "local"):
                spans.setdefault(buffer, [at, at])[1] = at
    placed: list[tuple[int, int, Buffer]] = []
    offsets: dict[Buffer, int] = {}
    total = 0
    for buffer in sorted(spans, key=lambda b: -b.nbytes):
        first, last = spans[buffer]
        size = -(-buffer.nbytes // buffers.ALIGNMENT) * buffers.ALIGNMENT
        place = 0
        for start, end, other in sorted(placed, key=lambda entry: entry[0]):
            apart = spans[other][1] < first or last < spans[other][0]
            if not apart and start < place + size and place < end:
                place = end
        placed.append((place, place + size, buffer))
        offsets[buffer] = place
        total = max(total, place + size)
    return offsets, total
