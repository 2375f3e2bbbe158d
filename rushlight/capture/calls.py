"""Calls of variables: inlining of functions, construction of objects, binding of arguments."""

from __future__ import annotations

import collections
import enum
import functools
import inspect
import sys
import types
import typing
import weakref
from typing import Any

from rushlight.capture import marks
from rushlight.capture.attributes import Iter
from rushlight.capture.builtins import BUILTINS, CALLS, PURE
from rushlight.capture.containers import methods_of
from rushlight.capture.floats import computed
from rushlight.capture.frame import Frame
from rushlight.capture.iterators import Generator
from rushlight.capture.operators import Operators
from rushlight.capture.outcomes import Abandon, Break, UserRaise
from rushlight.capture.sources import Source, const
from rushlight.capture.tracer import (
    IDENTITY,
    TABLES,
    is_named_tuple,
    kind_of_table,
    raise_user,
)
from rushlight.capture.values import (
    NULL,
    Bound,
    Const,
    Dict,
    Float,
    Func,
    Lazy,
    Made,
    Method,
    New,
    Number,
    Obj,
    Opaque,
    Partial,
    Seq,
    SetVar,
    Super,
    Tensor,
    Transformed,
    View,
)

__all__ = ["Tracer"]

# Called from generated code they would see the wrong frame.
INTROSPECT = {locals, globals, vars, dir, eval, exec, sys._getframe}
GENERATOR, COROUTINES = 0x20, 0x80 | 0x100 | 0x200
VARARGS, VARKEYWORDS = 0x04, 0x08
# Exceptions that keep nothing but their arguments.
PLAIN_EXCEPTIONS = {
    BaseException, Exception, ArithmeticError, AssertionError, BufferError, EOFError,
    FloatingPointError, IndexError, KeyError, LookupError, MemoryError, NotImplementedError,
    OverflowError, RecursionError, ReferenceError, RuntimeError, TypeError, ValueError, Warning,
    ZeroDivisionError,
}  # fmt: skip
LRU_WRAPPER = type(functools.lru_cache(lambda: None))


