"""What names of compiled code mean: builtins of the language, and objects of Python.

A `Resolver` looks names up where the Python code would: closure, globals, builtins. Objects that it
finds become values of the compiler: modules, functions (compiled on the way), classes, constants.
"""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import math
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, get_args

from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.jit import awaits
from rushlight.jit.ir.highlight import highlighted
from rushlight.jit.ir.operators import overloads
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NUMBER,
    STR,
    ClassType,
    Type,
)
from rushlight.jit.naming import is_named_tuple
from rushlight.jit.scripting.annotations import (
    KNOWN_NAMES,
    BroadcastingList,
    UnknownAnnotation,
    UnknownPart,
    check_type,
    enum_type,
    named_tuple_type,
    type_from_annotation,
)
from rushlight.jit.scripting.sources import SourceText, fail_at, source_of
from rushlight.jit.scripting.values import (
    BuiltinFunction,
    CastValue,
    ClassValue,
    EnumClass,
    ExceptionValue,
    FunctionValue,
    LegacyTensor,
    MagicMethod,
    PrintValue,
    SimpleValue,
    SpecialForm,
    Sugared,
    TupleConstructor,
)

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter


def cast(type_: Type, word: str, method: str) -> CastValue:
    return CastValue(type_, f"aten::{word}", method)


LANGUAGE: dict[str, Callable[[], Sugared]] = {
    "print": PrintValue,
    "int": lambda: cast(INT, "Int", "__int__"),
    "float": lambda: cast(FLOAT, "Float", "__float__"),
    "bool": lambda: cast(BOOL, "Bool", "__bool__"),
    "complex": lambda: cast(COMPLEX, "Complex", "__complex__"),
    "str": lambda: cast(STR, "str", "__str__"),
    "AssertionError": lambda: ExceptionValue("", "AssertionError: "),
    "len": lambda: MagicMethod("__len__", BuiltinFunction("aten::len")),
    "hash": lambda: MagicMethod("__hash__", BuiltinFunction("aten::hash")),
    "hex": lambda: MagicMethod("__hex__", BuiltinFunction("aten::hex")),
    "oct": lambda: MagicMethod("__oct__", BuiltinFunction("aten::oct")),
    "round": lambda: MagicMethod("__round__", BuiltinFunction("aten::round")),
    "min": lambda: BuiltinFunction("prim::min"),
    "max": lambda: BuiltinFunction("prim::max"),
    "abs": lambda: BuiltinFunction("prim::abs"),
    "id": lambda: BuiltinFunction("prim::id"),
    **{
        name: (lambda name=name: BuiltinFunction(f"aten::{name}"))  # type: ignore[misc]
        for name in ("all", "any", "bin", "chr", "divmod", "ord", "pow", "sorted", "sum")
    },
    **{
        name: (lambda name=name: SpecialForm(name))  # type: ignore[misc]
        for name in (
            *("isinstance", "hasattr", "getattr", "range", "enumerate", "zip", "list", "dict"),
            *("tuple", "slice"),
        )
    },
}


NOT_A_VALUE = (
    "cannot be used as a value. Perhaps it is a closed over global variable? If so, please "
    "consider passing it in as an argument or use a local variable instead."
)


