"""How values of a state dict become those of a module's parameters and buffers."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.nn.module import Module

__all__ = ["load_value"]


def load_value(
    module: Module, name: str, own: Any, value: Any, key: str, assign: bool, errors: list[str]
) -> None:
    from rushlight.nn.parameter import is_lazy

    if not isinstance(value, Tensor):
        errors.append(
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(value)}"
        )
        return
    if is_lazy(own) and is_lazy(value):
        # Neither has a shape or values: they are alike already.
        if assign:
            setattr(module, name, value)
        return
    if own.dim() == 0 and value.dim() == 1 and value.shape[0] == 1:
        value = value[0]  # type: ignore[index]
    if own.shape != value.shape:
        errors.append(
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {own.shape}."
        )
        return
    if own.is_meta and not value.is_meta and not assign:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter "
            "in the current model, which is a no-op. (Did you mean to pass `assign=True` to assign "
            "items in the state dictionary to their corresponding key in the module instead of "
            "copying them in place?)",
            stacklevel=2,
        )
    try:
        with no_grad():
            if not assign:
                own.copy_(value)
                return
            if isinstance(own, Parameter):
                if isinstance(value, Parameter):
                    value.requires_grad_(own.requires_grad)
                else:
                    value = Parameter(value, requires_grad=own.requires_grad)
            setattr(module, name, value)
    except Exception as error:
        errors.append(
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{own.size()} and whose dimensions in the checkpoint are {value.size()}, an exception "
            f"occurred : {error.args}."
        )
