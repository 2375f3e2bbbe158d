"""What Tensor's own attributes and methods refuse, and in which words; and what shape rules refuse
for want of values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import annotate, error
from rushlight.core import geometry, ports
from rushlight.core.device import sparse_coo, strided
from rushlight.core.state import LOCAL

if TYPE_CHECKING:
    from rushlight.core.op import OpOverload
    from rushlight.core.tensor import Tensor
    from rushlight.symbolic.numbers import IntLike

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "check_data_assignment",
    "check_grad_assignment",
    "check_outside_transforms",
    "check_wrapper_class",
    "dim_type_error",
    "memory_kind",
    "unknown_size",
]


def dim_type_error(name: str, dim: object) -> TypeError:
    class_name = type(dim).__name__
    return TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {class_name}")


def check_grad_assignment(tensor: Tensor, value: Any, is_tensor: bool) -> None:
    """Refuse a gradient that does not match its tensor."""
    if not is_tensor:
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type "
            f"{type(value).__name__}"
        )
    if value is tensor:
        raise RuntimeError("can't assign Variable as its own grad")
    if value.dtype is not tensor.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{value.dtype}' to a tensor with dtype "
            f"'{tensor.dtype}'. The gradient must match the tensor's dtype (tensor.to(dtype) "
            "casts it)."
        )
    if value.device != tensor.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{value.device.type}' to a tensor "
            f"with device type '{tensor.device.type}'. Please ensure that the gradient and the "
            "tensor are on the same device"
        )
    if not geometry.same_sizes(value.shape, tensor.shape):
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
            f"'{list(tensor.shape)}'. Please ensure that the gradient and the tensor are the same "
            "size"
        )


# Appended to a method's name: what of autograd transforms keep to themselves.
IN_TRANSFORM = (
    " inside of a function being transformed by a functorch transform. This is unsupported, please "
    "attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call "
)
NO_REQUIRES_GRAD = (
    "You are attempting to call Tensor.requires_grad_() (or perhaps using "
    f"torch.autograd.functional.* APIs){IN_TRANSFORM}requires_grad_() outside of a function being "
    "transformed instead."
)
NO_RETAIN_GRAD = (
    f"You are attempting to call Tensor.retain_grad(){IN_TRANSFORM}retain_grad() outside of a "
    "function being transformed instead."
)


def check_outside_transforms(words: str) -> None:
    """Refuse what `torch.func` does not let functions do. The plain vmap behind batched gradients
    leaves autograd to its user."""
    transforms = LOCAL.state.transforms
    if transforms and not transforms[-1].plain:
        raise RuntimeError(words)


def memory_kind(tensor: Tensor) -> str:
    """What a tensor's memory is: only tensors of one kind can take over another's."""
    if tensor.is_quantized:
        return "quantized"
    layout = tensor.layout
    if layout is strided:
        return "meta" if tensor.device.type == "meta" else "dense"
    return "coordinates" if layout is sparse_coo else "compressed"


def check_data_assignment(tensor: Tensor, value: Tensor) -> None:
    """torch: a tensor of a transform keeps the memory it stands for, and lends it to no other."""
    for given in (tensor, value):
        if type(given) is ports.level_tensor:
            raise RuntimeError(
                "mutating directly with `.data` inside functorch transform is not allowed."
            )
    if tensor.layout is not value.layout or memory_kind(tensor) != memory_kind(value):
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have "
            "incompatible tensor type."
        )


class DynamicOutputShapeException(RuntimeError):
    """The sizes of an op's result depend on values that a fake tensor does not have."""

    def __init__(self, func: OpOverload | str) -> None:
        self.func = func
        super().__init__(func)
        annotate(self, "RL0709")


class DataDependentOutputException(RuntimeError):
    """An op's answer is a number read from memory that a fake tensor does not have."""

    def __init__(self, func: OpOverload | str) -> None:
        self.func = func
        super().__init__(func)
        annotate(self, "RL0710")


def unknown_size(op: OpOverload, what: str, most: IntLike | None = None, least: int = 0) -> IntLike:
    """For shape rules: a size that depends on values which the operands do not have. An unbacked
    symbol where the running fake mode has a shape environment, an error otherwise. `most` bounds
    it where that has a bound; torch: one above 2, so that it still can be any size."""
    mode = LOCAL.state.fake
    if mode is None:
        raise error(
            "RL0403", NotImplementedError, what=f"{op.base_name}(): {what} depends on values"
        )
    if mode.shape_env is None:
        raise DynamicOutputShapeException(op)
    from rushlight.symbolic import constrain_range_for_size

    size = mode.shape_env.create_unbacked_symint()
    if most is not None and not isinstance(most, int):
        upper = mode.shape_env.bound_sympy(most.node.expr).upper
        most = int(upper) if math.isfinite(upper) else None
    bound = most if most is not None and most > 2 else None
    constrain_range_for_size(size, min=least or None, max=bound)
    return size


def check_wrapper_class(cls: Any, size: object) -> None:
    """Refuse a class whose tensors cannot be without memory of their own, and what is no size."""
    from rushlight.core.dispatch import dispatches
    from rushlight.core.tensor import Tensor

    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            "possible. Make sure your class inherits from Tensor."
        )
    if not dispatches(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    if not isinstance(size, (tuple, list)):
        raise TypeError(
            "_make_wrapper_subclass(): argument 'size' (position 2) must be tuple of ints, not "
            f"{type(size).__name__}"
        )
