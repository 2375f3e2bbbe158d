"""What goes wrong between processes. Every class is a RuntimeError, as torch's are."""

from __future__ import annotations

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError",
]  # fmt: skip


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
