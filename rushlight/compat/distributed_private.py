"""Private paths of torch.distributed that libraries import where it is available. Data only."""

from __future__ import annotations

from rushlight.compat.finder import REFUSES, Entry

_CODE = "RL0013"


def refused(names: str) -> dict[str, str]:
    """Names that refuse when they are used."""
    return dict.fromkeys(names.split(), REFUSES + _CODE)


DISTRIBUTED_PRIVATE: dict[str, Entry] = {
    "torch._C._distributed_c10d": {"*": ".distributed", **refused("Reducer")},
    "torch.distributed._composable.fsdp": {"*": ".distributed.fsdp"},
    "torch.distributed._functional_collectives": {
        **refused("AsyncCollectiveTensor permute_tensor"),
        "*": ".distributed.functional",
    },
    "torch.distributed._tensor": {"*": ".distributed.tensor"},
    "torch.distributed._tensor.experimental": refused("implicit_replication"),
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper": {
        **refused("offload_wrapper"),
        "*": ".distributed.checkpointed",
    },
    "torch.distributed.checkpoint._consolidate_hf_safetensors": refused(
        "consolidate_safetensors_files"
    ),
    "torch.distributed.elastic.multiprocessing.errors": {
        **refused("ChildFailedError"),
        "record": ".distributed.run:record",
    },
    "torch.distributed.nn": {
        "*": ".distributed.differentiable",
    },
    "torch.distributed.nn.functional": {
        "*": ".distributed.differentiable",
    },
    "torch.distributed.pipelining": refused("ScheduleGPipe SplitPoint pipeline"),
    "torch.distributed.tensor._utils": refused("compute_local_shape_and_global_offset"),
    "torch.distributed.tensor.experimental._attention": refused("set_rotate_method"),
    "torch.distributed.utils": refused("_sync_module_states"),
}
