"""How values of a state dict become those of a module's parameters and buffers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.attributes import swap_tensors
from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.nn.conversion import Conversion

if TYPE_CHECKING:
    from rushlight.nn.module import Module

__all__ = ["_IncompatibleKeys", "load_tree", "load_value"]


class _IncompatibleKeys(NamedTuple):
    """What `load_state_dict` found missing and unexpected."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


def load_tree(
    module: Module,
    values: Mapping[str, Any],
    prefix: str,
    metadata: Any,
    assign: bool,
    found: _IncompatibleKeys,
    errors: list[str],
) -> None:
    """Loads a module and what it holds; a function of the module, since a closure that calls
    itself would keep the state dict until garbage is collected."""
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    missing, unexpected = found
    module._load_from_state_dict(values, prefix, local, True, missing, unexpected, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            its = {key: value for key, value in values.items() if key.startswith(inner)}
            load_tree(child, its, inner, metadata, assign, found, errors)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, found) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


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
            if Conversion.swaps:
                swap_in(own, value, assign)
            elif not assign:
                own.copy_(value)
            else:
                if isinstance(own, Parameter):
                    value = as_parameter(value, own.requires_grad)
                setattr(module, name, value)
    except Exception as error:
        action = "swapping" if Conversion.swaps else "copying"
        errors.append(
            f'While {action} the parameter named "{key}", whose dimensions in the model are '
            f"{own.size()} and whose dimensions in the checkpoint are {value.size()}, an exception "
            f"occurred : {error.args}."
        )


def as_parameter(value: Any, requires_grad: bool) -> Any:
    if isinstance(value, Parameter):
        return value.requires_grad_(requires_grad)
    return Parameter(value, requires_grad=requires_grad)


def swap_in(own: Any, value: Any, assign: bool) -> None:
    """The tensor stays the same object and changes places with what it makes of `value`."""
    loaded = own.module_load(value, assign=assign)
    if loaded is value or loaded is own:
        raise RuntimeError(
            "module_load returned one of self or other, please .detach() the result if returning "
            "one of the inputs in module_load"
        )
    if isinstance(own, Parameter):
        loaded = as_parameter(loaded, own.requires_grad)
    swap_tensors(own, loaded)
