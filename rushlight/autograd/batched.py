"""Batched gradients: one backward, or one forward push, for a stack of them; all columns of a
Jacobian as such a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.batching import VmapLevel, batched, unbatched
from rushlight.core.state import LOCAL, changed
from rushlight.opset import batching as _rules  # noqa: F401  (registers the batch rules)
from rushlight.opset import functions

__all__ = ["batched_call", "column_blocks", "run_batched", "unit_tangents"]


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


def unit_tangents(inputs: list[Any]) -> list[Any]:
    """For each input its part of all unit vectors of the inputs together, along a new first dim."""
    sizes = [leaf.numel() for leaf in inputs]
    total, start, found = sum(sizes), 0, []
    for leaf, size in zip(inputs, sizes, strict=True):
        part = functions.eye(total, dtype=leaf.dtype, device=leaf.device)[:, start : start + size]
        found.append(part.reshape((total, *leaf.shape)))
        start += size
    return found


def column_blocks(column: Any, inputs: list[Any]) -> list[Any]:
    """The derivatives of one output along all unit vectors, as its Jacobian by each input."""
    parts = column.movedim(0, -1).split([leaf.numel() for leaf in inputs], -1)
    return [
        part.reshape((*part.shape[:-1], *leaf.shape))
        for part, leaf in zip(parts, inputs, strict=True)
    ]
