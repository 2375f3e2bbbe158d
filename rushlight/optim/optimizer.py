"""`Optimizer`: parameter groups and per-parameter state."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import wraps
from typing import Any

from rushlight.autograd.grad_mode import enable_grad
from rushlight.base.errors import MissingFeature
from rushlight.base.naming import typename
from rushlight.core.hooks import HookDict, RemovableHandle
from rushlight.core.parameter import clear_gradient
from rushlight.core.tensor import Tensor
from rushlight.optim.grouping import group_tensors_by_device_and_dtype

__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip

HOOK_TABLES = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


# Hooks around the steps of all optimisers.
EVERY_PRE_HOOK = HookDict()
EVERY_POST_HOOK = HookDict()


def own_hooks(optimizer: Any, when: str) -> HookDict | dict[int, Any]:
    """An optimiser's hooks; a wrapper that never called `Optimizer.__init__` has none."""
    hooks: HookDict = getattr(optimizer, f"_optimizer_step_{when}_hooks", None) or {}
    return hooks


def with_step_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` with the optimiser's hooks before and after it."""

    @wraps(step)
    def hooked_step(*args: Any, **kwargs: Any) -> Any:
        optimizer = args[0]
        for hook in (*EVERY_PRE_HOOK.values(), *own_hooks(optimizer, "pre").values()):
            replaced = hook(optimizer, args, kwargs)
            if replaced is None:
                continue
            if not (isinstance(replaced, tuple) and len(replaced) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{replaced}."
                )
            args, kwargs = replaced
        result = step(*args, **kwargs)
        for hook in (*own_hooks(optimizer, "post").values(), *EVERY_POST_HOOK.values()):
            hook(optimizer, args, kwargs)
        return result

    hooked_step.hooked = True  # type: ignore[attr-defined]
    return hooked_step


def add_hook(table: HookDict, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every step of every optimiser."""
    return add_hook(EVERY_PRE_HOOK, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every step of every optimiser."""
    return add_hook(EVERY_POST_HOOK, hook)


# Option -> what error messages call it.
NOT_NEGATIVE = {
    "lr": "learning rate",
    "eps": "epsilon value",
    "momentum": "momentum value",
    "weight_decay": "weight_decay value",
    "lr_decay": "lr_decay value",
    "momentum_decay": "momentum_decay value",
    "initial_accumulator_value": "initial_accumulator_value value",
    "alpha": "alpha value",
}


def check_lr(lr: Any) -> None:
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_options(**options: Any) -> None:
    """Refuse negative numbers, and ways to run a step that cannot be had."""
    check_lr(options.get("lr", 0.0))
    for option, name in NOT_NEGATIVE.items():
        if options.get(option, 0.0) < 0.0:
            raise ValueError(f"Invalid {name}: {options[option]}")
    for position, beta in enumerate(options.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {position}: {beta}")
    if options.get("fused") and options.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    if options.get("differentiable"):
        learned = [name for name, value in options.items() if asks_for_gradient(value)]
        if learned:
            raise MissingFeature(
                f"gradients for an optimiser's option ({', '.join(learned)})", code="RL1102"
            )


def asks_for_gradient(value: Any) -> bool:
    entries = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(entry, Tensor) and entry.requires_grad for entry in entries)


class Optimizer:
    """Base of optimisers: subclasses define `step`."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "step" in cls.__dict__:
            cls.step = with_step_hooks(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        self.defaults = defaults
        self._make_hook_tables()
        self.state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    # torch: what libraries call where they set an optimiser up by hand.
    profile_hook_step = staticmethod(with_step_hooks)
    _group_tensors_by_device_and_dtype = staticmethod(group_tensors_by_device_and_dtype)

    def _cuda_graph_capture_health_check(self) -> None:
        """torch: steps of users call it; there is no recording of devices to disturb."""

    _accelerator_graph_capture_health_check = _cuda_graph_capture_health_check

    def _patch_step_function(self) -> None:
        """Give the class's step its hooks, where it was put there afterwards."""
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = with_step_hooks(cls.step)  # type: ignore[method-assign]

    def _make_hook_tables(self) -> None:
        for name in HOOK_TABLES:
            setattr(self, name, HookDict())

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self.convert_old_state()

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        group["params"] = [params] if isinstance(params, Tensor) else list(params)
        named = [isinstance(value, tuple) for value in group["params"]]
        if any(named):
            if not all(named):
                raise ValueError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            group["param_names"] = [name for name, _ in group["params"]]
            group["params"] = [value for _, value in group["params"]]
        for value in group["params"]:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{typename(value)}"
                )
            differentiable = self.defaults.get("differentiable")
            if not (differentiable or value.is_leaf or value.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        if len(set(group["params"])) < len(group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=3,
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                how = "with names" if "param_names" in group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {how} to the optimizer"
                )
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
                    clear_gradient(value.grad)

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
        """State and groups, with numbers in the place of parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        result = self._plain_state_dict()
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            result = result if replaced is None else replaced
        return result

    def _plain_state_dict(self) -> dict[str, Any]:
        # torch: a parameter has the last of its numbers in the first group that holds it.
        numbers: dict[int, int] = {}
        count = 0
        for group in self.param_groups:
            fresh = {id(value): count + i for i, value in enumerate(group["params"])}
            numbers = {**fresh, **numbers}
            count += len(group["params"])
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
        """Take over what `state_dict` of a like optimiser gave."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
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
            owner = by_number.get(key, key)
            self.state[owner] = loaded(value, owner, "")
        self.convert_old_state()
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def convert_old_state(self) -> None:
        """Bring state that an earlier release saved into today's form."""

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines += ["", f"Parameter Group {number}"] if number else [f"Parameter Group {number}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def loaded(value: Any, owner: Any, name: str) -> Any:
    """A copy of saved state; tensors take the dtype of their parameter, except step counts."""
    if isinstance(value, dict):
        return {key: loaded(entry, owner, key) for key, entry in value.items()}
    if not isinstance(value, Tensor):
        return value
    if name == "step" or not isinstance(owner, Tensor) or not owner.is_floating_point():
        return value.clone()
    return value.to(owner.dtype, copy=True)
