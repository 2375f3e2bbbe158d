"""torch.utils.hooks: handles of registered hooks."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core.hooks import RemovableHandle
from rushlight.nn import hooks

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


def unserializable_hook(f: Any) -> Any:
    """Mark a hook as one that may be dropped without a word when its tensor is saved."""
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor: Any) -> None:
    """Say which hooks of a tensor will be lost when it is saved."""
    if not tensor._backward_hooks:
        return
    for hook in tensor._backward_hooks.values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=2,
            )


class BackwardHook(hooks.BackwardHook):
    """Calls hooks with the gradients of a module's inputs and outputs: give `setup_input_hook` the
    arguments and `setup_output_hook` the result, and go on with what they return."""

    def __init__(self, module: Any, user_hooks: Any, user_pre_hooks: Any) -> None:
        super().__init__(module)
        self.hooks = list(user_hooks)
        self.pre_hooks = list(user_pre_hooks)

    setup_input_hook = hooks.BackwardHook.around_inputs
    setup_output_hook = hooks.BackwardHook.around_outputs
