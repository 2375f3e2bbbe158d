"""Modules that are imported when first used.

`sympy = lazy_import("sympy", extra="compile")` costs nothing until an attribute of it is read;
when the package is missing, that read raises `MissingExtra`, which names the pip command.
An attribute is looked up once and then kept: do not use this for modules that rebind their names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from rushlight.base.errors import MissingExtra


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
    package: str, homes: Mapping[str, str] | None = None, modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose names are imported when first used.

    `homes` maps a name to the module that has it; a leading dot stands for `package`. `modules`
    are submodules, or where it is a mapping, the modules that the names in it stand for.
    """
    names = homes or {}
    places = modules if isinstance(modules, Mapping) else {name: f".{name}" for name in modules}

    def get(name: str) -> Any:
        home = places.get(name)
        if home is not None:
            return import_module(home, package)
        home = names.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home, package), name)
        vars(sys.modules[package])[name] = found
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names, *places})

    return get, list_names
