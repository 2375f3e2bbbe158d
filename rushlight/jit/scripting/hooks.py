"""Hooks of modules in compiled calls: before and after `forward`, in the order of registration."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import NONE, TupleType
from rushlight.jit.scripting.frontend import parse_function
from rushlight.jit.scripting.resolving import resolver_of
from rushlight.jit.scripting.values import (
    Arg,
    Args,
    Kwargs,
    MethodValue,
    SimpleValue,
    Sugared,
    unpack_tuple,
)

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter
    from rushlight.jit.scripting.modulevalues import ModuleValue


def hooks_of(module: Any) -> tuple[list[Any], list[Any]]:
    """The hooks before and after `forward`."""
    fields = module.__dict__
    tables = [fields.get(name) or {} for name in ("_forward_pre_hooks", "_forward_hooks")]
    return list(tables[0].values()), list(tables[1].values())


def hook_method(owner: ModuleValue, hook: Any) -> str:
    """The hook as a method of the module's class."""
    function = getattr(hook, "__func__", hook)
    name = function.__name__
    methods = owner.concrete.type.methods
    if name not in methods:
        function = inspect.unwrap(function)
        owner.concrete.add_method(name, parse_function(function), resolver_of(function))
    return str(name)


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
    for hook in before:
        given = em.make_tuple(inputs, place)
        result = call_hook(owner, hook, place, em, [given])
        if result.type() is NONE:
            continue
        type_ = result.type()
        inputs = unpack_tuple(em, result) if isinstance(type_, TupleType) else [result]
    forward = MethodValue(owner.value, ["forward"])
    output = forward.call(place, em, [Arg(place, value) for value in inputs], {}, binders)
    value = output.as_value(place, em)
    for hook in after:
        result = call_hook(owner, hook, place, em, [em.make_tuple(inputs, place), value])
        if result.type() is not NONE:
            value = result
    return SimpleValue(value)


def call_hook(
    owner: ModuleValue, hook: Any, place: SourceRange, em: Emitter, values: list[Any]
) -> Any:
    method = MethodValue(owner.value, [hook_method(owner, hook)])
    args = [Arg(place, value) for value in values]
    return method.call(place, em, args, {}, 1).as_value(place, em)
