"""`_c` of a compiled module: the object that graphs see, and its methods."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from copy import deepcopy
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.relations import why_not_interface
from rushlight.jit.ir.types import TENSOR, ClassType, InterfaceType
from rushlight.jit.objects.functions import ScriptMethod
from rushlight.jit.unit import Instance


class ModuleCore:
    """An object of a module's class, by the names that torch's bindings have."""

    __slots__ = ("__weakref__", "instance", "traced_inputs")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        # Method -> the inputs it was traced on.
        self.traced_inputs: dict[str, tuple[Any, ...]] = {}

    def _retrieve_traced_inputs(self) -> dict[str, tuple[Any, ...]]:
        return dict(self.traced_inputs)

    @property
    def qualified_name(self) -> str:
        return self.instance.type.dotted

    @property
    def name(self) -> str:
        return self.instance.type.name()

    def _type(self) -> ClassType:
        return self.instance.type

    def _has_method(self, name: str) -> bool:
        return name in self.instance.type.methods

    def _method_names(self) -> list[str]:
        return list(self.instance.type.methods)

    def _get_method(self, name: str) -> ScriptMethod:
        return ScriptMethod(self.instance.method(name), self.instance)

    def _get_methods(self) -> list[ScriptMethod]:
        return [self._get_method(name) for name in self.instance.type.methods]

    def _properties(self) -> list[Any]:
        return list(self.instance.type.properties)

    def hasattr(self, name: str) -> bool:
        return name in self.instance.values

    def getattr(self, name: str) -> Any:
        return self.instance.values[name]

    def setattr(self, name: str, value: Any) -> None:
        from rushlight.jit.objects.binding import CannotCast, cast_value

        type_ = self.instance.type.attributes[name]
        if value is None and type_ is TENSOR and name in self.instance.type.parameters:
            raise RuntimeError(f"'{name}' is a tensor in compiled code: it cannot become None")
        try:
            self.instance.values[name] = cast_value(value, type_)
        except CannotCast as reason:
            raise RuntimeError(
                f"Could not cast attribute '{name}' to type {type_.annotation_str}: {reason}"
            ) from None

    def _register_attribute(self, name: str, type_: Any, value: Any) -> None:
        self.instance.type.attributes[name] = type_
        self.instance.values[name] = value

    def __copy__(self) -> ModuleCore:
        return ModuleCore(Instance(self.instance.type, dict(self.instance.values)))

    def __deepcopy__(self, memo: dict[int, Any]) -> ModuleCore:
        return ModuleCore(copied_instance(self.instance, memo))

    def __getstate__(self) -> Any:
        raise RuntimeError(
            f"Tried to serialize object {self.qualified_name} which does not have a __getstate__ "
            "method defined!"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModuleCore) and other.instance is self.instance

    def __hash__(self) -> int:
        return id(self.instance)

    def __repr__(self) -> str:
        return f"ScriptObject <{self.qualified_name}>"


def copied_instance(instance: Instance, memo: dict[int, Any]) -> Instance:
    """A copy with tensors and objects of its own; what was shared is shared."""
    found = memo.get(id(instance))
    if found is None:
        found = memo[id(instance)] = Instance(instance.type)
        for name, value in instance.values.items():
            found.values[name] = (
                copied_instance(value, memo)
                if isinstance(value, Instance)
                else deepcopy(value, memo)
            )
    return found


class Members(MutableMapping[str, Any]):
    """The parameters, or the buffers, of a compiled module."""

    __slots__ = ("core", "kind")

    def __init__(self, core: ModuleCore, kind: str) -> None:
        self.core = core
        self.kind = kind

    def names(self) -> list[str]:
        type_ = self.core.instance.type
        chosen = getattr(type_, self.kind)
        return [name for name in type_.attributes if name in chosen]

    def __getitem__(self, name: str) -> Any:
        if name not in getattr(self.core.instance.type, self.kind):
            raise KeyError(name)
        return self.core.instance.values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in getattr(self.core.instance.type, self.kind):
            raise RuntimeError(
                f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}"
            )
        if not isinstance(value, Tensor) and value is not None:
            raise TypeError(f"cannot assign '{type(value).__name__}' as parameter '{name}'")
        self.core.instance.values[name] = value

    def __delitem__(self, name: str) -> None:
        raise RuntimeError("cannot delete methods or parameters of a script module")

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in getattr(self.core.instance.type, self.kind)


class ModuleMembers(MutableMapping[str, Any]):
    """The submodules of a compiled module, as Python has them."""

    __slots__ = ("core", "modules")

    def __init__(self, core: ModuleCore, modules: dict[str, Any]) -> None:
        self.core = core
        self.modules = modules

    def __getitem__(self, name: str) -> Any:
        return self.modules[name]

    def __setitem__(self, name: str, value: Any) -> None:
        core = getattr(value, "_c", None)
        if name in self.modules and isinstance(core, ModuleCore):
            self.check_type(name, core.instance)
            self.modules[name] = value
            self.core.instance.values[name] = core.instance
        elif name in self.modules:
            raise RuntimeError(
                "Cannot re-assign modules in a ScriptModule with non-scripted module, tried to "
                f"replace existing module '{name}': {value}"
            )
        else:
            raise RuntimeError(
                f"Cannot add a new module to a ScriptModule after construction, tried to add "
                f"'{name}'"
            )

    def check_type(self, name: str, instance: Instance) -> None:
        """Refuses another module than one that programs can use as the one before."""
        wanted = self.core.instance.type.attributes[name]
        if isinstance(wanted, InterfaceType):
            reason = why_not_interface(instance.type, wanted)
            if reason:
                raise RuntimeError(
                    f"Object of type {instance.type.dotted} is not compatible with interface "
                    f"{wanted.dotted}\n{reason}"
                )
        elif wanted is not instance.type:
            raise RuntimeError(
                f"Expected a value of type '{wanted.annotation_str}' for field '{name}', but found "
                f"'{instance.type.annotation_str}'"
            )

    def __delitem__(self, name: str) -> None:
        raise RuntimeError("cannot delete methods or parameters of a script module")

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)
