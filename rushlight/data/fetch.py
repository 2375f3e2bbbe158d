"""How samples are taken from a dataset: by index, or from its one iterator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["DatasetKind", "IterableFetcher", "MapFetcher", "Recipe"]


class Recipe(NamedTuple):
    """What a worker needs to make batches of a dataset."""

    is_stream: bool
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool

    def fetcher(self, dataset: Any) -> MapFetcher | IterableFetcher:
        kind = IterableFetcher if self.is_stream else MapFetcher
        return kind(dataset, self.auto_collation, self.collate_fn, self.drop_last)


class MapFetcher:
    """Takes the sample, or the batch of samples, at an index."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        at_once = getattr(self.dataset, "__getitems__", None)
        samples = at_once(index) if at_once else [self.dataset[i] for i in index]
        return self.collate_fn(samples)


class IterableFetcher(MapFetcher):
    """Takes the next sample, or as many as the index has members; StopIteration ends it."""

    def __init__(
        self, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        self.dataset_iter = iter(dataset)
        self.ended = False

    def fetch(self, index: Any) -> Any:
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        samples = []
        for _ in index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not samples or (self.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self.collate_fn(samples)


class DatasetKind:
    """torch: the two kinds of datasets as numbers."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> Any:
        is_stream = kind == DatasetKind.Iterable
        return Recipe(is_stream, auto_collation, collate_fn, drop_last).fetcher(dataset)
