"""Signatures of functions and operators in graphs: arguments and results with graph types.

`of_operator` reads the schema of an op; sizes and other symbolic numbers are plain numbers here,
dtypes, layouts and memory formats are ints.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from rushlight.base.schema import AliasInfo, Schema
from rushlight.base.schema import Type as OperatorType
from rushlight.jit.ir.printing import float_text, quoted
from rushlight.jit.ir.relations import optional, union
from rushlight.jit.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DEVICE,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    NUMBER,
    STR,
    TENSOR,
    AnyClassType,
    AnyEnumType,
    AnyListType,
    AnyTupleType,
    AwaitType,
    CapsuleType,
    DictType,
    FutureType,
    ListType,
    PyObjectType,
    RRefType,
    StorageType,
    StreamObjType,
    TupleType,
    Type,
    VarType,
)

SIMPLE: dict[str, Type] = {
    "Tensor": TENSOR,
    "int": INT,
    "SymInt": INT,
    "ScalarType": INT,
    "Layout": INT,
    "MemoryFormat": INT,
    "QScheme": INT,
    "float": FLOAT,
    "SymFloat": FLOAT,
    "bool": BOOL,
    "SymBool": BOOL,
    "complex": COMPLEX,
    "str": STR,
    "Dimname": STR,
    "Scalar": NUMBER,
    "number": NUMBER,
    "Device": DEVICE,
    "Generator": GENERATOR,
    "Storage": StorageType.get(),
    "Stream": StreamObjType.get(),
    "Any": ANY,
    "NoneType": NONE,
    "Capsule": CapsuleType.get(),
    "PyObject": PyObjectType.get(),
    "AnyListType": AnyListType.get(),
    "AnyTupleType": AnyTupleType.get(),
    "AnyClassType": AnyClassType.get(),
    "AnyEnumType": AnyEnumType.get(),
}


class Missing:
    """Stands for "no default"."""

    def __repr__(self) -> str:
        return "no default"


NO_DEFAULT = Missing()


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `size` is N of `int[N]`: a single value is taken for N of them."""

    name: str
    type: Type
    default_value: Any = NO_DEFAULT
    kwarg_only: bool = False
    alias_info: AliasInfo | None = None
    size: int | None = None

    @property
    def N(self) -> int | None:
        return self.size

    def has_default_value(self) -> bool:
        return self.default_value is not NO_DEFAULT

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    def broadcast(self, value: Any) -> Any:
        """A value where one stands for several of its type."""
        if self.size is not None and type(value) in (int, float, bool):
            return [value] * self.size
        return value

    def __str__(self) -> str:
        text = schema_text(self.type)
        if self.size is not None:
            text = text.replace("[]", f"[{self.size}]")
        text += f" {self.name}"
        if self.default_value is NO_DEFAULT:
            return text
        return f"{text}={default_text(self.default_value)}"


@dataclass(frozen=True, slots=True)
class Return:
    type: Type
    name: str = ""
    alias_info: AliasInfo | None = None

    def __str__(self) -> str:
        text = schema_text(self.type)
        return f"{text} {self.name}" if self.name else text


@dataclass(frozen=True, slots=True, repr=False)
class FunctionSchema:
    """`name.overload(arguments) -> returns`. `text` is the printed form where it is not derived."""

    name: str
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]
    overload_name: str = ""
    is_vararg: bool = False
    is_varret: bool = False
    text: str = ""

    @property
    def is_mutable(self) -> bool:
        return any([argument.is_write for argument in self.arguments])

    def renamed(self, name: str) -> FunctionSchema:
        return replace(self, name=name)

    def with_arguments(self, arguments: tuple[Argument, ...]) -> FunctionSchema:
        return replace(self, arguments=arguments, text="")

    def __str__(self) -> str:
        if self.text:
            return self.text
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        if self.is_vararg:
            parts.append("...")
        results = [str(result) for result in self.returns] + ["..."] * self.is_varret
        printed = f"({', '.join(results)})"
        # Parsers take the parentheses of a lone tuple for those of the results.
        if len(results) == 1 and not results[0].startswith("("):
            printed = results[0]
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}({', '.join(parts)}) -> {printed}"

    __repr__ = __str__


def schema_text(type_: Type) -> str:
    """A type in a schema: named tuples by name."""
    if getattr(type_, "name", "") and isinstance(type_, TupleType):
        return type_.name
    return type_.str()


def default_text(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, list | tuple):
        inner = ", ".join([default_text(item) for item in value])
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return str(value)


@cache
def of_operator(schema: Schema) -> FunctionSchema:
    """The schema of an op with graph types."""
    arguments = tuple(
        [
            Argument(
                argument.name,
                graph_type(argument.type),
                argument.default_value if argument.has_default else NO_DEFAULT,
                argument.kwarg_only,
                argument.alias_info,
                argument.type.size,
            )
            for argument in schema.arguments
        ]
    )
    returns = tuple(
        [Return(graph_type(each.type), each.name, each.alias_info) for each in schema.returns]
    )
    return FunctionSchema(
        schema.name,
        arguments,
        returns,
        schema.overload_name,
        schema.is_vararg,
        schema.is_varret,
        str(schema),
    )


def graph_type(type_: OperatorType) -> Type:
    """A type of an op's schema as a graph has it."""
    if type_.optional:
        return optional(graph_type(type_.as_required()))
    if type_.element is not None:
        return ListType(graph_type(type_.element))
    parts = [graph_type(part) for part in type_.params]
    if type_.kind == "Tuple":
        return TupleType(parts)
    if type_.kind == "Dict":
        return DictType(*parts)
    if type_.kind == "Union":
        return union(parts)
    if type_.kind in CONTAINERS:
        made: Type = CONTAINERS[type_.kind](*parts)
        return made
    return SIMPLE[type_.kind] if type_.kind in SIMPLE else VarType(type_.name)


CONTAINERS: dict[str, Any] = {"Future": FutureType, "Await": AwaitType, "RRef": RRefType}
