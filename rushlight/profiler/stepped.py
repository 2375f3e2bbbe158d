"""`profiler.profile`: recordings that follow a schedule of steps."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rushlight.profiler.events import EventList
from rushlight.profiler.recorder import record_function
from rushlight.profiler.session import profile as recording

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """Where events come from."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What the profiler does during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Any:
    """A function from step number to action: skip, then cycles of wait, warm up, record."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")
    if warmup == 0:
        import warnings

        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative, got {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step // length >= repeat:
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def record_always(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Any:
    """An `on_trace_ready` that writes each trace into a folder."""

    def handler(prof: Any) -> None:
        import os
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        ending = ".pt.trace.json.gz" if use_gzip else ".pt.trace.json"
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}{ending}"))

    return handler


class profile:
    """Profiles a block, or the steps a schedule names, each cycle handed to `on_trace_ready`.

    >>> import rushlight as torch
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     y = torch.ones(2, 3).sum()
    >>> "aten::sum" in prof.key_averages().table()
    True
    """

    def __init__(
        self,
        *,
        activities: Any = None,
        schedule: Any = None,
        on_trace_ready: Any = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        self.options = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "use_cpu": ProfilerActivity.CPU in self.activities,
        }
        self.schedule = schedule or record_always
        self.record_steps = schedule is not None
        self.acc_events = acc_events
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: recording | None = None
        self.metadata: dict[str, Any] = {}
        self.step_label: record_function | None = None

    def start(self) -> None:
        self.enter_action()

    def stop(self) -> None:
        self.end_step()
        if self.profiler is not None and self.is_recording(self.current_action):
            self.profiler.__exit__(None, None, None)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        self.current_action = ProfilerAction.NONE

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *details: Any) -> None:
        self.stop()

    @staticmethod
    def is_recording(action: ProfilerAction) -> bool:
        return action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def enter_action(self) -> None:
        if self.is_recording(self.current_action):
            before, self.profiler = self.profiler, recording(**self.options)
            if self.acc_events and before is not None:
                self.profiler.earlier_events = before.function_events
            self.profiler.__enter__()
        self.begin_step()

    def begin_step(self) -> None:
        if self.record_steps:
            self.step_label = record_function(f"ProfilerStep#{self.step_num}")
            self.step_label.__enter__()

    def end_step(self) -> None:
        if self.step_label is not None:
            self.step_label.__exit__(None, None, None)
            self.step_label = None

    def step(self) -> None:
        """Say that the next step begins."""
        self.end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        ends = before is ProfilerAction.RECORD_AND_SAVE or (
            before is ProfilerAction.RECORD and not self.is_recording(self.current_action)
        )
        if ends and self.profiler is not None:
            self.profiler.__exit__(None, None, None)
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if ends or not self.is_recording(before):
            self.enter_action()
        else:
            self.begin_step()

    def set_custom_trace_id_callback(self, callback: Any) -> None:
        self.trace_id_callback = callback

    def current(self) -> recording:
        if self.profiler is None:
            raise AssertionError("Profiler must be initialized before reading its results")
        return self.profiler

    def events(self) -> EventList:
        return self.current().function_events

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """Averages by name, with the options of `autograd.profiler.profile.key_averages`."""
        return self.current().key_averages(*args, **kwargs)

    def export_chrome_trace(self, path: str) -> None:
        from rushlight.profiler.trace import write_chrome_trace

        write_chrome_trace(self.events(), path, self.metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self.current().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the exported trace."""
        self.metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the exported trace."""
        import json

        self.metadata[key] = json.loads(value)
