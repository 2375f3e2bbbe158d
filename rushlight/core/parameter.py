"""`Parameter`: the tensors that modules train."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.dtype import float32
from rushlight.core.tensor import PLAIN, Tensor, TensorType, set_requires_grad, wrap

__all__ = ["Parameter"]


class ParameterType(TensorType):
    def __instancecheck__(cls, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        # A marked tensor of another class is a Parameter, but of no special kind.
        is_plain = cls is Parameter and isinstance(instance, Tensor)
        return is_plain and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=ParameterType):
    """A tensor that a Module counts among its parameters."""

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = wrap(np.empty((0,), np.float32), float32)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter expects a Tensor, got {type(data).__name__}")
        result = data.detach()
        given, kept = type(data), type(result)
        if kept is not given:
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {given.__name__} requires "
                "that detach() returns an instance of the same type, but return type "
                f"{kept.__name__} was found instead. To use the type as a Parameter, "
                "please correct the detach() semantics defined by its __torch_dispatch__() "
                "implementation."
            )
        set_requires_grad(result, requires_grad)
        result._is_param = True
        return result

    __torch_function__ = None  # type: ignore[assignment]

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        from rushlight.core.format import parameter_str

        return parameter_str(self)


PLAIN.add(Parameter)


def clear_gradient(grad: Tensor) -> None:
    """Make a gradient zero in its memory, without history; it may be a view."""
    if grad.requires_grad:
        if grad.grad_fn is None:
            grad.requires_grad_(False)
        else:
            grad.detach_()
    grad.zero_()
