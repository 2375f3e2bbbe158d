"""Types of values in a graph of `jit`: what they print as, and which is a part of which.

A type prints in two ways: `str()` gives the text of graphs and schemas (`Tensor?[]`), and
`annotation_str` the Python annotation (`List[Optional[Tensor]]`), which is also what `print` shows.
Types are values: equal where they mean the same; classes and interfaces are known by their names
and the compilation unit that made them.
Invariant: `is_subtype(a, b)` is reflexive and transitive, and `unify` gives an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

# What a graph calls the tensors of a dtype.
DTYPE_WORDS = {
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "bool": "Bool",
    "bfloat16": "BFloat16",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
DTYPE_NAMES = {word: name for name, word in DTYPE_WORDS.items()}


class Type:
    """A type. Those without parts are one object each: `IntType.get()`."""

    __slots__ = ()

    word: ClassVar[str] = "Any"
    annotation_word: ClassVar[str] = ""

    @classmethod
    def get(cls) -> Type:
        found = SINGLE.get(cls)
        if found is None:
            found = SINGLE[cls] = cls()
        return found

    def kind(self) -> str:
        return type(self).__name__

    def str(self) -> str:
        """The text in graphs and schemas."""
        return self.word

    @property
    def annotation_str(self) -> str:
        """The annotation in Python."""
        return self.annotation_word or self.word

    def containedTypes(self) -> list[Type]:
        return []

    def with_contained(self, parts: Sequence[Type]) -> Type:
        """This type with other parts, one for each of `containedTypes`."""
        return self

    def isSubtypeOf(self, other: Type) -> bool:
        return is_subtype(self, other)

    def is_interface_type(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.annotation_str

    def __repr__(self) -> str:
        return self.annotation_str

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(self) is type(other) and self.identity() == other.identity()  # type: ignore[attr-defined]
        )

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.identity()))

    def identity(self) -> Any:
        """What decides equality among types of one class."""
        return tuple(self.containedTypes())


SINGLE: dict[type[Type], Type] = {}


class AnyType(Type):
    __slots__ = ()
    word = "Any"


class NoneType(Type):
    __slots__ = ()
    word = "NoneType"


class IntType(Type):
    __slots__ = ()
    word = "int"


class FloatType(Type):
    __slots__ = ()
    word = "float"


class ComplexType(Type):
    __slots__ = ()
    word = "complex"


class BoolType(Type):
    __slots__ = ()
    word = "bool"


class StringType(Type):
    __slots__ = ()
    word = "str"


class NumberType(Type):
    """An int, a float or a complex number; schemas call it Scalar."""

    __slots__ = ()
    word = "Scalar"
    annotation_word = "number"


class DeviceObjType(Type):
    __slots__ = ()
    word = "Device"
    annotation_word = "Device"


class StreamObjType(Type):
    __slots__ = ()
    word = "Stream"


class _GeneratorType(Type):
    __slots__ = ()
    word = "Generator"


class StorageType(Type):
    __slots__ = ()
    word = "Storage"


class QuantizerType(Type):
    __slots__ = ()
    word = "Quantizer"


class SymIntType(Type):
    __slots__ = ()
    word = "SymInt"
    annotation_word = "int"


class SymBoolType(Type):
    __slots__ = ()
    word = "SymBool"
    annotation_word = "bool"


class PyObjectType(Type):
    __slots__ = ()
    word = "PyObject"


class CapsuleType(Type):
    __slots__ = ()
    word = "Capsule"


class AnyListType(Type):
    __slots__ = ()
    word = "list"


class AnyTupleType(Type):
    __slots__ = ()
    word = "tuple"


class AnyClassType(Type):
    __slots__ = ()
    word = "AnyClassType"


class AnyEnumType(Type):
    __slots__ = ()
    word = "AnyEnumType"


class NoReturnType(Type):
    """Of a call that never comes back; below every type."""

    __slots__ = ()
    word = "NoReturn"


class TensorType(Type):
    """A tensor, and what is known of it. None stands for "not known".

    `sizes` and `strides` may hold None for single dims; `undefined` is true for a tensor that is
    known to be absent.
    """

    __slots__ = (
        "_device",
        "_requires_grad",
        "_sizes",
        "_strides",
        "_text",
        "dtype_name",
        "inferred",
        "is_undefined",
    )

    word = "Tensor"

    def __init__(
        self,
        dtype_name: str | None = None,
        device: str | None = None,
        sizes: Sequence[int | None] | None = None,
        strides: Sequence[int | None] | None = None,
        requires_grad: bool | None = None,
        undefined: bool | None = None,
        inferred: bool = False,
    ) -> None:
        self.dtype_name = dtype_name
        self._device = device
        self._sizes = None if sizes is None else tuple(sizes)
        self._strides = None if strides is None else tuple(strides)
        self._requires_grad = requires_grad
        self.is_undefined = undefined
        self.inferred = inferred
        self._text = self.print_text()

    @classmethod
    def getInferred(cls) -> TensorType:
        """The type of a parameter that has no annotation."""
        return cls(inferred=True)

    @classmethod
    def create_from_tensor(cls, tensor: Tensor) -> TensorType:
        return complete_type(tensor)

    def print_text(self) -> str:
        word = "Tensor"
        if self.dtype_name is not None:
            word = DTYPE_WORDS[self.dtype_name] + ("Tensor" if self._sizes is None else "")
        parts: list[str] = []
        if self._sizes is not None:
            parts += ["*" if size is None else repr(size) for size in self._sizes]
            if self._strides is not None and self._sizes:
                steps = ", ".join(["*" if step is None else repr(step) for step in self._strides])
                parts.append(f"strides=[{steps}]")
        if self._requires_grad is not None:
            parts.append(f"requires_grad={int(self._requires_grad)}")
        if self._device is not None:
            parts.append(f"device={self._device}")
        text = f"{word}({', '.join(parts)})" if parts or self._sizes is not None else word
        return text + ("[Undefined]" if self.is_undefined else "")

    def str(self) -> str:
        return self._text

    @property
    def annotation_str(self) -> str:
        return "Tensor"

    def identity(self) -> Any:
        return self._text

    @property
    def is_complete(self) -> bool:
        """Whether dtype, device, sizes and strides are all known."""
        return (
            self.dtype_name is not None
            and self._device is not None
            and self._sizes is not None
            and None not in self._sizes
            and self._strides is not None
            and None not in self._strides
        )

    def sizes(self) -> list[int] | None:
        if self._sizes is None or None in self._sizes:
            return None
        return [size for size in self._sizes if size is not None]

    def varyingSizes(self) -> list[int | None] | None:
        return None if self._sizes is None else list(self._sizes)

    def strides(self) -> list[int] | None:
        if self._strides is None or None in self._strides:
            return None
        return [step for step in self._strides if step is not None]

    def dim(self) -> int | None:
        return None if self._sizes is None else len(self._sizes)

    def scalarType(self) -> str | None:
        return None if self.dtype_name is None else DTYPE_WORDS[self.dtype_name]

    def dtype(self) -> Any:
        if self.dtype_name is None:
            return None
        from rushlight.base import dtypes

        return getattr(dtypes, self.dtype_name)

    def device(self) -> Any:
        if self._device is None:
            return None
        from rushlight.base.device import Device

        return Device(self._device)

    def requires_grad(self) -> bool:
        return self._requires_grad is not False

    requiresGrad = requires_grad

    def undefined(self) -> bool:
        return bool(self.is_undefined)

    def replaced(self, **changes: Any) -> TensorType:
        """This type with some facts changed."""
        facts = {
            "dtype_name": self.dtype_name,
            "device": self._device,
            "sizes": self._sizes,
            "strides": self._strides,
            "requires_grad": self._requires_grad,
            "undefined": self.is_undefined,
        }
        return TensorType(**{**facts, **changes})

    def with_sizes(self, sizes: Sequence[int | None]) -> TensorType:
        return self.replaced(sizes=sizes, strides=None)

    def with_dtype(self, dtype: Any) -> TensorType:
        return self.replaced(dtype_name=str(dtype).rpartition(".")[2])

    def with_device(self, device: Any) -> TensorType:
        return self.replaced(device=str(device))

    def contiguous(self) -> TensorType:
        """The same sizes laid out in order."""
        sizes = self.sizes()
        return self if sizes is None else self.replaced(strides=contiguous_strides(sizes))

    def merge(self, other: TensorType) -> TensorType:
        """What is known of both."""

        def common(a: Any, b: Any) -> Any:
            return a if a == b else None

        def along(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None) -> Any:
            if a is None or b is None or len(a) != len(b):
                return None
            return [common(x, y) for x, y in zip(a, b)]

        return TensorType(
            common(self.dtype_name, other.dtype_name),
            common(self._device, other._device),
            along(self._sizes, other._sizes),
            along(self._strides, other._strides),
            common(self._requires_grad, other._requires_grad),
            common(self.is_undefined, other.is_undefined),
        )

    def covers(self, other: TensorType) -> bool:
        """Whether all that is known here is known of `other`, and the same."""
        if self._text == "Tensor" or self._text == other._text:
            return True
        return self.merge(other)._text == self._text


def contiguous_strides(sizes: Sequence[int]) -> list[int]:
    strides = [1] * len(sizes)
    for dim in range(len(sizes) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(sizes[dim + 1], 1)
    return strides


def complete_type(tensor: Tensor) -> TensorType:
    """All that can be read off a tensor."""
    strided = str(tensor.layout).endswith("strided")
    return TensorType(
        str(tensor.dtype).rpartition(".")[2],
        str(tensor.device),
        [int(size) for size in tensor.shape] if strided else None,
        [int(step) for step in tensor.stride()] if strided else None,
        tensor.requires_grad,
        False,
    )


class OneOf(Type):
    """Types that hold one element type."""

    __slots__ = ("element",)

    def __init__(self, element: Type) -> None:
        self.element = element

    def getElementType(self) -> Type:
        return self.element

    def containedTypes(self) -> list[Type]:
        return [self.element]

    def with_contained(self, parts: Sequence[Type]) -> Type:
        return type(self)(*parts)

    def str(self) -> str:
        return f"{self.word}[{self.element.str()}]"

    @property
    def annotation_str(self) -> str:
        return f"{self.word}[{self.element.annotation_str}]"


class ListType(OneOf):
    __slots__ = ()
    word = "List"

    def str(self) -> str:
        return f"{self.element.str()}[]"

    @classmethod
    def ofInts(cls) -> ListType:
        return cls(INT)

    @classmethod
    def ofFloats(cls) -> ListType:
        return cls(FLOAT)

    @classmethod
    def ofBools(cls) -> ListType:
        return cls(BOOL)

    @classmethod
    def ofStrings(cls) -> ListType:
        return cls(STR)

    @classmethod
    def ofTensors(cls) -> ListType:
        return cls(TENSOR)


class OptionalType(OneOf):
    """None, or what `element` says. Made by `optional`, which keeps it from nesting."""

    __slots__ = ()
    word = "Optional"

    def str(self) -> str:
        return f"{self.element.str()}?"

    @classmethod
    def ofTensor(cls) -> OptionalType:
        return cls(TENSOR)


class FutureType(OneOf):
    __slots__ = ()
    word = "Future"


class AwaitType(OneOf):
    __slots__ = ()
    word = "Await"

    def str(self) -> str:
        return f"Await({self.element.str()})"


class RRefType(OneOf):
    __slots__ = ()
    word = "RRef"


class DictType(Type):
    __slots__ = ("key", "value")

    def __init__(self, key: Type, value: Type) -> None:
        self.key = key
        self.value = value

    def getKeyType(self) -> Type:
        return self.key

    def getValueType(self) -> Type:
        return self.value

    def containedTypes(self) -> list[Type]:
        return [self.key, self.value]

    def with_contained(self, parts: Sequence[Type]) -> Type:
        return DictType(*parts)

    def str(self) -> str:
        return f"Dict({self.key.str()}, {self.value.str()})"

    @property
    def annotation_str(self) -> str:
        return f"Dict[{self.key.annotation_str}, {self.value.annotation_str}]"


class TupleType(Type):
    """A tuple; one with `name` and `fields` is a named tuple.

    `defaults` are the values of the last fields.
    """

    __slots__ = ("defaults", "fields", "items", "name")

    def __init__(
        self,
        items: Iterable[Type],
        name: str = "",
        fields: Sequence[str] = (),
        defaults: Sequence[Any] = (),
    ) -> None:
        self.items = tuple(items)
        self.name = name
        self.fields = tuple(fields)
        self.defaults = tuple(defaults)

    def elements(self) -> list[Type]:
        return list(self.items)

    def containedTypes(self) -> list[Type]:
        return list(self.items)

    def with_contained(self, parts: Sequence[Type]) -> Type:
        return TupleType(parts, self.name, self.fields, self.defaults)

    def identity(self) -> Any:
        return (self.name, self.fields, self.items)

    def str(self) -> str:
        if self.name:
            fields = [f"{name} : {item.str()}" for name, item in zip(self.fields, self.items)]
            return f"NamedTuple({', '.join(fields)})"
        return f"({', '.join([item.str() for item in self.items])})"

    @property
    def annotation_str(self) -> str:
        if self.name:
            return self.name
        if not self.items:
            return "Tuple[()]"
        return f"Tuple[{', '.join([item.annotation_str for item in self.items])}]"


class UnionType(Type):
    """One of several types; made by `union`, which flattens and sorts out."""

    __slots__ = ("members",)

    def __init__(self, members: Iterable[Type]) -> None:
        self.members = tuple(members)

    def containedTypes(self) -> list[Type]:
        return list(self.members)

    def with_contained(self, parts: Sequence[Type]) -> Type:
        return union(parts)

    def identity(self) -> Any:
        return frozenset(self.members)

    def str(self) -> str:
        return f"Union({', '.join([member.str() for member in self.members])})"

    @property
    def annotation_str(self) -> str:
        return f"Union[{', '.join([member.annotation_str for member in self.members])}]"


class NamedType(Type):
    """A type that is known by a dotted name: `__torch__.package.Name`."""

    __slots__ = ("__weakref__", "dotted")

    def __init__(self, dotted: str) -> None:
        self.dotted = dotted

    def name(self) -> str:
        return self.dotted.rpartition(".")[2]

    def qualified_name(self) -> str:
        return self.dotted

    def identity(self) -> Any:
        return id(self)

    def str(self) -> str:
        return self.dotted

    @property
    def annotation_str(self) -> str:
        return self.dotted


class ClassType(NamedType):
    """A class: of modules (`is_module`) or written by the user.

    attributes: name to type, in order. parameters, buffers: which attributes those are.
    constants: name to value. methods: name to function; a function has `schema` and `graph`.
    """

    __slots__ = (
        "attributes",
        "buffers",
        "constants",
        "hooks",
        "is_module",
        "methods",
        "parameters",
        "pre_hooks",
        "properties",
        "static_methods",
    )

    def __init__(self, dotted: str, is_module: bool = False) -> None:
        super().__init__(dotted)
        self.is_module = is_module
        self.attributes: dict[str, Type] = {}
        self.parameters: set[str] = set()
        self.buffers: set[str] = set()
        self.constants: dict[str, Any] = {}
        self.methods: dict[str, Any] = {}
        self.static_methods: dict[str, Any] = {}
        self.properties: dict[str, tuple[Any, Any]] = {}
        self.pre_hooks: list[Any] = []
        self.hooks: list[Any] = []

    def containedTypes(self) -> list[Type]:
        return list(self.attributes.values())

    def method_names(self) -> list[str]:
        return list(self.methods)


class InterfaceType(NamedType):
    """What an object must offer: method name to schema."""

    __slots__ = ("is_module", "methods")

    def __init__(self, dotted: str, is_module: bool = False) -> None:
        super().__init__(dotted)
        self.is_module = is_module
        self.methods: dict[str, Any] = {}

    def getMethodNames(self) -> list[str]:
        return list(self.methods)

    def is_interface_type(self) -> bool:
        return True

    def str(self) -> str:
        return f"InterfaceType<{self.name()}>"


class EnumType(NamedType):
    """An enumeration: names and values, and what type the values have."""

    __slots__ = ("cls", "members", "value_type")

    def __init__(self, dotted: str, value_type: Type, members: dict[str, Any], cls: Any) -> None:
        super().__init__(dotted)
        self.value_type = value_type
        self.members = members
        self.cls = cls

    def getValueType(self) -> Type:
        return self.value_type

    def identity(self) -> Any:
        return (self.dotted, self.value_type)

    def str(self) -> str:
        return f"Enum<{self.dotted}>"


class FunctionType(Type):
    """Of a constant that is a compiled function."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def identity(self) -> Any:
        return id(self.function)

    def str(self) -> str:
        return "Function"

    @property
    def annotation_str(self) -> str:
        return "Function"


class VarType(Type):
    """A name for any type, in schemas: `t` of `t[]`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def identity(self) -> Any:
        return self.name

    def str(self) -> str:
        return self.name

    @property
    def annotation_str(self) -> str:
        return self.name


ANY = AnyType.get()
NONE = NoneType.get()
INT = IntType.get()
FLOAT = FloatType.get()
COMPLEX = ComplexType.get()
BOOL = BoolType.get()
STR = StringType.get()
NUMBER = NumberType.get()
DEVICE = DeviceObjType.get()
GENERATOR = _GeneratorType.get()
NO_RETURN = NoReturnType.get()
TENSOR = TensorType.get()

NUMBERS = (INT, FLOAT, COMPLEX)


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
        return type(type_) is type(other) and is_subtype(type_.element, other.element)  # type: ignore[attr-defined]
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
    if isinstance(a, ListType | DictType) and same_but_facts(a, b):
        return without_facts(a)
    return None


def unify_all(types: Sequence[Type], make_union: bool = False, hint: Type | None = None) -> Any:
    """A type that all are, or None."""
    result: Type | None = types[0]
    for type_ in types[1:]:
        if result is None:
            return None
        result = unify(result, type_, make_union, hint)
    return result
