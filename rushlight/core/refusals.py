"""What Tensor's own attributes and methods refuse, and in which words."""

from __future__ import annotations

from typing import Any

__all__ = ["check_grad_assignment", "dim_type_error"]


def dim_type_error(name: str, dim: Any) -> TypeError:
    kind = type(dim).__name__
    return TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {kind}")


def check_grad_assignment(tensor: Any, value: Any, is_tensor: bool) -> None:
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
    if value.shape != tensor.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(value.shape)}' to a tensor of size "
            f"'{list(tensor.shape)}'. Please ensure that the gradient and the tensor are the same "
            "size"
        )
