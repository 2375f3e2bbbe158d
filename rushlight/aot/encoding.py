"""Graphs and what surrounds them as plain data, and back.

The data is JSON: numbers and strings as they are, anything else as `{tag: contents}`. A `Reader`
makes only what is listed here. Operators and classes are found by name among those that exist;
nothing is imported or called because the data names it, and names that become part of a graph's
code must be identifiers. What is not as it should be raises `Damaged`.
"""

from __future__ import annotations

import keyword
import operator
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.aot.arguments import Bases, Duplicates, Member
from rushlight.aot.metadata import Facts, InputFacts, OutputFacts, OutputKind
from rushlight.aot.sizes import Sizes
from rushlight.aot.subclasses import Layout
from rushlight.aot.wrappers import GradGuard
from rushlight.core.device import LAYOUTS, MEMORY_FORMATS, device, layout, memory_format
from rushlight.core.dtype import BY_NAME, dtype
from rushlight.core.fake import FakeTensor, FakeTensorMode, fake_of
from rushlight.core.functional import ViewStep
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.recording import tensor_metadata
from rushlight.core.size import Size
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor, shell, sizes_of, storage_of, strides_of, wrap
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.immutable_collections import immutable_dict, immutable_list
from rushlight.graph.node import Node
from rushlight.graph.printing import CodeGen
from rushlight.higher_order import find_op
from rushlight.higher_order.effects import EffectType
from rushlight.nn.module import Module
from rushlight.opset import registry
from rushlight.symbolic.numbers import NUMBERS, IntLike, SymInt

if TYPE_CHECKING:
    from rushlight.aot.symbols import Symbols

__all__ = ["Damaged", "Reader", "Unencodable", "Writer", "named_tensor_class"]

# Functions of numbers that graphs call beside operators.
OPERATORS = {
    name: function
    for name, function in vars(operator).items()
    if callable(function) and not name.startswith("_") and not isinstance(function, type)
}
OPERATOR_NAMES = {id(function): name for name, function in OPERATORS.items()}
LAYOUT_NAMES = {each.name: each for each in LAYOUTS}
FORMAT_NAMES = {each.name: each for each in MEMORY_FORMATS}
# Records that are their fields; `number` is that of the compilation, not of the entry.
RECORDS: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        Bases,
        Duplicates,
        Facts,
        GradGuard,
        InputFacts,
        Layout,
        Member,
        OutputFacts,
        Sizes,
    )
}
# Fields that belong to one compilation.
LEFT_OUT = ("number", "tangents")
# What arguments of calls are made of. Code is made of what they print as: nothing may say that
# itself.
ARGUMENTS = (
    "float", "complex", "tuple", "dict", "slice", "ellipsis", "dtype", "device", "layout",
    "memory_format", "node", "op",
)  # fmt: skip
NODE_KINDS = ("placeholder", "get_attr", "call_function", "output")


class Unencodable(Exception):
    """A value that plain data cannot stand for; says which."""


class Damaged(Exception):
    """Data that no writer made."""


