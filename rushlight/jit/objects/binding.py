"""Arguments of compiled functions: Python values as the types of a signature ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.device import device
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.binding import type_name
from rushlight.jit.ir.constants import SINGLE_LETTERS, enumerated
from rushlight.jit.ir.schemas import Argument, FunctionSchema
from rushlight.jit.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    ClassType,
    DictType,
    EnumType,
    InterfaceType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)
from rushlight.jit.naming import is_named_tuple
from rushlight.jit.unit import Instance


class CannotCast(Exception):
    """Why a value does not have a type."""

    label = "Cast error details"


class NoMember(CannotCast):
    """A value that is asked for its name and has none."""

    label = " Python error details"


def bind_arguments(
    schema: FunctionSchema, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[Any]:
    """All arguments of a signature, from those of a call; torch's words where they do not fit."""
    arguments = schema.arguments
    given = len(args) + len(kwargs)
    if given > len(arguments):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(arguments)} argument(s) but received {given} "
            f"argument(s). Declaration: {schema}"
        )
    bound: list[Any] = []
    used = 0
    for place, argument in enumerate(arguments):
        if place < len(args):
            if argument.name in kwargs:
                raise RuntimeError(
                    f"{schema.name}() got multiple values for argument '{argument.name}'. "
                    f"Declaration: {schema}"
                )
            bound.append(cast_argument(schema, argument, args[place], place))
        elif argument.name in kwargs:
            used += 1
            bound.append(cast_argument(schema, argument, kwargs[argument.name], place))
        elif argument.has_default_value():
            bound.append(argument.broadcast(argument.default_value))
        else:
            raise RuntimeError(
                f"{schema.name}() is missing value for argument '{argument.name}'. Declaration: "
                f"{schema}"
            )
    if used != len(kwargs):
        known = {argument.name for argument in arguments[len(args) :]}
        name = next(name for name in kwargs if name not in known)
        raise RuntimeError(
            f"Unknown keyword argument '{name}' for operator '{schema.name}'. Schema: {schema}"
        )
    return bound


def cast_argument(schema: FunctionSchema, argument: Argument, value: Any, place: int) -> Any:
    if isinstance(value, Tensor) and isinstance(argument.type, TensorType):
        return value
    try:
        return cast_value(argument.broadcast(value), argument.type)
    except CannotCast as reason:
        inferred = ""
        if isinstance(argument.type, TensorType) and argument.type.inferred:
            inferred = (
                f"Inferred '{argument.name}' to be of type 'Tensor' because it was not annotated "
                "with an explicit type.\n"
            )
        raise RuntimeError(
            f"{schema.name}() Expected a value of type '{type_name(argument.type)}' for "
            f"argument '{argument.name}' but instead found type '{shown_class(value)}'.\n"
            f"{inferred}Position: {place}\nValue: {value!r}\nDeclaration: {schema}\n"
            f"{reason.label}: {reason}"
        ) from None


def shown_class(value: Any) -> str:
    """The class of a value as errors name it: two classes of named tuples may share a name."""
    cls = type(value)
    if not is_named_tuple(cls):
        return str(cls.__name__)
    return f"{cls.__name__} (aka NamedTuple({', '.join(cls._fields)}))"


def cast_value(value: Any, type_: Type) -> Any:
    """A Python value as one of a type, `CannotCast` where it is none."""
    cast = CASTS.get(type(type_))
    if cast is not None:
        return cast(value, type_)
    simple = SIMPLE.get(type_.kind())
    return value if simple is None else simple(value)


def cast_result(value: Any, type_: Type) -> Any:
    """What a function that stays Python returns, as the type that it says."""
    if isinstance(value, Tensor) and isinstance(type_, TensorType):
        return value
    try:
        return cast_value(value, type_)
    except CannotCast as reason:
        raise RuntimeError(
            f" expected value of type {type_.str()} for return value but instead got value of type "
            f"{type(value).__name__}.\nValue: {value!r}\n{reason.label}: {reason}"
        ) from None


