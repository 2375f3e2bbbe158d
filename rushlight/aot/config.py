"""Switches of ahead-of-time compilation; set them here, or for a while with `patch`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

# Recompute facts after each rewriting of the arguments, and check them; guard on requires_grad.
debug_assert = False
enable_autograd_cache = False
strict_autograd_cache = False
functionalize_rng_ops = False
cse = True
recompute_views = False
view_replay_for_aliased_outputs = True
fake_tensor_allow_unsafe_data_ptr_access = True


class patch:
    """Other values for switches, inside a `with` block or a decorated function.

    >>> with patch(debug_assert=True):
    ...     pass
    """

    def __init__(self, changes: Any = None, value: Any = None, **switches: Any) -> None:
        if isinstance(changes, str):
            switches = {changes: value}
        elif changes is not None:
            switches = {**changes, **switches}
        self.switches = switches
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        module = sys.modules[__name__]
        unknown = [name for name in self.switches if not hasattr(module, name)]
        if unknown:
            raise AttributeError(f"there is no switch named {unknown[0]!r}")
        self.before.append({name: getattr(module, name) for name in self.switches})
        for name, value in self.switches.items():
            setattr(module, name, value)

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        module = sys.modules[__name__]
        for name, before in self.before.pop().items():
            setattr(module, name, before)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside
