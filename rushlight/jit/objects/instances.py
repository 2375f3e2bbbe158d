"""Objects of classes that the user has compiled, as Python sees them."""

from __future__ import annotations

from typing import Any

from rushlight.jit.objects.binding import CannotCast, cast_value
from rushlight.jit.objects.functions import ScriptMethod
from rushlight.jit.objects.results import to_python
from rushlight.jit.unit import Instance


class ScriptObject:
    """An object of compiled code: its attributes and methods by name."""

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
        raise AttributeError(f"'{instance.type.name()}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        type_ = self.instance.type.attributes.get(name)
        if type_ is None:
            raise AttributeError(
                f"'{self.instance.type.name()}' object has no attribute '{name}', and none can be "
                "added"
            )
        try:
            self.instance.values[name] = cast_value(value, type_)
        except CannotCast as reason:
            raise RuntimeError(
                f"Could not cast attribute '{name}' to type {type_.annotation_str}: {reason}"
            ) from None

    def __repr__(self) -> str:
        return f"ScriptObject <{self.instance.type.dotted}>"
