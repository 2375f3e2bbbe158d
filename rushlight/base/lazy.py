"""Modules that are imported when first used.

`sympy = lazy_import("sympy", extra="compile")` costs nothing until an attribute of it is read;
when the package is missing, that read raises `MissingExtra`, which names the pip command.
An attribute is looked up once and then kept: do not use this for modules that rebind their names.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from rushlight.base.errors import MissingExtra

# Told of each name that a namespace does not have: (module, name).
LISTENERS: list[Callable[[str, str], None]] = []


def tell_missing(module: str, name: str) -> None:
    if not QUIET.count:
        for listener in LISTENERS:
            listener(module, name)


class Quiet(threading.local):
    """Within it, this thread tells no listener: it looks through names that may be missing."""

    count = 0

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *details: object) -> None:
        self.count -= 1


QUIET = Quiet()


class LazyModule(ModuleType):
    """Stands for the module `__name__` until its first attribute is read."""

    def __init__(self, name: str, extra: str | None = None) -> None:
        super().__init__(name)
        self.__dict__["lazy_extra"] = extra

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(load(self.__name__, self.__dict__["lazy_extra"]), attribute)
        self.__dict__[attribute] = value
        return value

    def __dir__(self) -> list[str]:
        return dir(load(self.__name__, self.__dict__["lazy_extra"]))

    def __repr__(self) -> str:
        return f"<lazy module {self.__name__!r}>"


def load(name: str, extra: str | None = None) -> ModuleType:
    """Imports `name` now; a missing package that `extra` would bring raises `MissingExtra`."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        # A module missing *inside* an installed package is that package's fault: let it show.
        absent = missing.name is not None and (name + ".").startswith(missing.name + ".")
        if extra is None or not absent:
            raise
        raise MissingExtra(name, extra) from missing


def lazy_import(name: str, extra: str | None = None) -> Any:
    """The module `name`, imported when first used. `extra` is the install extra that brings it."""
    return LazyModule(name, extra)


def namespace(
    module: str,
    homes: Mapping[str, str] | None = None,
    modules: Iterable[str] = (),
    *,
    make: Callable[[str], Any] | None = None,
    names: Iterable[str] | Callable[[], Iterable[str]] = (),
    keep: bool = True,
    refused: Mapping[str, str] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose names come into being when first used.

    `homes` maps a name to the module that has it; a leading dot stands for `module`. `modules`
    are submodules or, where it is a mapping, the modules that the names in it stand for. Any other
    name is asked of `make`, which answers None for what it does not know; `names` are those it
    knows. `refused` maps the code of a refusal to the names that raise it when they are used. What
    was found is kept as an attribute, unless `keep` is false.
    """
    known = homes or {}
    codes = {name: code for code, texts in (refused or {}).items() for name in texts.split()}
    places = modules if isinstance(modules, Mapping) else {name: f".{name}" for name in modules}

    def __getattr__(name: str) -> Any:
        place = places.get(name)
        if place is not None:
            return import_module(place, module)
        home = known.get(name)
        if home is not None:
            found = getattr(import_module(home, module), name)
        elif name in codes:
            from rushlight.base.refusals import refused as refuse

            found = refuse(f"{module}.{name}", codes[name])
        else:
            found = None if make is None else make(name)
            if found is None:
                # Where another function asks this one, it may know the name itself.
                if LISTENERS and vars(sys.modules[module]).get("__getattr__") is __getattr__:
                    tell_missing(module, name)
                raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if keep:
            vars(sys.modules[module])[name] = found
        return found

    def __dir__() -> list[str]:
        made = names() if callable(names) else names
        return sorted({*vars(sys.modules[module]), *known, *places, *codes, *made})

    return __getattr__, __dir__
