"""Python annotations as types of graphs.

An annotation is an object (`List[int]`, `int | None`, a class) or its text. Classes that are not
known yet are compiled on the way.
"""

from __future__ import annotations

import enum
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

from rushlight.core.device import device, layout, memory_format
from rushlight.core.dtype import dtype
from rushlight.core.rng import Generator
from rushlight.core.tensor import Tensor
from rushlight.futures import Future
from rushlight.jit.ir import schemas
from rushlight.jit.ir.relations import union
from rushlight.jit.ir.types import (
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    INT,
    STR,
    TENSOR,
    AnyListType,
    AnyTupleType,
    AwaitType,
    DictType,
    EnumType,
    FutureType,
    ListType,
    StreamObjType,
    TupleType,
    Type,
)
from rushlight.jit.naming import is_named_tuple, qualified_name

# Classes of Python, and what schemas call the types that they stand for; enumerations are ints.
WORDS: dict[Any, str] = {
    None: "NoneType",
    type(None): "NoneType",
    typing.Any: "Any",
    Tensor: "Tensor",
    int: "int",
    float: "float",
    complex: "complex",
    bool: "bool",
    str: "str",
    device: "Device",
    Generator: "Generator",
    int | float | complex: "Scalar",
    **dict.fromkeys((dtype, layout, memory_format), "int"),
}
SIMPLE: dict[Any, Type] = {found: schemas.SIMPLE[word] for found, word in WORDS.items()}

# Names that source text may use without importing them.
KNOWN_NAMES: dict[str, Any] = {
    name: getattr(typing, name)
    for name in ("List", "Dict", "Tuple", "Optional", "Union", "Any", "NamedTuple", "Final")
} | {"Tensor": Tensor, "number": int | float | complex, "Device": device, "Generator": Generator}

BARE = {
    typing.List: ("List", "List[int]"),  # noqa: UP006
    list: ("list", "list[int]"),
    typing.Tuple: ("Tuple", "Tuple[int]"),  # noqa: UP006
    tuple: ("tuple", "tuple[int]"),
    typing.Dict: ("Dict", "Dict[int, int]"),  # noqa: UP006
    dict: ("dict", "dict[int, int]"),
    typing.Optional: ("Optional", "Optional[int]"),
    typing.Union: ("Union", "Union[int, float]"),
    Future: ("Future", "Future[int]"),
}


class UnknownAnnotation(Exception):
    """An annotation that names no type."""


class UnknownPart(UnknownAnnotation):
    """A part of an annotation that names no type."""


class BroadcastingList:
    """`BroadcastingList2[int]`: a list of that many, or one value that stands for all."""

    def __init__(self, size: int, element: Any = None) -> None:
        self.size = size
        self.element = element

    def __getitem__(self, element: Any) -> BroadcastingList:
        return BroadcastingList(self.size, element)

    def __call__(self, *args: Any) -> Any:
        # `typing` takes only what can be called.
        raise TypeError("BroadcastingList is an annotation")


KNOWN_NAMES |= {f"BroadcastingList{size}": BroadcastingList(size) for size in range(1, 7)}

FORWARD = getattr(typing, "ForwardRef", str)


def type_from_annotation(
    annotation: Any,
    evaluate: Callable[[str], Any] | None = None,
    compile_class: Callable[[Any], Type] | None = None,
) -> Type:
    """The type that an annotation stands for.

    `evaluate` finds the objects that names in strings mean. Bare containers are refused.
    """

    def convert(part: Any) -> Type:
        try:
            return type_from_annotation(part, evaluate, compile_class)
        except UnknownPart:
            raise
        except UnknownAnnotation:
            raise UnknownPart(f"'{part}'") from None

    try:
        known = SIMPLE.get(annotation)
    except TypeError:
        known = None
    if known is not None:
        return known
    if isinstance(annotation, str | FORWARD):
        text = annotation if isinstance(annotation, str) else annotation.__forward_arg__
        if evaluate is None:
            raise UnknownAnnotation(text)
        return convert(evaluate(text))
    if isinstance(annotation, BroadcastingList):
        return ListType(convert(annotation.element))
    if isinstance(annotation, Type):
        return annotation
    refuse_bare(annotation)
    found = parametrized(annotation, convert)
    if found is not None:
        return found
    if inspect.isclass(annotation):
        return class_annotation(annotation, compile_class)
    raise UnknownAnnotation(str(annotation))


