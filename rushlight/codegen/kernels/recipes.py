"""Native work on operands of known sizes: drivers one behind another, and the words they read.

All that sizes decide is put together once; a call only says where its arrays lie. Nothing of a call
stays: two may run at the same time.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from rushlight.arrays import buffers
from rushlight.codegen.kernels import library, link
from rushlight.codegen.kernels.chain import HEAD
from rushlight.codegen.kernels.pool import LONG, pool, threads
from rushlight.codegen.kernels.words import Words, address
from rushlight.core.process import get_num_threads

__all__ = ["Recipe", "Room"]

# Floats of a line of the cache.
LINE = 16


class Room(NamedTuple):
    """Memory of the recipe's own while it runs, by the bytes in front of it."""

    offset: int


class Table(NamedTuple):
    """Words that a driver finds by their address, by the number of words in front of them."""

    first: int


# Where a word's address comes from: an array of the call, by its number, or one of these.
Place = int | Room | Table


class Job(NamedTuple):
    driver: str
    first: int
    chunks: int
    work: int
    # Floats of scratch memory for each worker, and where their address and number go.
    floats: int
    scratch: tuple[int, int] | None


class Layout(NamedTuple):
    """A recipe for a number of threads."""

    words: Any
    nbytes: int
    rooms: list[tuple[int, int]]
    jobs: list[tuple[int, int, int, int, int]]


def lines(floats: int) -> int:
    """As many floats as fill lines."""
    return -(-floats // LINE) * LINE


class Recipe:
    """Built by `room`, `table` and `then`; run with the arrays that these know by their numbers.
    `kept` is what words have addresses of."""

    def __init__(self, *kept: Any) -> None:
        self.kept = kept
        self.machine = link.machine()
        self.nbytes = 0
        self.count = 0
        self.words: list[Any] = []
        self.jobs: list[Job] = []
        self.given: list[tuple[int, int]] = []
        self.rooms: list[tuple[int, int]] = []
        self.tables: list[tuple[int, int]] = []
        self.layouts: dict[int, Layout] = {}

    def room(self, floats: int) -> Room:
        found = Room(self.nbytes)
        self.nbytes += 4 * lines(floats)
        return found

    def table(self, names: Words, words: Any, **memory: Place) -> Table:
        """Add words, some of which are addresses."""
        first = self.count
        for name, place in memory.items():
            at = first + names.places[name]
            if isinstance(place, Room):
                self.rooms.append((at, place.offset))
            elif isinstance(place, Table):
                self.tables.append((at, 8 * place.first))
            else:
                self.given.append((at, place))
        self.words.append(words)
        self.count += len(words)
        return Table(first)

    def then(
        self, driver: str, names: Words, words: Any, chunks: int, work: int, floats: int = 0,
        **memory: Place,
    ) -> None:  # fmt: skip
        """Add a driver; `floats` of scratch memory for each of its workers."""
        places, scratch = names.places, None
        (first,) = self.table(names, words, **memory)
        if floats:
            scratch = first + places["scratch"], first + places["scratch_step"]
        self.jobs.append(Job(driver, first, chunks, work, lines(floats), scratch))

    def laid_out(self, count: int) -> Layout:
        words, nbytes, jobs = np.concatenate(self.words), self.nbytes, []
        rooms = self.rooms.copy()
        for job in self.jobs:
            workers = threads(job.chunks, job.work, count)
            function = library.driver(job.driver, self.machine)
            jobs.append((function, 8 * job.first, job.chunks, workers, job.work))
            if job.scratch is not None:
                # Scratch memory of one driver is that of the next.
                place, step = job.scratch
                rooms.append((place, self.nbytes))
                words[step] = job.floats
                nbytes = max(nbytes, self.nbytes + 4 * workers * job.floats)
        found = self.layouts[count] = Layout(words, nbytes, rooms, jobs)
        return found

    def run(self, *arrays: Any) -> None:
        count = get_num_threads()
        template, nbytes, rooms, jobs = self.layouts.get(count) or self.laid_out(count)
        words = template.copy()
        begin = address(words)
        for at, number in self.given:
            words[at] = address(arrays[number])
        for at, offset in self.tables:
            words[at] = begin + offset
        if rooms:
            memory = buffers.borrowed(nbytes)
            base = address(memory)
            for at, offset in rooms:
                words[at] = base + offset
        run = pool().run
        for function, offset, chunks, workers, work in jobs:
            run(function, begin + offset, chunks, workers, work)
        if rooms:
            buffers.give_back(memory)

    def template(self, count: int) -> tuple[Any, int]:
        """What `@chained` runs on at most so many threads, and the scratch memory it needs."""
        words, nbytes, rooms, jobs = self.laid_out(count)
        # Words lie in front of everything else.
        start = 8 * lines(len(words))
        places = [*[(at, start + offset) for at, offset in rooms], *self.tables]
        head = HEAD.fill(
            chained=library.driver("chained", self.machine), parallel=pool().address,
            release=entry_of("PyEval_SaveThread"), acquire=entry_of("PyEval_RestoreThread"),
            words=len(words), given=len(self.given), places=len(places), jobs=len(jobs),
        )  # fmt: skip
        rows = [(*job[:4], int(job[4] >= LONG)) for job in jobs]
        parts = [np.array(part, np.int64).ravel() for part in (self.given, places, rows)]
        return np.concatenate([head, words, *parts]), start + nbytes


def entry_of(name: str) -> int:
    """The address of a function of the interpreter."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
