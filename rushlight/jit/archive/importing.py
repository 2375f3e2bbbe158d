"""Classes and functions from the texts of an archive.

The texts are compiled, never run: names mean operators, constants of the archive, and other texts
of it, and annotations are read off the syntax tree. Whatever else a text names is an error.
"""

from __future__ import annotations

import ast
import enum
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.base.errors import CheckpointError, error
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.numbers import MARK
from rushlight.jit.ir.operators import overloads
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.relations import optional, union
from rushlight.jit.ir.schemas import SIMPLE, Argument, FunctionSchema, Return
from rushlight.jit.ir.types import (
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STR,
    TENSOR,
    AwaitType,
    ClassType,
    DictType,
    EnumType,
    FutureType,
    InterfaceType,
    ListType,
    NamedType,
    RRefType,
    TupleType,
    Type,
)
from rushlight.jit.runtime.values import named_tuple
from rushlight.jit.scripting.classes import BY_NAME
from rushlight.jit.scripting.frontend import Checker, Parsed
from rushlight.jit.scripting.functions import define_function
from rushlight.jit.scripting.resolving import LANGUAGE, Resolver
from rushlight.jit.scripting.sources import SourceText, fail_at
from rushlight.jit.scripting.values import (
    BuiltinFunction,
    ClassValue,
    EnumClass,
    FunctionValue,
    SimpleValue,
    SpecialForm,
    Sugared,
    TupleConstructor,
)
from rushlight.jit.unit import CompilationUnit, Function

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter

# Longer texts and deeper trees are nobody's model.
MOST_CHARACTERS = 64 << 20
# Operators that reach beyond the program.
FORBIDDEN = frozenset(("aten::from_file", "aten::save", "prim::PythonOp"))
FORMS = {
    *("annotate", "uninitialized", "unchecked_cast", "unchecked_unwrap_optional", "getattr"),
    *("fork", "awaitable", "isinstance", "hasattr", "range"),
}
CLOSURES = ("__forked_function", "__awaitable_function")
NUMBERS: dict[str, Any] = {
    "inf": math.inf,
    "nan": math.nan,
    "infj": complex(0, math.inf),
    "nanj": complex(0, math.nan),
}
TYPE_NAMES: dict[str, Type] = {**SIMPLE, "None": NONE, "number": SIMPLE["Scalar"]}
# Classes of torch's own that are other types here: the handle of a label is a tensor.
BUILT_IN: dict[str, Type] = {"__torch__.torch.classes.profiler._RecordFunction": TENSOR}
GENERIC: dict[str, Callable[..., Type]] = {
    "List": ListType,
    "Dict": DictType,
    "Optional": optional,
    "Future": FutureType,
    "Await": AwaitType,
    "RRef": RRefType,
}


def refuse(what: str) -> CheckpointError:
    return error("RL1494", CheckpointError, what=what)


