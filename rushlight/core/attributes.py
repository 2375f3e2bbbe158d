"""What users put on tensors: entries of `__dict__`, and slots that their classes add."""

from __future__ import annotations

import weakref
from typing import Any

from rushlight.core.node import accumulator_of_now, add_retired
from rushlight.core.tensor import PLAIN, STATE, Tensor

__all__ = ["attributes_of", "own_slots", "set_attributes", "swap_tensors"]


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


def refuse_gradient(gradients: Any) -> None:
    raise RuntimeError(
        "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen "
        "when you try to run backward on a tensor that was swapped. For a module m with "
        "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the "
        "device or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and "
        "backward. To resolve this, please only change the device/dtype before running forward "
        "(or after both forward and backward)."
    )


def swap_tensors(t1: Any, t2: Any) -> None:
    """Exchange two tensors: every reference to one now means the other. A gradient that is on its
    way to one of them from before would arrive at the other: it is refused."""
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    if sorted(own_slots(type(t1))) != sorted(own_slots(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    former = [
        (tensor, accumulator_of_now(tensor, refuse_gradient))
        for tensor in (t1, t2)
        if tensor._requires_grad and tensor._node is None
    ]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for name in (*STATE, *own_slots(type(t1))):
        held = [getattr(tensor, name) if hasattr(tensor, name) else None for tensor in (t2, t1)]
        for tensor, value in zip((t1, t2), held, strict=True):
            setattr(tensor, name, value)
    for tensor, accumulator in former:
        add_retired(tensor, accumulator)
