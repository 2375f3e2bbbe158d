"""What goes wrong between processes. Every class is a RuntimeError, as torch's are."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
    "refuse",
]  # fmt: skip


def refuse(caller: str, **options: Any) -> None:
    """No option that would change something is passed over: those that are given are refused."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise MissingFeature(f"{caller}({name}=...)", code="RL0013")


class DistError(RuntimeError):
    """What goes wrong between processes."""


class DistBackendError(DistError):
    """A collective failed: a process is gone, late, or called something else."""


class DistNetworkError(DistError):
    """A connection failed."""


class DistStoreError(DistError):
    """A store failed."""


class QueueEmptyError(DistStoreError):
    """A store's queue had nothing to give."""
