"""Values of compiled code as a pickle that torch reads: containers say what they hold.

Only opcodes of protocol 2 are used, and of them those that torch's reader knows.
"""

from __future__ import annotations

import enum
import struct
from typing import Any

from rushlight.base.errors import fail
from rushlight.core.device import device
from rushlight.core.tensor import Tensor
from rushlight.io.checkpoint import StoredPart, TorchName, plain_parts
from rushlight.jit.archive.code import type_text
from rushlight.jit.ir.constants import enumerated, type_of
from rushlight.jit.ir.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    DictType,
    EnumType,
    FutureType,
    ListType,
    NamedType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from rushlight.jit.unit import Instance

# Lists that torch builds by a function of their own.
BUILDERS = {INT: "build_intlist", FLOAT: "build_doublelist", BOOL: "build_boollist"}


class ValuePickler:
    """Writes one value; `storages` are the tensors' bytes, by number.

    `used` are the classes that the pickle names.
    """

    def __init__(self) -> None:
        self.out: list[bytes] = [b"\x80\x02"]
        self.memo: dict[Any, int] = {}
        self.storages: dict[int, tuple[str, Any]] = {}
        self.used: list[Any] = []
        self.kept: list[Any] = []

    def finish(self) -> bytes:
        return b"".join([*self.out, b"."])

    def put(self, *parts: bytes) -> None:
        self.out += parts

    # -- memory of what was written

    def recall(self, key: Any) -> bool:
        number = self.memo.get(key)
        if number is None:
            return False
        self.put(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        return True

    def remember(self, key: Any) -> None:
        number = len(self.memo)
        self.memo[key] = number
        self.put(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def name(self, module: str, name: str) -> None:
        key = ("name", module, name)
        if not self.recall(key):
            self.put(f"c{module}\n{name}\n".encode())
            self.remember(key)

    # -- values

    def value(self, value: Any, type_: Type) -> None:
        if isinstance(type_, OptionalType) and value is not None:
            type_ = type_.element
        number = enumerated(value)
        if number is not None:
            value = number
        if value is None:
            self.put(b"N")
        elif isinstance(value, bool):
            self.put(b"\x88" if value else b"\x89")
        elif isinstance(value, enum.Enum):
            self.enumeration(value, type_)
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, float):
            self.put(b"G", struct.pack(">d", value))
        elif isinstance(value, str):
            self.text(value)
        else:
            self.compound(value, type_)

    def compound(self, value: Any, type_: Type) -> None:
        if isinstance(value, Tensor):
            self.tensor(value)
        elif isinstance(value, complex):
            self.call("builtins", "complex", [(value.real, FLOAT), (value.imag, FLOAT)])
        elif isinstance(value, device):
            self.device(value)
        elif isinstance(value, tuple):
            self.put_tuple(value, type_)
        elif isinstance(value, list):
            self.put_list(value, type_)
        elif isinstance(value, dict):
            self.put_dict(value, type_)
        elif isinstance(value, Instance):
            self.instance(value)
        else:
            fail("RL1492", type=type(value).__name__)

    def integer(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.put(b"K", bytes([value]))
        elif 0 <= value < 1 << 16:
            self.put(b"M", struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.put(b"J", struct.pack("<i", value))
        else:
            self.put(b"\x8a\x08", struct.pack("<q", value))

    def text(self, value: str) -> None:
        key = ("text", value)
        if not self.recall(key):
            raw = value.encode("utf-8", "surrogatepass")
            self.put(b"X", struct.pack("<I", len(raw)), raw)
            self.remember(key)

    def call(self, module: str, name: str, values: list[tuple[Any, Type]]) -> None:
        self.name(module, name)
        self.put(b"(")
        for value, type_ in values:
            self.value(value, type_)
        self.put(b"tR")

    def device(self, value: device) -> None:
        given: list[tuple[Any, Type]] = [(value.type, ANY)]
        if value.index is not None:
            given.append((value.index, INT))
        self.call("torch", "device", given)

    def enumeration(self, value: enum.Enum, type_: Type) -> None:
        if not isinstance(type_, EnumType):
            fail("RL1492", type=type(value).__name__)
        self.class_name(type_)
        self.value(value.value, type_.value_type)
        self.put(b"\x85R")

    def class_name(self, type_: NamedType | TupleType) -> None:
        if type_ not in self.used:
            self.used.append(type_)
        dotted = type_.name if isinstance(type_, TupleType) else type_.dotted
        module, _, name = dotted.rpartition(".")
        self.name(module, name)

    def put_tuple(self, value: tuple[Any, ...], type_: Type) -> None:
        is_named = isinstance(type_, TupleType) and bool(type_.name)
        if is_named:
            self.class_name(type_)  # type: ignore[arg-type]
        items = type_.items if isinstance(type_, TupleType) else [type_of(item) for item in value]
        self.put(b"(")
        for item, part in zip(value, items, strict=True):
            self.value(item, part)
        self.put(b"t")
        if is_named:
            self.put(b"R")

    def put_list(self, value: list[Any], type_: Type) -> None:
        """Lists are written once, so that two names of one list stay one list."""
        if self.recall(id(value)):
            return
        element = type_.element if isinstance(type_, ListType) else type_of(value)
        if not isinstance(type_, ListType):
            type_ = element
            element = type_.element if isinstance(type_, ListType) else ANY
        builder = BUILDERS.get(element)
        if isinstance(element, TensorType):
            builder = "build_tensorlist"
        self.kept.append(value)
        if builder is not None:
            self.name("torch.jit._pickle", builder)
            self.put(b"(")
        else:
            self.name("torch.jit._pickle", "restore_type_tag")
        self.put(b"]")
        if value:
            self.put(b"(")
            for item in value:
                self.value(item, element)
            self.put(b"e")
        if builder is not None:
            self.put(b"tR")
        else:
            self.text(type_text(type_, self.named))
            self.put(b"\x86R")
        self.remember(id(value))

    def put_dict(self, value: dict[Any, Any], type_: Type) -> None:
        if self.recall(id(value)):
            return
        if not isinstance(type_, DictType):
            type_ = type_of(value)
        assert isinstance(type_, DictType)
        self.kept.append(value)
        self.name("torch.jit._pickle", "restore_type_tag")
        self.put(b"}")
        if value:
            self.put(b"(")
            for key, item in value.items():
                self.value(key, type_.key)
                self.value(item, type_.value)
            self.put(b"u")
        self.text(type_text(type_, self.named))
        self.put(b"\x86R")
        self.remember(id(value))

    def named(self, type_: NamedType | TupleType) -> str:
        if type_ not in self.used:
            self.used.append(type_)
        return type_.name if isinstance(type_, TupleType) else type_.dotted

    def instance(self, value: Instance) -> None:
        """An object: its class, and its attributes or what `__getstate__` gives."""
        if self.recall(id(value)):
            return
        self.kept.append(value)
        cls = value.type
        self.class_name(cls)
        self.put(b")\x81")
        state = cls.methods.get("__getstate__")
        if state is not None:
            self.value(value.call("__getstate__"), state.schema.returns[0].type)
        else:
            self.put(b"}(")
            for name, type_ in cls.attributes.items():
                self.text(name)
                held = value.values[name]
                if isinstance(type_, FutureType):
                    fail("RL1492", type="Future")
                self.value(held, type_)
            self.put(b"u")
        self.put(b"b")
        self.remember(id(value))

    # -- tensors

    def tensor(self, tensor: Tensor) -> None:
        if self.recall(id(tensor)):
            return
        self.kept.append(tensor)
        function, args = plain_parts(tensor)
        self.plain_call(function, args)
        self.remember(id(tensor))

    def plain_call(self, function: TorchName, args: tuple[Any, ...]) -> None:
        self.name(function.module, function.name)
        self.put(b"(")
        for value in args:
            self.plain(value)
        self.put(b"tR")

    def plain(self, value: Any) -> None:
        """A part of a tensor: a storage, numbers, or the dict of its hooks."""
        if isinstance(value, StoredPart):
            self.storage(value)
        elif isinstance(value, tuple):
            self.put(b"(")
            for item in value:
                self.plain(item)
            self.put(b"t")
        elif isinstance(value, dict):
            self.name("collections", "OrderedDict")
            self.put(b")R")
        else:
            self.value(value, type_of(value))

    def storage(self, part: StoredPart) -> None:
        key = id(part.storage)
        number, _ = self.storages.setdefault(key, (str(len(self.storages)), part.storage))
        name = part.type_name()
        self.put(b"(")
        self.text("storage")
        self.name(name.module, name.name)
        self.text(number)
        self.text("cpu")
        self.integer(part.count())
        self.put(b"tQ")
