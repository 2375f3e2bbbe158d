"""Native loops of draws: found when a draw is large, and used by all others from then on.

They make the same bits as NumPy's ways, so that which of them runs shows in nothing but time.
"""

from __future__ import annotations

from typing import Any

from rushlight.base.config import config
from rushlight.core import ports

__all__ = ["native_draw"]

# A draw of this many elements is worth what loading a compiler costs.
LARGE = 1 << 14
LOOPS: dict[str, Any] = {}
UNKNOWN = object()


def native_draw(name: str, count: int) -> Any:
    """The loop of this name for a draw of so many elements; None where NumPy is to make it."""
    if not config.eager_native:
        return None
    found = LOOPS.get(name, UNKNOWN)
    if found is UNKNOWN:
        if count < LARGE:
            return None
        # One function for all threads.
        found = LOOPS.setdefault(name, ports.native_draw(name))
    return found