class Tracer(Operators):
    def call(self, f: Any, args: list[Any], kwargs: dict[str, Any], frame: Any = None) -> Any:
        f = self.real(f)
        match f:
            case Method():
                return self.call(f.func, [f.owner, *args], kwargs, frame)
            case Func():
                if "_capture_disable" in f.attrs:
                    raise Break(f"disabled: {f.code.co_name}")
                return self.inline(
                    f.code, f.namespace, f.closure, (f.defaults, f.kwdefaults), args, kwargs
                )
            case Partial():
                return self.call(f.func, [*f.args, *args], {**f.kwargs, **kwargs}, frame)
            case Transformed():
                return self.world.call_transformed(self, f, args, kwargs)
            case Made():
                if f.kwargs:
                    return CALLS[f.cls](self, f.args, *args, kwargs=f.kwargs)
                return CALLS[f.cls](self, f.args, *args, **kwargs)
            case Bound():
                return self.call_bound(f.owner, f.name, args, kwargs)
            case New():
                return self.call(self.type_attr(f, "__call__"), args, kwargs)
            case Obj():
                return self.call_object(f, f.value, args, kwargs, frame)
            case Const() if callable(f.value) and isinstance(f.value, enum.Enum):
                cls: Any = type(f.value)
                method = Lazy(cls.__call__, const(cls).attr("__call__"))
                return self.call(method, [f, *args], kwargs)
        raise Break(f"call of {type(f).__name__}")

    def call_object(
        self, f: Obj, value: Any, args: list[Any], kwargs: dict[str, Any], frame: Any
    ) -> Any:
        name = getattr(value, "__name__", type(value).__name__)
        # Others may have a `__hash__` or `__eq__` of the user's.
        is_known_kind = isinstance(value, IDENTITY)
        if value is vars and len(args) == 1:
            return self.getattr(args[0], "__dict__")
        if is_known_kind and value in INTROSPECT:
            raise Break(f"builtin: {name}") if self.depth else Abandon(f"builtin: {name}")
        if is_known_kind and value in marks.SUBSTITUTES:
            return self.call(self.lift(marks.SUBSTITUTES[value]), args, kwargs)
        if is_known_kind and value in marks.CONSTANT:
            named = {key: self.at_hand(v) for key, v in kwargs.items()}
            return self.kept(self.fold(functools.partial(value, **named), *map(self.at_hand, args)))
        special = self.world.special(self, f, args, kwargs)
        if special is not None:
            return special
        if self.world.is_disabled(value):
            raise Break(f"disabled: {name}")
        if self.world.is_op(value):
            return self.record("call_function", value, args, kwargs)
        if value is super:
            return self.make_super(args, frame)
        if is_known_kind:
            result = self.call_builtin(value, args, kwargs)
            if result is not NotImplemented:
                return result
        if isinstance(value, types.FunctionType):
            return self.call_function(f, value, args, kwargs)
        if isinstance(value, type):
            return self.construct(value, args, kwargs)
        return self.call_other(f, value, args, kwargs)

    def kept(self, v: Any) -> Any:
        """A result that is assumed, with its tensors as inputs of the graph."""
        if isinstance(v, Obj) and self.world.is_tensor(v.value):
            return self.wrap(v.value, const(v.value))
        if isinstance(v, Seq):
            return v.like([self.kept(item) for item in v.items])
        if isinstance(v, Dict):
            return Dict({key: self.kept(item) for key, item in v.items.items()}, kind=v.kind)
        return v

    def at_hand(self, v: Any) -> Any:
        """An argument of a function whose result is assumed: what it is in this call, unguarded."""
        v = self.real(v)
        if isinstance(v, Obj):
            return v.value
        if isinstance(v, Tensor) and v.source is not None:
            return self.original(v)
        if isinstance(v, Seq) and not is_named_tuple(v.kind):
            return v.kind([self.at_hand(item) for item in v.items])
        return self.python(v)

    def call_builtin(self, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        handler = BUILTINS.get(value)
        if handler is not None:
            try:
                result = handler(self, *args, **kwargs)
            except TypeError as error:
                raise Break(f"arguments of {value.__name__}: {error}") from None
            if result is not NotImplemented:
                return result
        if value in PURE and not kwargs and any(isinstance(self.real(a), Float) for a in args):
            result = computed(self, value, args)
            if result is not NULL:
                return result
        if value in PURE:
            plain = {key: self.python(v) for key, v in kwargs.items()}
            return self.fold(functools.partial(value, **plain), *map(self.python, args))
        return NotImplemented

    def make_super(self, args: list[Any], frame: Any) -> Super:
        if args:
            return Super(self.real(args[0]).value, args[1])
        # Without arguments: the class from the caller's cell, the object from its first slot.
        cell = frame.slots[frame.decoded.slots.index("__class__")]
        return Super(self.real(self.real(cell).contents).value, frame.first_argument())

    def call_function(
        self, f: Obj, value: types.FunctionType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        source: Source = f.source
        if source.kind == "const":
            cells = [self.wrap(c, const(c)) for c in value.__closure__ or ()]
        else:
            base = source.attr("__closure__")
            cells = [self.wrap(c, base.item(i)) for i, c in enumerate(value.__closure__ or ())]
        for cell, name in zip(cells, value.__code__.co_freevars):
            cell.name = name
        defaults: list[Any] = []
        kwdefaults: dict[str, Any] = {}
        if self.world.is_library(value):
            defaults = [self.lift(d) for d in value.__defaults__ or ()]
            kwdefaults = {k: self.lift(d) for k, d in (value.__kwdefaults__ or {}).items()}
        else:
            self.guard("is", source.attr("__code__"), value.__code__)
            count = value.__code__.co_argcount
            if value.__defaults__ and len(args) < count:
                defaults = self.iterate(Lazy(value.__defaults__, source.attr("__defaults__")))
            base = source.attr("__kwdefaults__")
            pairs = (value.__kwdefaults__ or {}).items()
            kwdefaults = {k: Lazy(d, base.item(k)) for k, d in pairs}
        namespace = value.__globals__
        return self.inline(value.__code__, namespace, cells, (defaults, kwdefaults), args, kwargs)

    def call_other(self, f: Obj, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if isinstance(value, types.MethodDescriptorType | types.WrapperDescriptorType):
            return self.call_descriptor(value, args, kwargs)
        if isinstance(value, functools.partial):
            given = self.iterate(Lazy(value.args, f.source.attr("args")))
            named = self.real(Lazy(value.keywords, f.source.attr("keywords"))).items
            func = Lazy(value.func, f.source.attr("func"))
            return self.call(func, [*given, *args], {**named, **kwargs})
        if type(value) is weakref.ReferenceType and not args and not kwargs:
            return self.present(Lazy(value(), f.source.referent()))
        if isinstance(value, LRU_WRAPPER):
            wrapped = Lazy(value.__wrapped__, f.source.attr("__wrapped__"))
            return self.call(wrapped, args, kwargs)
        method = inspect.getattr_static(type(value), "__call__", None)
        if not isinstance(value, IDENTITY) and isinstance(method, types.FunctionType):
            return self.call(self.type_attr(f, "__call__"), args, kwargs)
        raise Break(f"builtin: {getattr(value, '__name__', type(value).__name__)}")

    def call_descriptor(self, value: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        owner = self.real(args[0])
        home: Any = getattr(value, "__objclass__", None)
        if home in TABLES and isinstance(owner, New | Obj):
            table = self.table_of(owner)
            if table is not None:
                return self.call_table(owner, table, value.__name__, args[1:], kwargs)
        if value is object.__setattr__:
            if not isinstance(owner, New | Obj):
                raise Break(f"set attribute of {type(owner).__name__}")
            is_plain = self.type_of(owner).__setattr__ is value
            self.set_plainly(
                owner, self.python(args[1]), args[2], "plain" if is_plain else "object"
            )
            return Const(None)
        if value is object.__getattribute__ and len(args) == 2:
            return self.present(self.getattr(owner, self.python(args[1])))
        if value is object.__init__:
            return Const(None)
        is_plain = value.__name__ == "__init__" and value.__objclass__ in PLAIN_EXCEPTIONS
        if is_plain and isinstance(owner, New) and not kwargs:
            owner.args = tuple(args[1:])
            return Const(None)
        if isinstance(owner, Tensor | Seq | Dict | Const | SetVar | View | Iter | Number):
            return self.call_bound(owner, value.__name__, args[1:], kwargs)
        raise Break(f"builtin: {value.__qualname__}")

    def construct(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if issubclass(cls, BaseException):
            return self.construct_exception(cls, args, kwargs)
        if issubclass(cls, tuple) and hasattr(cls, "_make") and hasattr(cls, "_fields"):
            return self.construct_named_tuple(cls, args, kwargs)
        if issubclass(cls, dict) and typing.is_typeddict(cls):
            return self.call_builtin(dict, args, kwargs)
        if isinstance(cls, enum.EnumMeta):
            return self.fold(cls, *map(self.python, args))
        init = cls.__init__
        if isinstance(cls.__new__, types.FunctionType):
            return self.construct_by_new(cls, args, kwargs)
        if kind_of_table(cls) is not None:
            return self.construct_table(cls, args, kwargs)
        is_plain = cls.__new__ is object.__new__ and type(cls).__call__ is type.__call__
        has_known_init = isinstance(init, types.FunctionType) or init is object.__init__
        if not (is_plain and has_known_init):
            raise Break(f"construct {cls.__name__}")
        made = New(cls)
        if isinstance(init, types.FunctionType):
            self.guard("is", const(cls).attr("__init__"), init)
            self.call(Obj(init, const(init)), [made, *args], kwargs)
        elif args or kwargs:
            raise raise_user(TypeError, f"{cls.__name__}() takes no arguments")
        return made

    def construct_table(self, cls: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An instance of a class of dicts."""
        made, init = New(cls), inspect.getattr_static(cls, "__init__")
        made.table = Dict({}, kind=kind_of_table(cls) or dict)
        if isinstance(init, types.FunctionType):
            self.guard("is", const(cls).attr("__init__"), init)
            self.call(Obj(init, const(init)), [made, *args], kwargs)
        elif args or kwargs:
            self.call_table(made, made.table, "update", args, kwargs)
        return made

    def call_table(
        self, v: Any, table: Dict, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A method that a class of dicts has of `dict` or `OrderedDict`."""
        cls = self.type_of(v)
        if name == "__init__":
            name = "update"
        is_plain = inspect.getattr_static(cls, "__setitem__") is inspect.getattr_static(
            table.kind, "__setitem__"
        )
        if name in ("update", "setdefault") and not is_plain:
            raise Break(f"{name} of a dict that sets items its own way")
        return self.call_bound(table, name, args, kwargs)

    def construct_by_new(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """An instance whose class has a `__new__` of the user's."""
        if type(cls).__call__ is not type.__call__ or self.world.is_library(cls.__new__):
            raise Break(f"construct {cls.__name__}")
        self.guard("is", const(cls).attr("__new__"), cls.__new__)
        new = Obj(cls.__new__, const(cls.__new__))
        made = self.real(self.call(new, [Obj(cls, const(cls)), *args], kwargs))
        if isinstance(made, New) and issubclass(made.cls, cls):
            kind: Any = made.cls
            init = kind.__init__
            if isinstance(init, types.FunctionType):
                self.guard("is", const(kind).attr("__init__"), init)
                self.call(Obj(init, const(init)), [made, *args], kwargs)
            elif init is not object.__init__:
                raise Break(f"construct {cls.__name__}")
        return made

    def construct_exception(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        made = New(cls, args=tuple(args))
        init = cls.__init__
        if isinstance(init, types.FunctionType):
            self.call(Obj(init, const(init)), [made, *args], kwargs)
        elif kwargs:
            raise Break(f"construct {cls.__name__} with keywords")
        return made

    def construct_named_tuple(self, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        items: dict[str, Any] = dict(zip(cls._fields, args)) | kwargs
        for name, default in cls._field_defaults.items():
            items.setdefault(name, self.lift(default))
        if set(items) != set(cls._fields) or len(args) > len(cls._fields):
            raise Break(f"{cls.__name__}: arguments do not fit")
        return Seq(cls, [items[name] for name in cls._fields])

    def inline(
        self,
        code: types.CodeType,
        namespace: dict[str, Any],
        closure: list[Any],
        defaults: tuple[list[Any], dict[str, Any]],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a Python function's code on variables."""
        if code.co_flags & COROUTINES:
            raise Break(f"coroutine {code.co_name}")
        if self.depth > self.frame_limit:
            raise Break("recursion too deep")
        slots = bind_arguments(code, *defaults, args, kwargs)
        frame = Frame(self, code, namespace, slots, closure)
        if code.co_flags & GENERATOR:
            return Generator(frame, self.position)
        self.depth += 1
        try:
            return frame.run()
        finally:
            self.depth -= 1

    def call_bound(self, v: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A method, by name, of something that capture models itself."""
        v = self.real(v)
        if isinstance(v, Tensor):
            return self.world.tensor_method(self, v, name, args, kwargs)
        if isinstance(v, Opaque):
            return self.world.opaque_method(self, v, name, args, kwargs)
        if isinstance(v, Generator) and name in ("send", "close", "throw"):
            return self.call_generator(v, name, args)
        if isinstance(v, Seq | Dict | SetVar | View | Iter):
            table = methods_of(v)
            if name in table:
                return table[name](self, v, *args, **kwargs)
        if isinstance(v, Seq) and v.kind in (list, collections.deque):
            raise Break(f"method {name}")
        if isinstance(v, Const | Number) or (isinstance(v, Seq) and v.source is None):
            plain = {key: self.python(x) for key, x in kwargs.items()}
            method = functools.partial(getattr(self.python(v), name), **plain)
            # Of a dict or a view of it, text takes what iteration gives.
            is_text = isinstance(v, Const) and isinstance(v.value, str | bytes) and name == "join"
            if is_text and len(args) == 1 and isinstance(self.real(args[0]), Dict | View):
                args = [Seq(list, self.iterate(args[0]))]
            return self.fold(method, *[self.plain_argument(a) for a in args])
        raise Break(f"method {name} of {type(v).__name__}")

    def call_generator(self, v: Generator, name: str, args: list[Any]) -> Any:
        if name == "close":
            return v.close(self)
        if len(args) != 1:
            raise Break(f"generator.{name} with several arguments")
        if name == "send":
            found = v.send(self, args[0])
        else:
            error = self.real(args[0])
            if isinstance(error, Obj) and isinstance(error.value, type):
                error = self.construct(error.value, [], {})
            found = v.throw(self, error)
        if found is NULL:
            is_none = isinstance(v.result, Const) and v.result.value is None
            raise UserRaise(New(StopIteration, args=() if is_none else (v.result,)))
        return found

    def plain_argument(self, v: Any) -> Any:
        v = self.real(v)
        return [self.python(x) for x in self.iterate(v)] if isinstance(v, Iter) else self.python(v)


def bind_arguments(
    code: types.CodeType,
    defaults: list[Any],
    kwdefaults: dict[str, Any],
    args: list[Any],
    kwargs: dict[str, Any],
) -> dict[int, Any]:
    """Arguments to slots, by Python's rules."""
    count, total = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, kwargs = code.co_varnames, dict(kwargs)
    slots: dict[int, Any] = dict(enumerate(args[:count]))
    if len(args) > count and not code.co_flags & VARARGS:
        raise Break(f"{code.co_name}: too many arguments")
    for i in range(code.co_posonlyargcount, total):
        if names[i] in kwargs and i not in slots:
            slots[i] = kwargs.pop(names[i])
    for i, default in zip(range(count - len(defaults), count), defaults):
        slots.setdefault(i, default)
    for i in range(count, total):
        if i not in slots and names[i] in kwdefaults:
            slots[i] = kwdefaults[names[i]]
    if any(i not in slots for i in range(total)):
        raise Break(f"{code.co_name}: arguments do not fit")
    if code.co_flags & VARARGS:
        slots[total] = Seq(tuple, list(args[count:]))
        total += 1
    if code.co_flags & VARKEYWORDS:
        slots[total] = Dict(kwargs)
    elif kwargs:
        raise Break(f"{code.co_name}: arguments do not fit")
    return slots
