"""Hooks of modules in compiled calls: before and after `forward`, in the order of registration."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import Argument
from rushlight.jit.ir.types import NONE, TupleType, Type
from rushlight.jit.scripting.frontend import parse_function
from rushlight.jit.scripting.functions import signature
from rushlight.jit.scripting.hookchecks import check_hook, check_names, check_pre_hook
from rushlight.jit.scripting.resolving import resolver_of
from rushlight.jit.scripting.values import (
    Arg,
    Args,
    FunctionValue,
    Kwargs,
    MethodValue,
    SimpleValue,
    Sugared,
    unpack_tuple,
)
from rushlight.jit.unit import Function

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter
    from rushlight.jit.scripting.modulevalues import ModuleValue
    from rushlight.jit.scripting.recursive import Concrete


def hooks_of(module: Any) -> tuple[list[Any], list[Any]]:
    """The hooks before and after `forward`."""
    fields = module.__dict__
    tables = [fields.get(name) or {} for name in ("_forward_pre_hooks", "_forward_hooks")]
    return list(tables[0].values()), list(tables[1].values())


def define_hooks(concrete: Concrete) -> None:
    """Compiles a module's hooks and checks what they take and give."""
    before, after = concrete.hooks
    type_ = concrete.type
    if type_.hooks or type_.pre_hooks or not (before or after):
        return
    check_names(concrete.python_class.__name__, before, after)
    forward = concrete.method("forward")
    if forward is None:
        return
    forward.ensure_defined()
    given = TupleType([argument.type for argument in forward.schema.arguments[1:]])
    result = forward.schema.returns[0].type
    for hook in after:
        function = hook_function(concrete, hook)
        check_hook(type_, signature_of(concrete, hook)[0], function.short_name, given, result)
        function.ensure_defined()
        result = function.schema.returns[0].type
        type_.hooks.append(function)
    for hook in before:
        function = hook_function(concrete, hook)
        check_pre_hook(type_, *signature_of(concrete, hook), function.short_name, given)
        function.ensure_defined()
        type_.pre_hooks.append(function)


def signature_of(concrete: Concrete, hook: Any) -> tuple[list[Argument], Type | None]:
    """The arguments of a hook, and what it says that it gives."""
    function = python_function(hook)
    return signature(parse_function(function), resolver_of(function), concrete.type)


def python_function(hook: Any) -> Any:
    return inspect.unwrap(getattr(hook, "__func__", hook))


def hook_function(concrete: Concrete, hook: Any) -> Function:
    """The hook as a function of compiled code, whose first argument is the module."""
    function = python_function(hook)
    known = concrete.hook_functions.get(function)
    if known is None:
        name = getattr(hook, "__func__", hook).__name__
        if name in concrete.type.methods:
            raise RuntimeError(
                f"Can't define hook: {name} on class: {concrete.type.dotted} because a method or "
                "hook with that name already exists."
            )
        known = concrete.make_function(name, parse_function(function), resolver_of(function))
        concrete.hook_functions[function] = known
    return known


def call_with_hooks(
    owner: ModuleValue,
    place: SourceRange,
    em: Emitter,
    args: Args,
    kwargs: Kwargs,
    binders: int,
) -> Sugared:
    before, after = owner.concrete.hooks
    schema = em.schema_of(owner.concrete.method("forward"), place)
    _, inputs = em.match(place, [schema], [Arg(place, owner.value), *args], kwargs)
    inputs = inputs[1:]
    given = em.make_tuple(inputs, place)
    for hook in before:
        result = call_hook(owner, hook, place, em, [given])
        type_ = result.type()
        if type_ is NONE:
            continue
        if isinstance(type_, TupleType):
            given, inputs = result, unpack_tuple(em, result)
        else:
            given, inputs = em.make_tuple([result], place), [result]
    forward = MethodValue(owner.value, ["forward"])
    output = forward.call(place, em, [Arg(place, value) for value in inputs], {}, binders)
    value = output.as_value(place, em)
    for hook in after:
        result = call_hook(owner, hook, place, em, [given, value])
        if result.type() is not NONE:
            value = result
    return SimpleValue(value)


def call_hook(
    owner: ModuleValue, hook: Any, place: SourceRange, em: Emitter, values: list[Any]
) -> Any:
    function = FunctionValue([hook_function(owner.concrete, hook)])
    args = [Arg(place, value) for value in (owner.value, *values)]
    return function.call(place, em, args, {}, 1).as_value(place, em)
