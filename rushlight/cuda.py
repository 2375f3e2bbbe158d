"""torch.cuda: there is no CUDA device, and every question about one has an honest answer.

Questions answer "none" or zero; requests that need a device raise as a build without CUDA does;
seeding is accepted, since scripts seed every device they might have.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.base.errors import OutOfMemoryError
from rushlight.base.lazy import namespace

__all__ = [
    "Event", "OutOfMemoryError", "Stream", "current_device", "device", "device_count",
    "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize",
]  # fmt: skip

# Parts of this module are imported by their path (torch.cuda.amp).
__path__: list[str] = []

ABSENT = "Torch not compiled with CUDA enabled"


class DeferredCudaCallError(Exception):
    """Never raised here; named in `except` clauses."""


def absent(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse what needs a device."""
    raise AssertionError(ABSENT)


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


current_device = set_device = get_device_name = get_device_capability = absent
get_device_properties = current_stream = default_stream = set_stream = absent
init = synchronize = ipc_collect = mem_get_info = memory_summary = absent
get_rng_state = set_rng_state = absent


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


def memory_stats(device: Any = None) -> dict[str, Any]:
    return {}


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing is counted."""


class Stream:
    """A queue of a device: cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        absent()


class Event:
    """A mark in a stream: cannot be made."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        absent()


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


class Absent:
    """A part of torch.cuda that needs a device."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return absent


def _find(name: str) -> Any:
    known = ("graphs", "jiterator", "memory", "nvtx", "profiler")
    return Absent(name) if name in known else None


__getattr__, __dir__ = namespace(__name__, modules={"amp": "rushlight.amp.cuda"}, make=_find)
