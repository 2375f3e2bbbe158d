"""Lets code written for `torch` run on rushlight.

`install()` makes `import torch.x.y` give the module object of `rushlight.x.y`; private torch paths
come from the table in `aliases.py`. A torch package that is installed beside is never imported.
"""

from __future__ import annotations

import multiprocessing
from importlib import import_module
from types import ModuleType

import rushlight
from rushlight.compat.finder import AliasFinder

__all__ = ["alias_names", "install", "is_installed", "uninstall"]

_active: AliasFinder | None = None


OWN_VERSION = rushlight.__version__


def install() -> None:
    """Make the names `torch` and `functorch` mean rushlight in this process; repeating is harmless.

    Call it before anything imports torch: two libraries under one name would mix silently.
    """
    global _active
    if _active is None:
        from rushlight.compat.aliases import ALIASES, HIDDEN, ROOTS
        from rushlight.compat.layers import classes_in

        finder = AliasFinder("rushlight", ROOTS, ALIASES, HIDDEN, classes_in)
        finder.install()
        _active = finder
        from rushlight.compat.distribution import VERSION
        from rushlight.torch_version import TorchVersion

        rushlight.__version__ = TorchVersion(VERSION)
        from rushlight.compat import identity

        identity.assume()
        _forget_star()
        multiprocessing.__getattr__ = _part_of_multiprocessing  # type: ignore[attr-defined]


def uninstall() -> None:
    """Undo `install()`: forget every module known under a torch name."""
    global _active
    if _active is not None:
        from rushlight.compat import identity

        identity.restore()
        _active.uninstall()
        _active = None
        vars(multiprocessing).pop("__getattr__", None)
        rushlight.__version__ = OWN_VERSION
        _forget_star()


def _part_of_multiprocessing(name: str) -> ModuleType:
    """torch: importing it imports these, so programs read them off `multiprocessing`."""
    if name in ("connection", "managers", "pool", "resource_sharer", "shared_memory", "util"):
        return import_module(f"multiprocessing.{name}")
    raise AttributeError(f"module 'multiprocessing' has no attribute {name!r}")


def _forget_star() -> None:
    """What `from torch import *` gives has changed: it is found again when asked for."""
    vars(rushlight).pop("__all__", None)


def is_installed() -> bool:
    """Whether `import torch` gives rushlight in this process."""
    return _active is not None


def alias_names(path: str) -> list[str]:
    """The private names that a torch module has only through the alias table."""
    return [] if _active is None else _active.names_in(path)
