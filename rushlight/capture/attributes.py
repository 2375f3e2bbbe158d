"""Reading and writing attributes, the types and the truth of variables."""

from __future__ import annotations

import enum
import functools
import inspect
import sys
import threading
import types
from typing import Any

from rushlight.capture.floats import computed
from rushlight.capture.outcomes import Break
from rushlight.capture.sources import Source, const
from rushlight.capture.tracer import Tracing, raise_user
from rushlight.capture.values import (
    NULL,
    Bound,
    Bounded,
    Cell,
    Const,
    Dict,
    Float,
    Func,
    Lazy,
    Method,
    New,
    Number,
    Obj,
    Opaque,
    Partial,
    Seq,
    SetVar,
    Slice,
    Super,
    Tensor,
    Var,
    View,
)

__all__ = ["Attributes", "Iter"]

METHOD_KINDS = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
# What a function has from its code.
HAS_DOCSTRING = 0x4000000 if sys.version_info >= (3, 13) else 0
FIXED_OF_FUNCTIONS = ("__code__", "__defaults__", "__kwdefaults__", "__closure__", "__globals__")
VIEW_TYPES = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}


class Iter(Var):
    """An iterator that capture runs; the kinds are in `iterators`."""

    # The classes that it may have.
    kinds: tuple[type, ...] = (
        types.GeneratorType, type(iter([])), type(iter(())), type(iter({})), type(iter(set())),
        type(iter({}.values())), type(iter({}.items())), type(iter("")), type(reversed([])),
    )  # fmt: skip

    def next(self, tracer: Any) -> Any:
        """The next item, or NULL at the end."""
        raise NotImplementedError


# What finds and keeps attributes by Python's rules.
GETTERS = [
    c.__getattribute__
    for c in (object, dict, types.SimpleNamespace, threading.local, types.CodeType)
]
SETTERS: list[Any] = [
    c.__setattr__ for c in (object, BaseException, types.SimpleNamespace, threading.local)
]