class Importer:
    """Finds classes and functions of an archive by name, and compiles them on the way.

    `text_of` gives the text of a package, None where there is none.
    """

    def __init__(
        self,
        text_of: Callable[[str], str | None],
        constants: tuple[Any, ...],
        unit: CompilationUnit,
    ) -> None:
        self.text_of = text_of
        self.constants = [wrapped(value) for value in constants]
        self.unit = unit
        self.packages: dict[str, tuple[SourceText, dict[str, ast.stmt]]] = {}
        self.types: dict[str, Type] = {}
        self.functions: dict[str, Function] = {}
        self.resolver = ArchiveResolver(self)

    # -- texts

    def package(self, name: str) -> tuple[SourceText, dict[str, ast.stmt]]:
        found = self.packages.get(name)
        if found is None:
            text = self.text_of(name) or ""
            if len(text) > MOST_CHARACTERS:
                raise refuse(f"the text of {name} is too long")
            source = SourceText(text, f"code/{name.replace('.', '/')}.py")
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as reason:
                raise refuse(f"the text of {name} is no program ({reason})") from None
            found = (
                source,
                {
                    node.name: node
                    for node in tree.body
                    if isinstance(node, ast.ClassDef | ast.FunctionDef)
                },
            )
            self.packages[name] = found
        return found

    def definition(self, dotted: str) -> tuple[SourceText, ast.stmt | None]:
        package, _, name = dotted.rpartition(".")
        source, nodes = self.package(package)
        return source, nodes.get(name)

    # -- classes

    def find_type(self, dotted: str) -> Type | None:
        """The class, named tuple, enumeration or interface of a name."""
        found = self.types.get(dotted) or BUILT_IN.get(dotted)
        if found is not None:
            return found
        source, node = self.definition(dotted)
        if not isinstance(node, ast.ClassDef):
            return None
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        if len(bases) != len(node.bases) or len(bases) > 1 or node.keywords or node.decorator_list:
            raise refuse(f"the class {dotted} has bases that are not known")
        base = bases[0] if bases else ""
        makers: dict[str, Callable[[str, SourceText, ast.ClassDef], Type]] = {
            "": self.read_class,
            "Module": self.read_class,
            "NamedTuple": self.read_named_tuple,
            "Enum": self.read_enumeration,
            "Interface": self.read_interface,
            "ModuleInterface": self.read_interface,
        }
        if base not in makers:
            raise refuse(f"the class {dotted} is a {base}, which is not known")
        return makers[base](dotted, source, node)

    def read_class(self, dotted: str, source: SourceText, node: ast.ClassDef) -> ClassType:
        cls = ClassType(self.unit.claim(dotted), is_module=bool(node.bases))
        cls.cls = None if cls.is_module else BY_NAME.get(dotted)
        self.types[dotted] = cls
        self.unit.add_type(cls)
        lists: dict[str, list[str]] = {}
        methods: list[ast.FunctionDef] = []
        for each in node.body:
            if isinstance(each, ast.FunctionDef):
                methods.append(each)
            elif isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                self.read_field(cls, each.target.id, each, source)
            elif isinstance(each, ast.Assign):
                self.read_assignment(cls, each, lists, source)
            elif not isinstance(each, ast.Pass):
                raise refuse(f"the class {dotted} has a {type(each).__name__} in its body")
        cls.parameters = set(lists.get("__parameters__", ()))
        cls.buffers = set(lists.get("__buffers__", ()))
        for each in methods:
            self.add_method(cls, each, source)
        for word, target in (
            ("__forward_pre_hooks__", cls.pre_hooks),
            ("__forward_hooks__", cls.hooks),
        ):
            # One function may be registered several times.
            target += [cls.methods[name] for name in lists.get(word, ())]
        for hook in (*cls.pre_hooks, *cls.hooks):
            cls.methods.pop(hook.short_name, None)
        return cls

    def read_field(
        self, cls: ClassType, name: str, node: ast.AnnAssign, source: SourceText
    ) -> None:
        annotation = node.annotation
        if is_final(annotation):
            assert isinstance(annotation, ast.Subscript)
            type_ = self.resolver.annotation(annotation.slice, source)
            cls.constants[name] = literal(node.value, type_)
        else:
            cls.attributes[name] = self.resolver.annotation(annotation, source)

    def read_assignment(
        self, cls: ClassType, node: ast.Assign, lists: dict[str, list[str]], source: SourceText
    ) -> None:
        """`__parameters__ = [...]` and `__annotations__["0"] = ...`."""
        target = node.targets[0]
        if isinstance(target, ast.Name):
            lists[target.id] = [str(each) for each in literal(node.value, ListType(STR))]
            return
        if (
            isinstance(target, ast.Subscript)
            and isinstance(target.value, ast.Name)
            and target.value.id == "__annotations__"
            and isinstance(target.slice, ast.Constant)
        ):
            type_ = self.resolver.annotation(node.value, source)
            cls.attributes[str(target.slice.value)] = type_
            return
        raise refuse(f"the class {cls.dotted} assigns something that is not known")

    def add_method(self, cls: ClassType, node: ast.FunctionDef, source: SourceText) -> None:
        check(node, source)

        def define(made: Function) -> None:
            define_function(made, parsed(node, source), self.resolver, cls)

        function = Function(f"{cls.dotted}.{node.name}", define=define, unit=self.unit)
        cls.methods[node.name] = function

    def read_named_tuple(self, dotted: str, source: SourceText, node: ast.ClassDef) -> TupleType:
        fields: list[str] = []
        types: list[Type] = []
        defaults: list[Any] = []
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or not isinstance(each.target, ast.Name):
                continue
            fields.append(each.target.id)
            types.append(self.resolver.annotation(each.annotation, source))
            if each.value is not None:
                defaults.append(literal(each.value, types[-1]))
        made = TupleType(types, dotted, fields, defaults)
        try:
            named_tuple(made)
        except ValueError as reason:
            raise refuse(f"the tuple {dotted} cannot be: {reason}") from None
        self.types[dotted] = made
        return made

    def read_enumeration(self, dotted: str, source: SourceText, node: ast.ClassDef) -> EnumType:
        members: dict[str, Any] = {}
        for each in node.body:
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
                members[each.targets[0].id] = literal(each.value, None)
        first = next(iter(members.values()), 0)
        value_type = {int: INT, float: FLOAT, str: STR}.get(type(first), INT)
        cls = enum.Enum(dotted.rpartition(".")[2], members)  # type: ignore[misc]
        made = EnumType(dotted, value_type, members, cls)
        self.types[dotted] = made
        return made

    def read_interface(self, dotted: str, source: SourceText, node: ast.ClassDef) -> InterfaceType:
        base = node.bases[0]
        is_module = isinstance(base, ast.Name) and base.id == "ModuleInterface"
        made = InterfaceType(self.unit.claim(dotted), is_module)
        self.types[dotted] = made
        self.unit.add_type(made)
        for each in node.body:
            if not isinstance(each, ast.FunctionDef):
                continue
            first, *rest = each.args.args
            arguments = [Argument(first.arg, made)]
            for arg in rest:
                assert arg.annotation is not None
                type_ = self.resolver.annotation(arg.annotation, source)
                arguments.append(Argument(arg.arg, type_))
            assert each.returns is not None
            result = Return(self.resolver.annotation(each.returns, source))
            made.methods[each.name] = FunctionSchema(each.name, tuple(arguments), (result,))
        return made

    # -- functions

    def find_function(self, dotted: str) -> Function | None:
        found = self.functions.get(dotted)
        if found is not None:
            return found
        source, node = self.definition(dotted)
        if not isinstance(node, ast.FunctionDef):
            return None
        check(node, source)

        def define(made: Function) -> None:
            define_function(made, parsed(node, source), self.resolver)

        function = Function(self.unit.claim(dotted), define=define)
        self.unit.add_function(function)
        self.functions[dotted] = function
        return function


