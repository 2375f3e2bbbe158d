"""Batched gradients: one backward for a stack of output gradients (`is_grads_batched`)."""

from __future__ import annotations

from typing import Any

from rushlight.core.batching import VmapLevel, batched, unbatched
from rushlight.core.state import LOCAL

__all__ = ["run_batched"]


def run_batched(run: Any, grads: list[Any]) -> list[Any]:
    """Run the engine once with the leading dim of `grads` as a hidden batch axis."""
    size = next(value.shape[0] for value in grads if value is not None)
    state = LOCAL.state
    before = state.transforms
    number = len(before) + 1
    level = VmapLevel(number, size)
    state.transforms = (*before, level)
    state.refresh()
    try:
        hidden = [None if value is None else batched(value, 0, number) for value in grads]
        found = run(hidden)
    finally:
        state.transforms = before
        state.refresh()
    return [None if value is None else unbatched(value, number, size, 0) for value in found]
