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
from rushlight.base.lazy import namespace
from rushlight.core import geometry
from rushlight.core.duals import end_view, without_tangents
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


def current_level() -> int:
    """The level this thread is in, -1 for none."""
    return -1 if LOCAL.state.duals is None else 0


# torch: a variable there, and so different from one moment to the next.
__getattr__, __dir__ = namespace(
    __name__, make=lambda name: current_level() if name == "_current_level" else None, keep=False
)


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a dual tensor."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Start forward-mode differentiation; returns the level."""
    return forward.enter_level()


def exit_dual_level(*, level: int | None = None) -> None:
    """Forget all tangents of the level."""
    if level is None:
        level = current_level()
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    forward.exit_level(level)


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """A dual tensor: an alias of `tensor` that carries the given tangent."""
    if level is None:
        level = current_level()
    if level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    if level != current_level():
        raise RuntimeError("Invalid level given to _make_dual")
    check_dual(tensor, tangent)
    if forward.tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
            f"same level {level} is not supported."
        )
    if forward.tangent_of(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level"
            f"{level} is not supported."
        )
    dual = functions.alias(tensor)
    end_view(dual)
    forward.set_tangent(dual, tangent)
    return dual


def check_dual(tensor: Any, tangent: Any) -> None:
    """Refuse what cannot be a tangent of a tensor."""
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {value.dtype}"
            )
    if not geometry.same_sizes(tensor.shape, tangent.shape):
        raise RuntimeError(
            f"Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the "
            f"given forward gradient is of size {list(tangent.shape)}."
        )


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and tangent of a dual tensor; the tangent is None where there is none."""
    if level is None:
        level = current_level()
    if level < 0:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(
            "_unpack_dual(): argument 'dual' (position 1) must be Tensor, not "
            f"{type(tensor).__name__}"
        )
    tangent = forward.tangent_of(tensor)
    primal = without_tangents(functions.alias, tensor)
    end_view(primal)
    return UnpackedDualTensor(primal, tangent)


class dual_level:
    """Context manager of a forward-mode level."""

    def __enter__(self) -> int:
        self.level = enter_dual_level()
        return self.level

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
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

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        LOCAL.state.forward_enabled = self.previous
