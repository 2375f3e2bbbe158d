"""Events as a file for chrome://tracing and Perfetto."""

from __future__ import annotations

from typing import Any

__all__ = ["write_chrome_trace"]


def trace_entries(events: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    forward: dict[int, Any] = {}
    for event in events:
        span = event.time_range
        arguments: dict[str, Any] = {"External id": event.id}
        if event.sequence_nr >= 0:
            arguments["Sequence number"] = event.sequence_nr
            arguments["Fwd thread id"] = event.fwd_thread
        if event.input_shapes:
            arguments["Input Dims"] = event.input_shapes
        if event.stack:
            arguments["Call stack"] = ";".join(event.stack)
        entries.append(
            {
                "name": event.trace_name,
                "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
                "ph": "X",
                "ts": span.start,
                "dur": span.elapsed_us(),
                "pid": "CPU functions",
                "tid": event.thread,
                "args": arguments,
            }
        )
        number = event.sequence_nr
        if number < 0:
            continue
        if not event.fwd_thread:
            forward.setdefault(number, event)
        elif number in forward:
            # An arrow from the forward op to its backward.
            origin = forward.pop(number)
            for phase, end in (("s", origin), ("f", event)):
                entry = {
                    "name": "fwdbwd",
                    "cat": "fwdbwd",
                    "ph": phase,
                    "id": number,
                    "ts": end.time_range.start,
                    "pid": "CPU functions",
                    "tid": end.thread,
                }
                if phase == "f":
                    entry["bp"] = "e"
                entries.append(entry)
    return entries


def write_chrome_trace(events: Any, path: str, metadata: dict[str, Any] | None = None) -> None:
    import json

    text = json.dumps(
        {"schemaVersion": 1, **(metadata or {}), "traceEvents": trace_entries(events)}
    )
    if str(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
