"""`Optimizer`: parameter groups and per-parameter state."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from rushlight.autograd.grad_mode import enable_grad
from rushlight.core.tensor import Tensor

__all__ = ["Optimizer"]


class Optimizer:
    """Base of optimisers: subclasses define `step`."""

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        for value in group["params"]:
            if not isinstance(value, Tensor):
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{type(value).__name__}"
                )
            if not value.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        known = {value for other in self.param_groups for value in other["params"]}
        if not known.isdisjoint(group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for value in group["params"]:
                if value.grad is None:
                    continue
                if set_to_none:
                    value.grad = None
                else:
                    value.grad.detach_()
                    value.grad.zero_()

    def step(self, closure: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.step")

    def run_closure(self, closure: Any) -> Any:
        if closure is None:
            return None
        with enable_grad():
            return closure()

    def with_gradients(self, group: dict[str, Any]) -> list[Any]:
        return [value for value in group["params"] if value.grad is not None]

    def state_dict(self) -> dict[str, Any]:
        numbers = {
            id(value): number
            for number, value in enumerate(v for g in self.param_groups for v in g["params"])
        }
        groups = [
            {
                **{name: value for name, value in group.items() if name != "params"},
                "params": [numbers[id(value)] for value in group["params"]],
            }
            for group in self.param_groups
        ]
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        given = state_dict["param_groups"]
        if len(given) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(
            len(a["params"]) != len(b["params"])
            for a, b in zip(given, self.param_groups, strict=True)
        ):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        by_number: dict[Any, Any] = {}
        for saved, own in zip(given, self.param_groups, strict=True):
            by_number.update(zip(saved["params"], own["params"], strict=True))
            own.update({name: value for name, value in saved.items() if name != "params"})
        self.state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            self.state[by_number.get(key, key)] = {
                name: entry.clone() if isinstance(entry, Tensor) else entry
                for name, entry in value.items()
            }

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])
