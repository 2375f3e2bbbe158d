"""What expressions of compiled code mean while it is compiled.

Most are values of the graph (`SimpleValue`). Modules, functions, types and the like exist only for
the compiler: they say what reading an attribute, a call, an index or a loop over them is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.operators import overloads
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import (
    BOOL,
    INT,
    STR,
    TENSOR,
    AnyTupleType,
    ClassType,
    DeviceObjType,
    DictType,
    EnumType,
    FutureType,
    InterfaceType,
    ListType,
    StringType,
    TensorType,
    TupleType,
    Type,
)
from rushlight.jit.scripting.matching import binds_self
from rushlight.jit.scripting.names import attribute_value_name
from rushlight.jit.scripting.sources import fail_at

if TYPE_CHECKING:
    from rushlight.core.dtype import dtype
    from rushlight.jit.scripting.base import EmitterBase as Emitter

# Attributes of tensors and devices: what reads them.
TENSOR_FIELDS = {
    "shape": "aten::size",
    "ndim": "aten::dim",
    "T": "aten::numpy_T",
    "H": "aten::matrix_H",
    "mT": "aten::mT",
    "mH": "aten::mH",
    "real": "aten::real",
    "imag": "aten::imag",
    "is_leaf": "aten::is_leaf",
    "retains_grad": "aten::retains_grad",
} | {
    name: f"prim::{name}"
    for name in (
        *("dtype", "device", "grad", "data", "is_cuda", "is_xpu", "is_xla", "is_sparse"),
        *("is_sparse_csr", "is_mkldnn", "is_mps", "is_mtia", "is_quantized", "is_vulkan", "is_ipu"),
        *("is_meta", "is_nested", "layout", "requires_grad", "itemsize", "nbytes", "name"),
        *("is_maia", "is_hpu"),
    )
}
DEVICE_FIELDS = {"type": "prim::type", "index": "prim::index"}

# Methods that change the dtype, and the dtype.
CASTS = {
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "bfloat16": "bfloat16",
}

STATIC_INDEX = (
    "Expected integer literal for index but got a variable or non-integer. "
    "ModuleList/Sequential indexing is only supported with "
    "integer literals. For example, 'i = 4; self.layers[i](x)' will fail because i is not a "
    "literal. Enumeration is supported, e.g. 'for index, v in enumerate(self): out = v(inp)'"
)


class Arg(NamedTuple):
    """An argument of a call, and where it stands."""

    place: SourceRange
    value: Value


Args = Sequence[Arg]
Kwargs = dict[str, Arg]


class Sugared:
    """A value that the compiler knows more of than its type. What is not offered is refused."""

    def kind(self) -> str:
        return "value"

    def simple(self) -> Value | None:
        """The value of the graph, where it is nothing but one."""
        return None

    def as_value(self, place: SourceRange, em: Emitter) -> Value:
        fail_at(place, f"{self.kind()} cannot be used as a value")

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        fail_at(place, f"attribute lookup is not defined on {self.kind()}")

    def has_attr(self, place: SourceRange, em: Emitter, name: str) -> bool:
        fail_at(place, f"attribute lookup is not defined on {self.kind()}")

    def set_attr(self, place: SourceRange, em: Emitter, name: str, value: Value) -> None:
        fail_at(place, f"attribute assignment is not defined on {self.kind()}")

    def as_tuple(self, place: SourceRange, em: Emitter, count: int | None = None) -> list[Sugared]:
        fail_at(place, f"{self.kind()} cannot be used as a tuple")

    def as_tuple_value(self, place: SourceRange, em: Emitter) -> Value:
        fail_at(place, f"{self.kind()} cannot be used as a tuplevalue")

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        fail_at(place, f"cannot call a {self.kind()}")

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        fail_at(place, f"{self.kind()} cannot be used as an iterable")

    def len(self, place: SourceRange, em: Emitter) -> Value:
        fail_at(place, f"'{self.kind()}' object is not iterable")

    def static_len(self) -> int | None:
        return None

    def unrolls(self) -> bool:
        """Whether a loop over it is written out, one body for each item."""
        return False

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        fail_at(place, f"'{self.kind()}' object is not subscriptable")


def unpack_tuple(em: Emitter, value: Value) -> list[Value]:
    """The items of a tuple; of one that was just made, what it was made of."""
    if value.node().kind() == "prim::TupleConstruct":
        return value.node().inputs()
    type_ = value.type()
    assert isinstance(type_, TupleType)
    node = em.graph.create("prim::TupleUnpack", [value], 0)
    for item in type_.items:
        node.addOutput(item)
    return em.graph.insertNode(node).outputs()


class SimpleValue(Sugared):
    """A value of the graph."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def kind(self) -> str:
        return f"value of type '{self.value.type().annotation_str}'"

    def simple(self) -> Value | None:
        return self.value

    def as_value(self, place: SourceRange, em: Emitter) -> Value:
        return self.value

    def as_tuple(self, place: SourceRange, em: Emitter, count: int | None = None) -> list[Sugared]:
        type_ = self.value.type()
        if isinstance(type_, TupleType):
            return [SimpleValue(item) for item in unpack_tuple(em, self.value)]
        if isinstance(type_, ListType):
            if count is None:
                fail_at(
                    place, "cannot statically infer the expected size of a list in this context"
                )
            node = em.graph.create("prim::ListUnpack", [self.value], 0)
            for _ in range(count):
                node.addOutput(type_.element)
            return [SimpleValue(item) for item in em.graph.insertNode(node).outputs()]
        if isinstance(type_, AnyTupleType):
            fail_at(
                place,
                "Provided tuple is not fully defined/refined including its element types, please "
                "provide a value of type like Tuple[int, int]",
            )
        fail_at(place, f"{type_.annotation_str} cannot be used as a tuple")

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        found = self.find_attr(place, em, name)
        if found is not None:
            return found
        type_ = self.value.type()
        text = type_text(type_)
        advice = ""
        if isinstance(type_, ClassType):
            advice = " Did you forget to initialize an attribute in __init__()?"
            if name in type_.class_attributes:
                advice = (
                    f" '{name}' is defined as a class attribute which currently is not supported. "
                    "Consider converting this to an instance attribute."
                )
        fail_at(place, f"'{text}' object has no attribute or method '{name}'.{advice}")

    def find_attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared | None:
        value, type_ = self.value, self.value.type()
        if isinstance(type_, TensorType) and name in CASTS:
            return TensorCast(CASTS[name], value)
        if isinstance(type_, TensorType) and name in TENSOR_FIELDS:
            return SimpleValue(em.builtin(place, TENSOR_FIELDS[name], [value]))
        if isinstance(type_, DeviceObjType) and name in DEVICE_FIELDS:
            return SimpleValue(em.builtin(place, DEVICE_FIELDS[name], [value]))
        if isinstance(type_, TupleType) and name in type_.fields:
            return SimpleValue(em.tuple_item(value, type_.fields.index(name), place))
        if isinstance(type_, ClassType):
            found = class_attr(place, em, value, type_, name)
            if found is not None:
                return found
        if isinstance(type_, InterfaceType) and name in type_.methods:
            return MethodValue(value, [name])
        if isinstance(type_, EnumType):
            return self.enum_attr(place, em, type_, name)
        if isinstance(type_, FutureType) and name in ("wait", "done", "value", "then"):
            return BuiltinFunction(f"aten::{name}", value)
        if isinstance(type_, TensorType) and name == "tolist":
            return ToList(value)
        kind = f"aten::{name}"
        if any([binds_self(operator.schema, type_) for operator in overloads(kind)]):
            return BuiltinFunction(kind, value)
        return None

    def enum_attr(self, place: SourceRange, em: Emitter, type_: EnumType, name: str) -> Sugared:
        if name not in ("name", "value"):
            fail_at(place, f"Enum '{type_.dotted}' has no attribute '{name}'")
        node = em.graph.create(f"prim::Enum{name.capitalize()}", [self.value])
        node.output().setType(STR if name == "name" else type_.value_type)
        return SimpleValue(em.insert(node, place).output())

    def has_attr(self, place: SourceRange, em: Emitter, name: str) -> bool:
        type_ = self.value.type()
        if isinstance(type_, ClassType):
            known = (type_.methods, type_.attributes, type_.constants, type_.properties)
            return any([name in names for names in known])
        if isinstance(type_, TupleType) and type_.fields:
            return name in type_.fields
        plain = "but got a normal Tuple" if isinstance(type_, TupleType) else "got"
        fail_at(
            place,
            "hasattr's first argument must be a object or NamedTuple, "
            f"{plain} {type_text(type_)} instead",
        )

    def set_attr(self, place: SourceRange, em: Emitter, name: str, value: Value) -> None:
        type_ = self.value.type()
        if not isinstance(type_, ClassType):
            fail_at(
                place,
                f"Tried to set an attribute: {name} on a non-class: {type_.annotation_str}",
            )
        if name in type_.properties:
            setter = type_.properties[name][1]
            if setter is None:
                fail_at(
                    place, f"Tried to set read-only attribute: {name} of {type_.annotation_str}"
                )
            MethodValue(self.value, [setter.short_name]).call(place, em, [Arg(place, value)], {}, 1)
            return
        expected = type_.attributes.get(name)
        if expected is None:
            if em.makes_attributes_of is not type_:
                fail_at(
                    place,
                    f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it "
                    "in __init__()?",
                )
            if em.graph.insertPoint().owningBlock() is not em.graph.block():
                fail_at(
                    place,
                    "First assignment cannot be in a control-flow block. Initialize the field at "
                    "the top level first",
                )
            type_.attributes[name] = expected = value.type()
        value = em.convert(place, expected, value)
        if not value.type().isSubtypeOf(expected):
            fail_at(
                place,
                f"Wrong type for attribute assignment. Expected {expected.annotation_str} but got "
                f"{value.type().annotation_str}",
            )
        node = em.graph.create("prim::SetAttr", [self.value, value], 0).write("s", "name", name)
        em.insert(node, place)

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        type_ = self.value.type()
        if isinstance(type_, ClassType | InterfaceType):
            name = "__call__"
            if type_.is_module and name not in type_.methods:
                name = "forward"
            return self.attr(place, em, name).call(place, em, args, kwargs, binders)
        fail_at(place, f"cannot call a {self.kind()}")

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        type_ = self.value.type()
        if isinstance(type_, ListType | StringType | TensorType):
            return self
        if isinstance(type_, DictType):
            return SimpleValue(em.builtin(place, "aten::keys", [self.value]))
        if isinstance(type_, TupleType):
            return SugaredTuple([SimpleValue(item) for item in unpack_tuple(em, self.value)])
        fail_at(place, f"'{type_text(type_)}' object is not iterable")

    def len(self, place: SourceRange, em: Emitter) -> Value:
        if isinstance(self.value.type(), ListType | StringType | TensorType | DictType):
            return em.builtin(place, "aten::len", [self.value])
        fail_at(place, f"'{type_text(self.value.type())}' object is not iterable")

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        type_ = self.value.type()
        if isinstance(type_, ListType | StringType | DictType):
            return SimpleValue(em.builtin(place, "aten::__getitem__", [self.value, index]))
        if isinstance(type_, TensorType):
            zero = em.constant(0, place)
            return SimpleValue(em.builtin(place, "aten::select", [self.value, zero, index]))
        if isinstance(type_, ClassType):
            if type_.is_module and em.resolver.is_of_saved_code and hint is not None:
                return SimpleValue(em.module_item(place, self.value, index, hint))
            method = self.attr(place, em, "__getitem__")
            return method.call(place, em, [Arg(place, index)], {}, 1)
        fail_at(place, f"'{type_text(type_)}' object is not subscriptable")


