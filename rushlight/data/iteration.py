"""One pass over a loader: in this thread, or with workers that fetch ahead.

With workers, batches are numbered by `key` in the order the sampler asks for them; each reply
makes room for one more task, so at most `prefetch_factor` batches per worker are under way.
"""

from __future__ import annotations

import itertools
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any, Self

from rushlight.core.device import device
from rushlight.core.state import LOCAL, PROCESS
from rushlight.data.crew import Event, ProcessCrew, ThreadCrew
from rushlight.data.fetch import DatasetKind, Recipe
from rushlight.data.sampler import draw_seed
from rushlight.data.worker import ENDED, FAILED, LOST, Seat

__all__ = ["LoaderIterator", "SingleIterator", "WorkerIterator"]


class LoaderIterator:
    """What the two ways of iterating have in common."""

    # torch: the name a profile shows.
    label = "_BaseDataLoaderIter"

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        # torch: whatever has these attributes is iterated, a DataLoader or not.
        self._is_stream = loader._dataset_kind == DatasetKind.Iterable
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._timeout = loader.timeout
        self._persistent_workers = loader.persistent_workers
        self._recipe = Recipe(
            self._is_stream, loader._auto_collation, loader.collate_fn, loader.drop_last
        )
        if loader.pin_memory:
            warn_about_pinning(loader.pin_memory_device)
        self._sampler_iter: Iterator[Any] = iter(self._index_sampler)
        self._base_seed = draw_seed(loader.generator)
        self._told_length: int | None = loader._IterableDataset_len_called
        self._num_yielded = 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._told_length = loader._IterableDataset_len_called

    def __iter__(self) -> Self:
        return self

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if PROCESS.special and LOCAL.state.profiler is not None:
            from rushlight.autograd.profiler import record_function

            with record_function(f"enumerate(DataLoader)#{self.label}.__next__"):
                data = self._next_data()
        else:
            data = self._next_data()
        self._num_yielded += 1
        if self._told_length is not None and self._num_yielded > self._told_length:
            self._warn_about_length()
        return data

    def _warn_about_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._told_length}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", self.label)


def warn_about_pinning(named: str) -> None:
    if named:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{named}'.",
            stacklevel=5,
        )
    try:
        device.accelerator()
    except RuntimeError:
        warnings.warn(
            "'pin_memory' argument is set as true but no accelerator is found, "
            "then device pinned memory won't be used.",
            stacklevel=5,
        )


class SingleIterator(LoaderIterator):
    """Fetches each batch when it is asked for."""

    label = "_SingleProcessDataLoaderIter"

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError(f"{self.label} requires timeout == 0")
        self._fetcher = self._recipe.fetcher(self._dataset)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(next(self._sampler_iter))


class WorkerIterator(LoaderIterator):
    """Lets workers fetch ahead, and hands their batches out."""

    label = "_MultiProcessingDataLoaderIter"

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        seats = [
            Seat(worker, self._num_workers, self._base_seed, loader.worker_init_fn)
            for worker in range(self._num_workers)
        ]
        self._crew: Any
        if getattr(loader, "worker_kind", "process") == "thread":
            self._crew = ThreadCrew(self._dataset, self._recipe, seats)
        else:
            import multiprocessing

            context = loader.multiprocessing_context or multiprocessing.get_context()
            self._crew = ProcessCrew(self._dataset, self._recipe, seats, context)
        # At exit the interpreter ends daemons itself, and without waiting.
        self._finalizer = weakref.finalize(self, self._crew.close)
        self._finalizer.atexit = False
        self._epoch = -1
        self._reset(loader, first_iter=True)

    @property
    def _workers(self) -> list[Any]:
        return list(self._crew.processes)

    def _shutdown_workers(self) -> None:
        """End the workers now instead of when the iterator is gone."""
        self._crew.close()

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._epoch += 1
        self._send_key = 0
        self._next_key = 0
        self._asked: dict[int, int] = {}  # key -> worker, for tasks under way
        self._arrived: dict[int, Event] = {}  # replies that came before their turn
        # Whether a worker has more to give in this pass.
        self._active = [True] * self._num_workers
        self._load = [0] * self._num_workers
        self._turns = itertools.cycle(range(self._num_workers))
        for _ in range(self._prefetch_factor * self._num_workers):
            self._assign()

    def _assign(self) -> None:
        """Hand the next index to the next worker that can take it."""
        try:
            index = next(self._sampler_iter)
        except StopIteration:
            return
        limit = self._prefetch_factor * self._num_workers
        for worker in itertools.islice(self._turns, self._num_workers):
            if self._active[worker] and (
                self._in_order or self._load[worker] < limit // sum(self._active)
            ):
                break
        else:
            return
        self._crew.send(worker, (self._epoch, self._send_key, index))
        self._asked[self._send_key] = worker
        self._load[worker] += 1
        self._send_key += 1

    def _next_data(self) -> Any:
        while self._find_next_key():
            event = self._arrived.pop(self._next_key, None)
            if event is None:
                event = self._receive()
                if event.status == ENDED:
                    self._active[event.worker] = False
                    self._assign()
                    continue
                if self._in_order and event.key != self._next_key:
                    self._arrived[event.key] = event
                    continue
            del self._asked[event.key]
            return self._hand_out(event)
        if not self._persistent_workers:
            self._crew.close()
        raise StopIteration

    def _find_next_key(self) -> bool:
        """Move on to the next batch that has come or may still come."""
        while self._next_key < self._send_key:
            worker = self._asked.get(self._next_key)
            if worker is not None and (self._active[worker] or self._next_key in self._arrived):
                return True
            self._asked.pop(self._next_key, None)
            self._next_key += 1
        return False

    def _receive(self) -> Event:
        """The next reply of this pass; raises where a worker is lost or too slow."""
        until = time.monotonic() + self._timeout
        while True:
            left = max(0.0, until - time.monotonic()) if self._timeout > 0 else None
            event: Event | None = self._crew.receive(left)
            if event is None:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            if event.status == LOST and self._active[event.worker]:
                self._active[event.worker] = False
                raise self._crew.obituary(event)
            if event.epoch == self._epoch and event.status != LOST:
                return event

    def _hand_out(self, event: Event) -> Any:
        self._load[event.worker] -= 1
        self._assign()
        if event.status == FAILED:
            event.data.reraise()
        return event.data
