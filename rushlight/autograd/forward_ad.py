"""Forward-mode automatic differentiation: torch's public names.

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor([2.0]), torch.tensor([1.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([4.])
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.autograd import forward
from rushlight.autograd.grad_mode import Mode
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor, strides_of
from rushlight.opset import functions

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Start forward-mode differentiation; returns the level."""
    global _current_level
    level = forward.enter_level()
    _current_level = level
    return level


def exit_dual_level(*, level: int | None = None) -> None:
    """Forget all tangents of the level."""
    global _current_level
    forward.exit_level(_current_level if level is None else level)
    _current_level = -1


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A dual tensor with the values of `tensor` and the given tangent."""
    if level is None:
        level = _current_level
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for name, value in (("tensor", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the given "
            f"forward gradient is of size {list(tangent.shape)}."
        )
    if tensor.dtype is not tangent.dtype:
        raise RuntimeError(
            f"Trying to set a forward gradient of dtype {tangent.dtype} on a Tensor of dtype "
            f"{tensor.dtype}; they must be the same."
        )
    if forward.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
            f"level {level} is not supported."
        )
    dual = functions.alias(tensor)
    if strides_of(tangent) != strides_of(tensor) and not tangent._requires_grad:
        fitted = functions.zeros_like(tensor.detach())
        fitted.copy_(tangent)
        tangent = fitted
    forward.set_tangent(dual, tangent)
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and tangent of a dual tensor; the tangent is None where there is none."""
    if level is None:
        level = _current_level
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    state = LOCAL.state
    before = state.forward_level
    state.forward_level = -1
    state.refresh()
    try:
        primal = functions.alias(tensor) if isinstance(tensor, Tensor) else tensor
    finally:
        state.forward_level = before
        state.refresh()
    return UnpackedDualTensor(primal, forward.tangent_of(tensor))


class dual_level:
    """Context manager of a forward-mode level."""

    def __enter__(self) -> int:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        exit_dual_level(level=self.level)


def _is_fwd_grad_enabled() -> bool:
    return LOCAL.state.forward_enabled


class _set_fwd_grad_enabled(Mode):
    """Whether tangents are pushed, for this thread."""

    def __init__(self, mode: bool) -> None:
        self.previous = LOCAL.state.forward_enabled
        self.mode = mode
        LOCAL.state.forward_enabled = mode

    def clone(self) -> Any:
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        LOCAL.state.forward_enabled = self.previous