class Writer:
    """Values as plain data. `attributes` names tensors of the module that is compiled: graphs refer
    to them, and hold all others themselves. `symbols` writes symbolic numbers."""

    def __init__(
        self, attributes: Mapping[int, str] | None = None, symbols: Symbols | None = None
    ) -> None:
        self.attributes = attributes or {}
        self.symbols = symbols
        # Identity of a storage -> (its number, the storage, which stays alive).
        self.storages: dict[int, tuple[int, Storage]] = {}

    def value(self, value: Any) -> Any:
        cls = type(value)
        if value is None or cls in (bool, int, str):
            return value
        if cls is list or cls is immutable_list:
            return [self.value(item) for item in value]
        write = WRITERS.get(cls)
        if write is not None:
            return write(self, value)
        if isinstance(value, NUMBERS):
            if self.symbols is None:
                raise Unencodable("a symbolic number")
            return {"number": self.symbols.number(value)}
        if isinstance(value, GraphModule):
            return {"graph": self.graph(value)}
        if id(value) in OPERATOR_NAMES:
            return {"operator": OPERATOR_NAMES[id(value)]}
        if isinstance(value, Tensor):
            return self.tensor(value)
        if isinstance(value, type):
            return self.named_class(value)
        if isinstance(value, HigherOrderOperator):
            return {"hop": value.name()}
        return self.other(value)

    def named_class(self, cls: type) -> Any:
        path = [cls.__module__, cls.__qualname__]
        if not issubclass(cls, Tensor) or named_tensor_class(*path) is not cls:
            raise Unencodable(f"the class {cls.__qualname__}, which its name does not find")
        return {"class": path}

    def other(self, value: Any) -> Any:
        raise Unencodable(f"a {type(value).__name__}")

    # -- tensors -----------------------------------------------------------------------------------

    def storage_number(self, tensor: Tensor) -> int:
        storage = storage_of(tensor)
        return self.storages.setdefault(id(storage), (len(self.storages), storage))[0]

    def fake(self, value: FakeTensor) -> Any:
        unusual = value._unusual
        assert unusual is not None
        if unusual.parts is not None or value.constant is not None:
            raise Unencodable("a sparse tensor" if unusual.parts else "a fake with known values")
        geometry = [list(sizes_of(value)), list(strides_of(value)), value._offset]
        nbytes = storage_of(value).nbytes_
        return {
            "fake": [
                *[self.value(part) for part in geometry], value._dtype.name, str(value.device),
                unusual.layout.name, bool(value.requires_grad), bool(unusual.conj),
                bool(unusual.neg), self.storage_number(value), self.value(nbytes),
            ]
        }  # fmt: skip

    def tensor(self, value: Tensor) -> Any:
        path = self.attributes.get(id(value))
        if path is not None:
            return {"attribute": path}
        array = value._array
        if (
            type(value) is not Tensor
            or value.requires_grad
            or value._unusual is not None
            or not array.flags.c_contiguous
        ):
            raise Unencodable("a tensor that is no plain constant")
        if id(storage_of(value)) in self.storages:
            raise Unencodable("constants that share memory")
        self.storage_number(value)
        data = b64encode(array.tobytes()).decode()
        return {"tensor": [value._dtype.name, list(sizes_of(value)), data]}

    # -- graphs ------------------------------------------------------------------------------------

    def graph(self, module: GraphModule) -> Any:
        graph = module.graph
        if type(graph._codegen) is not CodeGen:
            raise Unencodable("a graph with a calling convention of its own")
        targets = dict.fromkeys([n.target for n in graph.nodes if n.op == "get_attr"])
        if not all([path.isidentifier() for path in targets]):
            raise Unencodable("an attribute of an attribute")
        return {
            "name": type(module).__name__,
            "attributes": [[path, self.value(attribute(module, path))] for path in targets],
            "nodes": [self.node(node) for node in graph.nodes],
        }

    def node(self, node: Node) -> Any:
        if node.op not in NODE_KINDS or node.type is not None:
            raise Unencodable(f"a node {node.op}")
        meta = {}
        for name, value in node.meta.items():
            if name == "tensor_meta":
                continue
            try:
                meta[name] = self.value(value)
            except Unencodable:
                # Where it came from is told if it can be; what it is must be.
                if name == "val":
                    raise
        has_metadata = "tensor_meta" in node.meta
        parts = self.value(node.target), self.value(node.args), self.value(dict(node.kwargs))
        return [node.name, node.op, *parts, meta, has_metadata]


def attribute(module: Module, path: str) -> Any:
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part)
    return found


def record_of(writer: Writer, value: Any) -> Any:
    names = [field.name for field in fields(value) if field.name not in LEFT_OUT]
    contents = {name: writer.value(getattr(value, name)) for name in names}
    return {"record": [type(value).__name__, contents]}


def overload_of(writer: Writer, op: OpOverload) -> Any:
    return {"op": [op.namespace, op.base_name, op._overloadname]}


def mapping_of(writer: Writer, value: Mapping[Any, Any]) -> Any:
    return {"dict": [[writer.value(key), writer.value(item)] for key, item in value.items()]}


WRITERS: dict[type, Callable[[Any, Any], Any]] = {
    float: lambda w, v: {"float": pack("<d", v).hex()},
    complex: lambda w, v: {"complex": pack("<dd", v.real, v.imag).hex()},
    bytes: lambda w, v: {"bytes": v.hex()},
    tuple: lambda w, v: {"tuple": [w.value(item) for item in v]},
    Size: lambda w, v: {"Size": [w.value(item) for item in v]},
    frozenset: lambda w, v: {"frozenset": [w.value(item) for item in sorted(v)]},
    dict: mapping_of,
    immutable_dict: mapping_of,
    slice: lambda w, v: {"slice": [w.value(item) for item in (v.start, v.stop, v.step)]},
    range: lambda w, v: {"range": [v.start, v.stop, v.step]},
    type(...): lambda w, v: {"ellipsis": None},
    dtype: lambda w, v: {"dtype": v.name},
    device: lambda w, v: {"device": str(v)},
    layout: lambda w, v: {"layout": v.name},
    memory_format: lambda w, v: {"memory_format": v.name},
    Node: lambda w, v: {"node": v.name},
    OpOverload: overload_of,
    FakeTensor: Writer.fake,
    ViewStep: lambda w, v: {"view": [w.value(part) for part in (v.op, v.args, v.number, v.quiet)]},
    OutputKind: lambda w, v: {"kind": v.name},
    EffectType: lambda w, v: {"effect": v.name},
    **dict.fromkeys(RECORDS.values(), record_of),
}