class Resolver:
    """Names of a piece of code."""

    # Saved code has been compiled before: its defaults are values.
    is_of_saved_code = False

    def __init__(
        self,
        scope: Mapping[str, Any],
        functions: Mapping[str, Any] | None = None,
        local: Mapping[str, Any] | None = None,
        hints: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.scope = scope
        self.hints = hints
        # Functions of the same compilation unit, by short name.
        self.functions = functions or {}
        self.local = local or {}

    def names(self) -> set[str]:
        return {*self.local, *self.scope}

    def look_up(self, name: str) -> Any:
        """The object of a name; KeyError where there is none."""
        for scope in (self.local, self.scope):
            if name in scope:
                return scope[name]
        return vars(builtins)[name]

    def find(self, name: str, place: SourceRange, em: Emitter) -> Sugared | None:
        if name in LANGUAGE and name not in self.names():
            return LANGUAGE[name]()
        if name in self.functions:
            return FunctionValue([self.functions[name]])
        try:
            found = self.look_up(name)
        except KeyError:
            return KNOWN_MODULES[name]() if name in KNOWN_MODULES else None
        return sugared_of(found, place, em)

    # -- annotations

    def evaluate(self, text: str) -> Any:
        return eval(text, Names(self))

    def annotation(self, node: ast.expr, source: SourceText) -> Type:
        """The type that an annotation in source text names."""
        from rushlight.jit.scripting.classes import compile_class

        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and part.value is Ellipsis:
                fail_at(
                    source.range_of(part),
                    "Expression of type dots cannot be used in a type expression",
                )

        try:
            code = compile(ast.Expression(node), "<annotation>", "eval")
            found = eval(code, Names(self))
        except (NameError, KeyError, AttributeError, TypeError, SyntaxError):
            fail_at(source.range_of(node), f"Unknown type name '{ast.unparse(node)}'")
        return self.type_of(found, ast.unparse(node), source.range_of(node), compile_class)

    def annotated(self, node: ast.expr, source: SourceText) -> tuple[Type, int | None]:
        """A type, and how many a single value stands for."""
        try:
            found = eval(compile(ast.Expression(node), "<annotation>", "eval"), Names(self))
        except Exception:
            found = None
        lists = [each for each in (found, *get_args(found)) if isinstance(each, BroadcastingList)]
        return self.annotation(node, source), lists[0].size if lists else None

    def type_of(
        self, found: Any, text: str, place: SourceRange, compile_class: Callable[[Any], Type]
    ) -> Type:
        try:
            return type_from_annotation(found, self.evaluate, compile_class)
        except UnknownPart as unknown:
            raise ValueError(
                f"Unknown type annotation: {unknown} at {highlighted(place)}"
            ) from None
        except (UnknownAnnotation, NameError):
            fail_at(place, f"Unknown type name '{text}'")

    def checked_types(self, node: ast.expr, source: SourceText) -> list[Type]:
        """The types of the second argument of `isinstance`."""
        found = eval(compile(ast.Expression(node), "<isinstance>", "eval"), Names(self))
        known = check_type(found)
        if known is not None:
            return [known]
        if isinstance(found, tuple):
            from rushlight.jit.scripting.classes import compile_class

            place = source.range_of(node)
            return [
                check_type(each) or self.type_of(each, str(each), place, compile_class)
                for each in found
            ]
        return [self.annotation(node, source)]


class Names(dict[str, Any]):
    """The names of a resolver as `eval` takes them."""

    def __init__(self, resolver: Resolver) -> None:
        super().__init__()
        self.resolver = resolver

    def __missing__(self, name: str) -> Any:
        try:
            return self.resolver.look_up(name)
        except KeyError:
            if name in ("torch", "math"):
                return KNOWN_MODULES[name]().module  # type: ignore[attr-defined]
            if name in KNOWN_NAMES:
                return KNOWN_NAMES[name]
            return self.resolver.hints()[name]


def annotated_names(function: Any) -> dict[str, Any]:
    """Names that stand as annotations of a function's signature, by what Python has made of them.

    Python has read them where the function was defined: nothing else knows those that are local
    there.
    """
    given = getattr(function, "__annotations__", {})
    found = {}
    for node in ast.walk(ast.parse(source_of(function).bare)):
        if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name):
            found[node.annotation.id] = given.get(node.arg, "")
        if isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name):
            found[node.returns.id] = given.get("return", "")
    return {name: each for name, each in found.items() if not isinstance(each, str)}


def resolver_of(function: Any, local: Mapping[str, Any] | None = None) -> Resolver:
    """The names that a Python function sees."""
    scope: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    if code is not None:
        for name, cell in zip(code.co_freevars, cells):
            try:
                scope[name] = cell.cell_contents
            except ValueError:
                continue
    return Resolver(scope, local=local, hints=cache(partial(annotated_names, function)))


# -- objects of Python -----------------------------------------------------------------------------


class ModuleOfPython(Sugared):
    """A Python module, or another object whose attributes are looked up while compiling."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def kind(self) -> str:
        return "python value of type 'module'"

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        try:
            found = getattr(self.module, name)
        except AttributeError:
            fail_at(place, f"object has no attribute {name}")
        return sugared_of(found, place, em, is_constant=True)


class PythonValue(Sugared):
    """An object of Python that compiled code can only pass by."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def kind(self) -> str:
        return f"python value of type '{type(self.target).__name__}'"

    def as_value(self, place: SourceRange, em: Emitter) -> Any:
        fail_at(place, f"{self.kind()} {NOT_A_VALUE}")

    def getitem(
        self, place: SourceRange, em: Emitter, index: Any, hint: Type | None = None
    ) -> Sugared:
        fail_at(place, f"{self.kind()} {NOT_A_VALUE}")

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        fail_at(place, f"attribute lookup is not defined on {self.kind()}")

    def call(
        self, place: SourceRange, em: Emitter, args: Any, kwargs: Any, binders: int
    ) -> Sugared:
        fail_at(place, f"cannot call a {self.kind()}")


class StaticMethods(PythonValue):
    """A class that is not compiled itself: a module's. Its static methods can be called."""

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        found = inspect.getattr_static(self.target, name, None)
        if isinstance(found, staticmethod):
            return sugared_function(found.__func__, place, em)
        return super().attr(place, em, name)


