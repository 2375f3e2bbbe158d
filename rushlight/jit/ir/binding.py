"""Names that stand for any type (`t` of `t[]`): what they are bound to by a call's arguments."""

from __future__ import annotations

from rushlight.jit.ir.relations import is_subtype, unify
from rushlight.jit.ir.types import (
    AwaitType,
    DictType,
    EnumType,
    FutureType,
    ListType,
    NoneType,
    OptionalType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    VarType,
)

Bindings = dict[str, Type]


def type_name(type_: Type) -> str:
    """A type as errors name it."""
    if isinstance(type_, TensorType) and type_.inferred:
        return "Tensor (inferred)"
    if isinstance(type_, EnumType):
        return type_.str()
    return type_.annotation_str


# Whether a formal type holds a name, by the type itself.
OPEN: dict[Type, bool] = {}


HOLDERS = (ListType, OptionalType, DictType, TupleType, FutureType, AwaitType, RRefType)


def is_open(formal: Type) -> bool:
    """Whether a formal type has names that a call binds."""
    if not isinstance(formal, HOLDERS):
        return isinstance(formal, VarType)
    found = OPEN.get(formal)
    if found is None:
        found = OPEN[formal] = any([is_open(part) for part in formal.containedTypes()])
    return found


def bind(formal: Type, actual: Type, bindings: Bindings) -> str:
    """Binds the names of `formal` so that `actual` can stand for it; the reason where it cannot."""
    if not is_open(formal):
        return ""
    if isinstance(formal, VarType):
        known = bindings.get(formal.name)
        if known is None:
            bindings[formal.name] = actual
            return ""
        both = unify(known, actual)
        if both is None:
            return (
                f"Type variable '{formal.name}' previously matched to type "
                f"{type_name(known)} is matched to type {type_name(actual)}"
            )
        bindings[formal.name] = both
        return ""
    if isinstance(formal, OptionalType):
        if isinstance(actual, OptionalType):
            return bind(formal.element, actual.element, bindings)
        # None says nothing about what else it could be.
        return "" if isinstance(actual, NoneType) else bind(formal.element, actual, bindings)
    if isinstance(formal, ListType) and isinstance(actual, TupleType) and actual.items:
        element: Type | None = actual.items[0]
        for item in actual.items[1:]:
            element = None if element is None else unify(element, item)
        if element is None:
            return "Cannot match a tuple of unlike types to a list"
        return bind(formal.element, element, bindings)
    fits = type(formal) is type(actual)
    parts, given = formal.containedTypes(), actual.containedTypes()
    if not fits or len(parts) != len(given):
        return f"Cannot match {type_name(formal)} to {type_name(actual)}"
    for part, own in zip(parts, given):
        reason = bind(part, own, bindings)
        if reason:
            return reason
    return ""


def evaluate(formal: Type, bindings: Bindings) -> Type | None:
    """The type with names replaced by what they are bound to; None where one is not bound."""
    if not is_open(formal):
        return formal
    if isinstance(formal, VarType):
        return bindings.get(formal.name)
    parts = [evaluate(part, bindings) for part in formal.containedTypes()]
    known = [part for part in parts if part is not None]
    return formal.with_contained(known) if len(known) == len(parts) else None


def takes(formal: Type, actual: Type, bindings: Bindings) -> bool:
    """Whether a value of `actual` may stand for `formal` as it is; binds names on the way."""
    if formal is actual:
        return True
    if bind(formal, actual, bindings):
        return False
    wanted = evaluate(formal, bindings)
    return wanted is not None and is_subtype(actual, wanted)
