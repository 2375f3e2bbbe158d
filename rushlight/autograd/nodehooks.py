"""What hooks on nodes are told, and what they may answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.core.node import OpNode
from rushlight.core.tensor import Tensor

__all__ = ["check_posthook", "put_replaced", "told", "told_places"]


def told_places(node: Any) -> Sequence[int]:
    """Which outputs hooks are told of: of an op's, those that can have a gradient; else all."""
    metas = node.output_metas
    count = len(metas) or 1
    if count == 1 or not isinstance(node, OpNode):
        return range(count)
    unmarked = node.non_differentiable
    return [
        place
        for place, meta in enumerate(metas)
        # An output that was not asked for has a place, and nothing in it.
        if place not in unmarked
        and (meta is None or meta[1].is_floating_point or meta[1].is_complex)
    ]


def told(grads: Sequence[Any], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple([grads[place] for place in places])


def check_prehook(replaced: Any, grads: list[Any]) -> list[Any]:
    if not isinstance(replaced, tuple):
        if isinstance(replaced, Tensor) and len(grads) == 1:
            return [replaced]
        raise TypeError(f"expected tuple, but hook returned '{type(replaced).__name__}'")
    if len(replaced) != len(grads):
        raise RuntimeError(
            f"hook has returned an incorrect number of values (got {len(replaced)}, but expected "
            f"{len(grads)})"
        )
    return list(replaced)


def put_replaced(grads: list[Any], replaced: Any, places: Sequence[int]) -> None:
    """Takes a pre-hook's answer for the gradients that it was told of."""
    found = check_prehook(replaced, [grads[place] for place in places])
    for place, grad in zip(places, found, strict=True):
        grads[place] = grad


def check_posthook(replaced: Any, results: tuple[Any, ...]) -> tuple[Any, ...]:
    if isinstance(replaced, Tensor) and len(results) == 1:
        return (replaced,)
    if not isinstance(replaced, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(replaced).__name__}'")
    if len(replaced) != len(results):
        raise RuntimeError(
            f"hook has returned an incorrect number of values (got {len(replaced)}, but expected "
            f"{len(results)})"
        )
    return replaced