class FlagDispatch(Sugared):
    """A function that is one of two: a flag, known now, says which."""

    def __init__(self, flag: str, place: int, if_true: Any, if_false: Any) -> None:
        self.flag = flag
        self.place = place
        self.functions = {True: if_true, False: if_false}

    def kind(self) -> str:
        return "boolean_dispatch"

    def call(
        self, place: SourceRange, em: Emitter, args: Any, kwargs: Any, binders: int
    ) -> Sugared:
        from rushlight.jit.scripting.functions import compile_called

        given = kwargs.get(self.flag)
        if given is None and len(args) > self.place:
            given = args[self.place]
        chosen = False if given is None else given.value.toIValue()
        if not isinstance(chosen, bool):
            fail_at(
                place,
                f"argument for boolean dispatch at position {self.place} was not constant",
            )
        function = compile_called(self.functions[chosen])
        return FunctionValue([function]).call(place, em, args, kwargs, binders)


def torch_module() -> Sugared:
    import rushlight

    return ModuleOfPython(rushlight)


KNOWN_MODULES: dict[str, Callable[[], Sugared]] = {
    "torch": torch_module,
    "math": lambda: ModuleOfPython(math),
}


def sugared_of(found: Any, place: SourceRange, em: Emitter, is_constant: bool = False) -> Sugared:
    """What an object of Python is for the compiler."""
    from rushlight.jit.objects.functions import ScriptFunction
    from rushlight.jit.objects.modules import ScriptModule

    if is_constant or isinstance(found, dtype | layout | memory_format):
        constant = constant_of(found, place, em)
        if constant is not None:
            return constant
    if isinstance(found, ScriptFunction):
        return FunctionValue([found.function])
    if inspect.ismodule(found) or type(found).__name__ == "LazyModule":
        return ModuleOfPython(found)
    if isinstance(found, ScriptModule):
        fail_at(place, "Cannot call a ScriptModule that is not a submodule of the caller")
    special = special_form(found)
    if special is not None:
        return special
    if isinstance(found, enum.Enum):
        return SimpleValue(em.enum_member(enum_type(type(found)), found, place))
    if inspect.isclass(found):
        return sugared_class(found, place, em)
    builtin = builtin_name(found)
    if builtin is not None:
        return BuiltinFunction(builtin)
    if inspect.isfunction(found) or inspect.ismethod(found):
        return sugared_function(found, place, em)
    if inspect.isbuiltin(found):
        fail_at(place, f"Python builtin {found} is currently not supported in Torchscript")
    if isinstance(found, types.SimpleNamespace) or is_namespace(found):
        return ModuleOfPython(found)
    if isinstance(found, partial):
        from rushlight.jit.scripting.ignoring import OpaqueFunction

        return OpaqueFunction(found)
    return PythonValue(found)


def is_namespace(found: Any) -> bool:
    """Whether an object only holds functions: `torch.ops`, `torch.ops.aten`."""
    return type(found).__module__.startswith(("rushlight", "torch")) and type(found).__name__ in (
        *("Namespace", "OpNamespace", "Ops", "_Ops", "_OpNamespace"),
    )


def constant_of(found: Any, place: SourceRange, em: Emitter) -> Sugared | None:
    simple = (bool, int, float, complex, str, device, dtype, layout, memory_format, type(None))
    if isinstance(found, simple) and not isinstance(found, enum.Enum):
        return SimpleValue(em.constant(found, place))
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        parts = [constant_of(part, place, em) for part in found]
        if all([part is not None for part in parts]):
            values = [part.as_value(place, em) for part in parts if part is not None]
            return SimpleValue(em.make_tuple(values, place))
    return None


def special_form(found: Any) -> Sugared | None:
    """Functions whose calls the compiler reads itself."""
    from rushlight.jit.scripting.api import FORMS
    from rushlight.jit.tracing.api import is_tracing

    if found is is_tracing:
        return SpecialForm("is_tracing")
    try:
        form = FORMS.get(found)
    except TypeError:
        return None
    return None if form is None else SpecialForm(form)


def legacy_dtype(cls: Any) -> Any:
    """The dtype of `torch.FloatTensor` and its kin."""
    from rushlight.core.construct import LEGACY_NAMES, LegacyType

    return LEGACY_NAMES.get(cls.__name__) if isinstance(cls, LegacyType) else None


