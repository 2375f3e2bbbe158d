"""Hooks that see what any module registers, and may put something else in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.hooks import HookDict, RemovableHandle

__all__ = [
    "register_module_buffer_registration_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip

Hook = Callable[[Any, str, Any], Any]
PARAMETER_HOOKS = HookDict()
BUFFER_HOOKS = HookDict()
MODULE_HOOKS = HookDict()


def passed_by(hooks: HookDict, module: Any, name: str, value: Any) -> Any:
    """The value as the hooks leave it."""
    for hook in hooks.values():
        replaced = hook(module, name, value)
        if replaced is not None:
            value = replaced
    return value


def registered(hooks: HookDict, hook: Hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, parameter)` for every parameter that a module registers."""
    return registered(PARAMETER_HOOKS, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` for every buffer that a module registers."""
    return registered(BUFFER_HOOKS, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` for every submodule that a module registers."""
    return registered(MODULE_HOOKS, hook)
