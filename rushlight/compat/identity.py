"""While `torch` means rushlight: classes and functions say that they come from torch's modules.

So libraries that look at `__module__` recognise them, and pickles name them as torch does and find
them again. `homes` has the table; what comes into being later is named as it does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import rushlight
from rushlight.base import naming
from rushlight.core.tensor import Tensor
from rushlight.graph import host
from rushlight.opset import registry

__all__ = ["apply", "assume", "restore"]


def read() -> dict[str, dict[str, str]]:
    table = json.loads(Path(__file__).with_name("homes.json").read_text(encoding="utf-8"))
    return {
        own: {name: home for home, names in homes.items() for name in names.split()}
        for own, homes in table.items()
    }


# Own module -> qualified name -> torch's module; written by tools/write_homes.py.
HOME_OF = read()
# What was renamed, with the module it said before.
_renamed: list[tuple[Any, str]] = []
# Modules whose functions are operators, as they are then called.
_OPERATORS = ("torch", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special")


# Where functions of operators come from that are not the root's.
_OWN = {"torch._C._nn": "rushlight.opset.functions"}


def rename(value: Any, module: str) -> None:
    before = value.__module__
    if before != module:
        value.__module__ = module
        _renamed.append((value, before))


def apply(module: ModuleType) -> None:
    """Name what a module defines."""
    homes = HOME_OF.get(module.__name__)
    if homes is None or not naming.as_torch:
        return
    for qualname, home in homes.items():
        # Graphs print these by the private name that torch has for them.
        if f"{module.__name__}:{qualname}" in host.PRIVATE_PATHS:
            continue
        value: Any = module
        for part in qualname.split("."):
            value = vars(value).get(part) if value is not None else None
        if value is not None and getattr(value, "__module__", None) == module.__name__:
            rename(value, home)


def stubs() -> list[Any]:
    """The functions of operators that exist so far."""
    packets = registry.PACKETS["aten"].values()
    found = [stub for packet in packets for stub in packet.stubs.values()]
    return found + [value for value in vars(Tensor).values() if callable(value)]


def assume() -> None:
    """From now on names are torch's."""
    naming.as_torch.update(HOME_OF)
    host.OPERATORS.update(_OPERATORS)
    for name in list(HOME_OF):
        module = sys.modules.get(name)
        if module is not None:
            apply(module)
    for stub in stubs():
        own = getattr(stub, "__module__", None)
        if isinstance(own, str) and own.partition(".")[0] == "rushlight":
            rename(stub, naming.module_name(own, stub.__qualname__))
    rushlight.__name__ = "torch"


def restore() -> None:
    """Names are rushlight's again."""
    rushlight.__name__ = "rushlight"
    naming.as_torch.clear()
    for value, before in reversed(_renamed):
        value.__module__ = before
    _renamed.clear()
    # Functions of operators that were made meanwhile.
    for stub in stubs():
        own = getattr(stub, "__module__", None)
        if own in _OPERATORS:
            stub.__module__ = _OWN.get(own, "rushlight")
