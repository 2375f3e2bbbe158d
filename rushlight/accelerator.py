"""torch.accelerator: the device beside the CPU, whichever it is. There is none.

Questions whether there is one are answered; whatever needs it raises what torch raises then.
"""

from __future__ import annotations

import sys
from typing import Any

from rushlight.base.lazy import namespace

__all__ = ["current_accelerator", "device_count", "is_available"]

# Parts of this module are imported by their path (torch.accelerator.memory).
__path__: list[str] = []


def is_available() -> bool:
    """Whether there is a device beside the CPU."""
    return False


def device_count() -> int:
    return 0


def current_accelerator(check_available: bool = False) -> Any:
    """The kind of device beside the CPU; None where there is none."""
    return None


class device_index:
    """Selects a device for a block; None selects nothing."""

    def __init__(self, device: int | None) -> None:
        self.index = device

    def __enter__(self) -> None:
        if self.index is not None:
            from rushlight.base.refusals import refusal

            raise refusal("torch.accelerator.device_index of a device", "RL0011")

    def __exit__(self, *details: Any) -> None:
        pass


def _find(name: str) -> Any:
    return sys.modules[__name__] if name in ("graphs", "memory") else None


__getattr__, __dir__ = namespace(
    __name__,
    make=_find,
    refused={
        "RL0011": "Graph current_device_idx current_device_index current_stream empty_cache "
        "empty_host_cache get_device_capability get_memory_info max_memory_allocated "
        "max_memory_reserved memory_allocated memory_reserved memory_stats "
        "reset_accumulated_memory_stats reset_peak_memory_stats set_device_idx set_device_index "
        "set_stream synchronize"
    },
)