def type_text(type_: Type) -> str:
    """A type in an error: it says where a tensor was taken for granted."""
    if isinstance(type_, TensorType) and type_.inferred:
        return "Tensor (inferred)"
    return type_.annotation_str


def read_attribute(em: Emitter, owner: Value, name: str, type_: Type) -> Value:
    node = em.graph.create("prim::GetAttr", [owner]).write("s", "name", name)
    em.graph.insertNode(node)
    return node.output().setType(type_).setDebugName(attribute_value_name(name))


def class_attr(
    place: SourceRange, em: Emitter, value: Value, type_: ClassType, name: str
) -> Sugared | None:
    if name in type_.methods:
        return MethodValue(value, [name])
    if name in type_.attributes:
        return SimpleValue(read_attribute(em, value, name, type_.attributes[name]))
    if name in type_.properties:
        getter = type_.properties[name][0]
        return MethodValue(value, [getter.short_name]).call(place, em, [], {}, 1)
    if name in type_.constants:
        return SimpleValue(em.constant(type_.constants[name], place))
    if name in type_.static_methods:
        return FunctionValue([type_.static_methods[name]])
    if name in type_.unused:
        from rushlight.jit.scripting.ignoring import UnusedFunction

        return UnusedFunction(type_.unused[name], type_)
    return None


