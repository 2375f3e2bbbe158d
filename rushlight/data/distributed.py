"""The sampler that gives each process of a group its share of a dataset."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from rushlight.core.rng import Generator
from rushlight.data.sampler import Sampler
from rushlight.opset.creation.random import randperm

__all__ = ["DistributedSampler"]


def group_fact(name: str) -> int:
    """`get_world_size()` or `get_rank()` of the process group this program has set up."""
    # A program that has a group has imported the package that makes groups.
    package = sys.modules.get("rushlight.distributed")
    if package is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call "
            "init_process_group."
        )
    return int(getattr(package, name)())


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th index from `rank` on, after a shuffle that all processes share.

    All shares are equally long: the first indices are repeated to fill the last round, or the
    last round is dropped. `set_epoch` gives another shuffle.

    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None:
            num_replicas = group_fact("get_world_size")
        if rank is None:
            rank = group_fact("get_rank")
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if count and count < self.total_size:
            indices = (indices * math.ceil(self.total_size / count))[: self.total_size]
        share: list[int] = indices[self.rank : self.total_size : self.num_replicas]
        if len(share) != self.num_samples:
            raise AssertionError(
                f"Number of subsampled indices ({len(share)}) does not match num_samples "
                f"({self.num_samples})"
            )
        return iter(share)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the shuffle of the next pass; every process must choose the same."""
        self.epoch = epoch
