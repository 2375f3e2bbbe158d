"""torch.utils.data.distributed: the sampler for groups of processes."""

from __future__ import annotations

from rushlight.data.distributed import DistributedSampler

__all__ = ["DistributedSampler"]