class TensorCast(Sugared):
    """`x.float`: a change of dtype."""

    def __init__(self, dtype_name: str, value: Value) -> None:
        self.dtype_name = dtype_name
        self.value = value

    def kind(self) -> str:
        return "Cast"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        from rushlight.core.dtype import BY_NAME

        dtype = em.graph.insertConstant(BY_NAME[self.dtype_name].code, place)
        false = em.graph.insertConstant(False, place)
        none = em.graph.insertConstant(None, place)
        inputs = [self.value, dtype, false, false, none]
        return SimpleValue(em.builtin(place, "aten::to", inputs))


class LegacyTensor(Sugared):
    """`torch.FloatTensor` and its kin: a tensor of data, or an empty one of sizes."""

    def __init__(self, dtype: dtype) -> None:
        self.dtype = dtype

    def kind(self) -> str:
        return "legacy tensor constructor"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        values = [arg.value for arg in args]
        if kwargs:
            fail_at(place, f"{next(iter(kwargs))} is no argument of a legacy tensor constructor")
        kind, first = "aten::tensor", values[0] if values else None
        if all([value.type().isSubtypeOf(INT) for value in values]):
            kind, first = "aten::empty", em.make_list(INT, values, place)
            if not values:
                first = em.make_list(INT, [em.constant(0, place)], place)
        elif len(values) != 1:
            fail_at(
                place,
                "Legacy tensor constructors take sizes or one list: got multiple positional "
                "arguments that were not all integers",
            )
        assert first is not None
        given = {"dtype": Arg(place, em.graph.insertConstant(self.dtype.code, place))}
        return SimpleValue(em.builtin_call(place, kind, [Arg(place, first)], given))


