"""Steps of optimisers on all parameters in one call of native code."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.codegen.kernels import link
from rushlight.codegen.kernels.pool import pool, threads
from rushlight.codegen.kernels.stepping import NUMBERS, PIECE, SGD, WAYS, step_texts
from rushlight.codegen.kernels.words import address

__all__ = ["descend"]

# Elements of a piece, and what each costs in multiplications.
MOST = 1 << 14
COST = 4


def pieces_of(columns: list[list[Any]]) -> Any:
    """Where the pieces of arrays lie, row by row; None where two have memory in common."""
    starts = np.array([[address(array) for array in column] for column in columns], np.int64).T
    sizes = np.array([array.size for array in columns[0]], np.int64)
    flat = starts.ravel()
    order = np.argsort(flat)
    ends = (starts + 4 * sizes[:, None]).ravel()
    if (ends[order][:-1] > flat[order][1:]).any():
        return None
    counts = -(-sizes // MOST)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    found = np.zeros((len(number), len(PIECE)), np.int64)
    found[:, : len(columns)] = np.repeat(starts, counts, 0) + 4 * MOST * number[:, None]
    found[:, -1] = np.minimum(np.repeat(sizes, counts) - MOST * number, MOST)
    return found


def descend(
    values: list[Any], grads: list[Any], buffers: list[Any] | None, decay: float, momentum: float,
    kept: float, nesterov: bool, rate: float,
) -> bool:  # fmt: skip
    """Take a step in place, on dense arrays of float32; False where it is not taken. `kept` is what
    of a gradient goes into the buffer."""
    pieces = pieces_of([values, grads, *([buffers] if buffers else [])])
    if pieces is None:
        return False
    kind = 0 if not buffers else 2 if nesterov else 1
    words = SGD.fill(pieces=address(pieces), way=kind + WAYS * bool(decay))
    floats = words.view(np.float32)
    for name, number in zip(NUMBERS, (decay, momentum, kept, rate), strict=True):
        floats[2 * SGD.places[name]] = number
    work = int(pieces[:, -1].sum()) * COST
    # A module of its own: who steps need not have compiled convolutions.
    function = link.machine().functions("steps", step_texts, ("sgd",))["sgd"]
    pool().run(function, address(words), len(pieces), threads(len(pieces), work), work)
    return True