def parametrized(annotation: Any, convert: Callable[[Any], Type]) -> Type | None:
    """Types with parts: `List[int]`, `Tuple[int, str]`, `Optional[int]`."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        return ListType(convert(args[0]))
    if origin is dict:
        key = convert(args[0])
        if key not in (INT, FLOAT, STR, BOOL, COMPLEX, TENSOR, DEVICE) and not isinstance(
            key, EnumType
        ):
            raise RuntimeError(f"Cannot create dict for key type '{key.annotation_str}', only int, float, complex, Tensor, device and string keys are supported")  # fmt: skip # noqa: E501
        return DictType(key, convert(args[1]))
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            raise UnknownAnnotation(str(annotation))
        return TupleType([convert(part) for part in args if part != ()])
    if origin in (typing.Union, types.UnionType):
        return union([convert(part) for part in args])
    if origin is typing.Final:
        return convert(args[0])
    if origin is not None and getattr(origin, "__name__", "") == "Future":
        return FutureType(convert(args[0]))
    if origin is not None and getattr(origin, "__name__", "") == "_Await":
        return AwaitType(convert(args[0]))
    return None


def refuse_bare(annotation: Any) -> None:
    try:
        words = BARE.get(annotation)
    except TypeError:
        return
    if words is not None:
        parts = ("contained types", "contained type")
        if not words[0].lower().endswith("dict"):
            parts = ("a contained type", "a contained type")
        raise RuntimeError(
            f"Attempted to use {words[0]} without {parts[0]}. Please add {parts[1]}, e.g. "
            f"{words[1]}"
        )


def class_annotation(cls: Any, compile_class: Callable[[Any], Type] | None) -> Type:
    if issubclass(cls, Tensor):
        return TENSOR
    if issubclass(cls, enum.Enum):
        return enum_type(cls)
    if is_named_tuple(cls):
        return named_tuple_type(cls)
    if cls.__name__ == "Stream" and cls.__module__.startswith(("rushlight", "torch")):
        return StreamObjType.get()
    if cls.__module__ == "builtins" or compile_class is None:
        raise UnknownAnnotation(cls.__name__)
    return compile_class(cls)


def check_type(annotation: Any) -> Type | None:
    """`list` and `tuple` in `isinstance`: of anything."""
    if annotation is list:
        return AnyListType.get()
    return AnyTupleType.get() if annotation is tuple else None


# -- named tuples and enumerations -----------------------------------------------------------------


NAMED: dict[Any, TupleType] = {}
# A name stands for one type in graphs and files.
NAMED_TYPES: dict[str, TupleType] = {}


def named_tuple_type(
    cls: Any,
    evaluate: Callable[[str], Any] | None = None,
    compile_class: Callable[[Any], Type] | None = None,
) -> TupleType:
    """The type of a class of named tuples; fields without an annotation are tensors."""
    found = NAMED.get(cls)
    if found is None:
        # A class below one of named tuples has the fields of that one.
        hints = {}
        for base in reversed(cls.__mro__):
            hints.update(vars(base).get("__annotations__", {}))
        home = inspect.getmodule(cls)
        names = dict(vars(home)) if home is not None else {}

        def look_up(text: str) -> Any:
            return eval(text, {**KNOWN_NAMES, **names})

        items = []
        for name in cls._fields:
            hint = hints.get(name, Tensor)
            try:
                items.append(type_from_annotation(hint, evaluate or look_up, compile_class))
            except (UnknownAnnotation, NameError, KeyError):
                raise UnknownPart(f"'{hint}' in NamedTuple {cls.__name__}") from None
        defaults = tuple(getattr(cls, "_field_defaults", {}).values())
        found = TupleType(items, qualified_name(cls), cls._fields, defaults)
        if NAMED_TYPES.setdefault(found.name, found) != found:
            raise RuntimeError(f"Can't redefine NamedTuple: {found.name}")
        NAMED[cls] = found
    return found


ENUMS: dict[Any, EnumType] = {}


def enum_type(cls: Any) -> EnumType:
    from rushlight.jit.ir.constants import type_of
    from rushlight.jit.ir.relations import unify_all

    found = ENUMS.get(cls)
    if found is None:
        values = [member.value for member in cls]
        if not values:
            raise RuntimeError("No enum values defined for the enum class.")
        value_type = unify_all([type_of(value) for value in values])
        if value_type is None:
            raise RuntimeError(
                f"Could not unify type list: the values of enum class '{cls.__name__}' have "
                "different types"
            )
        if value_type not in (INT, FLOAT, STR):
            raise RuntimeError(
                f"Cannot create Enum with value type '{value_type.annotation_str}', only int, "
                "float and string are supported"
            )
        members = {member.name: member.value for member in cls}
        found = ENUMS[cls] = EnumType(qualified_name(cls), value_type, members, cls)
    return found
