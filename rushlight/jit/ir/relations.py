"""How types relate: which is a part of which, and what two have in common.

Invariant: `is_subtype` is reflexive and transitive, and `unify` gives an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rushlight.jit.ir.types import (
    ANY,
    INT,
    NONE,
    NUMBER,
    NUMBERS,
    TENSOR,
    AnyClassType,
    AnyEnumType,
    AnyListType,
    AnyTupleType,
    AnyType,
    AwaitType,
    ClassType,
    DictType,
    EnumType,
    FutureType,
    InterfaceType,
    ListType,
    NamedType,
    NoneType,
    NoReturnType,
    NumberType,
    OptionalType,
    RRefType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

# The members of a Union stand in this order.
KIND_ORDER = (
    *("AnyType", "EnumType", "AnyEnumType", "TensorType", "StorageType", "TupleType", "ListType"),
    *("DictType", "NumberType", "FloatType", "ComplexType", "FutureType", "AwaitType", "RRefType"),
    *("IntType", "NoneType", "StringType", "_GeneratorType", "QuantizerType", "BoolType"),
    *("OptionalType", "VarType", "DeviceObjType", "StreamObjType", "FunctionType", "ClassType"),
    *("PyObjectType", "CapsuleType", "InterfaceType", "AnyListType", "AnyTupleType"),
    *("AnyClassType", "SymIntType", "SymBoolType", "UnionType"),
)


def kind_order(type_: Type) -> int:
    kind = type_.kind()
    return KIND_ORDER.index(kind) if kind in KIND_ORDER else len(KIND_ORDER)


def optional(element: Type) -> Type:
    """`element` or None."""
    if element in (NONE, ANY) or isinstance(element, OptionalType):
        return element
    if isinstance(element, UnionType):
        return union([*element.members, NONE])
    return OptionalType(element)


def union(members: Iterable[Type]) -> Type:
    """One of the members: flat, without those that another covers."""
    flat: list[Type] = []
    for member in members:
        flat += alternatives(member)
    kept: list[Type] = []
    for member in flat:
        if any([is_subtype(member, other) for other in kept]):
            continue
        kept = [other for other in kept if not is_subtype(other, member)]
        kept.append(member)
    if all([number in kept for number in NUMBERS]):
        place = kept.index(INT)
        kept = [member for member in kept if member not in NUMBERS]
        kept.insert(place, NUMBER)
    kept.sort(key=kind_order)
    if len(kept) == 1:
        return kept[0]
    if len(kept) == 2 and NONE in kept:
        return OptionalType(kept[0] if kept[1] is NONE else kept[1])
    return UnionType(kept)


def alternatives(type_: Type) -> list[Type]:
    """The types one of which a value of `type_` has."""
    if isinstance(type_, UnionType):
        return list(type_.members)
    if isinstance(type_, OptionalType):
        return [*alternatives(type_.element), NONE]
    return [type_]


def is_subtype(type_: Type, other: Type) -> bool:
    """Whether every value of `type_` is one of `other`."""
    if type_ is other or isinstance(other, AnyType) or isinstance(type_, NoReturnType):
        return True
    if isinstance(other, OptionalType | UnionType):
        choices = alternatives(other)
        return all([any([is_subtype(a, b) for b in choices]) for a in alternatives(type_)])
    if isinstance(type_, OptionalType | UnionType):
        return all([is_subtype(member, other) for member in alternatives(type_)])
    if isinstance(other, TensorType):
        return isinstance(type_, TensorType) and other.covers(type_)
    if isinstance(other, NumberType):
        return type_ in NUMBERS or isinstance(type_, NumberType)
    if isinstance(other, AnyListType):
        return isinstance(type_, ListType)
    if isinstance(other, AnyTupleType):
        return isinstance(type_, TupleType)
    if isinstance(other, AnyClassType):
        return isinstance(type_, ClassType)
    if isinstance(other, AnyEnumType):
        return isinstance(type_, EnumType)
    if isinstance(other, InterfaceType):
        return why_not_interface(type_, other) == ""
    if isinstance(other, TupleType):
        return (
            isinstance(type_, TupleType)
            and len(type_.items) == len(other.items)
            and (not other.fields or type_.fields == other.fields)
            and all([is_subtype(a, b) for a, b in zip(type_.items, other.items)])
        )
    if isinstance(other, ListType):
        # A list can be written: its elements must be of the very type, whatever is known of them.
        return isinstance(type_, ListType) and same_but_facts(type_.element, other.element)
    if isinstance(other, DictType):
        return (
            isinstance(type_, DictType)
            and same_but_facts(type_.key, other.key)
            and same_but_facts(type_.value, other.value)
        )
    if isinstance(other, FutureType | AwaitType | RRefType):
        return type(type_) is type(other) and is_subtype(type_.element, other.element)
    return type_ == other


def same_but_facts(type_: Type, other: Type) -> bool:
    return type_ == other or without_facts(type_) == without_facts(other)


def without_facts(type_: Type) -> Type:
    """The type without what is known of tensors: every tensor is a plain one."""
    if isinstance(type_, TensorType):
        return TENSOR
    if isinstance(type_, NamedType):
        return type_
    parts = type_.containedTypes()
    plain = [without_facts(part) for part in parts]
    if all([a is b for a, b in zip(parts, plain)]):
        return type_
    return type_.with_contained(plain)


def why_not_interface(type_: Type, interface: InterfaceType) -> str:
    """Why a value does not offer what the interface asks for; "" where it does."""
    if isinstance(type_, InterfaceType):
        offered = type_.methods
    elif isinstance(type_, ClassType):
        offered = {name: method.schema for name, method in type_.methods.items()}
    else:
        return f"{type_.annotation_str} is not a class"
    for name, wanted in interface.methods.items():
        schema = offered.get(name)
        if schema is None:
            return f"Type '{type_.annotation_str}' does not have method '{name}'"
        if not is_compatible_schema(schema, wanted):
            return (
                f"Method on class '{type_.annotation_str}' (1) is not compatible with interface "
                f"'{interface.dotted}' (2)\n  (1) {schema}\n  (2) {wanted}"
            )
    return ""


def is_compatible_schema(schema: Any, wanted: Any) -> bool:
    """Whether a method can stand where another is called; `self` is not compared."""
    ours, theirs = schema.arguments[1:], wanted.arguments[1:]
    if len(ours) != len(theirs) or len(schema.returns) != len(wanted.returns):
        return False
    return all(
        [a.name == b.name and is_subtype(b.type, a.type) for a, b in zip(ours, theirs)]
    ) and all([is_subtype(a.type, b.type) for a, b in zip(schema.returns, wanted.returns)])


def unify(a: Type, b: Type, make_union: bool = False, hint: Type | None = None) -> Type | None:
    """A type that both are; None where there is none but Any.

    `make_union` gives a Union there. `hint` is what the user wrote for the result.
    """
    found = unify_plain(a, b)
    if found is not None:
        return found
    if hint is not None and is_subtype(a, hint) and is_subtype(b, hint):
        return hint
    return union([a, b]) if make_union else None


def unify_plain(a: Type, b: Type) -> Type | None:
    if a == b:
        return a
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        return a.merge(b)
    if isinstance(a, ListType | DictType) and same_but_facts(a, b):
        return without_facts(a)
    if is_subtype(a, b):
        return b
    if is_subtype(b, a):
        return a
    for one, other in ((a, b), (b, a)):
        if isinstance(one, NoneType) and not isinstance(other, NoneType):
            return optional(other)
        if isinstance(one, OptionalType):
            element = other.element if isinstance(other, OptionalType) else other
            inner = unify_plain(one.element, element)
            return None if inner is None else optional(inner)
    if isinstance(a, TupleType) and isinstance(b, TupleType) and len(a.items) == len(b.items):
        items = [unify_plain(x, y) for x, y in zip(a.items, b.items)]
        known = [item for item in items if item is not None]
        return TupleType(known) if len(known) == len(items) else None
    if isinstance(a, FutureType) and isinstance(b, FutureType):
        inner = unify_plain(a.element, b.element)
        return None if inner is None else FutureType(inner)
    return None


def unify_all(types: Sequence[Type], make_union: bool = False, hint: Type | None = None) -> Any:
    """A type that all are, or None."""
    result: Type | None = types[0]
    for type_ in types[1:]:
        if result is None:
            return None
        result = unify(result, type_, make_union, hint)
    return result
