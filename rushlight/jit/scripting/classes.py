"""User classes in compiled code: attributes from `__init__`, methods, properties, statics."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from typing import Any

from rushlight.jit.ir.parts import NOWHERE, SourceRange
from rushlight.jit.ir.types import ClassType, InterfaceType, Type
from rushlight.jit.naming import qualified_name
from rushlight.jit.scripting.annotations import UnknownAnnotation
from rushlight.jit.scripting.frontend import Parsed, check_function, parse_text
from rushlight.jit.scripting.functions import define_function
from rushlight.jit.scripting.ignoring import is_ignored, is_unused
from rushlight.jit.scripting.records import Written, written_methods
from rushlight.jit.scripting.resolving import Resolver, resolver_of
from rushlight.jit.scripting.sources import SourceText, compiling, source_of
from rushlight.jit.scripting.values import SimpleValue
from rushlight.jit.unit import PYTHON_UNIT, Function

# Python class -> its type.
CLASSES: dict[Any, ClassType | InterfaceType] = {}
# Name of a class's type -> the class: objects of programs that are loaded become its objects.
BY_NAME: dict[str, Any] = {}

NOT_NEW_STYLE = (
    "TorchScript classes does not support inheritance yet. Please directly inherit from 'object'."
)


def class_type(cls: Any, place: SourceRange = NOWHERE) -> Type | None:
    """The type of a class that is or can be compiled; None for modules and the like."""
    found = CLASSES.get(cls)
    if found is not None:
        return found
    from rushlight.nn.module import Module

    if issubclass(cls, Module) or cls.__module__ == "builtins":
        return None
    return compile_class(cls)


def compile_class(cls: Any, local: Mapping[str, Any] | None = None) -> Type:
    """The type of a Python class; its methods are compiled when they are first needed."""
    from rushlight.nn.module import Module

    found = CLASSES.get(cls)
    if found is not None:
        return found
    if issubclass(cls, Module):
        raise UnknownAnnotation(cls.__name__)
    source = source_of(cls)
    tree = parse_text(source)
    node = next((each for each in tree.body if isinstance(each, ast.ClassDef)), None)
    if node is None:
        raise UnknownAnnotation(cls.__name__)
    type_ = ClassType(PYTHON_UNIT.claim(qualified_name(cls)))
    type_.cls = cls
    CLASSES[cls] = type_
    BY_NAME[type_.dotted] = cls
    PYTHON_UNIT.add_type(type_)
    try:
        ClassCompiler(cls, type_, source, node, local or {}).run()
    except Exception:
        del CLASSES[cls], BY_NAME[type_.dotted]
        PYTHON_UNIT.names.remove(type_.dotted)
        raise
    return type_


def class_if_compilable(cls: Any) -> ClassType | None:
    """The type of a class whose object is found somewhere; None where it cannot be compiled."""
    from rushlight.nn.module import Module

    found = CLASSES.get(cls)
    if found is None and not issubclass(cls, Module | tuple | list | BaseException):
        routines = [each for each in vars(cls).values() if inspect.isroutine(each)]
        plain = all([hasattr(inspect.unwrap(each), "__code__") for each in routines])
        if not plain or is_left(cls) or cls.__module__.startswith(("builtins", "rushlight.")):
            return None
        try:
            compile_class(cls)
        except Exception:
            return None
        found = CLASSES.get(cls)
    return found if isinstance(found, ClassType) else None


def check_bases(cls: Any) -> None:
    # torch: only of classes that are compiled by name; of others what they inherit is not there.
    if len(cls.mro()) > 2 and any([base.__module__ != "typing" for base in cls.mro()[1:-1]]):
        raise RuntimeError(NOT_NEW_STYLE)


class ClassCompiler:
    """Compiles the methods of one class."""

    def __init__(
        self,
        cls: Any,
        type_: ClassType,
        source: SourceText,
        node: ast.ClassDef,
        local: Mapping[str, Any],
    ) -> None:
        self.cls = cls
        self.type = type_
        self.source = source
        self.node = node
        self.local = {**local, cls.__name__: cls}

    def run(self) -> None:
        with compiling(self.type.dotted):
            self.compile_members()

    def compile_members(self) -> None:
        definitions = [each for each in self.node.body if isinstance(each, ast.FunctionDef)]
        self.type.class_attributes = names_assigned(self.node)
        waiting: list[Function] = []
        for node in definitions:
            decorators = [ast.unparse(each) for each in node.decorator_list]
            target = inspect.getattr_static(self.cls, node.name)
            if isinstance(target, staticmethod):
                self.add_static(node, target.__func__)
            elif isinstance(target, property):
                waiting += self.add_property(node, target, decorators)
            elif isinstance(target, classmethod):
                self.add_classmethod(node, target.__func__)
            elif is_left(target):
                self.type.unused[node.name] = target
            else:
                waiting.append(self.add_method(node, target, node.name))
        own = {each.name for each in definitions}
        for name, written in written_methods(self.cls).items():
            if name not in own:
                waiting.append(self.add_written(name, written))
        # What `__init__` sets has to be known before anything reads it.
        waiting.sort(key=lambda function: function.short_name != "__init__")
        for function in waiting:
            function.ensure_defined()

    def resolver(self, function: Any) -> Resolver:
        return resolver_of(function, {**self.closure(), **self.local})

    def closure(self) -> dict[str, Any]:
        """What methods of a local class see of the function around: any of them may know it."""
        found: dict[str, Any] = {}
        for each in vars(self.cls).values():
            target = getattr(each, "__func__", each)
            code, cells = getattr(target, "__code__", None), getattr(target, "__closure__", None)
            if code is not None and cells:
                for name, cell in zip(code.co_freevars, cells):
                    if name != "__class__":
                        try:
                            found[name] = cell.cell_contents
                        except ValueError:
                            continue
        return found

    def parsed(self, node: ast.FunctionDef, function: Any) -> Parsed:
        check_function(node, self.source)
        defaults = {
            name: parameter.default
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        return Parsed(node, self.source, f"{self.cls.__name__}.{node.name}", defaults)

    def add_written(self, name: str, written: Written) -> Function:
        """A method that `dataclass` has written."""
        source = SourceText(written.text)
        (node,) = parse_text(source).body
        assert isinstance(node, ast.FunctionDef)
        parsed = Parsed(node, source, f"{self.cls.__name__}.{name}", written.defaults)
        names = {**self.closure(), **self.local, **written.scope}
        return self.new_method(parsed, resolver_of(vars(self.cls)[name], names), name)

    def add_method(self, node: ast.FunctionDef, function: Any, name: str) -> Function:
        return self.new_method(self.parsed(node, function), self.resolver(function), name)

    def new_method(self, parsed: Parsed, resolver: Resolver, name: str) -> Function:
        type_ = self.type

        def define(made: Function) -> None:
            owner_of = type_ if name == "__init__" else None
            define_function(made, parsed, resolver, type_, SimpleValue, owner_of)

        method = Function(f"{type_.dotted}.{name}", define=define, unit=PYTHON_UNIT)
        type_.methods[name] = method
        return method

    def add_classmethod(self, node: ast.FunctionDef, function: Any) -> None:
        """A static method in which the name of the first argument means the class."""
        first = node.args.args.pop(0).arg
        self.add_static(node, function, {first: self.cls})

    def add_static(
        self, node: ast.FunctionDef, function: Any, local: Mapping[str, Any] | None = None
    ) -> None:
        parsed = self.parsed(node, function)
        resolver = resolver_of(function, {**self.closure(), **self.local, **(local or {})})

        def define(made: Function) -> None:
            define_function(made, parsed, resolver)

        # In files it stands beside the class, not in it.
        package = self.type.dotted.rpartition(".")[0]
        name = PYTHON_UNIT.claim(f"{package}.{node.name}")
        made = PYTHON_UNIT.add_function(Function(name, define=define))
        self.type.static_methods[node.name] = made

    def add_property(
        self, node: ast.FunctionDef, target: property, decorators: list[str]
    ) -> list[Function]:
        is_setter = any([text.endswith(".setter") for text in decorators])
        function = target.fset if is_setter else target.fget
        if function is None or any([is_left(each) for each in (target.fget, function)]):
            return []
        if node.name in getattr(self.cls, "__jit_unused_properties__", ()):
            return []
        word = "setter" if is_setter else "getter"
        method = self.add_method(node, function, f"__{node.name}_{word}")
        getter, setter = self.type.properties.get(node.name, (None, None))
        self.type.properties[node.name] = (getter, method) if is_setter else (method, setter)
        return [method]


def names_assigned(node: ast.ClassDef) -> set[str]:
    """The names that assignments in the body of a class give values."""
    targets = [t for each in node.body if isinstance(each, ast.Assign) for t in each.targets]
    targets += [e.target for e in node.body if isinstance(e, ast.AnnAssign) and e.value is not None]
    return {part.id for each in targets for part in ast.walk(each) if isinstance(part, ast.Name)}


def is_left(function: Any) -> bool:
    """Whether a function stays Python."""
    return is_unused(function) or is_ignored(function)


# -- interfaces ------------------------------------------------------------------------------------


def interface(cls: Any) -> Any:
    """`@torch.jit.interface`: a type for all objects that have these methods."""
    from rushlight.nn.module import Module

    if not inspect.isclass(cls):
        raise RuntimeError("interface must be applied to a class")
    if len(cls.mro()) != (3 if issubclass(cls, Module) else 2):
        raise RuntimeError(
            "TorchScript interface does not support inheritance yet. Please directly inherit from "
            "'object' or 'nn.Module'."
        )
    type_ = InterfaceType(PYTHON_UNIT.claim(qualified_name(cls)), issubclass(cls, Module))
    source = source_of(cls)
    (node,) = [each for each in parse_text(source).body if isinstance(each, ast.ClassDef)]
    for each in node.body:
        if isinstance(each, ast.FunctionDef):
            type_.methods[each.name] = interface_schema(cls, each, source, type_)
    CLASSES[cls] = type_
    PYTHON_UNIT.add_type(type_)
    setattr(cls, "__torch_script_interface__", type_)  # noqa: B010
    return cls


def interface_schema(
    cls: Any, node: ast.FunctionDef, source: SourceText, type_: InterfaceType
) -> Any:
    from rushlight.jit.ir.schemas import FunctionSchema, Return
    from rushlight.jit.ir.types import TENSOR
    from rushlight.jit.scripting.functions import signature

    function = vars(cls)[node.name]
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    parsed = Parsed(node, source, node.name, defaults)
    arguments, result = signature(parsed, resolver_of(function), type_)
    return FunctionSchema(node.name, tuple(arguments), (Return(result or TENSOR),))
