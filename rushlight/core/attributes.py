"""What users put on tensors: entries of `__dict__`, and slots that their classes add."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import PLAIN, Tensor

__all__ = ["attributes_of", "own_slots", "set_attributes"]


def attributes_of(tensor: Any) -> dict[str, Any]:
    """What the user put on a tensor, in slots of its class too."""
    found = dict(tensor.__dict__)
    for name in own_slots(type(tensor)):
        if hasattr(tensor, name):
            found[name] = getattr(tensor, name)
    return found


def set_attributes(tensor: Any, values: dict[str, Any]) -> None:
    slots = own_slots(type(tensor))
    if not slots:
        tensor.__dict__.update(values)
        return
    for name, value in values.items():
        if name in slots:
            setattr(tensor, name, value)
        else:
            tensor.__dict__[name] = value


def own_slots(cls: type) -> list[str]:
    """The slots that subclasses of Tensor add."""
    if cls is Tensor or cls in PLAIN:
        return []
    names = [cls.__dict__.get("__slots__", ()) for cls in cls.__mro__ if issubclass(cls, Tensor)]
    added = [(name,) if isinstance(name, str) else tuple(name) for name in names[:-1]]
    return [name for group in added for name in group if not name.startswith("__")]
