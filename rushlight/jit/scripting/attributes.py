"""Attributes of a Python module: what they are in compiled code, and the type of each."""

from __future__ import annotations

import enum
import inspect
import typing
import warnings
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.jit.ir.constants import enumerated, type_of
from rushlight.jit.ir.relations import unify_all, without_facts
from rushlight.jit.ir.types import ANY, NONE, TENSOR, DictType, ListType, TupleType, Type
from rushlight.jit.objects.binding import CannotCast, cast_value
from rushlight.jit.scripting.annotations import (
    KNOWN_NAMES,
    UnknownAnnotation,
    enum_type,
    type_from_annotation,
)
from rushlight.jit.unit import Instance

INTERNAL = frozenset(
    (
        *("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"),
        *("_is_full_backward_hook", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks"),
        *("_forward_pre_hooks", "_state_dict_hooks", "_load_state_dict_pre_hooks"),
        *("_load_state_dict_post_hooks", "_forward_hooks_with_kwargs", "_state_dict_pre_hooks"),
        *("_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs", "_compiled_call_impl"),
        *("_version", "_sources", "_actual_script_module"),
    )
)
CONSTANT_TYPES = (
    *(bool, int, float, complex, str, device, dtype, layout, memory_format, type(None)),
)


@dataclass(slots=True)
class Attributes:
    """What a module holds besides submodules, by kind."""

    types: dict[str, Type] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    buffers: set[str] = field(default_factory=set)
    # Functions, scripted or to be compiled; and why the rest has no type.
    functions: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def held(self) -> dict[str, Any]:
        """The values as compiled code holds them: containers and users' objects are copies."""
        held = {}
        for name, value in self.values.items():
            try:
                held[name] = cast_value(value, self.types[name])
            except CannotCast as reason:
                raise RuntimeError(
                    f"Could not cast attribute '{name}' to type "
                    f"{self.types[name].annotation_str}: {reason}"
                ) from None
        return held

    def key(self) -> Any:
        """What makes two modules of one class different for the compiler."""
        return (
            tuple(self.types.items()),
            tuple([(n, type(v), repr(v)) for n, v in self.constants.items()]),
            tuple(self.parameters),
            tuple(self.buffers),
            tuple([(n, id(f)) for n, f in self.functions.items()]),
            tuple(self.failed),
        )


def read_attributes(module: Any) -> Attributes:
    """Sorts a module's members."""
    facts = Attributes()
    hints = class_hints(type(module))
    constants = constant_names(module, hints)
    facts.types["training"] = type_of(True)
    facts.values["training"] = bool(module.training)
    for name, value in module._parameters.items():
        add_tensor(facts, facts.parameters, name, value, hints)
    for name, value in module._buffers.items():
        add_tensor(facts, facts.buffers, name, value, hints)
    for name in constants:
        if name in module._modules or name in facts.types or not hasattr(module, name):
            continue
        facts.constants[name] = valid_constant(module, name, getattr(module, name))
    ignored = getattr(module, "__jit_ignored_attributes__", ())
    for name, value in vars(module).items():
        if name in ignored:
            facts.failed[name] = "(This attribute was ignored during compilation)"
            continue
        if name in INTERNAL or name in facts.constants or name in facts.types:
            continue
        add_attribute(facts, module, name, value, hints)
    return facts


def class_hints(cls: Any) -> dict[str, Any]:
    """Annotations in the bodies of the class and its bases."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith(("rushlight.", "torch.")):
            continue
        home = inspect.getmodule(base)
        scope = {**KNOWN_NAMES, **(vars(home) if home is not None else {})}
        for name, hint in vars(base).get("__annotations__", {}).items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, scope)
                except Exception:
                    continue
            found[name] = hint
    return found


def is_final(hint: Any) -> bool:
    return hint is typing.Final or typing.get_origin(hint) is typing.Final


def constant_names(module: Any, hints: dict[str, Any]) -> list[str]:
    names = list(getattr(module, "__constants__", ()))
    names += sorted(getattr(module, "_constants_set", set()) - set(names))
    for name in names:
        if name in module._parameters or name in module._buffers:
            kind = "parameter" if name in module._parameters else "buffer"
            warnings.warn(
                f"'{name}' was found in ScriptModule constants,  but it is a non-constant {kind}. "
                "Consider removing it.",
                stacklevel=2,
            )
    names += [name for name, hint in hints.items() if is_final(hint)]
    from rushlight.jit.scripting.library import layer_forms

    for base in type(module).__mro__:
        if base in layer_forms():
            names += [
                n
                for n in vars(module)
                if isinstance(vars(module)[n], (*CONSTANT_TYPES, tuple, list))
            ]
            break
    return [name for name in dict.fromkeys(names) if name not in INTERNAL]


def valid_constant(module: Any, name: str, value: Any) -> Any:
    if isinstance(value, CONSTANT_TYPES):
        return value
    if isinstance(value, tuple | list):
        return tuple([valid_constant(module, name, item) for item in value])
    words = ", ".join(sorted([each.__name__ for each in CONSTANT_TYPES]))
    raise TypeError(
        f"'{type(value).__name__}' object in attribute '{type(module).__name__}.{name}' is not a "
        f"valid constant.\nValid constants are:\n  1. a nn.ModuleList\n  2. a value of type "
        f"{{{words}}}\n  3. a list or tuple of (2)\n"
    )


def add_tensor(
    facts: Attributes, kind: set[str], name: str, value: Any, hints: dict[str, Any]
) -> None:
    kind.add(name)
    type_: Type = NONE if value is None else TENSOR
    if name in hints and not is_final(hints[name]):
        type_ = type_from_annotation(hints[name])
    facts.types[name] = type_
    facts.values[name] = value


def add_attribute(
    facts: Attributes, module: Any, name: str, value: Any, hints: dict[str, Any]
) -> None:
    from rushlight.jit.objects.functions import ScriptFunction
    from rushlight.jit.scripting.api import Attribute
    from rushlight.jit.scripting.classes import compile_class

    if isinstance(value, Attribute):
        facts.types[name] = type_from_annotation(value.type, None, compile_class)
        facts.values[name] = value.value
        return
    if isinstance(value, ScriptFunction) or inspect.isroutine(value):
        facts.functions[name] = value
        return
    if name in hints:
        try:
            facts.types[name] = type_from_annotation(hints[name], None, compile_class)
        except UnknownAnnotation as unknown:
            facts.failed[name] = f"Unknown type annotation: '{unknown}'"
            return
        facts.values[name] = script_value(value)
        return
    type_, reason = inferred_type(value)
    if type_ is None:
        facts.failed[name] = reason
        return
    facts.types[name] = type_
    facts.values[name] = script_value(value)


def script_value(value: Any) -> Any:
    """A value as compiled code holds it: dtypes and the like are ints."""
    number = enumerated(value)
    if number is not None:
        return number
    instance = getattr(value, "_c", value)
    return instance if isinstance(instance, Instance) else value


def inferred_type(value: Any) -> tuple[Type | None, str]:
    """The type of a value, or why it has none."""
    core = getattr(value, "_c", None)
    if isinstance(core, Instance):
        return core.type, ""
    if isinstance(value, Instance):
        return value.type, ""
    if isinstance(value, list | dict) and not value:
        return None, untyped(value, EMPTY[type(value)])
    type_ = type_with_objects(value)
    if has_any(type_):
        return None, untyped(
            value,
            "Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported "
            "as inputs or outputs of traced functions, but instead got value of type "
            f"{type(value).__name__}.",
        )
    return type_, ""


def type_with_objects(value: Any) -> Type:
    """The type of a value that may hold objects of users' classes; these are compiled."""
    if isinstance(value, enum.Enum):
        return enum_type(type(value))
    if isinstance(value, tuple):
        return TupleType([type_with_objects(item) for item in value])
    if isinstance(value, list) and value:
        return ListType(unify_all([type_with_objects(item) for item in value]) or ANY)
    if isinstance(value, dict) and value:
        key = unify_all([without_facts(type_of(each)) for each in value])
        held = unify_all([type_with_objects(each) for each in value.values()])
        return DictType(key or ANY, held or ANY)
    from rushlight.jit.scripting.classes import class_if_compilable

    found: Type = without_facts(type_of(value))
    own = class_if_compilable(type(value)) if found is ANY else None
    return found if own is None else own


EMPTY = {list: "List trace inputs must have elements", dict: "Dictionary inputs must have entries"}


def untyped(value: Any, reason: str) -> str:
    """Why an attribute is not there for compiled code."""
    return (
        "(This attribute exists on the Python module, but we failed to convert Python type: "
        f"'{type(value).__name__}' to a TorchScript type. {reason}. Its type was inferred; try "
        "adding a type annotation for the attribute.)"
    )


def has_any(type_: Type) -> bool:
    if isinstance(type_, ListType | DictType | TupleType):
        return any([has_any(part) for part in type_.containedTypes()])
    return type_ is ANY
