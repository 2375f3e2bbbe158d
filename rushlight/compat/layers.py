"""What torch's `torch.nn.modules.*` hold, for libraries that look into their dictionaries."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["classes_in"]

PLACE = "torch.nn.modules."


def classes_in(path: str) -> dict[str, Any]:
    """The names that torch has in a module of layers, and what they stand for."""
    if not path.startswith(PLACE):
        return {}
    from rushlight.compat.identity import HOME_OF

    found: dict[str, Any] = {}
    for own, homes in HOME_OF.items():
        names = [name for name, home in homes.items() if home == path and "." not in name]
        if names:
            module = import_module(own)
            found.update({name: getattr(module, name) for name in names})
    return found