def wrapped(value: Any) -> Any:
    """torch: a number that stood for a tensor is stored as a tensor without dims."""
    is_number = isinstance(value, Tensor) and value.dim() == 0
    if is_number and value.dtype.name in ("float64", "int64", "bool", "complex128"):
        value.__dict__[MARK] = True
    return value


def check(node: ast.FunctionDef, source: SourceText) -> None:
    """Refuses a function whose text holds anything but the language."""
    args = node.args
    if args.vararg or args.kwarg or args.posonlyargs or node.decorator_list:
        raise refuse(f"the signature of {node.name} is not known")
    SavedChecker(source).statements(node.body)


class SavedChecker(Checker):
    """Saved code has closures: functions without arguments that are run later."""

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef) and node.name.startswith(CLOSURES):
            if node.decorator_list or ast.unparse(node.args):
                raise refuse(f"the signature of {node.name} is not known")
            self.statements(node.body)
        else:
            super().statement(node)


def parsed(node: ast.FunctionDef, source: SourceText) -> Parsed:
    """A function of an archive with the values of its defaults."""
    names = [each.arg for each in node.args.args]
    given = node.args.defaults
    defaults = dict(zip(names[len(names) - len(given) :], given))
    defaults |= {
        each.arg: default
        for each, default in zip(node.args.kwonlyargs, node.args.kw_defaults)
        if default is not None
    }
    values = {name: literal(default, None) for name, default in defaults.items()}
    return Parsed(node, source, node.name, values)


def is_final(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Final"
    )


def literal(node: ast.expr | None, type_: Type | None) -> Any:
    """A constant that is written down."""
    if isinstance(node, ast.Call):
        return literal_call(node)
    if isinstance(node, ast.Name) and node.id in NUMBERS:
        return NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -literal(node.operand, type_)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        left, right = literal(node.left, COMPLEX), literal(node.right, COMPLEX)
        return left + right if isinstance(node.op, ast.Add) else left - right
    if isinstance(node, ast.List | ast.Tuple):
        items = [literal(each, None) for each in node.elts]
        return items if isinstance(node, ast.List) else tuple(items)
    if isinstance(node, ast.Dict):
        return {literal(k, None): literal(v, None) for k, v in zip(node.keys, node.values)}
    if isinstance(node, ast.Constant):
        return node.value
    raise refuse("a constant of its code is not written down")