class ToList(Sugared):
    """`x.tolist`: its result has the type that the context asks for."""

    def __init__(self, value: Value) -> None:
        self.value = value

    def kind(self) -> str:
        return "tolist"


class BuiltinFunction(Sugared):
    """An operator, perhaps as a method of `owner`."""

    def __init__(self, name: str, owner: Value | None = None) -> None:
        self.name = name
        self.owner = owner

    def kind(self) -> str:
        return "builtin"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        return SimpleValue(em.builtin_call(place, self.name, args, kwargs, self.owner))


class FunctionValue(Sugared):
    """Compiled functions; of several, the first that takes the arguments."""

    def __init__(self, functions: Sequence[Any]) -> None:
        self.functions = list(functions)

    def kind(self) -> str:
        return "function"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        from rushlight.jit.ir.types import FunctionType

        schemas = [em.schema_of(function, place) for function in self.functions]
        chosen, inputs = em.match(place, schemas, args, kwargs)
        function = self.functions[chosen]
        constant = em.graph.create("prim::Constant").write("s", "name", function.short_name)
        em.graph.insertNode(constant).output().setType(FunctionType(function))
        node = em.graph.create("prim::CallFunction", [constant.output(), *inputs])
        node.output().setType(schemas[chosen].returns[0].type)
        return SimpleValue(em.insert(node, place).output())

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        if name == "__name__":
            return SimpleValue(em.constant(self.functions[0].short_name, place))
        return super().attr(place, em, name)


