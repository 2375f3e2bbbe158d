"""Modules of switches: plain module attributes that can be set for a while.

A config module lists its switches as assignments and ends with `patch = patcher(__name__)`.
Invariant: a switch that can be set has a reader. Names that are no switch are refused, and so are
other values for torch's switches whose value is held here. The one exception is tuning: how torch's
own machinery goes about its work. No result depends on it, programs set it, nothing reads it here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from rushlight.base.errors import MissingFeature, error

__all__ = ["Patch", "SwitchModule", "changed_switches", "patcher"]

# Module -> its switches as they were assigned.
DEFAULTS: dict[str, dict[str, Any]] = {}


class SwitchModule(ModuleType):
    """A module of switches. `held` maps those that cannot change to what to do instead; `tuning`
    names those that nothing reads."""

    held: Mapping[str, str]
    tuning: frozenset[str]

    def __init__(self, name: str, values: Mapping[str, object]) -> None:
        super().__init__(name)
        self.__dict__.update(values, held={}, tuning=frozenset(values))

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            if name not in self.__dict__:
                raise error("RL1210", AttributeError, module=self.__name__, name=name)
            if name in self.held and value != self.__dict__[name]:
                raise MissingFeature(
                    f"{self.__name__}.{name} = {value!r}", self.held[name], code="RL1205"
                )
        super().__setattr__(name, value)


def patcher(
    module: str,
    held: Mapping[str, str] | None = None,
    tuning: Mapping[str, object] | None = None,
) -> Callable[..., Patch]:
    """`patch(name=value)`, `patch("name", value)` or `patch({...})` for a module's switches, which
    become attributes that refuse what they cannot be. A mapping within `tuning` is a group."""
    switches_of = sys.modules[module]
    DEFAULTS[module] = {
        name: value
        for name, value in vars(switches_of).items()
        if isinstance(value, (bool, int, float, str))
        and not name.startswith("__")
        and not name.isupper()
    }
    switches_of.__dict__["held"] = dict(held or {})
    switches_of.__dict__["tuning"] = frozenset(tuning or {})
    for name, value in (tuning or {}).items():
        group = SwitchModule(f"{module}.{name}", value) if isinstance(value, Mapping) else value
        switches_of.__dict__[name] = group
    switches_of.__class__ = SwitchModule

    def patch(changes: Any = None, value: Any = None, **switches: Any) -> Patch:
        if isinstance(changes, str):
            switches = {changes: value}
        elif changes is not None:
            switches = {**changes, **switches}
        return Patch(module, switches)

    return patch


def changed_switches() -> dict[str, dict[str, Any]]:
    """The switches that are not as they were assigned, by module; one that was not imported yet
    has none."""
    found = {}
    for module, defaults in sorted(DEFAULTS.items()):
        now = vars(sys.modules[module])
        others = {name: now[name] for name, value in defaults.items() if now[name] != value}
        if others:
            found[module] = others
    return found


class Patch:
    """Other values for switches, inside a `with` block or a decorated function or class."""

    def __init__(self, module: str, switches: dict[str, Any]) -> None:
        self.module = module
        self.switches = switches
        self.before: list[dict[str, Any]] = []

    def __enter__(self) -> None:
        module = sys.modules[self.module]
        unknown = [name for name in self.switches if not hasattr(module, name)]
        if unknown:
            raise error("RL1210", AttributeError, module=self.module, name=unknown[0])
        self.before.append({name: getattr(module, name) for name in self.switches})
        try:
            for name, value in self.switches.items():
                setattr(module, name, value)
        except MissingFeature:
            self.__exit__(None, None, None)
            raise

    def __exit__(self, exc_type: Any, value: Any, trace: Any) -> None:
        module = sys.modules[self.module]
        for name, before in self.before.pop().items():
            setattr(module, name, before)

    def __call__(self, target: Any) -> Any:
        if isinstance(target, type):
            return self.around_tests(target)

        @functools.wraps(target)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with Patch(self.module, self.switches):
                return target(*args, **kwargs)

        return inside

    def around_tests(self, target: Any) -> Any:
        """A test class whose tests run with the switches set."""
        for name in dir(target):
            found = getattr(target, name)
            if name.startswith("test") and callable(found):
                setattr(target, name, self(found))
        return target
