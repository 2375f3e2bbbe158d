"""Memory for results and scratch: aligned, and reused once nothing refers to it any more.

Fresh pages cost more than most kernels that fill them. Large buffers are therefore kept, and one is
handed out again when the only reference left is this module's: every array over it, of
whatever tensor or view, holds a reference to it, so reuse can never reach living memory.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.base.config import config

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "ALIGNMENT", "aligned_bytes", "borrowed", "empty", "give_back", "release", "statistics",
]  # fmt: skip

ALIGNMENT = 64
# Smaller buffers come as fast from NumPy.
LARGE = 1 << 16
# How many of one size a request looks at.
LOOKS = 64

KEPT: dict[int, list[Any]] = {}
# Memory to borrow: one for each thread that computes at the same time.
SPARE: list[Any] = []
MOST_SPARE = 4
MOST_SPARE_BYTES = 1 << 25
kept_bytes = 0
# How often memory for a large result was asked for, and how often it had been used before.
requests = reuses = 0


def taken(kept: list[Any]) -> tuple[Any, int, int]:
    """The last entry, off the list so that no other thread finds it meanwhile: its memory, where
    that is aligned, and how many references there are to it. What was handed out last is the first
    to be looked at, as caches may still have it."""
    owner, offset = kept.pop()
    return owner, offset, sys.getrefcount(owner)


# References to memory that nobody uses, counted in the way that they will be counted.
IDLE = taken([(np.empty(1, np.uint8), 0)])[2]
REUSES = getattr(sys, "_is_gil_enabled", lambda: True)()

ndarray = np.ndarray


def aligned_bytes(nbytes: int) -> Any:
    """Fresh memory that starts at a multiple of ALIGNMENT."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]


def large_bytes(nbytes: int) -> Any:
    """Memory of this size that nothing else refers to, as (owner, offset)."""
    global kept_bytes, requests, reuses
    requests += 1
    kept = KEPT.get(nbytes)
    if kept is None:
        kept = KEPT[nbytes] = []
    for _ in range(min(len(kept), LOOKS)):
        try:
            owner, offset, references = taken(kept)
        except IndexError:
            break
        if references <= IDLE:
            reuses += 1
            # The caller's array refers to the owner before anybody sees the list again.
            return owner, offset, kept
        kept.insert(0, (owner, offset))
    owner = np.empty(nbytes + ALIGNMENT, np.uint8)
    offset = -owner.ctypes.data % ALIGNMENT
    most = config.kept_memory << 20
    if REUSES and nbytes <= most // 4:
        if kept_bytes + nbytes > most:
            KEPT.clear()
            kept_bytes = 0
            kept = KEPT[nbytes] = []
        kept_bytes += nbytes
        return owner, offset, kept
    return owner, offset, None


def release() -> None:
    """Give all memory back that is kept for later results."""
    global kept_bytes
    KEPT.clear()
    SPARE.clear()
    kept_bytes = 0


def statistics() -> dict[str, int]:
    """Bytes of large results' memory that are kept, and how many of them are in use now; how often
    such memory was asked for, and how often it had been used before."""
    used = 0
    for nbytes, kept in list(KEPT.items()):
        for _ in range(len(kept)):
            owner, offset, references = taken(kept)
            kept.insert(0, (owner, offset))
            used += nbytes * (references > IDLE)
    found = {"kept_bytes": kept_bytes, "used_bytes": used}
    return {**found, "requests": requests, "reuses": reuses}


def borrowed(nbytes: int) -> Any:
    """Scratch memory of at least this size, aligned: what was given back last, so that caches still
    have it."""
    try:
        memory = SPARE.pop()
    except IndexError:
        return aligned_bytes(nbytes)
    return memory if memory.nbytes >= nbytes else aligned_bytes(nbytes)


def give_back(memory: Any) -> None:
    """What was borrowed is nobody's any more."""
    if len(SPARE) < MOST_SPARE and memory.nbytes <= MOST_SPARE_BYTES:
        SPARE.append(memory)


def empty(shape: tuple[int, ...], dtype: DTypeLike, nbytes: int) -> Any:
    """An uninitialised C-ordered array; large ones may have memory that was used before."""
    if nbytes < LARGE:
        return np.empty(shape, dtype)
    owner, offset, kept = large_bytes(nbytes)
    array = ndarray(shape, dtype, owner, offset)
    if kept is not None:
        kept.append((owner, offset))
    return array