class MethodValue(Sugared):
    """Methods of an object; of several, the first that takes the arguments."""

    def __init__(self, owner: Value, names: Sequence[str]) -> None:
        self.owner = owner
        self.names = list(names)

    def kind(self) -> str:
        return "method"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        type_ = self.owner.type()
        if isinstance(type_, InterfaceType):
            schemas = [type_.methods[name] for name in self.names]
        else:
            assert isinstance(type_, ClassType)
            schemas = [em.schema_of(type_.methods[name], place) for name in self.names]
        chosen, inputs = em.match(place, schemas, [Arg(place, self.owner), *args], kwargs)
        node = em.graph.create("prim::CallMethod", inputs).write("s", "name", self.names[chosen])
        node.output().setType(schemas[chosen].returns[0].type)
        return SimpleValue(em.insert(node, place).output())


class MagicMethod(Sugared):
    """What an operator does: a method of a class where the first argument has it."""

    def __init__(self, name: str, base: Sugared) -> None:
        self.name = name
        self.base = base

    def kind(self) -> str:
        return self.name

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        if args:
            owner = args[0].value
            type_ = owner.type()
            if isinstance(type_, ClassType) and (not type_.is_module or self.name in type_.methods):
                method = SimpleValue(owner).attr(place, em, self.name)
                return method.call(place, em, args[1:], kwargs, binders)
        return self.base.call(place, em, args, kwargs, binders)


class SpecialForm(Sugared):
    """A name whose calls the compiler reads itself: `range`, `isinstance`, `annotate`, …"""

    def __init__(self, form: str) -> None:
        self.form = form

    def kind(self) -> str:
        return "special_form"


class CastValue(Sugared):
    """`int`, `float`, `bool`, `complex`, `str`: a conversion, where it is one."""

    def __init__(self, type_: Type, builtin: str, method: str) -> None:
        self.type = type_
        self.base = MagicMethod(method, BuiltinFunction(builtin))

    def kind(self) -> str:
        return "builtin"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        if len(args) == 1 and not kwargs and args[0].value.type().isSubtypeOf(self.type):
            return SimpleValue(args[0].value)
        if self.type is BOOL and len(args) == 1 and not kwargs:
            value = args[0].value
            if isinstance(value.type(), ListType | DictType | StringType):
                length = em.builtin(place, "aten::len", [value])
                return SimpleValue(em.builtin(place, "aten::gt", [length, em.constant(0, place)]))
        return self.base.call(place, em, args, kwargs, binders)


class PrintValue(Sugared):
    def kind(self) -> str:
        return "print"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        if kwargs:
            fail_at(place, "print doesn't accept any keyword arguments")
        node = em.graph.create("prim::Print", [arg.value for arg in args], 0)
        em.insert(node, place)
        return SimpleValue(em.constant(None, place))


class ExceptionValue(Sugared):
    """A class of exceptions. `name` is its dotted name; "" where only the message counts."""

    def __init__(self, name: str, prefix: str = "") -> None:
        self.name = name
        self.prefix = prefix

    def kind(self) -> str:
        return "Python exception"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        values = [arg.value for arg in args]
        if not values:
            message = em.constant("", place)
        elif len(values) == 1:
            message = values[0]
        else:
            message = em.make_tuple(values, place)
        if self.prefix:
            prefix = em.constant(self.prefix, place)
            if not isinstance(message.type(), StringType):
                message = em.builtin(place, "aten::str", [message])
            message = em.builtin(place, "aten::add", [prefix, message])
        name = em.constant(self.name, place) if self.name else None
        return ExceptionMessage(message, name)


class ExceptionMessage(Sugared):
    def __init__(self, message: Value, class_name: Value | None) -> None:
        self.message = message
        self.class_name = class_name

    def kind(self) -> str:
        return "exception message"


