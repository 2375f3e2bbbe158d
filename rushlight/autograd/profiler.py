"""torch.autograd.profiler: the names under which the profiler was first known."""

from __future__ import annotations

from rushlight.profiler import kineto_available
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from rushlight.profiler.recorder import profiler_enabled, record_function
from rushlight.profiler.session import emit_itt, emit_nvtx, profile

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "profiler_enabled",
    "record_function",
]