# -- classes of tensors ----------------------------------------------------------------------------


def named_tensor_class(module: str, name: str) -> type | None:
    """The one class of tensors that exists under a name; None where there are several, or none."""
    found, waiting, seen = [], [Tensor], set()
    while waiting:
        for cls in type.__subclasses__(waiting.pop()):
            if cls not in seen:
                seen.add(cls)
                waiting.append(cls)
                if (cls.__module__, cls.__qualname__) == (module, name):
                    found.append(cls)
    return found[0] if len(found) == 1 else None


# -- reading ---------------------------------------------------------------------------------------


class Reader:
    """Values from plain data. Fakes belong to `mode`; `owner` is the module that is compiled, whose
    tensors graphs refer to; `number` is that of the compilation; `symbols` reads symbolic
    numbers."""

    def __init__(
        self, mode: FakeTensorMode, owner: Module, number: int, symbols: Symbols | None = None
    ) -> None:
        self.mode = mode
        self.owner = owner
        self.number = number
        self.symbols = symbols
        self.storages: dict[int, Storage] = {}
        # The nodes of the graph that is read.
        self.nodes: dict[str, Node] = {}

    def value(self, data: Any) -> Any:
        cls = type(data)
        if data is None or cls is str or cls is int or cls is bool:
            return data
        if cls is list:
            return [self.value(item) for item in data]
        if cls is dict and len(data) == 1:
            ((tag, contents),) = data.items()
            read = READERS.get(tag)
            if read is not None:
                return read(self, contents)
        raise Damaged(f"no value: {cls.__name__}")

    def items(self, data: Any) -> list[Any]:
        return [self.value(item) for item in plain(data, list)]

    def fake(self, data: Any) -> FakeTensor:
        sizes, strides, offset, kind, place, how, needs, conj, neg, number, nbytes = data
        sizes, strides, (offset, nbytes) = [
            [self.size(entry) for entry in part] for part in (sizes, strides, (offset, nbytes))
        ]
        where = device(plain(place, str))
        made = shell(tuple(sizes), tuple(strides), BY_NAME[kind], where, offset)
        unusual: Any = made._unusual
        unusual.layout, unusual.conj, unusual.neg = LAYOUT_NAMES[how], conj is True, neg is True
        storage = self.storages.get(number)
        if storage is None:
            storage = self.storages[number] = Storage(None, nbytes, where)
        made._storage = storage
        fake: FakeTensor = fake_of(made, self.mode)
        fake._requires_grad = needs is True
        return fake

    def size(self, data: Any) -> IntLike:
        found = data if type(data) is int else self.value(plain(data, dict))
        return of(found, (int, SymInt))  # type: ignore[no-any-return]

    def graph(self, data: Any) -> GraphModule:
        outer, self.nodes = self.nodes, {}
        graph = Graph()
        root = Module()
        try:
            for path, value in [plain(entry, list) for entry in plain(data["attributes"], list)]:
                if hasattr(root, identifier(path)):
                    raise Damaged(f"an attribute {path}")
                held = self.value(value)
                setattr(root, path, held if isinstance(held, GraphModule) else of(held, Tensor))
            for entry in plain(data["nodes"], list):
                self.node(graph, root, *plain(entry, list))
        finally:
            self.nodes = outer
        return GraphModule(root, graph, plain(data["name"], str))

    def node(
        self, graph: Graph, root: Module, name: Any, kind: Any, target: Any, args: Any, kwargs: Any,
        meta: Any, has_metadata: Any,
    ) -> None:  # fmt: skip
        if kind not in NODE_KINDS:
            raise Damaged(f"a node {kind}")
        found = self.value(target)
        if kind == "call_function":
            is_op = isinstance(found, (OpOverload, HigherOrderOperator))
            if not is_op and id(found) not in OPERATOR_NAMES:
                raise Damaged("a call of what is no operator")
        else:
            identifier(found)
        if kind == "get_attr" and not hasattr(root, found):
            raise Damaged(f"no attribute {found}")
        check_argument([args, kwargs])
        given, keywords = of(self.value(args), tuple), of(self.value(kwargs), dict)
        for key in keywords:
            identifier(key)
        node = graph.create_node(kind, found, given, keywords, name=identifier(name))
        if node.name != name:
            raise Damaged(f"a second {name}")
        self.nodes[name] = node
        for key, value in plain(meta, dict).items():
            node.meta[key] = self.value(value)
        if has_metadata is True:
            node.meta["tensor_meta"] = tensor_metadata(of(node.meta["val"], Tensor))


