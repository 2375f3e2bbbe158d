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
    "rushlight.data.pipes": (
        "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation "
        "functional_datapipe guaranteed_datapipes_determinism non_deterministic "
        "runtime_validation runtime_validation_disabled"
    ),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = ("dataloader", "dataset", "distributed", "sampler")

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader",
    "Dataset", "DistributedSampler", "IterDataPipe", "IterableDataset", "MapDataPipe",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "argument_validation", "default_collate", "default_convert", "functional_datapipe",
    "get_worker_info", "guaranteed_datapipes_determinism", "non_deterministic", "random_split",
    "runtime_validation", "runtime_validation_disabled",
]  # fmt: skip


__getattr__, __dir__ = namespace(__name__, _HOMES, _SUBMODULES)
