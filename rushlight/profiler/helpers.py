"""Small parts of torch's profiler that tools over its traces use by name."""

from __future__ import annotations

import ctypes
import ctypes.util
from bisect import bisect_left, bisect_right
from collections import defaultdict, namedtuple
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, NamedTuple

from rushlight.profiler.events import format_time

__all__ = [
    "EnforceUnique", "EventMetadata", "FormattedTimesMixin", "Kernel", "KinetoStepTracker",
    "MemRecordsAcc", "StringTable",
]  # fmt: skip

Kernel = namedtuple("Kernel", ["name", "device", "duration"])


class EventMetadata(NamedTuple):
    """What a device's tracer may know of an event; None is what it does not."""

    registers_per_thread: int | None
    shared_memory: int | None
    grid: list[int] | None
    block: list[int] | None
    priority: int | None
    blocks_per_sm: float | None
    warps_per_sm: float | None
    occupancy: dict[str, Any] | None
    est_occupancy_pct: float | None
    queued: int | None
    graph_id: int | None
    graph_node_id: int | None
    stream: int | None
    context: int | None
    channel: int | None
    channel_type: int | None
    bytes: int | None
    bandwidth_gb_s: float | None
    collective_name: str | None
    dtype: str | None
    in_msg_nelems: int | None
    out_msg_nelems: int | None
    in_split_size: str | None
    out_split_size: str | None
    global_rank_start: int | None
    global_rank_stride: int | None
    group_size: int | None
    process_group_name: str | None
    process_group_desc: str | None
    group_ranks: str | None
    rank: int | None
    src_rank: int | None
    dst_rank: int | None
    seq: int | None
    is_async: bool | None


class EnforceUnique:
    """Raises where a key is seen twice."""

    def __init__(self) -> None:
        self.seen: set[tuple[Any, ...]] = set()

    def see(self, *key: Any) -> None:
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """One count of steps from those who count: the most that any of them has made."""

    _current_step = 0
    _step_dict: ClassVar[dict[str, int]] = {}

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Counts a step of one, and answers the count of all."""
        made = cls._step_dict.get(requester, cls._current_step) + 1
        cls._step_dict[requester] = made
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        return cls._current_step


def as_text(name: str) -> Any:
    return property(lambda self: format_time(getattr(self, name)))


class FormattedTimesMixin:
    """Times as text and means, for classes with `count`, `cpu_time_total` and their like."""

    count: int
    cpu_time_total: float
    device_time_total: float

    cpu_time_str = as_text("cpu_time")
    device_time_str = as_text("device_time")
    cpu_time_total_str = as_text("cpu_time_total")
    device_time_total_str = as_text("device_time_total")
    self_cpu_time_total_str = as_text("self_cpu_time_total")
    self_device_time_total_str = as_text("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return self.device_time_total / self.count if self.count else 0.0


class MemRecordsAcc:
    """Records of memory by time: each is a sequence that begins with what knows its `start_ns`."""

    def __init__(self, mem_records: Any) -> None:
        ordered = sorted(range(len(mem_records)), key=lambda i: mem_records[i][0].start_ns())
        self._records = [mem_records[i] for i in ordered]
        self._starts = [record[0].start_ns() for record in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterator[Any]:
        """Those that begin in a span of time, its ends included."""
        yield from self._records[
            bisect_left(self._starts, start_ns) : bisect_right(self._starts, end_ns)
        ]


@cache
def demangler() -> Callable[[str], str]:
    """C++ names as they were written, where the C++ library is there to tell."""
    path = ctypes.util.find_library("stdc++") or ctypes.util.find_library("c++abi")
    try:
        demangle = ctypes.CDLL(path or "libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return lambda name: name
    demangle.restype = ctypes.c_void_p
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def written(name: str) -> str:
        status = ctypes.c_int()
        found = demangle(name.encode(), None, None, ctypes.byref(status))
        if not found:
            return name
        try:
            return ctypes.string_at(found).decode()
        finally:
            free(found)

    return written


class StringTable(defaultdict[str, str]):
    """C++ names by their mangled ones. One letter is no mangled name, though it could be a type."""

    def __missing__(self, key: str) -> str:
        made = self[key] = demangler()(key) if len(key) > 1 else key
        return made
