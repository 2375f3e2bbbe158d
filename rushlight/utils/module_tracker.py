"""`ModuleTracker`: which modules are being run, forwards and backwards."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from rushlight.autograd.engine import Engine, current_graph_task_id
from rushlight.autograd.graph import register_multi_grad_hook
from rushlight.base import pytree
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.nn.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)

__all__ = ["ModuleTracker"]

Hook = Callable[[], None]


class ModuleTracker:
    """Within it, `parents` holds the names of the modules being run, and "Global".

    `is_bw` says whether a backward is running.
    """

    def __init__(self) -> None:
        self.parents: set[str] = {"Global"}
        self.names: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self.seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self.handles: list[Any] = []
        self.has_callback = False

    @property
    def is_bw(self) -> bool:
        return current_graph_task_id() != -1

    def name_of(self, module: Any) -> str:
        """A module's name: its path from the first module that was run."""
        if module not in self.names:
            self.names[module] = type(module).__name__
        name = self.names[module]
        if module not in self.seen:
            for child_name, child in module.named_children():
                self.names[child] = f"{name}.{child_name}"
                self.name_of(child)
            self.seen.add(module)
        return name

    def enter(self, name: str, is_backward: bool) -> Callable[..., None]:
        def on_enter(*args: Any) -> None:
            if is_backward:
                self.clean_up_after_backward()
            self.parents.add(name)

        return on_enter

    def leave(self, name: str) -> Callable[..., None]:
        def on_leave(*args: Any) -> None:
            self.parents.discard(name)

        return on_leave

    def clean_up_after_backward(self) -> None:
        """A backward leaves through inputs, of which some may need no gradient."""
        if self.has_callback:
            return

        def clean_up() -> None:
            self.parents = {"Global"}
            self.has_callback = False

        Engine().queue_callback(clean_up)
        self.has_callback = True

    def before(self, module: Any, inputs: Any) -> None:
        name = self.name_of(module)
        self.enter(name, is_backward=False)()
        tensors = followed(inputs)
        if tensors:
            self.handles.append(register_multi_grad_hook(tensors, self.leave(name)))

    def after(self, module: Any, inputs: Any, output: Any) -> None:
        name = self.name_of(module)
        self.leave(name)()
        tensors = followed(output)
        if tensors:
            hook = self.enter(name, is_backward=True)
            self.handles.append(register_multi_grad_hook(tensors, hook, mode="any"))

    def __enter__(self) -> ModuleTracker:
        self.handles = [
            register_module_forward_pre_hook(self.before),
            register_module_forward_hook(self.after),
        ]
        return self

    def __exit__(self, *details: Any) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles = []


def followed(values: Any) -> list[Any]:
    """The tensors among values whose gradients are computed."""
    if not LOCAL.state.grad:
        return []
    leaves = pytree.tree_leaves(values)
    return [each for each in leaves if isinstance(each, Tensor) and each.requires_grad]
