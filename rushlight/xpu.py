"""torch.xpu: Intel's GPUs, of which none is driven here. `torch.mtia` is the same of Meta's."""

from __future__ import annotations

from typing import Any

from rushlight.base.lazy import namespace

__all__ = ["device_count", "is_available", "is_initialized", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def is_tf32_supported() -> bool:
    return False


def device_count() -> int:
    return 0


def get_arch_list() -> list[str]:
    return []


def get_gencode_flags() -> str:
    return ""


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


def empty_cache() -> None:
    """Nothing is cached."""


__getattr__, __dir__ = namespace(
    __name__,
    refused={
        "RL0011": "Event MemPool MTIAGraph Stream StreamContext XPUGraph XPUPluggableAllocator "
        "can_device_access_peer current_device current_stream default_stream device device_of "
        "get_device_capability get_device_name get_device_properties get_rng_state "
        "get_stream_from_external graph init initial_seed make_graphed_callables "
        "max_memory_allocated max_memory_reserved mem_get_info memory_allocated memory_reserved "
        "memory_snapshot memory_stats memory_stats_as_nested_dict record_memory_history "
        "reset_accumulated_memory_stats reset_peak_memory_stats set_device "
        "set_per_process_memory_fraction set_rng_state set_rng_state_all set_stream snapshot "
        "stream synchronize use_mem_pool"
    },
)
