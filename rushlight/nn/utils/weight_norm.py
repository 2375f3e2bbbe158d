"""torch: the older weight norm, by a hook before `forward`; see `parametrizations.weight_norm`."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.opset import functions

__all__ = ["WeightNorm", "remove_weight_norm", "weight_norm"]


class WeightNorm:
    """A hook that computes a weight from its norms `<name>_g` and its direction `<name>_v`."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Any) -> Any:
        g, v = getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v")
        return v * (g / functions.norm_except_dim(v, 2, self.dim))

    @staticmethod
    def apply(module: Any, name: str, dim: int | None) -> WeightNorm:
        warnings.warn(
            "`torch.nn.utils.weight_norm` is deprecated in favor of "
            "`torch.nn.utils.parametrizations.weight_norm`.",
            FutureWarning,
            stacklevel=3,
        )
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, WeightNorm) and hook.name == name:
                raise RuntimeError(
                    f"Cannot register two weight_norm hooks on the same parameter {name}"
                )
        made = WeightNorm(name, dim)
        weight = getattr(module, name)
        check_initialized(weight, "WeightNorm", "weight")
        del module._parameters[name]
        norms = functions.norm_except_dim(weight, 2, made.dim)
        module.register_parameter(f"{name}_g", Parameter(norms.data))
        module.register_parameter(f"{name}_v", Parameter(weight.data))
        setattr(module, name, made.compute_weight(module))
        module.register_forward_pre_hook(made)
        return made

    def remove(self, module: Any) -> None:
        weight = self.compute_weight(module)
        delattr(module, self.name)
        for part in ("_g", "_v"):
            del module._parameters[self.name + part]
        setattr(module, self.name, Parameter(weight.data))

    def __call__(self, module: Any, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def check_initialized(weight: Any, what: str, kind: str) -> None:
    from rushlight.nn.parameter import is_lazy

    if is_lazy(weight):
        raise ValueError(
            f"The module passed to `{what}` can't have uninitialized parameters. Make sure to run "
            f"the dummy forward before applying {kind} normalization"
        )


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Train a parameter's norms along `dim` and its direction apart."""
    WeightNorm.apply(module, name, dim)
    return module


def remove_weight_norm(module: Any, name: str = "weight") -> Any:
    """Make the weight a plain parameter again."""
    for key, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, WeightNorm) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {module}")
