"""torch.monitor: counts over windows of time, and events that handlers are told of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

__all__ = [
    "Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "log_event",
    "register_event_handler", "unregister_event_handler",
]  # fmt: skip


class Aggregation(Enum):
    """What a Stat tells of the values of a window."""

    VALUE = 0
    MEAN = 1
    COUNT = 2
    SUM = 3
    MAX = 4
    MIN = 5

    @property
    def label(self) -> str:
        return self.name.lower()


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation
STAT_EVENT = "torch.monitor.Stat"


class AggregationType(Enum):
    """How TorchScript's loggers put values together."""

    SUM = 0
    AVG = 1


class Event:
    """Something that happened: a name, a time, and what is to be known of it."""

    def __init__(
        self, name: str, timestamp: datetime, data: dict[str, str | float | int | bool]
    ) -> None:
        self.name = name
        self.timestamp = timestamp
        self.data = data


class EventHandlerHandle:
    """What `unregister_event_handler` takes."""

    def __init__(self, handler: Callable[[Event], Any]) -> None:
        self.handler = handler


HANDLERS: list[EventHandlerHandle] = []


def register_event_handler(handler: Callable[[Event], Any]) -> EventHandlerHandle:
    """Call `handler` with each event that is logged from now on."""
    HANDLERS.append(EventHandlerHandle(handler))
    return HANDLERS[-1]


def unregister_event_handler(handle: EventHandlerHandle) -> None:
    HANDLERS.remove(handle)


def log_event(event: Event) -> None:
    """Tell every handler of an event."""
    for handle in HANDLERS:
        handle.handler(event)


def summary(kind: Aggregation, values: Sequence[float]) -> float:
    if kind is Aggregation.COUNT:
        return len(values)
    if not values:
        return 0.0
    found = {
        Aggregation.VALUE: values[-1],
        Aggregation.MEAN: sum(values) / len(values),
        Aggregation.SUM: sum(values),
        Aggregation.MAX: max(values),
        Aggregation.MIN: min(values),
    }
    return found[kind]


class Stat:
    """Values collected over windows of time; the end of a window is logged as an event.

    >>> import datetime
    >>> from rushlight.monitor import Aggregation, Stat
    >>> stat = Stat("loss", [Aggregation.SUM], datetime.timedelta(hours=1))
    >>> stat.add(1.5); stat.add(2.0)
    >>> stat.count, stat.get()
    (2, {})
    """

    def __init__(
        self,
        name: str,
        aggregations: Sequence[Aggregation],
        window_size: timedelta,
        max_samples: int | None = None,
    ) -> None:
        self.name = name
        self.aggregations = list(aggregations)
        self.window = window_size.total_seconds()
        self.max_samples = max_samples
        self.values: list[float] = []
        self.last: dict[Aggregation, float] = {}
        self.lock = threading.Lock()
        self.began = self.window_of_now()

    def window_of_now(self) -> float:
        return time.time() // self.window

    @property
    def count(self) -> int:
        """How many values the current window has."""
        self.end_window_if_over()
        return len(self.values)

    def add(self, v: float) -> None:
        self.end_window_if_over()
        with self.lock:
            if self.max_samples is None or len(self.values) < self.max_samples:
                self.values.append(float(v))

    def get(self) -> dict[Aggregation, float]:
        """What the last window that ended came to."""
        self.end_window_if_over()
        return dict(self.last)

    def end_window_if_over(self) -> None:
        with self.lock:
            now = self.window_of_now()
            if now == self.began:
                return
            self.began = now
            if not self.values:
                return
            self.last = {kind: summary(kind, self.values) for kind in self.aggregations}
            self.values = []
            told = {f"{self.name}.{kind.label}": value for kind, value in self.last.items()}
        log_event(Event(STAT_EVENT, datetime.now(), dict(told)))


class TensorboardEventHandler:
    """Writes the events of `Stat` to a SummaryWriter."""

    def __init__(self, writer: Any) -> None:
        self.writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for tag, value in event.data.items():
                if isinstance(value, (int, float)):
                    self.writer.add_scalar(tag, value, walltime=event.timestamp.timestamp())
