"""torch.cuda: there is no CUDA device, and every question about one has an honest answer.

Questions answer "none" or zero; requests that need a device raise as a build without CUDA does;
seeding is accepted, since scripts seed every device they might have.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from rushlight.base.errors import OutOfMemoryError, error
from rushlight.base.lazy import namespace
from rushlight.base.refusals import refused
from rushlight.core.device import device as Device

__all__ = [
    "Event", "OutOfMemoryError", "Stream", "device", "device_count", "empty_cache",
    "is_available", "manual_seed", "manual_seed_all",
]  # fmt: skip

# Parts of this module are imported by their path (torch.cuda.amp).
__path__: list[str] = []

# torch: whether the device was used; reversible layers ask before they keep its random state.
_initialized = False


class DeferredCudaCallError(Exception):
    """Never raised here; named in `except` clauses."""


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse what needs a device."""
    raise error("RL1209", AssertionError)


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def get_arch_list() -> list[str]:
    return []


def is_current_stream_capturing() -> bool:
    return False


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed."""


def seed() -> None:
    """Nothing to seed."""


def seed_all() -> None:
    """Nothing to seed."""


def get_rng_state_all() -> list[Any]:
    return []


def set_rng_state_all(new_states: Any) -> None:
    if list(new_states):
        absent()


def empty_cache() -> None:
    """Nothing is cached."""


def zero(device: Any = None) -> int:
    return 0


memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = zero
memory_cached = max_memory_cached = zero


def memory_stats(device: Any = None) -> dict[str, Any]:
    return {}


memory_stats_as_nested_dict = memory_stats


def host_memory_stats() -> dict[str, Any]:
    return {}


host_memory_stats_as_nested_dict = host_memory_stats


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing is counted."""


reset_accumulated_memory_stats = reset_peak_memory_stats
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_peak_host_memory_stats() -> None:
    """Nothing is counted."""


reset_accumulated_host_memory_stats = reset_peak_host_memory_stats


def memory_snapshot(*args: Any, **kwargs: Any) -> list[Any]:
    return []


def list_gpu_processes(device: Any = None) -> str:
    return "no processes are running: there is no CUDA device"


def is_tf32_supported() -> bool:
    return False


def get_gencode_flags() -> str:
    return ""


def caching_allocator_enable(value: bool = True) -> None:
    """There is no allocator to switch."""


@contextmanager
def caching_allocator_disabled() -> Iterator[None]:
    """There is no allocator to switch."""
    yield


default_generators: tuple[Any, ...] = ()
has_half = has_magma = False


def set_device(device: Any) -> None:
    """Negative numbers choose nothing."""
    place = Device(device) if isinstance(device, str) else device
    index = place if isinstance(place, int) else getattr(place, "index", None)
    if index is None or index >= 0:
        absent()


def set_stream(stream: Any) -> None:
    """None chooses nothing."""
    if stream is not None:
        absent()


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Kept by torch for the time when a device is used: that never comes."""


class cudaStatus:
    """Numbers by which CUDA says how a call went."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class Stream:
    """A queue of a device: cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise error("RL1209", AssertionError)


class Event:
    """A mark in a stream: cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise error("RL1209", AssertionError)


class device:
    """Selects a device for a block; None and negative numbers select nothing."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> None:
        if self.device is not None and not (isinstance(self.device, int) and self.device < 0):
            absent()

    def __exit__(self, *details: Any) -> bool:
        return False


class StreamContext(device):
    """Selects a stream for a block; None selects nothing."""


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


class device_of(device):
    """Selects the device of a tensor for a block; one of the CPU selects nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else None)


class CudaError(RuntimeError):
    """Never raised here; named in `except` clauses."""


# Parts whose names are this module's own; torch has a file for each.
SAME = ("graphs", "memory", "random", "streams")
# Parts of their own, with what they refuse.
PARTS = {
    "comm": "broadcast broadcast_coalesced gather reduce_add reduce_add_coalesced scatter",
    "gds": "GdsFile gds_deregister_buffer gds_register_buffer",
    "green_contexts": "GreenContext",
    "jiterator": "_create_jit_fn _create_multi_output_jit_fn",
    "nccl": "all_gather all_reduce broadcast reduce reduce_scatter version",
    "nvtx": "mark range_end range_pop range_push range_start",
    "profiler": "profile start stop",
    "sparse": "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor "
    "LongTensor ShortTensor",
    "tunable": "enable get_filename get_results is_enabled set_filename tune_gemm_in_file "
    "tuning_enable write_file",
}
REFUSED = (
    "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CUDAGraph "
    "CUDAPluggableAllocator CharStorage CharTensor ComplexDoubleStorage ComplexFloatStorage "
    "DoubleStorage DoubleTensor ExternalStream FloatStorage FloatTensor GreenContext HalfStorage "
    "HalfTensor IntStorage IntTensor LongStorage LongTensor MemPool ShortStorage ShortTensor "
    "caching_allocator_alloc caching_allocator_delete can_device_access_peer "
    "change_current_allocator check_error clock_rate cudart current_blas_handle "
    "current_solver_handle device_memory_used get_allocator_backend get_device_capability "
    "get_device_name get_device_properties get_per_process_memory_fraction get_rng_state "
    "get_stream_from_external get_sync_debug_mode graph graph_pool_handle init initial_seed "
    "ipc_collect make_graphed_callables mem_get_info memory_summary memory_usage power_draw "
    "set_per_process_memory_fraction set_sync_debug_mode "
    "synchronize temperature use_mem_pool utilization current_device current_stream default_stream"
)


@contextmanager
def profiled_range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Decorates where it is written, and refuses where what it decorates runs."""
    refused("torch.cuda.nvtx.range", "RL1209")()
    yield


def _find(name: str) -> Any:
    if name in SAME:
        return sys.modules[__name__]
    if name not in PARTS:
        return None
    part = ModuleType(f"{__name__}.{name}", "A part of torch.cuda that needs a device.")
    look_up, listed = namespace(part.__name__, refused={"RL1209": PARTS[name]}, keep=False)
    vars(part).update(__getattr__=look_up, __dir__=listed, is_available=is_available)
    if name == "nvtx":
        vars(part)["range"] = profiled_range
    return sys.modules.setdefault(part.__name__, part)


__getattr__, __dir__ = namespace(
    __name__, modules={"amp": "rushlight.amp.cuda"}, make=_find, names=(*SAME, *PARTS),
    refused={"RL1209": REFUSED},
)  # fmt: skip
