"""Profiled events: single ones, averages by name, and the list that makes a tree of them.

Times are microseconds since the profile began. A `FunctionEvent` knows its children once
`EventList._populate_cpu_children` has run.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "format_memory",
    "format_time",
]


def format_time(time_us: float) -> str:
    """A duration in the largest unit that keeps it above one."""
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def format_share(time_us: float, total_us: float) -> str:
    if total_us == 0:
        return "NaN" if time_us else "0.00%"
    return f"{time_us * 100.0 / total_us:.2f}%"


def format_memory(nbytes: int) -> str:
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


class Interval:
    """A stretch of time."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        return self.end - self.start


class Timed:
    """What a single event and an average have in common: times as texts, and means."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    # No device but the CPU is profiled.
    device_time_total = 0
    self_device_time_total = 0
    device_memory_usage = 0
    self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        return 0.0

    @property
    def cpu_time_str(self) -> str:
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return format_time(self.self_cpu_time_total)

    @property
    def device_time_str(self) -> str:
        return format_time(0)

    device_time_total_str = self_device_time_total_str = device_time_str


class FunctionEvent(Timed):
    """One span of a profile."""

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: Any = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: Any = "cpu",
        device_index: int = 0,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: Any = None,
        kwinputs: Any = None,
        is_user_annotation: bool = False,
    ) -> None:
        self.id = id
        self.node_id = node_id
        self.name = name
        self.overload_name = overload_name or ""
        self.trace_name = trace_name or name
        self.time_range = Interval(start_us, end_us)
        self.thread = thread
        self.fwd_thread = fwd_thread
        self.kernels: list[Any] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes = input_shapes
        self.concrete_inputs = concrete_inputs
        self.kwinputs = kwinputs
        self.stack = stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.device_type = device_type
        self.device_index = device_index
        self.is_legacy = is_legacy
        self.flops = flops
        self.is_user_annotation = is_user_annotation

    def append_cpu_child(self, child: FunctionEvent) -> None:
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        if self.is_async:
            return 0
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} node_id={self.node_id} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start} "
            f"end_us={self.time_range.end} cpu_children={[c.id for c in self.cpu_children]} "
            f"thread={self.thread} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} is_async={self.is_async} "
            f"is_remote={self.is_remote} seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(Timed):
    """Events of one key, added up. The first one added gives the key and the options."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: Any = None
        self.scope: int | None = None
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type: Any = "cpu"
        self.is_legacy = False
        self.flops = 0
        self.is_user_annotation = False

    def add(self, other: Any) -> FunctionEventAvg:
        """Merge an event or another average of the same key."""
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise TypeError(
                f"expected a FunctionEvent or FunctionEventAvg, got {type(other).__name__}"
            )
        if self.key is None:
            self.key = other.key
            for name in (
                "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name",
                "input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device",
                "is_user_annotation",
            ):  # fmt: skip
                setattr(self, name, getattr(other, name))
        elif other.key != self.key:
            raise ValueError(f"cannot add an event of {other.key!r} to the average of {self.key!r}")
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.count += other.count
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: Any) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events or averages, with the summaries that are made of them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._use_device = kwargs.pop("use_device", None)
        self._profile_memory = kwargs.pop("profile_memory", False)
        self._with_flops = kwargs.pop("with_flops", False)
        self._tree_built = False
        super().__init__(*args, **kwargs)

    def _build_tree(self) -> None:
        self._populate_cpu_children()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        """Make every event the child of the innermost event of its thread that contains it."""
        threads: dict[Any, list[FunctionEvent]] = {}
        for event in self:
            if not event.is_async and event.device_type == "cpu":
                threads.setdefault((event.thread, event.node_id), []).append(event)
        for events in threads.values():
            events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
            enclosing: list[FunctionEvent] = []
            for event in events:
                span = event.time_range
                while enclosing:
                    outer = enclosing[-1]
                    if span.start >= outer.time_range.end or span.end > outer.time_range.end:
                        enclosing.pop()
                        continue
                    outer.append_cpu_child(event)
                    event.set_cpu_parent(outer)
                    break
                enclosing.append(event)

    @property
    def self_cpu_time_total(self) -> float:
        return sum(event.self_cpu_time_total for event in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Averages by name, and by shapes, stack or overload where asked."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.node_id, event.is_user_annotation)
            if group_by_overload_name:
                key += (event.overload_name,)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n > 0:
                key += tuple((event.stack or [])[:group_by_stack_n])
            if key not in found:
                found[key] = FunctionEventAvg()
            found[key].add(event)
        for average in found.values():
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
            average.stack = (average.stack or [])[:group_by_stack_n]
        return EventList(
            found.values(), profile_memory=self._profile_memory, with_flops=self._with_flops
        )

    def total_average(self) -> FunctionEventAvg:
        """All events as one, called "Total"."""
        total = FunctionEventAvg()
        for event in self:
            total.key = event.key
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, one row each."""
        from rushlight.profiler.table import build_table

        return build_table(
            self,
            sort_by=sort_by,
            header=header,
            row_limit=row_limit,
            max_src_column_width=max_src_column_width,
            max_name_column_width=max_name_column_width,
            max_shapes_column_width=max_shapes_column_width,
            memory=self._profile_memory,
            flops=self._with_flops,
            top_level_events_only=top_level_events_only,
        )

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing."""
        from rushlight.profiler.trace import write_chrome_trace

        write_chrome_trace(self, path)

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Write one line per stack with its time, for flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}, got {metric!r}"
            )
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                if event.stack:
                    frames = ";".join(line.replace(";", ",") for line in reversed(event.stack))
                    file.write(f"{frames} {int(getattr(event, metric))}\n")
