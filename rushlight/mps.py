"""torch.mps: Apple's GPUs, of which none is driven here."""

from __future__ import annotations

from rushlight.base.lazy import namespace

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    return False


def device_count() -> int:
    return 0


__getattr__, __dir__ = namespace(
    __name__,
    refused={
        "RL0011": "Event compile_shader current_allocated_memory driver_allocated_memory "
        "empty_cache event get_rng_state load_metallib manual_seed profiler "
        "recommended_max_memory seed set_per_process_memory_fraction set_rng_state synchronize"
    },
)
