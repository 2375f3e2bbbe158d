"""How `Module.to` and its like put converted tensors in place.

By default a parameter stays the same object and takes over the converted tensor's memory, unless
that is of another kind; `torch.__future__` can ask for a new object, or for both tensors to change
places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.attributes import swap_tensors
from rushlight.core.parameter import Parameter
from rushlight.core.refusals import memory_kind

__all__ = ["Conversion", "convert_parameters"]


class Conversion:
    """What `torch.__future__` has asked for."""

    overwrites = False
    swaps = False


def convert_parameters(parameters: dict[str, Any], convert: Callable[[Any], Any]) -> None:
    for name, value in parameters.items():
        if value is None:
            continue
        with no_grad():
            converted = convert(value)
        grad = value.grad
        # What wraps other tensors is more than its data.
        if Conversion.swaps or hasattr(type(converted), "__tensor_flatten__"):
            # torch: the gradient goes its own way, since it hangs on the tensor that leaves.
            value.grad = None
            if converted is not value:
                swap_tensors(value, Parameter(converted, value.requires_grad))
            if grad is not None:
                with no_grad():
                    changed = convert(grad)
                if changed is not grad:
                    swap_tensors(grad, changed.requires_grad_(grad.requires_grad))
                value.grad = grad
            continue
        if keeps_object(value, converted):
            with no_grad():
                value.data = converted
            made = value
        else:
            made = parameters[name] = Parameter(converted, value.requires_grad)
        if grad is None:
            continue
        with no_grad():
            changed = convert(grad)
            if made is value and keeps_object(grad, changed):
                requires = grad.requires_grad
                value.grad.data = changed
                value.grad.requires_grad_(requires)
            else:
                made.grad = changed.requires_grad_(grad.requires_grad)


def keeps_object(value: Any, converted: Any) -> bool:
    """Whether a tensor takes over what it was converted to, as far as it can."""
    return not Conversion.overwrites and memory_kind(value) == memory_kind(converted)