def unable(value: Any, type_: str = "") -> CannotCast:
    if type_:
        return CannotCast(f"Unable to cast {value} to {type_}")
    return CannotCast(
        f"Unable to cast Python instance of type {type(value)} to C++ type '?' (#define "
        "PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)"
    )


def cast_tensor(value: Any, type_: TensorType) -> Any:
    # torch: None is a tensor that is not defined.
    if value is None or isinstance(value, Tensor):
        return value
    raise unable(value, "Tensor")


def cast_tuple(value: Any, type_: TupleType) -> Any:
    if not isinstance(value, tuple | list):
        raise unable(value)
    if len(value) != len(type_.items):
        raise CannotCast(
            f"Object {value} had a different number of elements than type {type_.annotation_str}"
        )
    items = [cast_value(item, each) for item, each in zip(value, type_.items)]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def shared_container(value: Any, type_: Type) -> Any:
    """What a container that is shared with compiled code holds, if its type is the wanted one."""
    from rushlight.jit.objects.containers import ScriptDict, ScriptList

    if isinstance(value, ScriptList | ScriptDict) and value._type == type_:
        return value._values
    raise unable(value)


def is_taken_as_list(value: Any, element: Type) -> bool:
    """Whether what is no list can be gone through as one; texts and iterators not for numbers."""
    if isinstance(value, Tensor) or hasattr(value, "_values") or not isinstance(value, Iterable):
        return False
    if isinstance(element, TensorType) or element.kind() in IN_LISTS:
        return hasattr(value, "__len__") and not isinstance(value, str | bytes | dict)
    return True


def cast_list(value: Any, type_: ListType) -> Any:
    element = type_.element
    if not isinstance(value, tuple | list) and not is_taken_as_list(value, element):
        return shared_container(value, type_)
    if isinstance(element, ListType | DictType | TupleType | ClassType | OptionalType):
        return [cast_value(item, element) for item in value]
    cast = IN_LISTS.get(element.kind())
    try:
        if cast is not None:
            return [cast(item) for item in value]
        return [cast_value(item, element) for item in value]
    except CannotCast:
        raise unable(value) from None


def cast_dict(value: Any, type_: DictType) -> Any:
    if not isinstance(value, dict):
        return shared_container(value, type_)
    return {cast_value(k, type_.key): cast_value(v, type_.value) for k, v in value.items()}


def cast_optional(value: Any, type_: OptionalType) -> Any:
    return None if value is None else cast_value(value, type_.element)


def cast_union(value: Any, type_: UnionType) -> Any:
    # A number is of its own type: it is not turned into what another member is.
    own = SINGLE_LETTERS.get(type(value))
    if own is not None and own[1] in type_.members:
        return value
    for member in type_.members if own is None else ():
        if member in NUMBERS and not isinstance(value, float):
            continue
        try:
            return cast_value(value, member)
        except CannotCast:
            continue
    raise CannotCast(f"Expected a member of {type_.annotation_str} but instead found type "
                     f"{type(value).__name__}")  # fmt: skip


def cast_object(value: Any, type_: ClassType | InterfaceType) -> Any:
    core = getattr(value, "_c", value)
    instance = getattr(core, "instance", core)
    if not isinstance(instance, Instance):
        instance = object_of(value, type_)
    if isinstance(type_, InterfaceType):
        from rushlight.jit.ir.relations import why_not_interface

        reason = why_not_interface(instance.type, type_)
        if reason:
            raise CannotCast(
                f"Object {value} is not compatible with interface {type_.dotted}\n{reason}"
            )
    elif instance.type is not type_:
        raise CannotCast(f"Object {value} is not of type {type_.dotted} but {instance.type.dotted}")
    return instance


