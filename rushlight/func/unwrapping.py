"""What is inside of the tensors that transforms make."""

from __future__ import annotations

from typing import Any

from rushlight.core.batching import BatchedTensor
from rushlight.core.functional import FunctionalTensor
from rushlight.core.levels import LevelTensor

__all__ = ["debug_unwrap", "is_wrapped", "unwrapped"]


def is_wrapped(tensor: Any) -> bool:
    """Whether a transform made this tensor."""
    return isinstance(tensor, (BatchedTensor, LevelTensor, FunctionalTensor))


def unwrapped(tensor: Any) -> Any:
    """The tensor of the levels below that a transform's tensor stands for."""
    if isinstance(tensor, FunctionalTensor):
        return tensor.functional_value
    if not is_wrapped(tensor):
        raise RuntimeError(f"Expected a tensor of a transform, got {type(tensor).__name__}")
    return tensor._value


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
