"""Levels of transforms, pushed and popped by hand. torch: parts of `torch._C._functorch`.

What is pushed must be popped in turn, exceptions or not; `vmap`, `grad` and the others do so.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.autograd.levels import GradLevel, JvpLevel
from rushlight.core.batching import LOOPS, VmapLevel, batched, is_batched, unbatched
from rushlight.core.levels import LevelTensor, alive
from rushlight.core.state import LOCAL, changed
from rushlight.opset import batching as _rules  # noqa: F401  (registers the batch rules)

__all__ = [
    "Interpreter",
    "RandomnessType",
    "TransformType",
    "add_batch_dim",
    "current_level",
    "debug_only_are_vmap_fallback_warnings_enabled",
    "debug_only_display_vmap_fallback_warnings",
    "find_current_level",
    "find_innermost",
    "grad_decrement_nesting",
    "grad_increment_nesting",
    "is_vmap_fallback_enabled",
    "jvp_decrement_nesting",
    "jvp_increment_nesting",
    "lazy_load_decompositions",
    "list_levels",
    "remove_batch_dim",
    "set_vmap_fallback_enabled",
    "set_vmap_fallback_warning_enabled",
    "unwrap_batched",
    "unwrap_for_grad",
    "vmap_decrement_nesting",
    "vmap_increment_nesting",
    "without_levels",
    "wrap_for_grad",
]


class TransformType(enum.Enum):
    """What a level does."""

    Torch = 0
    Vmap = 1
    Grad = 2
    Jvp = 3
    Functionalize = 4

    def adapted(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """A rule that is told the level as an `Interpreter`, as one that gets the level."""
        return lambda level, *args, **kwargs: rule(Interpreter(level), *args, **kwargs)


class RandomnessType(enum.Enum):
    """What `vmap` does with random ops."""

    Error = 0
    Same = 1
    Different = 2


class Interpreter:
    """A level as seen from outside."""

    def __init__(self, level: Any) -> None:
        self._level = level

    def key(self) -> TransformType:
        """What the level does."""
        return TransformType[getattr(self._level, "transform", "Torch")]

    def level(self) -> int:
        """Its number, from 1 for the outermost."""
        return len(self._level.under) + 1

    @contextmanager
    def lower(self) -> Iterator[None]:
        """Inside, the level is off the stack."""
        level = self._level
        grad = LOCAL.state.grad and getattr(level, "grad_below", True)
        with changed(transforms=level.under, grad=grad, owner=None):
            yield

    def batch_size(self) -> int:
        """How many samples a `vmap` level has."""
        return int(self._level.size)

    def randomness(self) -> RandomnessType:
        """What a `vmap` level does with random ops."""
        return RandomnessType[self._level.randomness.title()]


# -- looking ---------------------------------------------------------------------------------------


def find_current_level() -> int | None:
    """The number of the innermost level; None outside of all."""
    return len(LOCAL.state.transforms) or None


def has_levels() -> bool:
    """Whether a transform is active."""
    return bool(LOCAL.state.transforms)


def current_level() -> int:
    """The number of the innermost level."""
    found = find_current_level()
    if found is None:
        raise RuntimeError("no transform is active here: there is no current level")
    return found


def without_levels() -> changed:
    """Inside, no transform is active."""
    return changed(transforms=(), owner=None)


def list_levels() -> list[Interpreter] | None:
    """All levels, the outermost first; None outside of all."""
    return [Interpreter(level) for level in LOCAL.state.transforms] or None


def find_innermost() -> Interpreter | None:
    """The innermost level; None outside of all."""
    levels = LOCAL.state.transforms
    return Interpreter(levels[-1]) if levels else None


# -- pushing and popping ---------------------------------------------------------------------------


def vmap_increment_nesting(batch_size: int, randomness: str) -> int:
    """Enter a `vmap` over so many samples; its number."""
    state = LOCAL.state
    level = VmapLevel(len(state.transforms) + 1, batch_size, randomness)
    state.transforms = (*state.transforms, level)
    state.refresh()
    return level.level


def set_vmap_fallback_enabled(enabled: bool) -> None:
    """Whether ops without a batch rule run once for every sample, or are refused."""
    LOOPS.are_allowed = enabled


def is_vmap_fallback_enabled() -> bool:
    return LOOPS.are_allowed


def set_vmap_fallback_warning_enabled(enabled: bool) -> None:
    """Whether a warning says so."""
    LOOPS.are_told = enabled


def debug_only_display_vmap_fallback_warnings(display: bool) -> None:
    """Whether it says so every time, instead of once for every op."""
    LOOPS.are_always_told = display


def debug_only_are_vmap_fallback_warnings_enabled() -> bool:
    return LOOPS.are_always_told


def lazy_load_decompositions() -> None:
    """torch: has batch rules ready, which always are."""


def vmap_decrement_nesting() -> int:
    """Leave the innermost level, a `vmap`; its number."""
    level = innermost(VmapLevel)
    state = LOCAL.state
    state.transforms = level.under
    state.refresh()
    return int(level.level)


def innermost(kind: type) -> Any:
    levels = LOCAL.state.transforms
    if not levels or not isinstance(levels[-1], kind):
        raise RuntimeError(f"the innermost transform is not a {kind.__name__}")
    return levels[-1]


def grad_increment_nesting() -> int:
    """Enter a level of `grad`; its number."""
    return int(GradLevel().__enter__().level)


def jvp_increment_nesting() -> int:
    """Enter a level of `jvp`; its number."""
    return int(JvpLevel().__enter__().level)


def grad_decrement_nesting() -> int:
    """Leave the innermost level, a `grad`; its number."""
    return leave(GradLevel)


def jvp_decrement_nesting() -> int:
    """Leave the innermost level, a `jvp`; its number."""
    return leave(JvpLevel)


def leave(kind: type) -> int:
    level = innermost(kind)
    level.__exit__(None, None, None)
    return int(level.level)


# -- wrapping --------------------------------------------------------------------------------------


def add_batch_dim(tensor: Any, in_dim: int, level: int) -> Any:
    """A tensor with a dim hidden, for the `vmap` of that number."""
    return batched(tensor, in_dim % tensor.dim(), level)


def remove_batch_dim(tensor: Any, level: int, batch_size: int, out_dim: int) -> Any:
    """A result of the `vmap` of that number with its hidden dim back; expanded if it has none."""
    return unbatched(tensor, level, batch_size, out_dim)


def unwrap_batched(tensor: Any, level: int) -> tuple[Any, int | None]:
    """(the tensor with all samples, the axis they lie along); the tensor and None if not batched
    at that level."""
    return (tensor._value, tensor._axis) if is_batched(tensor, level) else (tensor, None)


def wrap_for_grad(tensor: Any, level: int) -> Any:
    """A tensor as one of the `grad` or `jvp` of that number."""
    return LOCAL.state.transforms[level - 1].captured(tensor)


def unwrap_for_grad(tensor: Any, level: int) -> Any:
    """The tensor below, of one of the `grad` or `jvp` of that number; others as they are."""
    if isinstance(tensor, LevelTensor):
        if tensor._owner.level == level:
            return tensor._value
        return alive(tensor)
    return tensor
