"""Types of values in a graph of `jit`: what they are and what they print as.

A type prints in two ways: `str()` gives the text of graphs and schemas (`Tensor?[]`), and
`annotation_str` the Python annotation (`List[Optional[Tensor]]`), which is also what `print` shows.
Types are values: equal where they mean the same; classes and interfaces are each their own.
`relations` says which is a part of which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

# The builtin, where classes below have a method of that name.
Text = str

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

    word: ClassVar[Text] = "Any"
    annotation_word: ClassVar[Text] = ""

    @classmethod
    def get(cls) -> Type:
        found = SINGLE.get(cls)
        if found is None:
            found = SINGLE[cls] = cls()
        return found

    def kind(self) -> Text:
        return type(self).__name__

    def str(self) -> Text:
        """The text in graphs and schemas."""
        return self.word

    @property
    def annotation_str(self) -> Text:
        """The annotation in Python."""
        return self.annotation_word or self.word

    def containedTypes(self) -> list[Type]:
        return []

    def with_contained(self, parts: Sequence[Type]) -> Type:
        """This type with other parts, one for each of `containedTypes`."""
        return self

    def isSubtypeOf(self, other: Type) -> bool:
        from rushlight.jit.ir.relations import is_subtype

        return is_subtype(self, other)

    def is_interface_type(self) -> bool:
        return False

    def __str__(self) -> Text:
        return self.annotation_str

    def __repr__(self) -> Text:
        return self.annotation_str

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self.identity() == other.identity())

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
        dtype_name: Text | None = None,
        device: Text | None = None,
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

    def print_text(self) -> Text:
        word = "Tensor"
        if self.dtype_name is not None:
            word = DTYPE_WORDS[self.dtype_name] + ("Tensor" if self._sizes is None else "")
        parts: list[Text] = []
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

    def str(self) -> Text:
        return self._text

    @property
    def annotation_str(self) -> Text:
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

    def scalarType(self) -> Text | None:
        return None if self.dtype_name is None else DTYPE_WORDS[self.dtype_name]

    def dtype(self) -> Any:
        if self.dtype_name is None:
            return None
        from rushlight.core.dtype import BY_NAME

        return BY_NAME[self.dtype_name]

    def device(self) -> Any:
        if self._device is None:
            return None
        from rushlight.core.device import device

        return device(self._device)

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
    strided = tensor.layout.name == "strided"
    return TensorType(
        tensor.dtype.name,
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

    def str(self) -> Text:
        return f"{self.word}[{self.element.str()}]"

    @property
    def annotation_str(self) -> Text:
        return f"{self.word}[{self.element.annotation_str}]"


class ListType(OneOf):
    __slots__ = ()
    word = "List"

    def __init__(self, element: Type) -> None:
        if element is None:
            raise RuntimeError("Can not create ListType with None type")
        super().__init__(element)

    def str(self) -> Text:
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

    def str(self) -> Text:
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

    def str(self) -> Text:
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

    def str(self) -> Text:
        return f"Dict({self.key.str()}, {self.value.str()})"

    @property
    def annotation_str(self) -> Text:
        return f"Dict[{self.key.annotation_str}, {self.value.annotation_str}]"


class TupleType(Type):
    """A tuple; one with `name` and `fields` is a named tuple.

    `defaults` are the values of the last fields.
    """

    __slots__ = ("defaults", "fields", "items", "name")

    def __init__(
        self,
        items: Iterable[Type],
        name: Text = "",
        fields: Sequence[Text] = (),
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

    def str(self) -> Text:
        if self.fields:
            first = len(self.fields) - len(self.defaults)
            fields = [f"{name} : {item.str()}" for name, item in zip(self.fields, self.items)]
            for place, value in enumerate(self.defaults, first):
                fields[place] += f" = {default_text(value)}"
            return f"NamedTuple({', '.join(fields)})"
        return f"({', '.join([item.str() for item in self.items])})"

    @property
    def annotation_str(self) -> Text:
        if self.name:
            return self.name
        if not self.items:
            return "Tuple[()]"
        return f"Tuple[{', '.join([item.annotation_str for item in self.items])}]"


def default_text(value: Any) -> Text:
    from rushlight.jit.ir.printing import value_text

    return value_text(value)


class UnionType(Type):
    """One of several types; made by `union`, which flattens and sorts out."""

    __slots__ = ("members",)

    def __init__(self, members: Iterable[Type]) -> None:
        self.members = tuple(members)

    def containedTypes(self) -> list[Type]:
        return list(self.members)

    def with_contained(self, parts: Sequence[Type]) -> Type:
        from rushlight.jit.ir.relations import union

        return union(parts)

    def identity(self) -> Any:
        return frozenset(self.members)

    def str(self) -> Text:
        return f"Union({', '.join([member.str() for member in self.members])})"

    @property
    def annotation_str(self) -> Text:
        return f"Union[{', '.join([member.annotation_str for member in self.members])}]"


class NamedType(Type):
    """A type that is known by a dotted name: `__torch__.package.Name`."""

    __slots__ = ("__weakref__", "dotted")

    def __init__(self, dotted: Text) -> None:
        self.dotted = dotted

    def name(self) -> Text:
        return self.dotted.rpartition(".")[2]

    def qualified_name(self) -> Text:
        return self.dotted

    def identity(self) -> Any:
        return id(self)

    def str(self) -> Text:
        return self.dotted

    @property
    def annotation_str(self) -> Text:
        return self.dotted


class ClassType(NamedType):
    """A class: of modules (`is_module`) or written by the user.

    attributes: name to type, in order. parameters, buffers: which attributes those are.
    constants: name to value. methods: name to function, which has `schema` and `graph`.
    unused: methods that stay Python. class_attributes: what only the body of the class assigns.
    cls: the class as Python has it, of a user's.
    """

    __slots__ = (
        "attributes",
        "buffers",
        "class_attributes",
        "cls",
        "constants",
        "hooks",
        "is_module",
        "methods",
        "parameters",
        "pre_hooks",
        "properties",
        "static_methods",
        "unused",
    )

    def __init__(self, dotted: Text, is_module: bool = False) -> None:
        super().__init__(dotted)
        self.is_module = is_module
        self.attributes: dict[Text, Type] = {}
        self.parameters: set[str] = set()
        self.buffers: set[str] = set()
        self.constants: dict[Text, Any] = {}
        self.methods: dict[Text, Any] = {}
        self.static_methods: dict[Text, Any] = {}
        self.properties: dict[Text, tuple[Any, Any]] = {}
        self.pre_hooks: list[Any] = []
        self.hooks: list[Any] = []
        self.unused: dict[Text, Any] = {}
        self.class_attributes: set[Text] = set()
        self.cls: Any = None

    def containedTypes(self) -> list[Type]:
        return list(self.attributes.values())

    def method_names(self) -> list[Text]:
        return list(self.methods)


class InterfaceType(NamedType):
    """What an object must offer: method name to schema."""

    __slots__ = ("is_module", "methods")

    def __init__(self, dotted: Text, is_module: bool = False) -> None:
        super().__init__(dotted)
        self.is_module = is_module
        self.methods: dict[Text, Any] = {}

    def getMethodNames(self) -> list[Text]:
        return list(self.methods)

    def is_interface_type(self) -> bool:
        return True

    def str(self) -> Text:
        return f"InterfaceType<{self.name()}>"


class EnumType(NamedType):
    """An enumeration: names and values, and what type the values have."""

    __slots__ = ("cls", "members", "value_type")

    def __init__(self, dotted: Text, value_type: Type, members: dict[Text, Any], cls: Any) -> None:
        super().__init__(dotted)
        self.value_type = value_type
        self.members = members
        self.cls = cls

    def getValueType(self) -> Type:
        return self.value_type

    def identity(self) -> Any:
        return (self.dotted, self.value_type)

    def str(self) -> Text:
        return f"Enum<{self.dotted}>"


class FunctionType(Type):
    """Of a constant that is a compiled function."""

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def identity(self) -> Any:
        return id(self.function)

    def str(self) -> Text:
        return "Function"

    @property
    def annotation_str(self) -> Text:
        return "Function"


class VarType(Type):
    """A name for any type, in schemas: `t` of `t[]`."""

    __slots__ = ("name",)

    def __init__(self, name: Text) -> None:
        self.name = name

    def identity(self) -> Any:
        return self.name

    def str(self) -> Text:
        return self.name

    @property
    def annotation_str(self) -> Text:
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
