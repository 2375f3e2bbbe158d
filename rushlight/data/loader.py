"""`DataLoader`: a dataset, an order and a way to make batches, as an iterable of batches."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.dataset import IterableDataset
from rushlight.data.fetch import DatasetKind
from rushlight.data.iteration import LoaderIterator, SingleIterator, WorkerIterator
from rushlight.data.sampler import BatchSampler, EndlessSampler, RandomSampler, SequentialSampler
from rushlight.data.worker import get_worker_info

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)

FIXED = frozenset(
    ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
)
WORKER_KINDS = ("process", "thread")


class DataLoader(Generic[T_co]):
    """Batches of a dataset, in this process or fetched ahead by workers.

    The arguments are torch's; one is added: `worker_kind="thread"` runs the workers as threads,
    which start at once and share the dataset's memory. They suit datasets that wait for files or
    a network, or compute in NumPy. Each has a shallow copy of the dataset and, as
    `get_worker_info().rng`, random streams of its own.

    >>> loader = DataLoader(range(5), batch_size=2)
    >>> [batch.tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    >>> len(loader)
    3
    >>> loader = DataLoader(range(5), batch_size=2, num_workers=1, worker_kind="thread")
    >>> [batch.tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Iterable[Any]
    batch_sampler: Iterable[Any] | None
    pin_memory_device: str
    prefetch_factor: int | None
    worker_kind: str
    is_stream: bool
    _iterator: WorkerIterator | None
    _initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        worker_kind: str = "process",
    ) -> None:
        check_workers(num_workers, timeout, prefetch_factor, persistent_workers, worker_kind)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_kind = worker_kind
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.is_stream = isinstance(dataset, IterableDataset)

        if self.is_stream:
            check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive "
                    "with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching "
                "and is mutually exclusive with drop_last"
            )
        if sampler is None:
            if self.is_stream:
                sampler = EndlessSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)

        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self._initialized = True
        # What len() was told about a stream; a stream that gives more is worth a warning.
        self._IterableDataset_len_called: int | None = None
        self._iterator = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            context = checked_context(context, self.num_workers, self.worker_kind)
        self._multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _dataset_kind(self) -> int:
        return DatasetKind.Iterable if self.is_stream else DatasetKind.Map

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """What gives the indices of one fetch: lists of them, or single ones."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def _get_iterator(self) -> LoaderIterator:
        if self.num_workers == 0:
            return SingleIterator(self)
        self.check_worker_number_rationality()
        return WorkerIterator(self)

    def __iter__(self) -> Any:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None:
            self._iterator = WorkerIterator(self)
        else:
            self._iterator._reset(self)
        return self._iterator

    def __len__(self) -> int:
        if not self.is_stream:
            return len(self._index_sampler)
        length = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return length
        if self.drop_last:
            return length // self.batch_size
        return math.ceil(length / self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn about more worker processes than processors."""
        if self.num_workers == 0 or self.worker_kind != "process":
            return
        if hasattr(os, "sched_getaffinity"):
            processors: int | None = len(os.sched_getaffinity(0))
            note = ""
        else:
            processors, note = os.cpu_count(), " (`cpuset` is not taken into account)"
        if processors is not None and self.num_workers <= processors:
            return
        if processors is None:
            advice = (
                "DataLoader is not able to compute a suggested max number of worker in current "
                "system."
            )
        else:
            advice = (
                f"Our suggested max number of worker in current system is {processors}{note}, "
                "which is smaller than what this DataLoader is going to create."
            )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} "
            "Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


# -------------------------------------------------------------------- arguments


def check_workers(
    num_workers: int, timeout: float, prefetch: int | None, persistent: bool, kind: str
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            "use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch is not None:
        if num_workers == 0:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing."
                "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to "
                "None."
            )
        if prefetch < 0:
            raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if kind not in WORKER_KINDS:
        raise ValueError(
            f"worker_kind option should be one of {WORKER_KINDS!r}, but got worker_kind={kind!r}"
        )


def check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    given = {"sampler": sampler, "batch_sampler": batch_sampler}
    if shuffle not in (False, None):
        given = {"shuffle": shuffle}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, "
                f"but got {name}={value}"
            )


def checked_context(context: Any, num_workers: int, kind: str) -> Any:
    """The multiprocessing context that a loader's argument names."""
    import multiprocessing
    import multiprocessing.context

    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with "
            f"multi-process loading (num_workers > 0), but got num_workers={num_workers}"
        )
    if kind != "process":
        raise ValueError(
            "multiprocessing_context can only be used with worker_kind='process', "
            f"but got worker_kind={kind!r}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                "multiprocessing_context option "
                f"should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        context = multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context "
            "object or a string specifying the start method, but got "
            f"multiprocessing_context={context}"
        )
    return context
