"""Hook tables of nodes and tensors, and the handle that removes a hook."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any

__all__ = ["NOTED", "NodeHooks", "OwnedHook", "RemovableHandle"]


class Noted:
    """Whether any hook was ever registered: until then nobody needs to look for one."""

    __slots__ = ("hooks",)

    def __init__(self) -> None:
        self.hooks = False


NOTED = Noted()


class HookDict(OrderedDict[int, Callable[..., Any]]):
    """An ordered table of hooks by handle id."""

    def __setitem__(self, key: int, hook: Callable[..., Any]) -> None:
        NOTED.hooks = True
        super().__setitem__(key, hook)


# What a handle takes its hook out of.
HookTable = MutableMapping[int, Any]


class OwnedHook:
    """A hook that is called with its owner first, and does not keep it alive."""

    def __init__(self, hook: Callable[..., Any], owner: Any) -> None:
        self.hook = hook
        self.owner = weakref.ref(owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        owner = self.owner()
        if owner is None:
            raise RuntimeError("the module that this hook was registered on is gone")
        return self.hook(owner, *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # The owner comes as state: it holds the table that holds this hook.
        return OwnedHook.__new__, (OwnedHook,), (self.hook, self.owner())

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.hook = state[0]
        self.owner = weakref.ref(state[1])


class RemovableHandle:
    """Returned by every `register_*`; `remove()` may be called any number of times."""

    next_id = 0
    ids = itertools.count()

    def __init__(
        self, hooks_dict: HookTable, *, extra_dict: HookTable | list[HookTable] | None = None
    ) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = next(RemovableHandle.ids)
        RemovableHandle.next_id = self.id + 1
        self.extra_dict_ref: tuple[Any, ...] = ()
        if isinstance(extra_dict, dict):
            self.extra_dict_ref = (weakref.ref(extra_dict),)
        elif isinstance(extra_dict, list):
            self.extra_dict_ref = tuple(weakref.ref(entry) for entry in extra_dict)

    def remove(self) -> None:
        hooks = self.hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self.id, None)
        for ref in self.extra_dict_ref:
            extra = ref()
            if extra is not None:
                extra.pop(self.id, None)

    def __getstate__(self) -> Any:
        return (self.hooks_dict_ref(), self.id)

    def __setstate__(self, state: tuple[HookTable | None, int]) -> None:
        hooks, self.id = state[0], state[1]
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref = ()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, exc_type: object, value: object, trace: object) -> None:
        self.remove()


class NodeHooks:
    """What runs around one node: per-output tensor hooks, retained grads, pre- and post-hooks."""

    __slots__ = ("__weakref__", "post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.tensor: dict[int, HookDict] = {}
        self.retain: dict[int, Any] = {}
        self.pre: HookDict | None = None
        self.post: HookDict | None = None


def add_hook(table: HookDict, hook: Callable[..., Any]) -> RemovableHandle:
    """Append a hook and return its handle."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle
