"""Objects of classes that the user has compiled, as Python sees those it shares with programs."""

from __future__ import annotations

from typing import Any

from rushlight.jit.objects.binding import CannotCast, cast_value
from rushlight.jit.objects.functions import ScriptMethod
from rushlight.jit.objects.results import to_python
from rushlight.jit.unit import Instance

# Methods that Python looks up in the class: what a compiled class has of them is called.
FORWARDED = (
    *("__iter__", "__len__", "__contains__", "__getitem__", "__setitem__", "__delitem__"),
    *("__neg__", "__add__", "__sub__", "__mul__", "__truediv__", "__mod__", "__pow__"),
    *("__and__", "__or__", "__xor__", "__lt__", "__gt__", "__le__", "__ge__"),
    *("__call__", "__int__", "__float__", "__enter__", "__exit__"),
)


class ScriptObject:
    """An object of compiled code: its attributes, properties and methods by name."""

    __slots__ = ("__weakref__", "instance")

    def __init__(self, instance: Instance) -> None:
        object.__setattr__(self, "instance", instance)

    def _type(self) -> Any:
        return self.instance.type

    def _has_method(self, name: str) -> bool:
        return name in self.instance.type.methods

    def _method_names(self) -> list[str]:
        return list(self.instance.type.methods)

    def _get_method(self, name: str) -> ScriptMethod:
        return ScriptMethod(self.instance.method(name), self.instance)

    def __getattr__(self, name: str) -> Any:
        instance = self.instance
        if name in instance.values:
            return to_python(instance.values[name])
        if name in instance.type.methods:
            return self._get_method(name)
        getter, _ = instance.type.properties.get(name, (None, None))
        if getter is not None:
            return to_python(getter.run(instance))
        raise AttributeError(f"'{instance.type.name()}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.instance.type
        if name in own.properties:
            setter = own.properties[name][1]
            if setter is None:
                raise AttributeError(f"property '{name}' of '{own.name()}' object has no setter")
            ScriptMethod(setter, self.instance)(value)
            return
        type_ = own.attributes.get(name)
        if type_ is None:
            raise AttributeError(
                f"'{own.name()}' object has no attribute '{name}', and none can be added"
            )
        try:
            self.instance.values[name] = cast_value(value, type_)
        except CannotCast as reason:
            raise RuntimeError(
                f"Could not cast attribute '{name}' to type {type_.annotation_str}: {reason}"
            ) from None

    def __eq__(self, other: object) -> Any:
        if self._has_method("__eq__"):
            return self._get_method("__eq__")(other)
        return isinstance(other, ScriptObject) and other.instance is self.instance

    def __hash__(self) -> int:
        return id(self.instance)

    def __bool__(self) -> bool:
        return bool(self._get_method("__bool__")()) if self._has_method("__bool__") else True

    def __str__(self) -> str:
        return self._get_method("__str__")() if self._has_method("__str__") else repr(self)

    def __repr__(self) -> str:
        return f"ScriptObject <{self.instance.type.dotted}>"


def forwarded(name: str) -> Any:
    def method(self: ScriptObject, *args: Any) -> Any:
        if not self._has_method(name):
            raise TypeError(f"'{self.instance.type.name()}' object has no method '{name}'")
        return self._get_method(name)(*args)

    method.__name__ = name
    return method


for each in FORWARDED:
    setattr(ScriptObject, each, forwarded(each))


def script_object(value: Any, type_: Any) -> ScriptObject:
    """A new object of compiled code with the attributes of one of Python."""
    try:
        return ScriptObject(cast_value(value, type_))
    except CannotCast as reason:
        raise RuntimeError(str(reason)) from None