class RangeValue(Sugared):
    """`range(…)`: it exists only while it is gone through."""

    def __init__(
        self, place: SourceRange, em: Emitter, inputs: list[Value], count: int | None = None
    ) -> None:
        for number, value in enumerate(inputs):
            if value.type() is not INT:
                fail_at(
                    place,
                    f"all inputs of range must be ints, found {value.type().annotation_str} in "
                    f"argument {number}",
                )
        if not inputs:
            fail_at(place, "range expected at least 1 arguments, got 0")
        if len(inputs) > 3:
            fail_at(place, f"range expected at most 3 arguments, got {len(inputs)}")
        self.only_end = len(inputs) == 1
        self.count = count
        if self.only_end:
            self.end = inputs[0]
            self.start = em.constant(0, place)
            self.step = em.constant(1, place)
        else:
            self.start, self.end = inputs[:2]
            self.step = inputs[2] if len(inputs) == 3 else em.constant(1, place)

    def kind(self) -> str:
        return "range"

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        return self

    def static_len(self) -> int | None:
        return self.count

    def unrolls(self) -> bool:
        return self.count is not None

    def len(self, place: SourceRange, em: Emitter) -> Value:
        if self.only_end:
            return self.end
        inputs = [self.start, self.end, self.step]
        return em.builtin(place, "aten::__range_length", inputs)

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        if self.only_end:
            return SimpleValue(index)
        inputs = [index, self.start, self.step]
        return SimpleValue(em.builtin(place, "aten::__derive_index", inputs))


def constant_index(place: SourceRange, index: Value) -> int:
    found = index.toIValue()
    if not isinstance(found, int):
        fail_at(place, STATIC_INDEX)
    return found


class SugaredTuple(Sugared):
    """Several values of the compiler; a loop over them is written out."""

    def __init__(self, items: Sequence[Sugared]) -> None:
        self.items = list(items)

    def kind(self) -> str:
        return "Tuple"

    def as_tuple(self, place: SourceRange, em: Emitter, count: int | None = None) -> list[Sugared]:
        return self.items

    def as_value(self, place: SourceRange, em: Emitter) -> Value:
        return em.make_tuple([item.as_value(place, em) for item in self.items], place)

    as_tuple_value = as_value

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        return self

    def static_len(self) -> int | None:
        return len(self.items)

    def unrolls(self) -> bool:
        return True

    def len(self, place: SourceRange, em: Emitter) -> Value:
        return em.constant(len(self.items), place)

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        number = constant_index(place, index)
        if not -len(self.items) <= number < len(self.items):
            fail_at(place, f"Index {number} out of range of length {len(self.items)}")
        return self.items[number]


class IterableTree(Sugared):
    """Iterables that are gone through together: `zip`, `enumerate`."""

    def __init__(self) -> None:
        self.children: list[Sugared] = []
        self.is_static: bool | None = None
        self.count: int | None = None

    def kind(self) -> str:
        return "iterabletree"

    def add(self, place: SourceRange, em: Emitter, child: Sugared) -> None:
        count = child.static_len()
        unrolls = child.unrolls()
        if not self.children:
            self.is_static, self.count = unrolls, count
        else:
            if self.is_static != unrolls:
                fail_at(
                    place,
                    "Can not iterate over a module list or tuple with a value that does not have a "
                    "static length\n",
                )
            if self.is_static and None not in (count, self.count) and count != self.count:
                fail_at(
                    place,
                    "Can't iterate over tuples or modulelists of different lengths: "
                    f"{self.count} and {count}",
                )
        self.children.append(child)

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        return self

    def static_len(self) -> int | None:
        return self.count

    def unrolls(self) -> bool:
        return bool(self.is_static)

    def leaves(self) -> list[Sugared]:
        found: list[Sugared] = []
        for child in self.children:
            found += child.leaves() if isinstance(child, IterableTree) else [child]
        return found

    def len(self, place: SourceRange, em: Emitter) -> Value:
        lengths = [child.len(place, em) for child in self.leaves()]
        return em.builtin(place, "prim::min", [em.make_list(INT, lengths, place)])

    def getitem(
        self, place: SourceRange, em: Emitter, index: Value, hint: Type | None = None
    ) -> Sugared:
        return SugaredTuple([child.getitem(place, em, index) for child in self.children])


