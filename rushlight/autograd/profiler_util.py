"""torch.autograd.profiler_util: events of a profile and what is made of them."""

from __future__ import annotations

from rushlight.profiler.events import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    format_memory,
    format_time,
)

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

# torch: scripts reach for these under their private names.
_format_time = format_time
_format_memory = format_memory
