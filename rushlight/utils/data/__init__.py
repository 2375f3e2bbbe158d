"""torch.utils.data: datasets, samplers and the loader. Names are found on first access."""

from __future__ import annotations

from rushlight.base.lazy import namespace

_MODULES = {
    "rushlight.data.dataset": (
        "ChainDataset ConcatDataset Dataset IterableDataset StackDataset Subset TensorDataset "
        "random_split"
    ),
    "rushlight.data.sampler": (
        "BatchSampler RandomSampler Sampler SequentialSampler SubsetRandomSampler "
        "WeightedRandomSampler"
    ),
    "rushlight.data.distributed": "DistributedSampler",
    "rushlight.data.loader": "DataLoader",
    "rushlight.data.collate": "default_collate default_convert",
    "rushlight.data.worker": "get_worker_info",
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = ("dataloader", "dataset", "distributed", "sampler")

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip


__getattr__, __dir__ = namespace(__name__, _HOMES, _SUBMODULES)
