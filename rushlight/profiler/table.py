"""The text table of a list of events."""

from __future__ import annotations

from typing import Any

from rushlight.profiler.events import format_memory, format_share, format_time

__all__ = ["build_table"]

GAP = "  "
SORT_KEYS = (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time", "device_time_total",
    "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
    "self_device_memory_usage", "count", "flops",
)  # fmt: skip


class Column:
    """A heading and the text of one cell for an event."""

    __slots__ = ("cell", "title", "width")

    def __init__(self, title: str, width: int, cell: Any) -> None:
        self.title = title
        self.width = max(width, len(title))
        self.cell = cell


def shortened(text: str, limit: int | None) -> str:
    if limit is not None and 0 < limit < len(text):
        return text[: limit - 3] + "..."
    return text


def build_table(
    events: Any,
    *,
    sort_by: str | None,
    header: str | None,
    row_limit: int,
    max_src_column_width: int,
    max_name_column_width: int,
    max_shapes_column_width: int,
    memory: bool,
    flops: bool,
    top_level_events_only: bool,
) -> str:
    if not events:
        return ""
    if sort_by is not None:
        name = sort_by.replace("cuda", "device")
        if name not in SORT_KEYS:
            raise ValueError(f"sort_by should be one of {list(SORT_KEYS)}, got {sort_by!r}")
        ordered = sorted(events, key=lambda event: getattr(event, name) or 0, reverse=True)
    else:
        ordered = list(events)
    total = events.self_cpu_time_total
    columns = make_columns(
        ordered,
        total,
        max_src_column_width,
        max_name_column_width,
        max_shapes_column_width,
        memory,
        flops,
    )
    rule = GAP.join("-" * column.width for column in columns) + GAP
    lines: list[str] = []
    if header is not None:
        lines += ["=" * len(rule), header]
    if top_level_events_only:
        lines += ["=" * len(rule), "This report only display top-level ops statistics"]
    lines += [rule, GAP.join(column.title.rjust(column.width) for column in columns) + GAP, rule]
    shown = 0
    for event in ordered:
        if shown == row_limit:
            break
        if top_level_events_only and event.cpu_parent is not None:
            continue
        shown += 1
        lines.append(GAP.join(c.cell(event).rjust(c.width) for c in columns) + GAP)
    lines += [rule, f"Self CPU time total: {format_time(total)}", ""]
    return "\n".join(lines)


def make_columns(
    events: list[Any],
    total: float,
    src_width: int,
    name_width: int,
    shapes_width: int,
    memory: bool,
    flops: bool,
) -> list[Column]:
    longest = max(len(str(event.key)) for event in events) + 4
    width = longest if name_width is None or name_width < 0 else min(longest, name_width)
    columns = [
        Column("Name", width, lambda e: shortened(str(e.key), width)),
        Column("Self CPU %", 12, lambda e: format_share(e.self_cpu_time_total, total)),
        Column("Self CPU", 12, lambda e: e.self_cpu_time_total_str),
        Column("CPU total %", 12, lambda e: format_share(e.cpu_time_total, total)),
        Column("CPU total", 12, lambda e: e.cpu_time_total_str),
        Column("CPU time avg", 12, lambda e: e.cpu_time_str),
    ]
    if memory:
        columns += [
            Column("CPU Mem", 12, lambda e: format_memory(e.cpu_memory_usage)),
            Column("Self CPU Mem", 12, lambda e: format_memory(e.self_cpu_memory_usage)),
        ]
    columns.append(Column("# of Calls", 12, lambda e: str(e.count)))
    if any(event.input_shapes for event in events):
        shapes = min(max(len(str(event.input_shapes)) for event in events) + 4, shapes_width)
        columns.append(
            Column("Input Shapes", shapes, lambda e: shortened(str(e.input_shapes), shapes))
        )
    if any(event.stack for event in events):
        sources = [event.stack[0] for event in events if event.stack]
        place = min(max(len(line) for line in sources) + 4, src_width)
        columns.append(
            Column(
                "Source Location",
                place,
                lambda e: shortened(e.stack[0], place) if e.stack else "",
            )
        )
    if flops:
        columns.append(Column("Total FLOPs", 12, lambda e: str(e.flops) if e.flops else "--"))
    return columns
