"""`ScriptModule` classes: methods marked with `script_method` are compiled when one is made."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rushlight.jit.scripting.frontend import Parsed, parse_function
from rushlight.jit.scripting.resolving import Resolver, resolver_of
from rushlight.jit.switches import is_enabled


@dataclass(slots=True)
class MethodStub:
    """A method that waits to be compiled: its tree, and the names it sees."""

    name: str
    parsed: Parsed
    resolver: Resolver
    original: Any


def script_method(fn: Any) -> Any:
    """Marks a method of a `ScriptModule` as one that is compiled."""
    if not is_enabled():
        return fn
    frame = sys._getframe(1).f_back
    local: Mapping[str, Any] = {} if frame is None else frame.f_locals
    return MethodStub(fn.__name__, parse_function(fn), resolver_of(fn, dict(local)), fn)


def collect_stubs(cls: Any, bases: tuple[Any, ...], members: dict[str, Any]) -> None:
    """Takes the marked methods out of a class that is being made."""
    stubs: dict[str, MethodStub] = {}
    constants: set[str] = set(members.get("__constants__", ()))
    for base in reversed(bases):
        stubs.update(getattr(base, "_methods", {}))
        constants |= set(getattr(base, "_constants_set", ()))
    for name, value in members.items():
        if isinstance(value, MethodStub):
            delattr(cls, name)
            stubs[value.name] = value
    cls._methods = stubs
    cls._constants_set = constants


def compile_instance(module: Any) -> Any:
    """The compiled form of a module whose class has stubs; called after its `__init__`."""
    # Classes of modules are made while the compiler is imported: they need only this file.
    from rushlight.jit.scripting.recursive import Building, wrapped

    stubs: dict[str, MethodStub] = type(module)._methods
    building = Building(share=False)
    concrete = building.concrete_of(module)
    building.waiting = [
        (other, [] if other is concrete else names) for other, names in building.waiting
    ]
    for name, stub in stubs.items():
        if name not in concrete.type.methods:
            concrete.add_method(name, stub.parsed, stub.resolver)
    for text, resolver in module.__dict__.get("_sources", ()):
        concrete.define(text, resolver)
    building.compile()
    return wrapped(module, building)


def add_source(module: Any, text: str, frame: Any) -> None:
    """Methods from source text: added now, or when the module is compiled."""
    from rushlight.jit.scripting.recursive import existing

    resolver = Resolver({**frame.f_globals, **frame.f_locals})
    if "_actual_script_module" not in module.__dict__ and not hasattr(module, "_c"):
        module.__dict__.setdefault("_sources", []).append((text, resolver))
        return
    concrete = existing(module)
    for name in concrete.define(text, resolver):
        concrete.type.methods[name].ensure_defined()


def keep_attribute(module: Any, name: str, value: Any) -> None:
    """An attribute that is set in `__init__`; `Attribute` says its type."""
    from rushlight.jit.scripting.api import Attribute
    from rushlight.nn.module import Module

    if isinstance(value, Attribute):
        module.__dict__[name] = value
    else:
        Module.__setattr__(module, name, value)