def object_of(value: Any, type_: ClassType | InterfaceType) -> Instance:
    """A new object of compiled code with the attributes of one of Python; its class is not asked.

    An interface does not say which attributes: the object's own class has to be compiled.
    """
    if isinstance(type_, InterfaceType):
        from rushlight.jit.scripting.classes import CLASSES

        own = CLASSES.get(type(value))
        if not isinstance(own, ClassType):
            raise CannotCast(
                f"Assigning the object {value} to an interface fails because the value is not a "
                "TorchScript compatible type, did you forget to turn it into a user defined "
                "TorchScript class?"
            )
        return object_of(value, own)
    if type_.is_module:
        raise unable(value, type_.dotted)
    made = Instance(type_)
    for name, each in type_.attributes.items():
        if not hasattr(value, name):
            raise CannotCast(
                f"Tried to cast object to type {type_.annotation_str} but object was missing "
                f"attribute {name}"
            )
        try:
            made.values[name] = cast_value(getattr(value, name), each)
        except CannotCast as reason:
            raise CannotCast(
                f"Could not cast attribute '{name}' to type {each.annotation_str}: {reason}"
            ) from None
    return made


def cast_enum(value: Any, type_: EnumType) -> Any:
    if type_.cls is not None and isinstance(value, type_.cls):
        return value
    for name in ("name", "value"):
        if not hasattr(value, name):
            shown = type(value).__name__
            raise NoMember(f"AttributeError: '{shown}' object has no attribute '{name}'")
    if value.name not in type_.members:
        raise unable(value, type_.str())
    # torch: a member of another class stands for the one of its name.
    return value if type_.cls is None else type_.cls[value.name]


# What a Union takes for one of these has to be one.
NUMBERS = (INT, FLOAT, COMPLEX, BOOL)

CASTS: dict[type[Type], Callable[..., Any]] = {
    TensorType: cast_tensor,
    TupleType: cast_tuple,
    ListType: cast_list,
    DictType: cast_dict,
    OptionalType: cast_optional,
    UnionType: cast_union,
    ClassType: cast_object,
    InterfaceType: cast_object,
    EnumType: cast_enum,
}


def cast_int(value: Any) -> Any:
    if type(value) is int:
        return value
    number = enumerated(value)
    if number is not None:
        return number
    # torch: of floats only Python's are refused.
    is_number = hasattr(value, "__int__") or hasattr(value, "__index__")
    if isinstance(value, float) or not is_number:
        raise unable(value)
    return converted(int, value)


def cast_float(value: Any) -> Any:
    if isinstance(value, int | float):
        return float(value)
    if not hasattr(value, "__float__"):
        raise unable(value)
    return converted(float, value)


def cast_bool(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if value is not None and not hasattr(value, "__bool__"):
        raise unable(value)
    return converted(bool, value)


def converted(kind: type, value: Any) -> Any:
    """A number of a Python class, of what can be taken for one: of a tensor its only element."""
    try:
        return kind(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise unable(value) from None


def cast_str(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise unable(value)


def cast_number(value: Any) -> Any:
    if isinstance(value, int | float | complex):
        return value
    raise CannotCast(f"Cannot cast {value} to number")


def cast_complex(value: Any) -> Any:
    if isinstance(value, int | float | complex):
        return complex(value)
    if isinstance(value, str) or not (hasattr(value, "__complex__") or hasattr(value, "__float__")):
        raise unable(value)
    return converted(complex, value)


def cast_none(value: Any) -> Any:
    if value is None:
        return None
    raise CannotCast(f"Cannot cast {value} to None")


def cast_device(value: Any) -> Any:
    if isinstance(value, device):
        return value
    if isinstance(value, str):
        return device(value)
    raise unable(value)


IN_LISTS: dict[str, Callable[[Any], Any]] = {
    "IntType": cast_int,
    "FloatType": cast_float,
    "BoolType": cast_bool,
}

SIMPLE: dict[str, Callable[[Any], Any]] = {
    "IntType": cast_int,
    "FloatType": cast_float,
    "ComplexType": cast_complex,
    "BoolType": cast_bool,
    "StringType": cast_str,
    "NumberType": cast_number,
    "NoneType": cast_none,
    "DeviceObjType": cast_device,
}
