"""torch.distributed on MPI: process groups, collectives, and training over several processes.

Modules import downwards: errors, stores and reductions; the engine and the programs of messages;
groups; collectives; what is built of them. Nothing here is imported before it is used.
"""

from __future__ import annotations

import os
from enum import Enum

from rushlight.base.lazy import namespace

__all__ = ["is_available", "is_initialized"]


class DebugLevel(Enum):
    """How much a process group checks."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def get_debug_level() -> DebugLevel:
    """What TORCH_DISTRIBUTED_DEBUG asks for."""
    wanted = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if wanted not in DebugLevel.__members__:
        raise ValueError(
            "The value of TORCH_DISTRIBUTED_DEBUG must be one of OFF, INFO, or DETAIL, "
            f"but got {wanted}"
        )
    return DebugLevel[wanted]


HOMES = {
    ".errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    ".reductions": "ReduceOp reduce_op supports_complex",
    ".meeting": "register_rendezvous_handler rendezvous",
    ".stores": "FileStore HashStore PrefixStore Store TCPStore",
    ".work": "Work",
    ".groups": "GroupMember ProcessGroup group",
    ".setup": "Backend default_pg_nccl_timeout default_pg_timeout destroy_process_group "
    "get_backend get_backend_config get_default_backend_for_device get_global_rank "
    "get_group_rank get_node_local_rank get_pg_count get_process_group_ranks get_rank "
    "get_world_size init_process_group is_available is_backend_available is_gloo_available "
    "is_initialized is_mpi_available is_nccl_available is_torchelastic_launched "
    "is_ucc_available is_xccl_available new_group new_subgroups new_subgroups_by_enumeration",
    ".collectives": "_coalescing_manager all_gather all_gather_coalesced all_gather_into_tensor "
    "all_gather_single "
    "all_reduce all_reduce_coalesced all_to_all all_to_all_single barrier broadcast gather "
    "monitored_barrier reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter",
    ".messages": "P2POp batch_isend_irecv irecv isend recv send",
    ".objects": "all_gather_object broadcast_object_list gather_object recv_object_list "
    "scatter_object_list send_object_list",
    ".mesh": "DeviceMesh init_device_mesh",
}

REFUSED = (
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions "
    "BroadcastOptions GatherOptions ProcessGroupGloo ProcessGroupMPI ProcessGroupNCCL "
    "ReduceOptions ReduceScatterOptions ScatterOptions breakpoint record_comm shrink_group "
    "split_group"
)

__getattr__, __dir__ = namespace(
    __name__,
    {name: home for home, names in HOMES.items() for name in names.split()},
    modules=("fsdp", "rpc", "tensor"),
    refused={"RL0013": REFUSED},
)
