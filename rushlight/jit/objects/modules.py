"""Compiled modules as Python sees them.

A `RecursiveScriptModule` stands over an object of compiled code, its `_c`: parameters, buffers and
attributes lie there, methods are those of its class. What `trace` makes are modules that look like
the traced ones and have such a module inside.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.jit.ir.graph import Graph
from rushlight.jit.objects.cores import Members, ModuleCore, ModuleMembers
from rushlight.jit.objects.functions import OverloadedMethod, ScriptFunction, ScriptMethod
from rushlight.jit.objects.results import to_python
from rushlight.jit.unit import Instance
from rushlight.nn.module import Module

TABLES = ("_parameters", "_buffers", "_modules")


class ScriptMeta(type):
    """The class of compiled modules: one that has methods to compile does so when it is made."""

    def __init__(cls, name: str, bases: tuple[Any, ...], members: dict[str, Any]) -> None:
        super().__init__(name, bases, members)
        if members.get("_disable_script_meta") is None and bases != (Module,):
            from rushlight.jit.scripting.methods import collect_stubs

            collect_stubs(cls, bases, members)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        if getattr(cls, "_disable_script_meta", False) or cls is ScriptModule:
            return made
        from rushlight.jit.scripting.methods import compile_instance

        compiled = compile_instance(made)
        fields = made.__dict__
        for table in (*TABLES, "training"):
            fields.pop(table, None)
        for name in [name for name in fields if compiled._c.hasattr(name)]:
            del fields[name]
        fields["_actual_script_module"] = compiled
        return made


class ScriptModule(Module, metaclass=ScriptMeta):
    """A module that is compiled. The base of all of them.

    A class of its own has methods marked with `script_method`: they are compiled after `__init__`.
    """

    def define(self, src: str) -> None:
        """Adds methods from source text."""
        import sys

        from rushlight.jit.scripting.methods import add_source

        add_source(self, src, sys._getframe(1))

    @property
    def forward(self) -> Any:
        return self.__getattr__("forward")

    def __getattr__(self, name: str) -> Any:
        inner = self.__dict__.get("_actual_script_module")
        if inner is None:
            return super().__getattr__(name)
        return getattr(inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        inner = self.__dict__.get("_actual_script_module")
        if inner is None:
            from rushlight.jit.scripting.methods import keep_attribute

            keep_attribute(self, name, value)
        else:
            setattr(inner, name, value)

    def __delattr__(self, name: str) -> None:
        inner = self.__dict__.get("_actual_script_module")
        super().__delattr__(name) if inner is None else delattr(inner, name)


class RecursiveScriptModule(ScriptModule):
    """A module over an object of compiled code."""

    _disable_script_meta = True

    def __init__(self, core: ModuleCore | Instance, children: dict[str, Any] | None = None) -> None:
        """`children` are the submodules where somebody has made them already."""
        super().__init__()
        core = core if isinstance(core, ModuleCore) else ModuleCore(core)
        fields = self.__dict__
        for name in (*TABLES, "training"):
            del fields[name]
        fields["_c"] = core
        fields["_parameters"] = Members(core, "parameters")
        fields["_buffers"] = Members(core, "buffers")
        if children is None:
            children = {
                name: RecursiveScriptModule(value)
                for name, value in core.instance.values.items()
                if isinstance(value, Instance) and value.type.is_module
            }
        fields["_modules"] = ModuleMembers(core, children)
        # Python calls what compiled code calls around `forward`.
        type_ = core.instance.type
        for table, hooks in (
            (self._forward_pre_hooks, type_.pre_hooks),
            (self._forward_hooks, type_.hooks),
        ):
            for number, hook in enumerate(hooks):
                table[number] = ScriptFunction(hook)

    @property
    def original_name(self) -> str:
        found: str = self._c.name
        return found

    @property
    def graph(self) -> Graph:
        return self._method("forward").graph

    @property
    def inlined_graph(self) -> Graph:
        return self._method("forward").inlined_graph

    @property
    def code(self) -> str:
        return self._method("forward").code

    @property
    def code_with_constants(self) -> Any:
        return self._method("forward").code_with_constants

    def _method(self, name: str) -> ScriptMethod:
        if not self._c._has_method(name):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        found: ScriptMethod = self._c._get_method(name)
        return found

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        return self._method("forward").graph_for(*args, **kwargs)

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        from rushlight.jit.archive.writing import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        buffer = BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()

    @property
    def forward(self) -> Any:
        return self.__getattr__("forward")

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__
        core: ModuleCore = fields["_c"]
        made = fields.get("_made_methods")
        if made is None:
            made = fields["_made_methods"] = {}
        if name in made:
            return made[name]
        if core._has_method(name):
            made[name] = core._get_method(name)
            return made[name]
        if name in fields["_modules"]:
            return fields["_modules"][name]
        if core.hasattr(name):
            return to_python(core.getattr(name))
        if name in core.instance.type.constants:
            return core.instance.type.constants[name]
        if name in core.instance.type.properties:
            return core.instance.type.properties[name][0].run(core.instance)
        if name in ("keys", "values", "items") and "dict" in fields.get("_container", ""):
            return getattr(self._members(), name)
        if name == "forward":
            if core._has_method("forward__0"):
                several = [n for n in core.instance.type.methods if n.startswith("forward__")]
                return OverloadedMethod([core._get_method(each) for each in several])
            return Module.forward.__get__(self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        fields = self.__dict__
        core = fields.get("_c")
        if core is None:
            object.__setattr__(self, name, value)
        elif name in fields["_modules"]:
            fields["_modules"][name] = value
        elif core.hasattr(name):
            core.setattr(name, value)
        elif name in core.instance.type.constants:
            held = core.instance.type.constants[name]
            raise RuntimeError(f"Can't set constant '{name}' which has value:{held}")
        elif isinstance(value, Parameter):
            fields["_parameters"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if self._c.hasattr(name) or self._c._has_method(name):
            raise RuntimeError("cannot delete methods or parameters of a script module")
        object.__delattr__(self, name)

    def _save_to_state_dict(self, *args: Any) -> None:
        name = "_save_to_state_dict"
        own = self._c._has_method(name)
        self._c._get_method(name)(*args) if own else super()._save_to_state_dict(*args)

    def _load_from_state_dict(self, *args: Any) -> None:
        name = "_load_from_state_dict"
        own = self._c._has_method(name)
        self._c._get_method(name)(*args) if own else super()._load_from_state_dict(*args)

    def register_parameter(self, name: str, param: Any) -> None:
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        self._buffers[name] = tensor

    def add_module(self, name: str, module: Any) -> None:
        self._modules[name] = module

    def _get_methods(self) -> list[ScriptMethod]:
        return self._c._get_methods()  # type: ignore[no-any-return]

    def _members(self) -> dict[str, Any] | None:
        """What Python goes through, of a container of modules or parameters; by name."""
        kind = self.__dict__.get("_container", "")
        if kind in ("list", "dict"):
            return dict(self._modules)
        return dict(self._parameters) if kind else None

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        members = self._members()
        if members is None:
            if self._c._has_method("__len__"):
                return int(self._c._get_method("__len__")())
            raise TypeError(f"object of type '{self.original_name}' has no len()")
        return len(members)

    def __iter__(self) -> Any:
        members = self._members()
        if members is None:
            raise TypeError(f"'{self.original_name}' object is not iterable")
        return iter(members if "dict" in self.__dict__["_container"] else members.values())

    def __contains__(self, name: object) -> bool:
        members = self._members()
        if members is None:
            raise TypeError(f"argument of type '{self.original_name}' is not iterable")
        return name in (members if "dict" in self.__dict__["_container"] else members.values())

    def __getitem__(self, key: Any) -> Any:
        members = self._members()
        if members is None:
            raise TypeError(f"'{self.original_name}' object is not subscriptable")
        return members[key] if isinstance(key, str) else list(members.values())[key]

    def __copy__(self) -> RecursiveScriptModule:
        from copy import copy

        return RecursiveScriptModule(copy(self._c))

    def __deepcopy__(self, memo: dict[int, Any]) -> RecursiveScriptModule:
        from copy import deepcopy

        return RecursiveScriptModule(deepcopy(self._c, memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._c.__getstate__()

    def __dir__(self) -> list[str]:
        core = self._c.instance
        names = {*dir(type(self)), *self.__dict__, *core.values, *core.type.methods}
        return sorted(names)

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"


def wrap_instance(instance: Instance) -> Any:
    """An object of compiled code as Python gets it."""
    if instance.type.is_module:
        return RecursiveScriptModule(instance)
    from rushlight.jit.objects.instances import ScriptObject

    return ScriptObject(instance)


class TracedModule(ScriptModule):
    """A submodule of a traced module: it looks like the original, and is not to be called."""

    _disable_script_meta = True

    def __init__(self, script: RecursiveScriptModule, name: str) -> None:
        super().__init__()
        fields = self.__dict__
        for table in (*TABLES, "training"):
            del fields[table]
        fields["_name"] = name
        fields["_actual_script_module"] = script

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("Trace submodules cannot be called.")

    def __getattr__(self, name: str) -> Any:
        if "_actual_script_module" not in self.__dict__:
            return super().__getattr__(name)
        return getattr(self._actual_script_module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_actual_script_module" not in self.__dict__:
            object.__setattr__(self, name, value)
        else:
            setattr(self._actual_script_module, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._actual_script_module, name)

    def _get_name(self) -> str:
        return self._name  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        return f"original_name={self._name}"

    def register_parameter(self, name: str, param: Any) -> None:
        self._actual_script_module.register_parameter(name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        self._actual_script_module.register_buffer(name, tensor, persistent)

    def add_module(self, name: str, module: Any) -> None:
        self._actual_script_module.add_module(name, module)

    def save(self, f: Any, **kwargs: Any) -> None:
        self._actual_script_module.save(f, **kwargs)

    def save_to_buffer(self, *args: Any, **kwargs: Any) -> bytes:
        found: bytes = self._actual_script_module.save_to_buffer(*args, **kwargs)
        return found

    def __copy__(self) -> Any:
        from copy import copy

        core = copy(self._actual_script_module._c)
        return type(self)(RecursiveScriptModule(core, dict(self._modules)), self._name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        from copy import deepcopy

        return deepcopy(self._actual_script_module, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._actual_script_module.__reduce_ex__(protocol)

    def __dir__(self) -> list[str]:
        return dir(self._actual_script_module)


class TopLevelTracedModule(TracedModule):
    """What `trace(module, inputs)` gives."""

    _disable_script_meta = True

    @property
    def forward(self) -> Any:
        return self._actual_script_module.forward
