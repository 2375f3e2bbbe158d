"""`torch.classes`: classes that compiled libraries register. There are none, and asking says so."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from rushlight.base.errors import MissingFeature, error

__all__ = ["load_library", "loaded_libraries"]

# The paths of libraries; torch fills it.
loaded_libraries: set[str] = set()


class ClassNamespace(ModuleType):
    """The classes of one library."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise error("RL1590", RuntimeError, name=f"{self.__name__.rpartition('.')[2]}.{name}")


def load_library(path: Any) -> None:
    """Refused: a library of PyTorch's works on tensors of PyTorch's."""
    raise MissingFeature(f"the compiled library {path!r}", code="RL1591")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = ClassNamespace(f"torch.classes.{name}")
    return found
