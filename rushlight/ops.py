"""torch.ops: every operator by namespace, name and overload (`ops.aten.add.Tensor`).

Namespaces and what they hold are looked up on access, so that operators registered later appear.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from rushlight.base.lazy import namespace
from rushlight.opset import families, registry

__all__ = ["import_module", "load_library"]

loaded_libraries: set[str] = set()


class OpNamespace(ModuleType):
    """The operators of one namespace."""

    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self.__dict__["name"] = name

    def __getattr__(self, op_name: str) -> Any:
        if op_name.startswith("__") and op_name not in registry.PACKETS.get(self.name, ()):
            raise AttributeError(f"Invalid attribute '{op_name}' for '_OpNamespace' '{self.name}'")
        if self.name == "higher_order":
            return find_higher_order(op_name)
        families.load_namespace(self.name)
        table = registry.PACKETS.get(self.name)
        if table is not None:
            try:
                return registry.packet(op_name, self.name)
            except KeyError:
                pass
        raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{op_name}'")

    def __iter__(self) -> Any:
        families.load_all()
        return iter(list(registry.PACKETS.get(self.name, ())))

    def __dir__(self) -> list[str]:
        families.load_all()
        return sorted(registry.PACKETS.get(self.name, ()))

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self.name}' from 'torch.ops'>"


OpNamespace.__name__ = OpNamespace.__qualname__ = "_OpNamespace"


def find_higher_order(name: str) -> Any:
    """Operators that take functions have records of another sort."""
    from rushlight.higher_order import find_op

    found = find_op(name)
    if found is None:
        raise AttributeError(f"'_OpNamespace' 'higher_order' object has no attribute '{name}'")
    return found


NAMESPACES: dict[str, OpNamespace] = {}


def _find(name: str) -> Any:
    if name.startswith("__"):
        return None
    found = NAMESPACES.get(name)
    if found is None:
        found = NAMESPACES[name] = OpNamespace(name)
    return found


__getattr__, _ = namespace(__name__, make=_find)


def __dir__() -> list[str]:
    return sorted({*registry.PACKETS, *__all__})


def load_library(path: str) -> None:
    """Make the operators of a compiled library known, where Rushlight has them itself.

    Compiled code is not loaded: it is built against PyTorch's binary interface. A library none of
    whose operators are here is an OSError, as one that the system cannot load.
    """
    from rushlight.opset.compiled import load

    load(path)
    loaded_libraries.add(path)


def import_module(module: str) -> None:
    """Import a Python module that registers operators."""
    import importlib

    importlib.import_module(module)