def sugared_class(cls: Any, place: SourceRange, em: Emitter) -> Sugared:
    from rushlight.jit.scripting.classes import class_type
    from rushlight.jit.scripting.library.contexts import TWINS

    if issubclass(cls, BaseException):
        return ExceptionValue(exception_name(cls))
    if issubclass(cls, enum.Enum):
        return EnumClass(enum_type(cls))
    if is_named_tuple(cls):
        return TupleConstructor(named_tuple_type(cls))
    if cls is OrderedDict:
        return SpecialForm("dict")
    if cls in (int, float, bool, complex, str):
        return LANGUAGE[cls.__name__]()
    if cls is device:
        return BuiltinFunction("aten::device")
    legacy = legacy_dtype(cls)
    if legacy is not None:
        return LegacyTensor(legacy)
    if cls.__name__ == "set_grad_enabled" and cls.__module__.startswith(("rushlight.", "torch.")):
        return BuiltinFunction("aten::set_grad_enabled")
    cls = TWINS().get(cls, cls)
    type_ = class_type(cls, place)
    if isinstance(type_, ClassType):
        return ClassValue(type_)
    return StaticMethods(cls) if type_ is None else PythonValue(cls)


def exception_name(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def sugared_function(function: Any, place: SourceRange, em: Emitter) -> Sugared:
    from rushlight.jit.scripting.functions import compile_called, overloads_of
    from rushlight.jit.scripting.ignoring import (
        IgnoredFunction,
        UnusedFunction,
        is_ignored,
        is_unused,
    )
    from rushlight.jit.scripting.library import dispatched_forms, script_form

    function = getattr(function, "__original_fn", function)
    flagged = dispatched_forms().get(function)
    if flagged is not None:
        return FlagDispatch(*flagged)
    own = script_form(function)
    if own is not None:
        return FunctionValue(overloads_of(own) or [compile_called(own)])
    if is_unused(function):
        return UnusedFunction(function)
    if is_ignored(function):
        return IgnoredFunction(function)
    several = overloads_of(function)
    if several:
        return FunctionValue(several)
    return FunctionValue([compile_called(function)])


# -- operators by function -------------------------------------------------------------------------


@cache
def namespaces() -> list[tuple[Any, str]]:
    """Modules of operators, and what stands before the names of their ops."""
    import rushlight
    from rushlight import autograd, fft, linalg, special
    from rushlight.nn import functional

    found = [(rushlight, ""), (functional, ""), (autograd, "")]
    return [*found, (linalg, "linalg_"), (fft, "fft_"), (special, "special_")]


MATH = {
    function: f"aten::{name}"
    for name, function in vars(math).items()
    if callable(function) and not name.startswith("_")
} | {math.remainder: "aten::mathremainder"}
AWAITS = {
    awaits._awaitable_wait: "prim::awaitable_wait",
    awaits._awaitable_nowait: "prim::awaitable_nowait",
}
BUILTINS: MutableMapping[Any, str | None] = weakref.WeakKeyDictionary()


def builtin_name(found: Any) -> str | None:
    """The kind of the operator that a Python function calls; None where it is none."""
    if not callable(found) or not isinstance(found, Hashable):
        return None
    try:
        if found in BUILTINS:
            return BUILTINS[found]
    except TypeError:
        return None
    name = look_for_builtin(found)
    if inspect.isfunction(found) or inspect.isbuiltin(found):
        BUILTINS[found] = name
    return name


def look_for_builtin(found: Any) -> str | None:
    from rushlight.jit.scripting.library import dispatched_forms, script_form
    from rushlight.nn.functional import SPELT

    if found is warnings.warn:
        return "aten::warn"
    if found in AWAITS:
        return AWAITS[found]
    if found in MATH:
        return MATH[found] if takes_numbers(MATH[found]) else None
    kind = operator_kind(found)
    if kind is not None:
        return kind
    name = getattr(found, "__name__", "")
    if not name or script_form(found) is not None or found in dispatched_forms():
        return None
    spelt = {operator: name for name, operator in SPELT.items()}
    for home, prefix in namespaces():
        short = name.removeprefix(prefix) if prefix else name
        kind = f"aten::{prefix}{short}"
        shown = getattr(home, short, None) or getattr(home, spelt.get(short, short), None)
        if shown is found and overloads(kind):
            return kind
    return None


def takes_numbers(kind: str) -> bool:
    """Whether an operator is one of numbers, not only of tensors."""
    return any(
        [
            operator.schema.arguments[0].type in (INT, FLOAT, NUMBER)
            for operator in overloads(kind)
            if operator.schema.arguments
        ]
    )


def operator_kind(found: Any) -> str | None:
    """`torch.ops.aten.add`, `torch.ops.aten.add.Tensor`."""
    schema = getattr(found, "_schema", None)
    if schema is not None and hasattr(schema, "name"):
        return str(schema.name)
    qualified = getattr(found, "_qualified_op_name", None)
    return str(qualified) if isinstance(qualified, str) else None