def literal_call(node: ast.Call) -> Any:
    """`annotate(T, x)` and `torch.device("cpu")`."""
    function = node.func
    if isinstance(function, ast.Name) and function.id == "annotate" and len(node.args) == 2:
        return literal(node.args[1], None)
    if isinstance(function, ast.Attribute) and function.attr == "device" and len(node.args) == 1:
        return literal(node.args[0], STR)
    raise refuse("a constant of its code is not written down")


class ArchiveResolver(Resolver):
    """The names of an archive's texts."""

    is_of_saved_code = True

    def __init__(self, importer: Importer) -> None:
        super().__init__({})
        self.importer = importer

    def find(self, name: str, place: SourceRange, em: Emitter) -> Sugared | None:
        if name in FORMS:
            return SpecialForm(name)
        if name in LANGUAGE:
            return LANGUAGE[name]()
        if name in NUMBERS:
            return SimpleValue(em.constant(NUMBERS[name], place))
        if name == "torch":
            return Operators("aten")
        if name == "ops":
            return Operators("")
        if name == "CONSTANTS":
            return ConstantTable(self.importer)
        if name == "__torch__":
            return Package(self.importer, "__torch__")
        return None

    def annotation(self, node: ast.expr, source: SourceText) -> Type:
        found = self.read_type(node)
        if found is None:
            fail_at(source.range_of(node), f"Unknown type name '{ast.unparse(node)}'")
        return found

    def annotated(self, node: ast.expr, source: SourceText) -> tuple[Type, int | None]:
        return self.annotation(node, source), None

    def checked_types(self, node: ast.expr, source: SourceText) -> list[Type]:
        parts = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
        return [self.annotation(part, source) for part in parts]

    def read_type(self, node: ast.expr) -> Type | None:
        if isinstance(node, ast.Constant) and node.value is None:
            return NONE
        if isinstance(node, ast.Name):
            return TYPE_NAMES.get(node.id)
        if isinstance(node, ast.Attribute):
            dotted = dotted_name(node)
            return None if dotted is None else self.importer.find_type(dotted)
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
            return None
        word, inner = node.value.id, node.slice
        nodes = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        parts = [self.read_type(each) for each in nodes]
        known = [part for part in parts if part is not None]
        if len(known) != len(parts):
            return None
        if word == "Tuple":
            return TupleType(known)
        if word == "Union":
            return union(known)
        make = GENERIC.get(word)
        wanted = 2 if word == "Dict" else 1
        return None if make is None or len(known) != wanted else make(*known)


def dotted_name(node: ast.expr) -> str | None:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


class Operators(Sugared):
    """`torch`, `ops` and `ops.prim`: attributes are operators."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace

    def kind(self) -> str:
        return "module"

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        if not self.namespace:
            return Operators(name)
        kind = f"{self.namespace}::{name}"
        if kind in FORBIDDEN or not overloads(kind):
            fail_at(place, f"Unknown builtin op: {kind}")
        return BuiltinFunction(kind)


class ConstantTable(Sugared):
    """`CONSTANTS`."""

    def __init__(self, importer: Importer) -> None:
        self.importer = importer

    def kind(self) -> str:
        return "constants"

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        number = name[1:]
        constants = self.importer.constants
        if not name.startswith("c") or not number.isdigit() or int(number) >= len(constants):
            fail_at(place, f"invalid constant specifier: {name}")
        return SimpleValue(em.constant(constants[int(number)], place))


class Package(Sugared):
    """A dotted name whose next part is a package, a class or a function."""

    def __init__(self, importer: Importer, dotted: str) -> None:
        self.importer = importer
        self.dotted = dotted

    def kind(self) -> str:
        return "module"

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        dotted = f"{self.dotted}.{name}"
        found = self.importer.find_type(dotted)
        if isinstance(found, ClassType):
            return ClassValue(found)
        if isinstance(found, EnumType):
            return EnumClass(found)
        if isinstance(found, TupleType):
            return TupleConstructor(found)
        if isinstance(found, NamedType):
            fail_at(place, f"{dotted} cannot be used as a value")
        function = self.importer.find_function(dotted)
        if function is not None:
            return FunctionValue([function])
        return Package(self.importer, dotted)
