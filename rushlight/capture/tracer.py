"""The door: everything read from outside comes through `Tracing.wrap`, where guards are made.

Also what a capture collects: the graph, guards, and effects to be written after the graph ran.
"""

from __future__ import annotations

import collections
import enum
import functools
import linecache
import math
import operator
import types
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


class Tracing:
    """State of one attempt at capture, and the ways in and out of it."""

    def __init__(self, world: World, dynamic: set[Source], frame_limit: int = 60) -> None:
        self.world = world
        self.dynamic = dynamic
        # `recording` changes inside the bodies of higher-order calls.
        self.recording = self.root = Recording(self.stack_trace)
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
            keys = [Id(key) if self.world.is_tensor(key) else key for key in value]
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
        elif is_identity:
            self.guard("is", source, value)
        else:
            self.guard("type", source, kind)
        return Obj(value, source)

    def item_of(self, v: Dict, key: Any) -> Any:
        """What a dict holds under a key, or None; nothing else of it is guarded."""
        if v.whole is None or v.source is None or type(key) not in (int, str):
            return v.items.get(key)
        found = v.held.get(key)
        if found is None:
            self.guard("absent", v.source, key)
        return self.present(found)

    def is_key(self, key: Any) -> bool:
        return self.world.is_tensor(key) or self.is_plain_key(key)

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
        value = self.python(v)
        if not self.is_plain_key(value):
            raise Break(f"key of type {type(value).__name__}")
        return value

    def lift(self, value: Any) -> Any:
        """A variable for a value computed during capture."""
        kind = type(value)
        if kind is Id:
            if id(value.value) not in self.known:
                raise Break("a tensor as a key")
            return self.known[id(value.value)][1]
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
        if is_inplace:
            first = self.real(args[0])
            if isinstance(first, Tensor) and example is first.example:
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
        if v.source is not None:
            self.effect(id(v), "contents", v)

    def write_attribute(self, v: Any, name: str, value: Any) -> None:
        if isinstance(v, New):
            v.attrs[name] = value
        elif isinstance(v, Obj):
            self.write_outside(v, v.value, name, value)
        else:
            raise Break(f"set attribute of {type(v).__name__}")

    def write_outside(self, v: Var, found: Any, name: str, value: Any) -> None:
        """Give an object of the outside an attribute; NULL takes it away."""
        key = id(found), name
        if self.overlay.get(key) is NULL and key in self.effects:
            # It is the last attribute then.
            self.recreated.add(key)
            del self.effects[key]
        self.overlay[key] = value
        self.effect(key, "attr", v, name, key)

    # -- given by the layers above -----------------------------------------------------------------

    def call(self, f: Any, args: list[Any], kwargs: dict[str, Any], frame: Any = None) -> Any:
        raise NotImplementedError
