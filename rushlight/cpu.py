"""torch.cpu: the device interface of the CPU, where every call is finished when it returns."""

from __future__ import annotations

from typing import Any

__all__ = [
    "Event", "Stream", "StreamContext", "current_device", "current_stream", "device_count",
    "get_capabilities", "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """Work is done in order of calls; there is nothing to queue."""

    def __init__(self, priority: int = -1) -> None:
        self.priority = priority

    def wait_stream(self, stream: Any) -> None:
        """Nothing is pending."""

    def record_event(self) -> None:
        """Nothing is pending."""

    def wait_event(self, event: Any) -> None:
        """Nothing is pending."""


class Event:
    """A point in the order of calls, which is always reached."""

    def query(self) -> bool:
        return True

    def record(self, stream: Any = None) -> None:
        """Nothing is pending."""

    def synchronize(self) -> None:
        """Nothing is pending."""

    def wait(self, stream: Any = None) -> None:
        """Nothing is pending."""


DEFAULT = Stream()
CURRENT = [DEFAULT]


class StreamContext:
    """Inside, `current_stream` answers the given stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            CURRENT.append(self.stream)

    def __exit__(self, *exc: Any) -> None:
        if self.stream is not None:
            CURRENT.pop()


def stream(stream: Any) -> StreamContext:
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    return CURRENT[-1]


def is_available() -> bool:
    return True


def is_initialized() -> bool:
    return True


def synchronize(device: Any = None) -> None:
    """Nothing is pending."""


def device_count() -> int:
    return 1


def current_device() -> str:
    return "cpu"


def set_device(device: Any) -> None:
    """There is one device only."""


def get_capabilities() -> dict[str, Any]:
    """What is known about the processor."""
    import platform

    return {"architecture": platform.machine()}