class SliceValue(Sugared):
    """`slice(a, b)`."""

    def __init__(self, start: Value | None, stop: Value | None, step: Value | None) -> None:
        self.start, self.stop, self.step = start, stop, step

    def kind(self) -> str:
        return "slice"


class TupleConstructor(Sugared):
    """A class of named tuples."""

    def __init__(self, type_: TupleType) -> None:
        self.type = type_

    def kind(self) -> str:
        return "NamedTupleConstructor"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return

        count = len(self.type.fields) - len(self.type.defaults)
        arguments = [
            Argument(name, item)
            if place_ < count
            else Argument(name, item, self.type.defaults[place_ - count])
            for place_, (name, item) in enumerate(zip(self.type.fields, self.type.items))
        ]
        name = self.type.name.rpartition(".")[2]
        schema = FunctionSchema(name, tuple(arguments), (Return(self.type),))
        _, inputs = em.match(place, [schema], args, kwargs)
        node = em.graph.create("prim::TupleConstruct", inputs)
        node.output().setType(self.type)
        return SimpleValue(em.insert(node, place).output())


class ClassValue(Sugared):
    """A compiled class."""

    def __init__(self, type_: ClassType) -> None:
        self.type = type_

    def kind(self) -> str:
        return self.type.annotation_str

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        node = em.graph.create("prim::CreateObject")
        node.output().setType(self.type)
        made = em.insert(node, place).output()
        if "__init__" not in self.type.methods:
            fail_at(place, f"Class {self.type.name()} does not have an __init__ function defined")
        MethodValue(made, ["__init__"]).call(place, em, args, kwargs, 0)
        return SimpleValue(made)

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        if name in self.type.static_methods:
            return FunctionValue([self.type.static_methods[name]])
        if name == "__new__":
            return ClassNew(self.type)
        if name in self.type.constants:
            return SimpleValue(em.constant(self.type.constants[name], place))
        for hook in (*self.type.hooks, *self.type.pre_hooks):
            if hook.short_name == name:
                return FunctionValue([hook])
        fail_at(place, f"Tried to lookup unknown attribute on class {self.type.annotation_str}")


class ClassNew(Sugared):
    """`Class.__new__`: an object before `__init__`."""

    def __init__(self, type_: ClassType) -> None:
        self.type = type_

    def kind(self) -> str:
        return "__new__"

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        node = em.graph.create("prim::CreateObject")
        node.output().setType(self.type)
        return SimpleValue(em.insert(node, place).output())


class EnumClass(Sugared):
    """A class of enumerations; its members are constants."""

    def __init__(self, type_: EnumType) -> None:
        self.type = type_

    def kind(self) -> str:
        return "EnumClass"

    def members(self, place: SourceRange, em: Emitter) -> list[Sugared]:
        return [SimpleValue(em.enum_member(self.type, member, place)) for member in self.type.cls]

    def attr(self, place: SourceRange, em: Emitter, name: str) -> Sugared:
        if name not in self.type.members:
            fail_at(place, f"{self.type.dotted}' has no attribute '{name}'")
        return SimpleValue(em.enum_member(self.type, self.type.cls[name], place))

    def iter(self, place: SourceRange, em: Emitter) -> Sugared:
        values = [member.as_value(place, em) for member in self.members(place, em)]
        return SimpleValue(em.make_list(self.type, values, place))

    def call(
        self, place: SourceRange, em: Emitter, args: Args, kwargs: Kwargs, binders: int
    ) -> Sugared:
        fail_at(place, "Enum cannot be made from a value in compiled code: name the member")


def is_tensor(type_: Type) -> bool:
    return type_.isSubtypeOf(TENSOR)
