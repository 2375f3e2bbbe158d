"""Results of compiled code as Python gets them: copies of containers and of users' objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.jit.ir.types import AnyType, ClassType, DictType, InterfaceType, ListType, Type
from rushlight.jit.unit import Instance


def converter(type_: Type) -> Callable[[Any], Any] | None:
    """What turns results of a type into Python objects; None where they are that already."""
    return to_python if holds_objects(type_) else None


def holds_objects(type_: Type) -> bool:
    # Lists and dicts are copied: what Python writes to one is not the program's.
    if isinstance(type_, ClassType | InterfaceType | AnyType | ListType | DictType):
        return True
    return any([holds_objects(part) for part in type_.containedTypes()])


def to_python(value: Any) -> Any:
    if isinstance(value, Instance):
        if value.type.cls is not None:
            return python_object(value)
        from rushlight.jit.objects.modules import wrap_instance

        return wrap_instance(value)
    if isinstance(value, tuple):
        items = [to_python(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return [to_python(item) for item in value]
    if isinstance(value, dict):
        return {to_python(key): to_python(item) for key, item in value.items()}
    return value


def python_object(instance: Instance) -> Any:
    """A copy of an object as one of the Python class that was compiled; `__init__` does not run."""
    cls = instance.type.cls
    made = cls.__new__(cls)
    parameters = getattr(cls, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen
    keep = object.__setattr__ if is_frozen else setattr
    for name, value in instance.values.items():
        keep(made, name, to_python(value))
    return made
