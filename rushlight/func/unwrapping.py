"""What is inside of the tensors that transforms make, and which level made them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.core.batching import BatchedTensor
from rushlight.core.functional import FunctionalLevel, FunctionalTensor
from rushlight.core.levels import LevelTensor, alive

__all__ = [
    "batch_axis", "debug_unwrap", "depth_of", "is_batched", "is_dead", "is_functional",
    "is_tracking", "is_wrapped", "level_of", "unwrap_dead_wrappers", "unwrap_if_dead", "unwrapped",
]  # fmt: skip

# The level of a tensor that none made, and of one whose level has ended.
NO_LEVEL, DEAD_LEVEL = -1, -2


def is_batched(tensor: Any) -> bool:
    """Whether `vmap` made this tensor."""
    return isinstance(tensor, BatchedTensor)


def is_tracking(tensor: Any) -> bool:
    """Whether `grad`, `vjp` or `jvp` made this tensor."""
    return isinstance(tensor, LevelTensor)


def is_functional(tensor: Any) -> bool:
    """Whether `functionalize` made this tensor."""
    return isinstance(tensor, FunctionalTensor) and isinstance(
        tensor.handling_mode, FunctionalLevel
    )


def is_wrapped(tensor: Any) -> bool:
    """Whether a transform made this tensor."""
    return is_batched(tensor) or is_tracking(tensor) or is_functional(tensor)


def is_dead(tensor: Any) -> bool:
    """Whether the level that tracks this tensor has ended."""
    return isinstance(tensor, LevelTensor) and not tensor._owner.is_open


def unwrap_if_dead(tensor: Any) -> Any:
    """A tensor without the wrappers of levels that have ended."""
    return alive(tensor)


def unwrap_dead_wrappers(args: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments with tensors without the wrappers of levels that have ended."""
    return tuple([alive(value) for value in args])


def level_of(tensor: Any) -> int:
    """The number of the level that made a tensor; -1 if none did, -2 if it has ended."""
    if isinstance(tensor, LevelTensor):
        return DEAD_LEVEL if is_dead(tensor) else tensor._owner.level
    if isinstance(tensor, BatchedTensor):
        return tensor._level
    if is_functional(tensor):
        return len(tensor.handling_mode.under) + 1
    return NO_LEVEL


def depth_of(tensor: Any) -> int:
    """The number of the level that made a tensor; 0 if none did, -1 if it has ended."""
    return level_of(tensor) + 1 if level_of(tensor) < 0 else level_of(tensor)


def batch_axis(tensor: Any) -> int:
    """The axis that `vmap` hides; -1 if there is none."""
    return tensor._axis if isinstance(tensor, BatchedTensor) else -1


def unwrapped(tensor: Any) -> Any:
    """The tensor of the levels below that a transform's tensor stands for."""
    if not is_wrapped(tensor):
        raise RuntimeError("No wrappers present!")
    return tensor.functional_value if is_functional(tensor) else tensor._value


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The plain tensor inside of one that `vmap`, `grad` and others made; with `recurse=False` only
    the outermost wrapper is taken off. To look at while debugging, not to compute with.

    >>> import rushlight as torch
    >>> def seen(x):
    ...     print(torch.func.debug_unwrap(x))
    ...     return x
    >>> _ = torch.func.vmap(seen)(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if not is_wrapped(tensor):
        return tensor
    inner = unwrapped(tensor)
    return debug_unwrap(inner) if recurse else inner
