"""torch.Stream and torch.Event of devices that finish each call before it returns.

Nothing is ever pending on the CPU: waiting is done at once, and there is nothing to mark.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.device import device as Device

__all__ = ["Event", "Stream"]

NUMBERS = {"cpu": 0, "meta": 14}


def place_of(device: Any) -> Device:
    """The device, if it is one that works here."""
    if isinstance(device, int):
        raise RuntimeError("Cannot access accelerator device when none is available.")
    place = Device("cpu" if device is None else device)
    if place.type not in NUMBERS:
        raise RuntimeError(f"PyTorch is not linked with support for {place.type} devices")
    return place


def no_events(device: Device) -> RuntimeError:
    return RuntimeError(f"{device.type} backend doesn't support events.")


class Stream:
    """The order in which a device works: on the CPU, that of the calls."""

    def __init__(
        self, device: Any = None, *, priority: int = 0, stream_id: int = 0,
        device_index: int = -1, device_type: int | None = None,
    ) -> None:  # fmt: skip
        self.device = place_of(device)
        self.stream_id = stream_id
        self.device_index = device_index
        self.device_type = NUMBERS[self.device.type] if device_type is None else device_type

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing is pending."""

    def wait_event(self, event: Any) -> None:
        """Every event has happened."""

    def record_event(self, event: Any = None) -> Any:
        self.refuse_events()
        return event

    def wait_stream(self, stream: Any) -> None:
        self.refuse_events()

    def refuse_events(self) -> None:
        raise no_events(self.device)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *details: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.facts() == other.facts()

    def __hash__(self) -> int:
        return hash(self.facts())

    def facts(self) -> tuple[int, int, int]:
        return self.device_type, self.device_index, self.stream_id

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event:
    """A point in the order of a device's work. None can be marked on the CPU, so all are past."""

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
        interprocess: bool = False,
    ) -> None:  # fmt: skip
        self.device = place_of(device)
        self.event_id = 0
        self.times = enable_timing

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """It has happened."""

    def wait(self, stream: Any = None) -> None:
        """It has happened."""

    def record(self, stream: Any = None) -> None:
        self.refuse_events()

    def refuse_events(self) -> None:
        raise no_events(self.device)

    def elapsed_time(self, end_event: Any) -> float:
        if not (self.times and end_event.times):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise ValueError("Both events must be recorded before calculating elapsed time.")

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self.device.type}, device_index=-1, "
            f"event_flag={int(self.times)}, event_id={self.event_id}"
        )
