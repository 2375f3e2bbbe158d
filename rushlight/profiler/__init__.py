"""Profiling: torch.profiler's public names.

The modules below depend on nothing above `core`: the dispatcher and the engine call a
`SpanRecorder`, and everything a user sees is made of its spans afterwards.
"""

from __future__ import annotations

from rushlight.base.lazy import namespace
from rushlight.profiler import itt
from rushlight.profiler.recorder import record_function
from rushlight.profiler.stepped import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

__getattr__, __dir__ = namespace(
    __name__, {"DeviceType": ".devices"}, refused={"RL1203": "ExecutionTraceObserver"}
)


def kineto_available() -> bool:
    """False: spans are recorded in Python, without the Kineto library."""
    return False
