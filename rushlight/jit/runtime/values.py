"""What generated programs call for values that are no tensors: tuples, objects, Python calls."""

from __future__ import annotations

import enum
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rushlight.core.device import device
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.parts import PythonCall
from rushlight.jit.ir.relations import is_subtype
from rushlight.jit.ir.types import (
    AnyListType,
    AnyTupleType,
    AnyType,
    BoolType,
    ClassType,
    ComplexType,
    DeviceObjType,
    DictType,
    EnumType,
    FloatType,
    FutureType,
    InterfaceType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)
from rushlight.jit.runtime.errors import python_report
from rushlight.jit.unit import Instance

PLAIN: dict[type[Type], tuple[type, ...]] = {
    IntType: (int,),
    FloatType: (float,),
    ComplexType: (complex,),
    BoolType: (bool,),
    StringType: (str,),
    NoneType: (type(None),),
    NumberType: (int, float, complex),
}


def has_type(value: Any, types: Sequence[Type]) -> bool:
    """Whether a value is of one of the types."""
    return any([is_of(value, type_) for type_ in types])


def is_of(value: Any, type_: Type) -> bool:
    plain = PLAIN.get(type(type_))
    if plain is not None:
        return type(value) in plain
    if isinstance(type_, TensorType):
        return isinstance(value, Tensor)
    if isinstance(type_, AnyType):
        return True
    if isinstance(type_, OptionalType):
        return value is None or is_of(value, type_.element)
    if isinstance(type_, UnionType):
        return has_type(value, type_.members)
    if isinstance(type_, ListType | AnyListType):
        is_list = isinstance(value, list)
        element = type_.element if isinstance(type_, ListType) else AnyType.get()
        return is_list and all([is_of(item, element) for item in value])
    if isinstance(type_, AnyTupleType):
        return isinstance(value, tuple)
    if isinstance(type_, TupleType):
        return (
            isinstance(value, tuple)
            and len(value) == len(type_.items)
            and all([is_of(item, part) for item, part in zip(value, type_.items)])
        )
    if isinstance(type_, DictType):
        return isinstance(value, dict) and all(
            [is_of(key, type_.key) and is_of(item, type_.value) for key, item in value.items()]
        )
    if isinstance(type_, ClassType | InterfaceType):
        return isinstance(value, Instance) and is_subtype(value.type, type_)
    if isinstance(type_, EnumType):
        return isinstance(value, enum.Enum) and type(value) is type_.cls
    if isinstance(type_, DeviceObjType):
        return isinstance(value, device)
    if isinstance(type_, FutureType):
        return hasattr(value, "wait")
    return False


@cache
def named_tuple(type_: TupleType) -> Callable[..., Any]:
    """The class of a named tuple."""
    name = type_.name.rpartition(".")[2]
    made: Any = namedtuple(name, type_.fields, defaults=type_.defaults or None)  # type: ignore[misc]
    return made


def unpack_list(values: list[Any], count: int) -> list[Any]:
    if len(values) != count:
        raise RuntimeError(f"Expected {count} elements in a list but found {len(values)}")
    return values


def make_object(type_: ClassType) -> Instance:
    """An object without values yet: `__init__` sets them."""
    return Instance(type_, dict.fromkeys(type_.attributes))


def container_item(container: Instance, index: Any) -> Any:
    """A module of a container of modules, by its place or its name."""
    if isinstance(index, str):
        return container.values[index]
    modules = [v for v in container.values.values() if isinstance(v, Instance)]
    return modules[index]


def start_fork(program: Callable[..., Any], *args: Any) -> Any:
    from rushlight.jit.futures import fork

    return fork(program, *args)


def bind_python(call: PythonCall, is_inplace: bool) -> Callable[..., Any]:
    """What a node that calls Python runs, as a function of its tensors."""
    name, target = call.name, call.target
    if is_inplace:

        def refuse(*args: Any) -> Any:
            raise RuntimeError(f"inplace {name} not supported in the JIT")

        return refuse
    function: Callable[..., Any] = target.apply if call.is_function_class else target
    convention = "" if "c" not in call.convention else call.convention

    def run(*args: Any) -> Any:
        if convention:
            tensors, constants = iter(args), iter(call.constants)
            args = tuple([next(constants if c == "c" else tensors) for c in convention])
        try:
            return function(*args)
        except Exception as error:
            raise RuntimeError(python_report(error)) from error

    return run
