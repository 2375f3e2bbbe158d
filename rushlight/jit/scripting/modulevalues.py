"""Modules while code that uses them is compiled: submodules, methods, constants, containers."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.relations import why_not_interface
from rushlight.jit.ir.types import TENSOR, InterfaceType, Type
from rushlight.jit.scripting.ignoring import (
    IgnoredFunction,
    UnusedFunction,
    is_ignored,
    is_unused,
)
from rushlight.jit.scripting.sources import fail_at
from rushlight.jit.scripting.values import (
    STATIC_INDEX,
    Args,
    IterableTree,
    Kwargs,
    MethodValue,
    SimpleValue,
    Sugared,
    SugaredTuple,
    read_attribute,
)

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter
    from rushlight.jit.scripting.recursive import Concrete


class ModuleValue(Sugared):
    """A module of the program: `value` is the object, `concrete` what is known of its class."""

    def __init__(self, value: Value, concrete: Concrete) -> None:
        self.value = value
        self.concrete = concrete

    def kind(self) -> str:
        return "module"

    def simple(self) -> Value | None:
        return None

    def as_value(self, place: SourceRange, em: Emitter) -> Value:
        return self.value

    # -- attributes

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        found = self.find_attr(place, em, name)
        if found is not None:
            return found
        reason = self.concrete.facts.failed.get(name, "")
        fail_at(
            place,
            f"Module '{self.concrete.type.name()}' has no attribute '{name}' {reason}",
        )

    def has_attr(self, place: SourceRange, em: Emitter, name: str) -> bool:
        concrete = self.concrete
        known = (concrete.type.attributes, concrete.type.constants, concrete.facts.functions)
        if any([name in names for names in known]):
            return True
        return concrete.python_function(name) is not None

    def find_attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared | None:
        concrete = self.concrete
        type_ = concrete.type
        offered = type_.attributes.get(name)
        if name in concrete.children and not isinstance(offered, InterfaceType):
            return self.child(em, name)
        if name in type_.attributes:
            return SimpleValue(read_attribute(em, self.value, name, type_.attributes[name]))
        if name in type_.constants:
            from rushlight.jit.scripting.resolving import sugared_of

            return sugared_of(type_.constants[name], place, em, is_constant=True)
        if name in concrete.facts.functions:
            from rushlight.jit.scripting.resolving import sugared_of

            return sugared_of(concrete.facts.functions[name], place, em)
        derived = self.derived(place, em, name)
        if derived is not None:
            return derived
        container = self.container_method(place, em, name)
        if container is not None:
            return container
        return self.find_method(place, em, name)

    def derived(self, place: SourceRange, em: Emitter, name: str) -> Sugared | None:
        """What library modules compute in Python: constants, or lists of parameters."""
        from rushlight.jit.scripting.library import derived_attribute, parameter_paths
        from rushlight.jit.scripting.resolving import sugared_of

        module = self.concrete.module
        paths = parameter_paths(module, name)
        if paths is not None:
            values = [self.value_at(em, path) for path in paths]
            return SimpleValue(em.make_list(TENSOR, values, place))
        found = derived_attribute(module, name)
        return None if found is None else sugared_of(found, place, em, is_constant=True)

    def value_at(self, em: Emitter, path: str) -> Value:
        """The parameter at a path such as `layers.0.weight`."""
        *parents, name = path.split(".")
        value, concrete = self.value, self.concrete
        for parent in parents:
            concrete = concrete.children[parent]
            value = read_attribute(em, value, parent, concrete.type)
        return read_attribute(em, value, name, TENSOR)

    def find_method(self, place: SourceRange, em: Emitter, name: str) -> Sugared | None:
        concrete = self.concrete
        if name in concrete.type.methods:
            return MethodValue(self.value, [name])
        static = inspect.getattr_static(concrete.python_class, name, None)
        if isinstance(static, property):
            return self.property_value(place, em, name, static)
        if isinstance(static, staticmethod):
            from rushlight.jit.scripting.resolving import sugared_function

            return sugared_function(static.__func__, place, em)
        function = concrete.python_function(name)
        if function is None:
            return self.class_member(place, em, name, static)
        if is_unused(function):
            return UnusedFunction(function, concrete)
        if is_ignored(function):
            return IgnoredFunction(function, concrete, self.value)
        overloaded = concrete.overloads(name)
        if overloaded:
            return MethodValue(self.value, overloaded)
        concrete.method(name)
        return MethodValue(self.value, [name])

    def class_member(
        self, place: SourceRange, em: Emitter, name: str, static: Any
    ) -> Sugared | None:
        """A constant in the body of the class."""
        if static is None or name.startswith("__"):
            return None
        from rushlight.jit.scripting.resolving import PythonValue, sugared_of

        found = sugared_of(static, place, em, is_constant=True)
        return None if isinstance(found, PythonValue) else found

    def property_value(
        self, place: SourceRange, em: Emitter, name: str, found: property
    ) -> Sugared | None:
        getter = found.fget
        if getter is None or is_unused(getter) or is_ignored(getter):
            return None
        if name not in self.concrete.type.properties:
            self.concrete.add_property(name, found)
        return MethodValue(self.value, [f"__{name}_getter"]).call(place, em, [], {}, 1)

    def set_attr(self, place: SourceRange, em: Emitter, name: str, value: Value) -> None:
        if name in self.concrete.type.constants:
            fail_at(place, f"Can't set constant '{name}' of module '{self.concrete.type.name()}'")
        if name in self.concrete.type.properties:
            SimpleValue(self.value).set_attr(place, em, name, value)
            return
        if name not in self.concrete.type.attributes:
            reason = self.concrete.facts.failed.get(name, "")
            fail_at(
                place,
                f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in "
                f"__init__()?{reason}",
            )
        SimpleValue(self.value).set_attr(place, em, name, value)

    def child(self, em: Emitter, name: str) -> Sugared:
        concrete = self.concrete.children[name]
        return ModuleValue(read_attribute(em, self.value, name, concrete.type), concrete)

    # -- calls

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        from rushlight.jit.scripting.hooks import call_with_hooks

        if any(self.concrete.hooks):
            return call_with_hooks(self, place, em, args, kwargs, binders)
        forward = self.find_attr(place, em, "forward")
        if forward is None:
            fail_at(place, f"Module '{self.concrete.type.name()}' has no attribute 'forward' ")
        return forward.call(place, em, args, kwargs, binders)

    # -- containers

    def children_values(self, place: SourceRange, em: Emitter) -> list[Sugared]:
        return [self.child(em, name) for name in self.concrete.children]

    def parameter_names(self) -> list[str]:
        type_ = self.concrete.type
        return [name for name in type_.attributes if name in type_.parameters]

    def parameter_values(self, em: Emitter) -> list[Sugared]:
        type_ = self.concrete.type
        return [
            SimpleValue(read_attribute(em, self.value, name, type_.attributes[name]))
            for name in self.parameter_names()
        ]

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        kind = self.concrete.container
        if kind == "list":
            return SugaredTuple(self.children_values(place, em))
        if kind == "parameters":
            return SugaredTuple(self.parameter_values(em))
        if kind in ("dict", "parameter dict"):
            return SugaredTuple(self.names(place, em))
        fail_at(
            place,
            "Only constant Sequential, ModuleList, ModuleDict, or ParameterList can be used as an "
            "iterable",
        )

    def names(self, place: SourceRange, em: Emitter) -> list[Sugared]:
        names = list(self.concrete.children)
        if self.concrete.container == "parameter dict":
            names = self.parameter_names()
        return [SimpleValue(em.constant(name, place)) for name in names]

    def as_tuple(self, place: SourceRange, em: Emitter, count: int | None = None) -> list[Sugared]:
        return self.iter(place, em).as_tuple(place, em, count)

    def as_tuple_value(self, place: SourceRange, em: Emitter) -> Value:
        return self.iter(place, em).as_value(place, em)

    def len(self, place: SourceRange, em: Emitter) -> Value:
        return self.iter(place, em).len(place, em)

    def static_len(self) -> int | None:
        return len(self.concrete.children) if self.concrete.container in ("list", "dict") else None

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        kind = self.concrete.container
        key = index.toIValue()
        if kind == "list":
            if not isinstance(key, int):
                if isinstance(hint, InterfaceType):
                    return self.any_item(place, em, index, hint)
                fail_at(place, STATIC_INDEX)
            names = list(self.concrete.children)
            if not -len(names) <= key < len(names):
                fail_at(place, f"Index {key} out of range of length {len(names)}")
            return self.child(em, names[key])
        if kind == "parameters":
            return self.iter(place, em).getitem(place, em, index, hint)
        if kind == "parameter dict":
            names = self.parameter_names()
            if not isinstance(key, str):
                fail_at(place, "Unable to extract string literal index of a ParameterDict")
            if key not in names:
                fail_at(place, f"Key Error, {key}")
            return self.parameter_values(em)[names.index(key)]
        if kind == "dict":
            if not isinstance(key, str) and isinstance(hint, InterfaceType):
                return self.any_item(place, em, index, hint)
            if not isinstance(key, str):
                fail_at(
                    place,
                    "Unable to extract string literal index. ModuleDict indexing is only supported "
                    "with string literals. For example, 'i = \"a\"; self.layers[i](x)' will fail "
                    "because i is not a literal. Enumeration of ModuleDict is supported, e.g. 'for "
                    "k, v in self.items(): out = v(inp)'",
                )
            if key not in self.concrete.children:
                fail_at(place, f"Key Error, {key}")
            return self.child(em, key)
        fail_at(
            place,
            "Only ModuleList, Sequential, ModuleDict, ParameterList, and ParameterDict Modules are "
            "subscriptable",
        )

    def any_item(self, place: SourceRange, em: Emitter, index: Value, hint: Type) -> Sugared:
        """A list of modules by a number that is not known: all must offer the interface."""
        for concrete in self.concrete.children.values():
            reason = "" if concrete.type.isSubtypeOf(hint) else why_not(concrete.type, hint)
            if reason:
                fail_at(place, reason)
        return SimpleValue(em.module_item(place, self.value, index, hint))

    def container_method(self, place: SourceRange, em: Emitter, name: str) -> Sugared | None:
        """`items`, `keys`, `values` of containers, `children` and the like of any module."""
        kind = self.concrete.container
        if kind in ("dict", "parameter dict") and name in ("keys", "values", "items"):
            return Listing(lambda: self.listing(place, em, name))
        if name in ("children", "named_children") and name not in vars(self.concrete.python_class):
            word = "values" if name == "children" else "items"
            return Listing(lambda: self.listing(place, em, word))
        if name in ("modules", "named_modules"):
            return Listing(lambda: self.all_modules(place, em, name))
        return None

    def listing(self, place: SourceRange, em: Emitter, word: str) -> Sugared:
        keys = self.names(place, em) if word != "values" else []
        values: list[Sugared] = []
        if word != "keys" and self.concrete.container == "parameter dict":
            values = self.parameter_values(em)
        elif word != "keys":
            values = self.children_values(place, em)
        if word == "keys":
            return SugaredTuple(keys)
        if word == "values":
            return SugaredTuple(values)
        tree = IterableTree()
        tree.add(place, em, SugaredTuple(keys))
        tree.add(place, em, SugaredTuple(values))
        return tree

    def all_modules(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        found: list[tuple[str, Sugared]] = []

        def visit(value: ModuleValue, path: str) -> None:
            found.append((path, value))
            for child in value.concrete.children:
                inner = value.child(em, child)
                assert isinstance(inner, ModuleValue)
                visit(inner, f"{path}.{child}" if path else child)

        visit(self, "")
        values = SugaredTuple([value for _, value in found])
        if name == "modules":
            return values
        keys = SugaredTuple([SimpleValue(em.constant(path, place)) for path, _ in found])
        tree = IterableTree()
        tree.add(place, em, keys)
        tree.add(place, em, values)
        return tree


class Listing(Sugared):
    """A method without arguments that lists submodules."""

    def __init__(self, make: Any) -> None:
        self.make = make

    def kind(self) -> str:
        return "method"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        found: Sugared = self.make()
        return found


def why_not(type_: Type, hint: Type) -> str:
    """Why a module cannot stand where an interface is asked for."""
    assert isinstance(hint, InterfaceType)
    return (
        f"Attribute {type_.annotation_str} is not of annotated type {hint.annotation_str}: "
        f"{why_not_interface(type_, hint)}"
    )
