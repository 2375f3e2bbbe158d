"""Functions that stay Python: `@ignore` calls them from compiled code, `@unused` never does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.jit.ir.parts import PythonCall, SourceRange
from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return
from rushlight.jit.ir.types import NONE, TENSOR, Type
from rushlight.jit.scripting.sources import fail_at
from rushlight.jit.scripting.values import Arg, Args, ExceptionValue, Kwargs, SimpleValue, Sugared

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter

MODIFIER = "_torchscript_modifier"
UNUSED = "unused (ignored and replaced with raising of an exception)"
IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
EXPORT = "export (compile this function even if nothing calls it)"
COPY = "copy_to_script_wrapper (if this method is not scripted, copy the python method onto the scripted model)"  # noqa: E501
DEFAULT = "default (compile if called from a exported function / forward)"
MESSAGE = "This Python function is annotated to be ignored and cannot be run"


def mark(function: Any, modifier: str) -> Any:
    setattr(function, MODIFIER, modifier)
    return function


def modifier_of(function: Any) -> str:
    target = inspect.unwrap(function) if inspect.isroutine(function) else function
    found = getattr(function, MODIFIER, None) or getattr(target, MODIFIER, None)
    return found or DEFAULT


def is_unused(function: Any) -> bool:
    return modifier_of(function) == UNUSED


def is_ignored(function: Any) -> bool:
    return modifier_of(function) == IGNORE


def is_exported(function: Any) -> bool:
    return modifier_of(function) == EXPORT


def ignore(drop: Any = False, **kwargs: Any) -> Any:
    """The function is left as Python: compiled code calls it. `drop=True`: such a call raises."""
    if callable(drop):
        return mark(drop, IGNORE)
    return lambda function: mark(function, UNUSED if drop else IGNORE)


def unused(function: Any) -> Any:
    """The function is not compiled; a call from compiled code raises."""
    if isinstance(function, property):
        getter = mark(function.fget, UNUSED)
        setter = mark(function.fset, UNUSED) if function.fset is not None else None
        return property(getter, setter)
    return mark(function, UNUSED)


def export(function: Any) -> Any:
    """The method is compiled though nothing compiled calls it."""
    return mark(function, EXPORT)


def python_schema(function: Any, owner: Any = None) -> FunctionSchema:
    """The signature of a function whose body is not compiled."""
    import ast

    from rushlight.jit.scripting.frontend import VARIABLE_ARGUMENTS, Parsed  # noqa: F401
    from rushlight.jit.scripting.functions import signature
    from rushlight.jit.scripting.resolving import resolver_of
    from rushlight.jit.scripting.sources import source_of

    target = inspect.unwrap(getattr(function, "__func__", function))
    source = source_of(target)
    node = ast.parse(source.bare).body[0]
    assert isinstance(node, ast.FunctionDef)
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(target).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }
    parsed = Parsed(node, source, target.__name__, defaults)
    arguments, result = signature(parsed, resolver_of(target), NONE if owner is not None else None)
    if owner is not None:
        arguments = arguments[1:]
    return FunctionSchema(target.__name__, tuple(arguments), (Return(result or TENSOR),))


def declared_result(function: Any) -> Type:
    """What a function says it returns; its parameters may be of types that no program has."""
    import ast

    from rushlight.jit.scripting.frontend import Parsed, parse_text
    from rushlight.jit.scripting.functions import result_type
    from rushlight.jit.scripting.resolving import resolver_of
    from rushlight.jit.scripting.sources import source_of

    target = inspect.unwrap(getattr(function, "__func__", function))
    source = source_of(target)
    node = parse_text(source).body[0]
    assert isinstance(node, ast.FunctionDef)
    parsed = Parsed(node, source, target.__name__, {})
    return result_type(parsed, resolver_of(target)) or TENSOR


def over_module(function: Any) -> Callable[..., Any]:
    """A method that gets the compiled module as Python has it."""

    def call(instance: Any, *args: Any) -> Any:
        from rushlight.jit.objects.modules import wrap_instance

        return function(wrap_instance(instance), *args)

    return call


class IgnoredFunction(Sugared):
    """A call of Python; for a method, of the object `owner`, which the graph has as `value`."""

    def __init__(self, function: Any, owner: Any = None, value: Any = None) -> None:
        self.function = function
        self.owner = owner
        self.value = value

    def kind(self) -> str:
        return f"python value of type '{type(self.function).__name__}'"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        schema = python_schema(self.function, self.owner)
        _, inputs = em.match(place, [schema], args, kwargs)
        target: Callable[..., Any] = self.function
        if self.owner is not None:
            inputs = [self.value, *inputs]
            target = over_module(target)
        node = em.graph.create("prim::PythonOp", inputs)
        node.python = PythonCall(
            target, schema.name, "d" * len(inputs), (), str(target.__module__), False
        )
        node.output().setType(schema.returns[0].type)
        return SimpleValue(em.insert(node, place).output())


class OpaqueFunction(Sugared):
    """A call of Python that has no source to read a signature from: tensors in, a tensor out."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def kind(self) -> str:
        return f"python value of type '{type(self.function).__name__}'"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        if kwargs or is_annotated(self.function):
            # torch: trips over both.
            fail_at(place, f"cannot call a {self.kind()} by names or with annotations")
        names = [Argument(f"arg{at}", TENSOR) for at in range(len(args))]
        schema = FunctionSchema("<python_value>", tuple(names), (Return(TENSOR),))
        _, inputs = em.match(place, [schema], args, kwargs)
        node = em.graph.create("prim::PythonOp", inputs)
        node.python = PythonCall(
            self.function, schema.name, "d" * len(inputs), is_function_class=False
        )
        node.output().setType(TENSOR)
        return SimpleValue(em.insert(node, place).output())


def is_annotated(function: Callable[..., Any]) -> bool:
    """Whether a signature says types."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    said = [found.return_annotation, *[p.annotation for p in found.parameters.values()]]
    return any([each is not inspect.Signature.empty for each in said])


class UnusedFunction(Sugared):
    """A call that raises; its result has the type that the function declares."""

    def __init__(self, function: Any, owner: Any = None) -> None:
        self.function = function
        self.owner = owner

    def kind(self) -> str:
        return "unused function"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        message = Arg(place, em.constant(MESSAGE, place))
        raised = ExceptionValue("").call(place, em, [message], {}, 1)
        none = em.graph.insertConstant(None)
        inputs = [raised.message, none]  # type: ignore[attr-defined]
        em.insert(em.graph.create("prim::RaiseException", inputs, 0), place)
        return SimpleValue(em.uninitialized(declared_result(self.function)))
