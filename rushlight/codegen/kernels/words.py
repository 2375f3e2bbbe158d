"""The arguments of a native driver: words in memory, each with a name."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.codegen import entries
from rushlight.codegen.kernels.emit import Function

__all__ = ["Reader", "Words", "address"]

pointer_at = ctypes.c_size_t.from_address
READS = entries.reads_arrays()


def address(array: Any) -> int:
    """Where the elements of an array begin; NumPy's own answer takes ten times as long."""
    if READS:
        return pointer_at(id(array) + entries.DATA_OFFSET).value
    return int(array.ctypes.data)


class Words:
    """Names of words, in order."""

    def __init__(self, text: str) -> None:
        self.names = text.split()
        self.places = {name: place for place, name in enumerate(self.names)}

    def fill(self, **values: int) -> Any:
        """An array of them; those that are not given are 0."""
        found = np.zeros(len(self.names), np.int64)
        for name, value in values.items():
            found[self.places[name]] = value
        return found


class Reader:
    """Reads words by their names, each where it is first asked for."""

    def __init__(self, f: Function, words: Words, pointers: Sequence[str]) -> None:
        self.f, self.words = f, words
        self.pointers = frozenset(pointers)

    def __getattr__(self, name: str) -> str:
        place = self.words.places[name]
        return self.f.word("%ctx", place, "ptr" if name in self.pointers else "i64")