class Attributes(Tracing):
    # -- reading -----------------------------------------------------------------------------------

    def getattr(self, v: Any, name: str) -> Any:
        v = self.real(v)
        match v:
            case Tensor():
                return self.world.tensor_attr(self, v, name)
            case Const():
                return self.constant_attr(v, name)
            case Seq() | Dict() | SetVar() | View() | Iter() | Slice() | Number():
                return self.modelled_attr(v, name)
            case New():
                return self.instance_attr(v, v.cls, name)
            case Super():
                return self.super_attr(v, name)
            case Opaque():
                return self.world.opaque_attr(self, v, name)
            case Method() if name in ("__func__", "__self__"):
                return v.func if name == "__func__" else v.owner
            case Method() | Func() | Partial():
                return self.function_attr(v, name)
            case Obj():
                return self.object_attr(v, name)
        raise Break(f"attribute {name} of {type(v).__name__}")

    def constant_attr(self, v: Const, name: str) -> Any:
        if isinstance(v.value, enum.Enum):
            written = inspect.getattr_static(type(v.value), name, None)
            if isinstance(written, types.FunctionType) and written.__module__ != enum.__name__:
                return self.bind(written, v, type(v.value), const(type(v.value)).attr(name))
        try:
            found = getattr(v.value, name)
        except AttributeError as error:
            raise raise_user(AttributeError, *error.args) from None
        return Bound(v, name) if callable(found) else self.lift(found)

    def modelled_attr(self, v: Any, name: str) -> Any:
        if isinstance(v, Seq) and name in getattr(v.kind, "_fields", ()):
            return v.items[v.kind._fields.index(name)]  # type: ignore[attr-defined]
        fields = self.world.fields_of(v.kind) if isinstance(v, Seq) else ()
        if name in fields:
            return v.items[fields.index(name)]
        if isinstance(v, Seq) and self.is_written_method(v.kind, name):
            return self.bind(inspect.getattr_static(v.kind, name), v, v.kind, const(v.kind))
        if isinstance(v, Seq) and name == "maxlen":
            return Const(v.limit if isinstance(v, Bounded) else None)
        if isinstance(v, Slice) and name in ("start", "stop", "step"):
            return v.parts[("start", "stop", "step").index(name)]
        if name == "__class__":
            kind = self.type_of(v)
            return Obj(kind, const(kind))
        if isinstance(v, Iter) or hasattr(self.type_of(v), name):
            return Bound(v, name)
        kind_name = self.type_of(v).__name__
        raise raise_user(AttributeError, f"'{kind_name}' object has no attribute '{name}'")

    def is_written_method(self, kind: type, name: str) -> bool:
        """Whether a class of tuples has a method or property of the user's."""
        found = inspect.getattr_static(kind, name, None)
        is_own = name not in ("_replace", "_asdict", "_make") and "__new__" in kind.__dict__
        written = (types.FunctionType, property, classmethod, staticmethod)
        return is_own and isinstance(found, written)

    def function_attr(self, v: Any, name: str) -> Any:
        target = v.func if isinstance(v, Method) else v
        if (
            isinstance(target, Func)
            and (found := self.made_function_attr(target, name)) is not None
        ):
            return found
        if isinstance(v, Partial) and name in ("func", "args", "keywords"):
            return {"func": v.func, "args": Seq(tuple, v.args), "keywords": Dict(v.kwargs)}[name]
        if name == "__call__":
            return v
        if name == "__class__":
            kind = self.type_of(v)
            return Obj(kind, const(kind))
        if isinstance(v, Partial) and not any(
            name in vars(base) for base in functools.partial.__mro__
        ):
            message = f"'functools.partial' object has no attribute '{name}'"
            raise raise_user(AttributeError, message)
        if isinstance(v, Partial):
            return Bound(v, name)
        target = self.real(target)
        if isinstance(v, Method) and isinstance(target, Obj):
            return self.getattr(target, name)
        raise Break(f"attribute {name} of a function")

    def made_function_attr(self, f: Func, name: str) -> Any:
        """An attribute of a function that was made during capture; None where nothing is known."""
        if name in f.attrs:
            return f.attrs[name]
        if name == "__dict__":
            return Dict(f.attrs)
        if name == "__module__":
            return Const(f.namespace.get("__name__"))
        if name == "__doc__":
            # The first constant, from 3.14 on only where the code says so.
            first = f.code.co_consts[0] if f.code.co_consts else None
            is_marked = not HAS_DOCSTRING or f.code.co_flags & HAS_DOCSTRING
            return Const(first if is_marked and isinstance(first, str) else None)
        if name in ("__name__", "__qualname__"):
            return Const(f.code.co_name if name == "__name__" else f.qualname)
        if name == "__code__":
            return Obj(f.code, const(f.code))
        if name in ("__defaults__", "__closure__"):
            found = f.defaults if name == "__defaults__" else f.closure
            return Seq(tuple, list(found)) if found else Const(None)
        if name == "__kwdefaults__":
            return Dict(f.kwdefaults) if f.kwdefaults else Const(None)
        if name == "__type_params__":
            return Seq(tuple, [])
        if name == "__annotations__" and not f.is_annotated_lazily:
            f.annotations = f.annotations or Dict({})
            return f.annotations
        if not name.startswith("__"):
            raise raise_user(AttributeError, f"'function' object has no attribute '{name}'")
        return None

    def super_attr(self, v: Super, name: str) -> Any:
        cls = self.class_of_super(v)
        mro = cls.__mro__
        for base in mro[mro.index(v.cls) + 1 :]:
            if name in base.__dict__:
                source = const(base).attr(name)
                if self.world.is_library(base):
                    # Methods of the library's are made when they are first asked for.
                    getattr(base, name)
                return self.bind(base.__dict__[name], v.owner, cls, source)
        raise raise_user(AttributeError, f"'super' object has no attribute '{name}'")

    def class_of_super(self, v: Super) -> Any:
        owner = self.real(v.owner)
        if isinstance(owner, Obj) and isinstance(owner.value, type):
            return owner.value
        return self.type_of(owner)

    def object_attr(self, v: Obj, name: str) -> Any:
        value = v.value
        if (id(value), name) in self.overlay and not self.is_hidden(type(value), name):
            found = self.overlay[id(value), name]
            if found is NULL:
                message = f"'{type(value).__name__}' object has no attribute '{name}'"
                raise raise_user(AttributeError, message)
            return found
        is_namespace = isinstance(value, types.ModuleType | type)
        if is_namespace or (callable(value) and name.startswith("__")):
            return self.namespace_attr(v, value, name)
        if isinstance(value, types.FunctionType):
            try:
                return Lazy(getattr(value, name), v.source.attr(name))
            except AttributeError as error:
                self.guard("lacks", v.source, name)
                raise raise_user(AttributeError, *error.args) from None
        special = self.world.module_attr(self, v, name)
        return special if special is not None else self.instance_attr(v, type(value), name)

    def is_hidden(self, cls: type, name: str) -> bool:
        """Whether a descriptor of the class's answers, whatever the instance holds."""
        found = inspect.getattr_static(cls, name, None)
        setter = getattr(type(found), "__set__", None)
        return isinstance(found, property) or isinstance(setter, types.FunctionType)

    def namespace_attr(self, v: Obj, value: Any, name: str) -> Any:
        """An attribute of a module or a class."""
        try:
            found = getattr(value, name)
        except AttributeError as error:
            self.guard("lacks", v.source, name)
            raise raise_user(AttributeError, *error.args) from None
        if isinstance(value, type) and isinstance(found, types.MethodType):
            func = found.__func__
            self.guard("is", const(value).attr(name).attr("__func__"), func)
            return Method(Obj(func, const(func)), v)
        if name == "__class__":
            return Obj(found, const(found))
        if v.source.kind == "const" and self.world.is_library(value):
            # The library's own code reads itself; modules of it that are not loaded are no matter.
            self.guard("is", v.source.attr(name), found)
            return self.lift(found)
        return Lazy(found, v.source.attr(name))

    def instance_attr(self, v: Any, cls: Any, name: str) -> Any:
        if cls.__getattribute__ not in GETTERS and not issubclass(cls, BaseException):
            raise Break(f"{cls.__name__} defines __getattribute__")
        if name == "__class__":
            return Obj(cls, const(cls))
        if name == "__dict__":
            if isinstance(v, New):
                return Dict(v.attrs)
            if not hasattr(v.value, "__dict__"):
                raise raise_user(
                    AttributeError, f"'{cls.__name__}' object has no attribute '__dict__'"
                )
            return self.fields_of(v)
        if name == "args" and isinstance(v, New) and issubclass(cls, BaseException):
            return Seq(tuple, list(v.args))
        found = inspect.getattr_static(cls, name, NULL)
        is_data = found is not NULL and hasattr(type(found), "__set__")
        fields = v.attrs if isinstance(v, New) else getattr(v.value, "__dict__", {})
        if name in fields and not is_data:
            return fields[name] if isinstance(v, New) else Lazy(fields[name], v.source.attr(name))
        if found is not NULL:
            return self.class_attr(v, cls, name, found, is_data)
        if isinstance(v, Obj) and self.world.is_op(v.value):
            # An operator stays what it is, and its overloads with it.
            self.guard("is", v.source, v.value)
            try:
                return self.lift(getattr(v.value, name))
            except AttributeError as error:
                raise raise_user(AttributeError, *error.args) from None
        if inspect.getattr_static(cls, "__getattr__", None) is not None:
            self.guard_missing(v, cls, name)
            return self.call(self.type_attr(v, "__getattr__"), [Const(name)], {})
        if isinstance(v, Obj):
            self.guard("lacks", v.source, name)
        raise raise_user(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")

    def guard_missing(self, v: Any, cls: type, name: str) -> None:
        """Nothing but `__getattr__` knows a name."""
        if isinstance(v, Obj) and hasattr(v.value, "__dict__"):
            self.guard("unshadowed", v.source, name)
        self.guard("lacks", const(cls), name)

    def type_attr(self, v: Any, name: str) -> Any:
        """A special method: what the class has counts, whatever the instance holds."""
        v = self.real(v)
        if not isinstance(v, New | Obj):
            return self.getattr(v, name)
        cls = self.type_of(v)
        found = inspect.getattr_static(cls, name, NULL)
        if found is NULL:
            raise raise_user(AttributeError, f"'{cls.__name__}' object has no attribute '{name}'")
        self.guard_class_attr(cls, name, found)
        return self.bind(found, v, cls, const(cls).attr(name))

    def class_attr(self, v: Any, cls: type, name: str, found: Any, is_data: bool) -> Any:
        """An attribute that the class of an instance has."""
        if isinstance(found, types.MemberDescriptorType | types.GetSetDescriptorType):
            if isinstance(v, New):
                if name in v.attrs:
                    return v.attrs[name]
                if name in ("__context__", "__cause__"):
                    return Const(None)
                if issubclass(cls, BaseException):
                    raise Break(f"attribute {name} of an exception")
                raise raise_user(AttributeError, name)
            try:
                return Lazy(getattr(v.value, name), v.source.attr(name))
            except AttributeError:
                self.guard("lacks", v.source, name)
                raise raise_user(AttributeError, name) from None
        if isinstance(v, Obj) and not is_data and hasattr(v.value, "__dict__"):
            # Nothing in the instance hides what the class has.
            self.guard("unshadowed", v.source, name)
        self.guard_class_attr(cls, name, found)
        if isinstance(v, Obj) and isinstance(found, property) and self.world.is_library(found.fget):
            return Lazy(getattr(v.value, name), v.source.attr(name))
        return self.bind(found, v, cls, const(cls).attr(name))

    def guard_class_attr(self, cls: type, name: str, found: Any) -> None:
        source = const(cls).attr(name)
        if isinstance(found, classmethod):
            self.guard("is", source.attr("__func__"), found.__func__)
        elif isinstance(found, staticmethod):
            self.guard("is", source, found.__func__)
        elif isinstance(found, (*METHOD_KINDS, property)):
            self.guard("is", source, found)
        elif hasattr(type(found), "__get__"):
            self.guard_descriptor(cls, name, found)

    def guard_descriptor(self, cls: type, name: str, found: Any) -> None:
        """A descriptor that runs user code when it is read: looked for without reading it."""
        mro = cls.__mro__
        place = next(i for i, base in enumerate(mro) if base.__dict__.get(name) is found)

        def test(text: str, names: Any) -> str:
            tests = [f"{text}.__mro__ is not {names.constant(mro)}"]
            tests += [f"{name!r} in {names.constant(base)}.__dict__" for base in mro[:place]]
            owner = names.constant(mro[place])
            tests.append(f"{owner}.__dict__[{name!r}] is not {names.constant(found)}")
            return " or ".join(tests)

        self.guards.append(("text", const(cls), test))
        for method in ("__get__", "__set__"):
            getter = getattr(type(found), method, None)
            source = const(type(found))
            if getter is None:
                self.guard("lacks", source, method)
            else:
                self.guard("is", source.attr(method), getter)

    def bind(self, found: Any, owner: Any, cls: type, source: Source) -> Any:
        """What reading a class attribute gives, by the descriptor protocol."""
        if isinstance(found, METHOD_KINDS):
            return Method(Obj(found, const(found)), owner)
        if isinstance(found, property):
            if found.fget is None:
                raise raise_user(AttributeError, "unreadable attribute")
            return self.call(Obj(found.fget, const(found.fget)), [owner], {})
        if isinstance(found, classmethod):
            func = found.__func__
            return Method(Obj(func, const(func)), Obj(cls, const(cls)))
        if isinstance(found, staticmethod):
            return Obj(found.__func__, const(found.__func__))
        getter = getattr(type(found), "__get__", None)
        if isinstance(getter, types.FunctionType):
            arguments = [Obj(found, const(found)), owner, Obj(cls, const(cls))]
            return self.call(Obj(getter, const(getter)), arguments, {})
        if getter is not None:
            raise Break(f"descriptor {type(found).__name__}")
        if self.world.is_library(cls) and isinstance(found, str | int | float | tuple | None):
            self.guard("is", source, found)
            return self.lift(found)
        return Lazy(found, source)

    # -- writing -----------------------------------------------------------------------------------

    def setattr(self, v: Any, name: str, value: Any) -> None:
        v = self.real(v)
        if isinstance(v, Obj) and isinstance(v.value, types.ModuleType | type):
            raise Break(f"set {name} of a module or class")
        if isinstance(v, Tensor):
            self.world.write_tensor(self, v, name, value)
            return
        if isinstance(v, Func):
            if name in FIXED_OF_FUNCTIONS:
                raise Break(f"set {name} of a function")
            v.attrs[name] = value
            return
        if not isinstance(v, New | Obj):
            raise Break(f"set attribute of {type(v).__name__}")
        cls = self.type_of(v)
        setter = cls.__setattr__
        is_kept = isinstance(v, Obj) and self.world.keeps_attributes(cls)
        if setter not in SETTERS and not is_kept:
            if not isinstance(setter, types.FunctionType):
                raise Break(f"set attribute of {cls.__name__}")
            self.call(Obj(setter, const(setter)), [v, Const(name), value], {})
            return
        self.set_plainly(v, name, value, "plain")

    def set_plainly(self, v: Any, name: str, value: Any, way: str) -> None:
        """What `object.__setattr__` does."""
        cls = self.type_of(v)
        found = inspect.getattr_static(cls, name, None)
        if isinstance(found, property):
            if found.fset is None:
                raise raise_user(AttributeError, f"property '{name}' has no setter")
            self.call(Obj(found.fset, const(found.fset)), [v, value], {})
            return
        setter = getattr(type(found), "__set__", None)
        if isinstance(setter, types.FunctionType):
            self.guard_descriptor(cls, name, found)
            given = [Obj(found, const(found)), v, value]
            self.call(Obj(setter, const(setter)), given, {})
            return
        self.write_attribute(v, name, value, way)

    def delattr(self, v: Any, name: str) -> None:
        v = self.real(v)
        cls: Any = self.type_of(v)
        has_own = inspect.getattr_static(cls, name, None) is not None
        if not isinstance(v, New | Obj) or cls.__delattr__ is not object.__delattr__ or has_own:
            raise Break(f"delete attribute {name}")
        if isinstance(v, Obj):
            self.delete_outside(v, name)
            return
        if name not in v.attrs:
            raise raise_user(AttributeError, name)
        del v.attrs[name]

    def delete_outside(self, v: Obj, name: str) -> None:
        """Take an attribute from an object of the outside, which has it from there or from the
        program."""
        self.present(self.getattr(v, name))
        fields = getattr(v.value, "__dict__", None)
        if fields is None or self.world.is_module(v.value):
            raise Break(f"delete attribute {name}")
        if name in fields:
            self.present(Lazy(fields[name], v.source.attr(name)))
            self.write_outside(v, v.value, name, NULL)
            return
        # The outside never sees it.
        self.guard("unshadowed", v.source, name)
        self.overlay[id(v.value), name] = NULL
        self.effects.pop((id(v.value), name), None)

    # -- types and truth ---------------------------------------------------------------------------

    def type_of(self, v: Any) -> Any:
        v = self.real(v)
        match v:
            case Tensor():
                return self.world.tensor_type(v)
            case Number():
                return self.number_type(v)
            case Const() | Obj():
                return type(v.value)
            case Seq() | Dict() | SetVar():
                return v.kind
            case New():
                return v.cls
            case Opaque():
                return v.kind
            case View():
                return VIEW_TYPES[v.name]
            case Slice():
                return slice
            case Func():
                return types.FunctionType
            case Partial():
                return functools.partial
            case Method():
                return types.MethodType
            case Bound():
                return types.BuiltinMethodType
            case Cell():
                return types.CellType
        raise Break(f"type of {type(v).__name__}")

    def number_type(self, v: Number) -> type:
        """The type the user sees: symbolic numbers pass for plain ones."""
        if isinstance(v, Float):
            return float
        for kind in (bool, int, float):
            if isinstance(v.example, kind):
                return kind
        name = type(v.example).__name__
        return bool if "Bool" in name else float if "Float" in name else int

    def truth(self, v: Any) -> bool:
        v = self.real(v)
        match v:
            case Tensor() | Opaque() if v.is_number():
                raise Break("data-dependent branch")
            case Float():
                return bool(self.real(computed(self, bool, [v])).value)
            case Number():
                return bool(self.world.decide(v.example))
            case Const():
                return bool(v.value)
            case Seq() | Dict() | SetVar():
                return bool(v.items)
            case View():
                return bool(v.owner.items)
            case New() | Obj():
                return self.truth_of_object(v)
        return True

    def truth_of_object(self, v: Any) -> bool:
        if isinstance(v, Obj) and isinstance(v.value, (type, types.ModuleType)):
            return True
        cls = self.type_of(v)
        for name in ("__bool__", "__len__"):
            if hasattr(cls, name):
                found = self.call(self.type_attr(v, name), [], {})
                kind = self.type_of(found)
                if name == "__bool__" and kind is not bool:
                    message = f"__bool__ should return bool, returned {kind.__name__}"
                    raise raise_user(TypeError, message)
                return self.truth(found)
            self.guard("lacks", const(cls), name)
        return True
