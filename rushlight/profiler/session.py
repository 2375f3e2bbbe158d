"""`autograd.profiler.profile`: one recording from entry to exit, and what can be asked of it."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from rushlight.profiler.recorder import LABEL, SpanRecorder

__all__ = ["emit_itt", "emit_nvtx", "profile"]

UNFINISHED = "<unfinished torch.autograd.profile>"


def events_of(recorder: SpanRecorder) -> EventList:
    """Spans as events in order of their start, parents before children, with their tree built."""
    began = recorder.began
    # Equal times keep the order of opening: sorting is stable.
    spans = sorted(recorder.spans, key=lambda span: span.start)
    events = EventList(profile_memory=recorder.memory, with_flops=recorder.flops)
    for number, span in enumerate(spans, 1):
        stop = recorder.ended if span.stop is None else span.stop
        events.append(
            FunctionEvent(
                id=number,
                name=span.name,
                overload_name=span.overload,
                thread=span.thread,
                fwd_thread=span.fwd_thread,
                start_us=(span.start - began) / 1000,
                end_us=(stop - began) / 1000,
                input_shapes=span.shapes if span.shapes is not None else [],
                stack=span.stack if span.stack is not None else [],
                scope=span.scope,
                cpu_memory_usage=span.allocated,
                sequence_nr=span.sequence,
                flops=span.flops,
                is_user_annotation=span.scope == LABEL,
            )
        )
    events._build_tree()
    return events


class profile:
    """Records every operator, backward node and label of a block.

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.profile() as prof:
    ...     y = torch.ones(2) * 3
    >>> [event.name for event in prof.function_events][-1]
    'aten::mul'

    `profile_memory` counts the bytes of results in new memory; nothing is known of frees.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        if use_cuda or use_device not in (None, "cpu"):
            import warnings

            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.enabled = enabled
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.use_device = None
        self.entered = False
        self.recorder: SpanRecorder | None = None
        self.made_events: EventList | None = None
        # Those of recordings before this one, where they are to be kept.
        self.earlier_events: EventList | None = None

    def __enter__(self) -> profile | None:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self.recorder = SpanRecorder(
            shapes=self.record_shapes,
            stacks=self.with_stack,
            memory=self.profile_memory,
            flops=self.with_flops,
            ops=self.use_cpu,
        )
        self.recorder.install()
        return self

    def __exit__(self, *details: Any) -> bool:
        if self.enabled and self.recorder is not None:
            self.recorder.remove()
        return False

    def is_finished(self) -> bool:
        return self.recorder is not None and self.recorder.ended != self.recorder.began

    def finished(self) -> EventList:
        if not self.is_finished():
            raise RuntimeError("Profiler didn't finish running")
        if self.made_events is None:
            made = events_of(self.recorder)
            if self.earlier_events is not None:
                # Each half has its tree.
                made[:0] = self.earlier_events
            self.made_events = made
        return self.made_events

    @property
    def function_events(self) -> EventList:
        return self.finished()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as text, with the options of `EventList.table`."""
        return self.finished().table(*args, **kwargs)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        return self.finished().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        return self.finished().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds spent on the CPU, every event counted without its children."""
        return self.finished().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        self.finished().export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        self.finished().export_stacks(path, metric)

    def __repr__(self) -> str:
        return repr(self.finished()) if self.is_finished() else UNFINISHED

    def __str__(self) -> str:
        return str(self.finished()) if self.is_finished() else UNFINISHED


class Emitter:
    """A range emitter of a vendor's tool: there is none to talk to."""

    tool = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Emitter | None:
        if not self.enabled:
            return None
        raise MissingFeature(
            f"emitting {self.tool} ranges",
            "Record with profiler.profile() and export_chrome_trace() instead.",
            code="RL1203",
        )

    def __exit__(self, *details: Any) -> bool:
        return False


class emit_nvtx(Emitter):
    """Refused unless disabled: there is no CUDA device."""

    tool = "NVTX"


class emit_itt(Emitter):
    """Refused unless disabled: there is no ITT collector."""

    tool = "ITT"