def check_argument(data: Any) -> None:
    if type(data) is dict:
        for tag, contents in data.items():
            if tag not in ARGUMENTS:
                raise Damaged(f"an argument of a call that is a {tag}")
            check_argument(contents)
    elif type(data) is list:
        for item in data:
            check_argument(item)


def plain(data: Any, cls: type) -> Any:
    if type(data) is not cls:
        raise Damaged(f"expected a {cls.__name__}, got a {type(data).__name__}")
    return data


def of(value: Any, cls: type | tuple[type, ...]) -> Any:
    if not isinstance(value, cls):
        raise Damaged(f"expected {cls}, got a {type(value).__name__}")
    return value


def identifier(name: Any) -> str:
    """A name that may become part of a graph's code."""
    if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
        raise Damaged("a name that is no identifier")
    return name


def read_op(reader: Reader, data: Any) -> OpOverload:
    namespace, name, overload = [identifier(part) for part in plain(data, list)]
    found = getattr(registry.packet(name, namespace), overload, None)
    return of(found, OpOverload)  # type: ignore[no-any-return]


def read_class(reader: Reader, data: Any) -> type:
    module, name = [plain(part, str) for part in plain(data, list)]
    found = named_tensor_class(module, name)
    if found is None:
        raise Damaged("a class that does not exist")
    return found


def read_record(reader: Reader, data: Any) -> Any:
    name, contents = plain(data, list)
    cls: Any = RECORDS[name]
    wanted = [field.name for field in fields(cls)]
    if set(plain(contents, dict)) != {field for field in wanted if field not in LEFT_OUT}:
        raise Damaged(f"other fields of {name}")
    values = {field: reader.value(value) for field, value in contents.items()}
    instead = {"number": reader.number, "tangents": []}
    values.update({field: instead[field] for field in wanted if field in LEFT_OUT})
    return cls(**values)


def read_number(reader: Reader, data: Any) -> Any:
    if reader.symbols is None:
        raise Damaged("a symbolic number")
    return reader.symbols.read_number(plain(data, list))


def read_view(reader: Reader, data: Any) -> ViewStep:
    op, args, number, quiet = reader.items(data)
    return ViewStep(of(op, OpOverload), of(args, tuple), number, quiet is True)


def read_tensor(reader: Reader, data: Any) -> Tensor:
    name, sizes, text = plain(data, list)
    kind = BY_NAME[name]
    array = np.frombuffer(b64decode(plain(text, str), validate=True), kind.np)
    return wrap(array.reshape(tuple(sizes)).copy(), kind)


def read_attribute(reader: Reader, data: Any) -> Tensor:
    owner: Any = reader.owner
    for part in plain(data, str).split("."):
        # As modules keep them: nothing that a class computes.
        tables = [owner.__dict__, *[owner.__dict__.get(t, {}) for t in ("_modules", "_buffers")]]
        owner = next((table[part] for table in tables if part in table), None)
    return of(owner, Tensor)  # type: ignore[no-any-return]


READERS: dict[str, Callable[[Reader, Any], Any]] = {
    "float": lambda r, d: unpack("<d", bytes.fromhex(d))[0],
    "complex": lambda r, d: complex(*unpack("<dd", bytes.fromhex(d))),
    "bytes": lambda r, d: bytes.fromhex(d),
    "tuple": lambda r, d: tuple(r.items(d)),
    "Size": lambda r, d: Size(r.items(d)),
    "frozenset": lambda r, d: frozenset(r.items(d)),
    "dict": lambda r, d: dict([r.items(pair) for pair in plain(d, list)]),
    "slice": lambda r, d: slice(*r.items(d)),
    "range": lambda r, d: range(*r.items(d)),
    "ellipsis": lambda r, d: ...,
    "dtype": lambda r, d: BY_NAME[d],
    "device": lambda r, d: device(plain(d, str)),
    "layout": lambda r, d: LAYOUT_NAMES[d],
    "memory_format": lambda r, d: FORMAT_NAMES[d],
    "node": lambda r, d: r.nodes[d],
    "op": read_op,
    "number": read_number,
    "hop": lambda r, d: of(find_op(identifier(d)), HigherOrderOperator),
    "operator": lambda r, d: OPERATORS[d],
    "fake": Reader.fake,
    "graph": Reader.graph,
    "tensor": read_tensor,
    "attribute": read_attribute,
    "view": read_view,
    "kind": lambda r, d: OutputKind[d],
    "effect": lambda r, d: EffectType[d],
    "class": read_class,
    "record": read_record,
}
