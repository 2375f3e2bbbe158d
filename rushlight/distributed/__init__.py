"""torch.distributed: no engine for several processes is here, and every question says so.

What describes a distributed program without running one is real: reductions by name, levels,
errors, options and policies. What needs a process group refuses.
"""

from __future__ import annotations

import os
from datetime import timedelta
from enum import Enum
from typing import Any

from rushlight.base.lazy import namespace

__all__ = ["is_available", "is_initialized"]

default_pg_timeout = timedelta(seconds=1800)
default_pg_nccl_timeout = None


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """A backend failed."""


class DistNetworkError(DistError):
    """A connection failed."""


class DistStoreError(DistError):
    """A store failed."""


class QueueEmptyError(DistStoreError):
    """A store's queue had nothing to give."""


def is_available() -> bool:
    """Whether process groups can be made."""
    return False


def is_initialized() -> bool:
    """Whether the default process group exists."""
    return False


def is_mpi_available() -> bool:
    return False


is_nccl_available = is_gloo_available = is_ucc_available = is_xccl_available = is_mpi_available


def is_backend_available(backend: str) -> bool:
    return False


def is_torchelastic_launched() -> bool:
    """Whether torch's elastic launcher started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The rank within this machine that a launcher gave, or the fallback."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow "
        "`get_node_local_rank` to work when not running in an environment with it set."
    )


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


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp


class Backend(str):
    """The name of a backend, in small letters."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        return str.__new__(cls, name.lower())


class GroupMember:
    """The default group, and what those outside a group have for it."""

    WORLD: Any = None
    NON_GROUP_MEMBER = -100


group = GroupMember


def get_pg_count() -> int:
    return 0


def supports_complex(reduceOp: Any) -> bool:
    """Whether a reduction is defined for complex numbers."""
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


REFUSED = (
    "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BackendConfig BarrierOptions "
    "BroadcastOptions FileStore GatherOptions HashStore P2POp PrefixStore ProcessGroup "
    "ProcessGroupGloo ProcessGroupMPI ProcessGroupNCCL ReduceOptions ReduceScatterOptions "
    "ScatterOptions Store TCPStore Work all_gather all_gather_coalesced all_gather_into_tensor "
    "all_gather_object all_gather_single all_reduce all_reduce_coalesced all_to_all "
    "all_to_all_single barrier batch_isend_irecv breakpoint broadcast broadcast_object_list "
    "destroy_process_group gather gather_object get_backend get_backend_config "
    "get_default_backend_for_device get_global_rank get_group_rank get_process_group_ranks "
    "get_rank get_world_size init_process_group irecv isend monitored_barrier new_group "
    "new_subgroups new_subgroups_by_enumeration record_comm recv recv_object_list reduce "
    "reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter scatter_object_list send "
    "send_object_list shrink_group split_group init_device_mesh DeviceMesh"
)

__getattr__, __dir__ = namespace(__name__, modules=("fsdp", "tensor"), refused={"RL0013": REFUSED})
