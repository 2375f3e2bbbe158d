"""The door: everything read from outside comes through `Tracing.wrap`, where guards are made.

Also what a capture collects: the graph, guards, and effects to be written after the graph ran.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import linecache
import math
import operator
import types
from collections.abc import Callable
from typing import Any

from rushlight.capture.bytecode import BINARY
from rushlight.capture.floats import is_large, large_test, settled, without_floats
from rushlight.capture.outcomes import Break, UserRaise
from rushlight.capture.recording import FLOAT, PART, WRITES, Recording, contains_node, examples_of
from rushlight.capture.sources import Id, Source, cell, const
from rushlight.capture.values import (
    NULL,
    Bounded,
    Cell,
    Const,
    Dict,
    Fields,
    Float,
    Lazy,
    Method,
    New,
    Number,
    Obj,
    Proxy,
    Seq,
    SetVar,
    Slice,
    Table,
    Tensor,
    Var,
)
from rushlight.capture.world import World

__all__ = ["CONSTANTS", "IDENTITY", "Guard", "Tracing", "raise_user"]

CONSTANTS = (
    int, float, complex, str, bytes, bool, type(None), type(...), type(NotImplemented), range,
    slice,
)  # fmt: skip
# Objects that are compared by identity, and may stand in a graph as they are.
IDENTITY = (
    types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)  # fmt: skip
DICTS = (dict, collections.OrderedDict, collections.defaultdict)
SETS = (set, frozenset)
INPLACE = {f.__name__ for symbol, f in BINARY.items() if symbol.endswith("=")} | {"setitem"}

# What is tested (a key of `guards.TESTS`), where it is read, and what was found.
Guard = tuple[str, Source, Any]
# The tests that an object which is there for good is put to.
OF_CONSTANTS = ("absent", "filled", "lacks", "noted")


def raise_user(cls: type[BaseException], *args: Any) -> UserRaise:
    """The program raises a built-in exception."""
    return UserRaise(New(cls, args=tuple(Const(arg) for arg in args)))


def is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and hasattr(kind, "_make")


# Kinds of dicts that users' classes derive from, and the flag of classes that `class` makes.
TABLES = (collections.OrderedDict, dict)
HEAP_TYPE = 1 << 9


def kind_of_table(cls: type) -> type | None:
    """The kind of dict that instances of a user's class are, where nothing but methods of Python
    functions is added to it."""
    if type(cls).__call__ is not type.__call__:
        return None
    added = list(itertools.takewhile(lambda base: base not in TABLES, cls.__mro__))
    kind = cls.__mro__[len(added)] if len(added) < len(cls.__mro__) else None
    if not added or kind is None or cls.__new__ is not dict.__new__:
        return None
    return kind if all(base.__flags__ & HEAP_TYPE for base in added) else None


def is_own_key(value: Any) -> bool:
    """Whether an object is a key by its identity: its class knows of no equals."""
    cls: Any = type(value)
    is_known = isinstance(value, IDENTITY)
    return not is_known and cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__


def has_items(kind: Any, keys: list[Any]) -> Callable[[str, Any], str]:
    """The test that a dict holds other keys, or in another order."""
    typed = [(type(key), key) for key in keys]

    def test(text: str, names: Any) -> str:
        found = f"[(type(__x), __x) for __x in {names.constant(kind.keys)}({text})]"
        return f"{found} != {names.constant(typed)}"

    return test


class Tracing:
    """State of one attempt at capture, and the ways in and out of it."""

    def __init__(self, world: World, dynamic: set[Source], frame_limit: int = 60) -> None:
        self.world = world
        self.dynamic = dynamic
        # `recording` changes inside the bodies of higher-order calls.
        self.recording = self.root = Recording(self.stack_trace)
        # The step at which the graph of a function was begun.
        self.begun: dict[Any, int] = {}
        # Frames that run now, outermost first.
        self.frames: list[Any] = []
        self.guards: list[Guard] = []
        self.memo: dict[Source, Var] = {}
        # Objects of the outside that were looked at, by identity.
        self.known: dict[int, tuple[Any, Var]] = {}
        # Inputs of the graph that are functions, by their variables.
        self.function_nodes: dict[int, Any] = {}
        # Generators that have begun.
        self.generators: list[Any] = []
        # Attributes and globals written on existing objects.
        self.overlay: dict[tuple[int, str], Any] = {}
        # Those of them that were taken away in between.
        self.recreated: set[tuple[int, str]] = set()
        # How attributes are written: as the program would, by `object`, or in the `__dict__`.
        self.ways: dict[tuple[int, str], str] = {}
        # What objects hold that are dicts, by their identity.
        self.tables: dict[int, Table] = {}
        # The `__dict__` of objects, by their identity.
        self.fields: dict[int, Fields] = {}
        # In order of first write.
        self.effects: dict[Any, tuple[Any, ...]] = {}
        self.frame_limit = frame_limit
        self.depth = 0
        self.steps = 0
        # The step of the outermost frame that runs now.
        self.position = 0
        self.modes = self.entry_modes = world.modes()
        self.has_switches = False
        # Contexts that are open, and what was before them.
        self.entered: list[tuple[Any, Any]] = []
        # Whether sizes are not to be constants from the start.
        self.assume_dynamic = False
        # Floats that change, by where they come from.
        self.floats: dict[Source, Float] = {}
        # Whether integers are, even so.
        self.keeps_numbers = False
        # Whether user code may catch what the graph raises.
        self.has_handlers = False

    def release(self) -> None:
        """Let go of the values that were looked at: graphs, which are kept, know the tracer."""
        for kept in (self.known, self.memo, self.overlay, self.effects, self.function_nodes):
            kept.clear()
        for frame in self.frames:
            frame.slots.clear()
            frame.stack.clear()
        for values in (self.frames, self.generators, self.entered):
            values.clear()

    # -- the door ----------------------------------------------------------------------------------

    def guard(self, kind: str, source: Source | None, expected: Any = None) -> None:
        # An object that is there for good is tested for what it holds, never for itself.
        if source is not None and (source.kind != "const" or kind in OF_CONSTANTS):
            self.guards.append((kind, source, expected))

    def present(self, v: Any) -> Any:
        """A value that was found: that it is there is a fact, though nobody looks at it."""
        if type(v) is Lazy:
            self.guards.append(("present", v.source, None))
        return v

    def real(self, v: Any) -> Any:
        return self.wrap(v.value, v.source) if type(v) is Lazy else v

    def wrap(self, value: Any, source: Source) -> Any:
        if source in self.memo:
            return self.memo[source]
        self.memo[source] = var = self.wrap_new(value, source)
        return var

    def is_constant(self, value: Any) -> bool:
        return (
            type(value) in CONSTANTS or isinstance(value, enum.Enum) or self.world.is_const(value)
        )

    def wrap_new(self, value: Any, source: Source) -> Var:
        kind = type(value)
        if self.is_constant(value):
            if kind is float and source in self.dynamic and math.isfinite(value):
                self.guard("type", source, kind)
                return self.float_of(value, source)
            if kind is int and self.is_dynamic(value, source):
                self.guard("type", source, kind)
                return Number(self.world.number(value, source), None, source)
            self.guard("value", source, value)
            return Const(value, source)
        if id(value) in self.known:
            var = self.known[id(value)][1]
            if var.source is not None and var.source != source:
                self.guard("alias", source, var.source)
            return var
        var = self.wrap_object(value, kind, source)
        self.known[id(value)] = (value, var)
        return var

    def is_dynamic(self, value: Any, source: Source) -> bool:
        if source in self.dynamic:
            return True
        is_argument = self.assume_dynamic and source.kind == "local" and not self.keeps_numbers
        return is_argument and value not in (0, 1)

    def float_of(self, value: float, source: Source) -> Float:
        """The variable of a float that changes, one for each way to it."""
        if source not in self.floats:
            self.floats[source] = Float(value, self.world.float(value), source)
        return self.floats[source]

    def wrap_object(self, value: Any, kind: type, source: Source) -> Var:
        if self.world.is_tensor(value):
            example = self.world.example(value, source, self)
            self.guard("tensor", source, self.world.tensor_facts(value, example))
            made = Tensor(example, None, source)
            made.kind = kind
            return made
        opaque: Var | None = self.world.wrap_opaque(self, value, source)
        if opaque is not None:
            return opaque
        if kind in (list, tuple, collections.deque) or is_named_tuple(kind):
            return self.wrap_sequence(value, kind, source)
        if kind in DICTS and all(self.is_key(key) for key in value):
            # Tensors are keys by identity.
            keys = [key if self.is_plain_key(key) else Id(key) for key in value]
            items = {key: Lazy(item, source.item(key)) for key, item in zip(keys, value.values())}
            factory = None
            if kind is collections.defaultdict:
                factory = Lazy(value.default_factory, source.attr("default_factory"))
            table = Dict(items, source, kind, factory)
            # A guard that asks for an item must not make one; tensors are no keys that it asks for.
            if kind is collections.defaultdict or any(type(key) is Id for key in keys):
                self.guard("keys", source, (kind, keys))
            else:
                self.guard("type", source, kind)
                table.whole = functools.partial(self.guard, "keys", source, (kind, keys))
            return table
        if kind in SETS and all(self.is_plain_key(key) for key in value):
            self.guard("keys", source, (kind, list(value)))
            return SetVar(kind, list(value), source)
        return self.wrap_callable(value, kind, source)

    def wrap_sequence(self, value: Any, kind: type, source: Source) -> Var:
        self.guard("length", source, (kind, len(value)))
        items: list[Any] = [Lazy(x, source.item(i)) for i, x in enumerate(value)]
        if kind is not collections.deque:
            return Seq(kind, items, source)
        self.guard("value", source.attr("maxlen"), value.maxlen)
        if value.maxlen is None:
            return Seq(kind, items, source)
        return Bounded(items, value.maxlen, source)

    def wrap_callable(self, value: Any, kind: type, source: Source) -> Var:
        if kind is types.CellType:
            try:
                contents: Any = Lazy(value.cell_contents, cell(source, str(source.key)))
            except ValueError:
                contents = None
                self.guard("empty", source)
            return Cell(contents, source)
        if kind is types.MethodType:
            self.guard("type", source, kind)
            func = Lazy(value.__func__, source.attr("__func__"))
            return Method(func, Lazy(value.__self__, source.attr("__self__")), source)
        is_identity = isinstance(value, IDENTITY)
        if kind is types.FunctionType and "<locals>" in value.__qualname__:
            # Made anew by every call of its parent: the code is what stays.
            self.guard("type", source, kind)
            self.guard("is", source.attr("__code__"), value.__code__)
        elif is_identity or self.world.is_operator(value):
            self.guard("is", source, value)
        else:
            self.guard("type", source, kind)
        return Obj(value, source)

    def item_of(self, v: Dict, key: Any) -> Any:
        """What a dict holds under a key, or None; nothing else of it is guarded."""
        if v.whole is None or v.source is None or type(key) not in (int, str):
            return v.items.get(key)
        found = v.held.get(key)
        if found is None and isinstance(v, Table):
            test = "{}({}, {!r})".format
            name = dict.__contains__
            self.guard("text", v.source, lambda e, names: test(names.constant(name), e, key))
        elif found is None and not (isinstance(v, Fields) and key in v.owner.value.__dict__):
            self.guard("absent", v.source, key)
        return self.present(found)

    def is_key(self, key: Any) -> bool:
        return self.world.is_tensor(key) or self.is_plain_key(key) or is_own_key(key)

    def is_plain_key(self, key: Any) -> bool:
        """Whether a key stands for itself: equal keys of other objects mean the same."""
        if type(key) is tuple:
            return all(map(self.is_plain_key, key))
        return self.is_constant(key) or isinstance(key, IDENTITY)

    # -- values for the graph and for folding ------------------------------------------------------

    def node(self, v: Proxy) -> Any:
        if v.node is None:
            assert v.source is not None
            if isinstance(v, Float):
                self.guard("text", v.source, large_test)
            v.node = self.root.add_input(v.source.identifier(), v.example, v.source)
            self.root.readers[v.node] = self.world.input_reader(v)
            v.node.meta[FLOAT] = isinstance(v, Float)
        return v.node

    def arg(self, v: Any) -> Any:
        """A variable as an argument of a node."""
        v = self.real(v)
        if isinstance(v, Float) and is_large(v.value):
            v = Const(settled(self, v))
        match v:
            case Const():
                return self.world.const_arg(v.value)
            case Proxy():
                return self.node(v)
            case Seq():
                items = [self.arg(item) for item in v.items]
                return v.kind._make(items) if is_named_tuple(v.kind) else v.kind(items)  # type: ignore[attr-defined]
            case Dict():
                return {key: self.arg(item) for key, item in v.items.items()}
            case SetVar():
                return v.kind(v.items)
            case Slice():
                return slice(*map(self.arg, v.parts))
            case Obj() if isinstance(v.value, IDENTITY):
                return v.value
        raise Break(f"cannot put {type(v).__name__} in the graph")

    def python(self, v: Any) -> Any:
        """The value, if it is known completely."""
        v = self.real(v)
        if isinstance(v, Float):
            return settled(self, v)
        if isinstance(v, Number):
            return self.world.decide(v.example)
        if isinstance(v, Tensor):
            raise Break("value of a tensor")
        if not isinstance(v, Const | Seq | Dict | SetVar | Slice | Obj):
            raise Break(f"value of {type(v).__name__}")
        if isinstance(v, Seq):
            items = [self.python(item) for item in v.items]
            return v.kind._make(items) if is_named_tuple(v.kind) else v.kind(items)  # type: ignore[attr-defined]
        result = self.arg(v)
        if contains_node(result):
            raise Break("value of a tensor")
        return result

    def original(self, v: Tensor) -> Any:
        """The object outside that a tensor stands for."""
        return next(value for value, var in self.known.values() if var is v)

    def key(self, v: Any) -> Any:
        """The value as a key of a dict or a set."""
        v = self.real(v)
        if isinstance(v, Tensor) and v.source is not None:
            found = self.original(v)
            self.guard("is", v.source, found)
            return Id(found)
        if isinstance(v, Obj) and is_own_key(v.value):
            self.guard("is", v.source, v.value)
            return Id(v.value)
        value = self.python(v)
        if not self.is_plain_key(value):
            raise Break(f"key of type {type(value).__name__}")
        return value

    def lift(self, value: Any) -> Any:
        """A variable for a value computed during capture."""
        kind = type(value)
        if kind is Id:
            if id(value.value) in self.known:
                return self.known[id(value.value)][1]
            if self.world.is_tensor(value.value):
                raise Break("a tensor as a key")
            return Obj(value.value, const(value.value))
        if self.is_constant(value):
            return Const(value)
        if kind in (tuple, list) or is_named_tuple(kind):
            return Seq(kind, [self.lift(x) for x in value])
        if kind is dict:
            return Dict({key: self.lift(x) for key, x in value.items()})
        if kind in SETS and all(map(self.is_plain_key, value)):
            return SetVar(kind, value)
        return Obj(value, const(value))

    # -- the graph ---------------------------------------------------------------------------------

    def body(self, outer: Recording) -> Recording:
        """A recording of a function inside another one."""
        made = Recording(self.stack_trace, outer)
        self.begun[made.graph] = self.position
        return made

    def record(self, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Add a call to the graph; its result."""
        found = self.world.overridden(self, op, target, args, kwargs)
        if found is not None:
            return found
        try:
            return self.record_call(op, target, args, kwargs)
        except Break:
            if not self.floats:
                raise
            # Some ops look at the values of numbers.
            args, kwargs = without_floats(self, args), without_floats(self, kwargs)
            return self.record_call(op, target, args, kwargs)

    def record_call(self, op: str, target: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        nodes = [self.arg(a) for a in args], {k: self.arg(v) for k, v in kwargs.items()}
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        given, named = examples_of(nodes)
        versions = self.world.versions((given, named))
        example = self.world.run(op, target, given, named, self.modes)
        is_inplace = name in INPLACE or (name.endswith("_") and not name.endswith("__"))
        writes = is_inplace or self.world.versions((given, named)) != versions
        writes = writes or self.world.writes(target, name)
        world = self.world
        self.note_effects(writes, world.draws(target, name), world.may_raise(target, name, given))
        node = self.recording.add(op, target, *nodes, example)
        if writes:
            node.meta[WRITES] = True
        if op == "call_function" and self.is_of_numbers(example, given, named):
            node.meta[PART] = True
        first = self.real(args[0]) if args else None
        if isinstance(first, Tensor) and example is first.example:
            # A write in place, or a call that leaves a tensor as it is.
            return first
        return self.outputs(node, example)

    def is_of_numbers(self, example: Any, given: Any, named: dict[str, Any]) -> bool:
        """Whether a call makes a number of numbers and raises nothing later: a result that guards
        decided, and nothing else uses, need not be computed."""
        return not named and all(
            type(x) in (int, float, bool)
            or not (self.is_constant(x) or self.world.is_tensor(x) or self.world.may_raise_later(x))
            for x in (example, *given)
        )

    def note_effects(self, writes: bool, draws: bool, may_raise: bool) -> None:
        """Keep account of what a call does. What raises in the middle of a graph has the program
        run again from the start of the graph, for its handlers and effects: no write may stand
        beside it."""
        root = self.root
        is_seen = bool(self.effects or self.has_handlers)
        if is_seen and (writes or root.writes) and (may_raise or root.may_raise):
            raise Break("a write beside a call that may raise")
        for recording in {id(r): r for r in (root, self.recording)}.values():
            recording.writes |= writes
            recording.draws |= draws
            recording.may_raise |= may_raise

    def outputs(self, node: Any, example: Any) -> Any:
        """The variable of a node's result."""
        if self.world.is_tensor(example):
            return Tensor(example, node)
        if isinstance(example, tuple | list):
            items = []
            for i, item in enumerate(example):
                part = self.recording.add("call_function", operator.getitem, [node, i], {}, item)
                part.meta[PART] = True
                items.append(self.outputs(part, item))
            return Seq(type(example), items)
        if example is None:
            return Const(None)
        is_number = type(example) in (int, float, bool) or not self.is_constant(example)
        if is_number and not self.world.is_fixed(example):
            return Number(example, node)
        return Const(example)

    @property
    def grad(self) -> bool:
        """Whether gradients are recorded here."""
        return bool(self.modes["grad"])

    @grad.setter
    def grad(self, value: bool) -> None:
        self.modes = {**self.modes, "grad": value}

    def set_grad(self, value: bool) -> bool:
        """Switch grad mode from here on; what it was."""
        before = self.grad
        if before != value:
            self.switch({"grad": value}, self.world.set_grad, [value])
        return before

    def switch(self, changed: dict[str, Any], target: Any, args: list[Any]) -> None:
        """Switch modes from here on, by a call in the graph."""
        self.modes = {**self.modes, **changed}
        self.has_switches = True
        self.recording.add("call_function", target, args, {}, None)

    def stack_trace(self) -> str:
        """Where the program is, in the user's code."""
        lines = []
        for frame in self.frames:
            if not self.world.is_library_namespace(frame.namespace):
                name, number = frame.code.co_filename, frame.line()
                text = linecache.getline(name, number).strip()
                lines.append(f'  File "{name}", line {number}, in {frame.code.co_name}\n    {text}')
        return "\n".join(lines)

    # -- effects -----------------------------------------------------------------------------------

    def effect(self, key: Any, *what: Any) -> None:
        self.effects.setdefault(key, what)

    def mutated(self, v: Any) -> None:
        """A container was changed; the outside sees it if it came from there."""
        if isinstance(v, Fields):
            self.write_fields(v)
        elif isinstance(v, Table):
            self.effect(("table", id(v)), "table", v)
        elif v.source is not None:
            self.effect(id(v), "contents", v)

    def fields_of(self, v: Obj) -> Fields:
        """The `__dict__` of an object of the outside, as the program left it."""
        key = id(v.value)
        if key not in self.fields:
            items: dict[str, Any] = {}
            source = v.source.attr("__dict__")
            for name, item in v.value.__dict__.items():
                if type(name) is not str:
                    raise Break("__dict__ of an object")
                items[name] = self.overlay.get((key, name), Lazy(item, source.item(name)))
            for (owner, name), item in self.overlay.items():
                if owner == key and item is not NULL:
                    items[name] = item
            items = {name: item for name, item in items.items() if item is not NULL}
            self.fields[key] = found = Fields(items, v)
            found.whole = functools.partial(self.guard, "keys", source, (dict, [*v.value.__dict__]))
            if any(owner == key for owner, _ in self.overlay):
                self.guard("keys", source, (dict, [*v.value.__dict__]))
                found.whole = None
        return self.fields[key]

    def table_of(self, v: Any) -> Dict | None:
        """What an object holds that is a dict of a class of the user's; None for others."""
        if isinstance(v, New):
            return v.table
        kind: Any = kind_of_table(type(v.value)) if isinstance(v, Obj) else None
        if kind is None or not all(map(self.is_plain_key, kind.keys(v.value))):
            return None
        if id(v.value) not in self.tables:
            keys = list(kind.keys(v.value))
            items = {key: Lazy(dict.__getitem__(v.value, key), v.source.held(key)) for key in keys}
            found = self.tables[id(v.value)] = Table(items, v, kind)
            found.whole = functools.partial(self.guard, "text", v.source, has_items(kind, keys))
        return self.tables[id(v.value)]

    def write_fields(self, v: Fields) -> None:
        """Note what the program changed in a `__dict__`."""
        found = v.owner.value
        for name in [name for name in v.before if name not in v.held]:
            self.write_outside(v.owner, found, name, NULL, "fields")
        for name, item in v.held.items():
            if v.before.get(name) is not item:
                if type(name) is not str:
                    raise Break("a name in a __dict__ that is no text")
                self.write_outside(v.owner, found, name, item, "fields")
        v.before = dict(v.held)

    def write_attribute(self, v: Any, name: str, value: Any, way: str = "plain") -> None:
        if isinstance(v, New):
            v.attrs[name] = value
        elif isinstance(v, Obj):
            self.write_outside(v, v.value, name, value, way)
        else:
            raise Break(f"set attribute of {type(v).__name__}")

    def write_outside(self, v: Var, found: Any, name: str, value: Any, way: str = "plain") -> None:
        """Give an object of the outside an attribute; NULL takes it away."""
        key = id(found), name
        if self.ways.setdefault(key, way) != way:
            raise Break(f"attribute {name} that is written in two ways")
        fields = self.fields.get(id(found))
        if fields is not None and way != "fields":
            for table in (fields.held, fields.before):
                table.pop(name, None)
                if value is not NULL:
                    table[name] = value
        if self.overlay.get(key) is NULL and key in self.effects:
            # It is the last attribute then.
            self.recreated.add(key)
            del self.effects[key]
        self.overlay[key] = value
        self.effect(key, "attr", v, name, key)

    # -- given by the layers above -----------------------------------------------------------------

    def call(self, f: Any, args: list[Any], kwargs: dict[str, Any], frame: Any = None) -> Any:
        raise NotImplementedError
