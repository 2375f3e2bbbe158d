"""Batched gradients: one backward, or one forward push, for a stack of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.batching import VmapLevel, batched, unbatched
from rushlight.core.state import LOCAL, changed
from rushlight.opset import batching as _rules  # noqa: F401  (registers the batch rules)

__all__ = ["batched_call", "run_batched"]


def batched_call(function: Callable[..., Any], *values: Any) -> list[Any]:
    """`function` of tensors whose leading dim is a hidden batch axis, which its results get back;
    None stays None."""
    size = next(value.shape[0] for value in values if value is not None)
    before = LOCAL.state.transforms
    number = len(before) + 1
    hidden = [None if value is None else batched(value, 0, number) for value in values]
    with changed(transforms=(*before, VmapLevel(number, size, plain=True))):
        found = function(*hidden)
    return [None if value is None else unbatched(value, number, size, 0) for value in found]


def run_batched(run: Callable[[Any], Any], grads: list[Any]) -> list[Any]:
    """Run the engine once with the leading dim of `grads` as a hidden batch axis."""
    return batched_call(lambda *hidden: run(list(hidden)), *grads)
