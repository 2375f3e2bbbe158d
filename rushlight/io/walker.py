"""A reader of pickles that walks their opcodes and never imports or calls what they name.

Names become whatever `names` answers for them: a function of ours that checks its arguments
(`Known`), a plain value, or an `Inert` record that keeps what the file says about an object of an
unknown class. Work and memory are bounded by a budget that grows with the length of the pickle:
whatever a short file can repeat (containers, calls, keys) is paid for before it is made.
Everything that is wrong with a file is a `CheckpointError`.
"""

from __future__ import annotations

import codecs
import re
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.base.errors import CheckpointError, error

__all__ = ["CallerError", "Inert", "Known", "Walker", "fail", "shown"]

MARK = object()
# Bytes that objects of a file may take: so many, and so many for each byte of the pickle. A dict of
# three entries takes twelve bytes of pickle and two hundred of memory.
FREE_BYTES = 40 << 20
BYTES_PER_BYTE = 24
# A key's hash and comparison run through all of it, and through shared parts again and again.
MAX_KEY_PARTS = 4096
# Different keys with one and the same hash: a few happen, many are made to slow dicts down.
MAX_KEYS_PER_HASH = 64
NUMBER_DIGITS = 4096
LIST_BYTES, DICT_BYTES, SET_BYTES, TUPLE_BYTES, INERT_BYTES = 56, 64, 216, 40, 120
DICT_ENTRY_BYTES, SET_ENTRY_BYTES, REFERENCE_BYTES = 64, 64, 64


class CallerError(Exception):
    """Carries what a function of the caller's raised past those who look for faults of the file."""


class Inert:
    """An object of a class that the reader does not know: its name and data, without behaviour."""

    __slots__ = ("args", "items", "kwargs", "module", "name", "pairs", "state")

    def __init__(self, module: str, name: str, args: Any = None, kwargs: Any = None) -> None:
        self.module = module
        self.name = name
        # None for the class itself, a tuple for a call of it.
        self.args: Any = args
        self.kwargs: Any = kwargs
        self.state: Any = None
        # What was added as to a list or set, and as to a dict.
        self.items: Any = ()
        self.pairs: Any = ()

    def made(self, args: Any, kwargs: Any = None) -> Inert:
        """The record of a call of this name."""
        return Inert(self.module, self.name, args, kwargs)

    def __repr__(self) -> str:
        return f"<inert {self.module}.{self.name}>"


class Known:
    """A name that the reader knows: calling it runs a function of ours on the file's arguments."""

    __slots__ = ("build", "call", "cost", "keys", "name", "new", "target")

    def __init__(
        self,
        name: str,
        call: Callable[..., Any],
        cost: Callable[..., int] | None = None,
        keys: Callable[..., Any] | None = None,
        target: Any = None,
        new: Callable[..., Any] | None = None,
        build: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self.name = name
        self.call = call
        # Bytes that a call with these arguments takes.
        self.cost = cost
        # What of the arguments becomes a key.
        self.keys = keys
        # The class that the name stands for, how it is made without its constructor, and how an
        # object of it takes a state.
        self.target = target
        self.new = new
        self.build = build

    def __repr__(self) -> str:
        return f"<known {self.name}>"


def fail(what: str) -> CheckpointError:
    return error("RL0901", CheckpointError, what=what)


def shown(value: Any) -> str:
    """A value of a file for an error's text, which must stay short whatever the value is."""
    if value is None or type(value) in (bool, float):
        return repr(value)
    if type(value) is int and abs(value) < 1 << 128:
        return repr(value)
    if isinstance(value, Inert) and len(value.module) + len(value.name) <= 100:
        return f"{value.module}.{value.name}"
    if type(value) in (str, bytes):
        return repr(value if len(value) <= 64 else value[:64]) + ("..." if len(value) > 64 else "")
    return f"a {type(value).__name__}"


class Walker:
    """Reads one pickle from `data`, starting at `position`."""

    def __init__(
        self,
        data: bytes,
        names: Callable[[str, str], Any],
        persistent: Callable[[Any], Any],
        position: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        self.data = data
        self.names = names
        self.persistent = persistent
        self.position = position
        self.encoding = encoding
        self.stack: list[Any] = []
        # Pickles number their memo from zero up; other numbers are possible and go to `jumps`.
        self.memo: list[Any] = []
        self.jumps: dict[int, Any] = {}
        self.inert: set[str] = set()
        self.builders: dict[type, Callable[[Any, Any], None]] = {}
        self.hashes: dict[int, list[Any]] = {}
        # Memory left to objects; every byte of pickle that has been read adds to it.
        self.budget = FREE_BYTES - BYTES_PER_BYTE * position

    def read(self) -> Any:
        """The object; `position` is then behind it."""
        try:
            return self.walk()
        except CheckpointError:
            raise
        except CallerError as error:
            raise error.args[0] from None
        except RecursionError:
            raise fail("it is nested too deeply") from None
        except Exception as error:
            text = str(error)[:200].rstrip(".")
            where = f"{type(error).__name__} at byte {self.position}"
            raise fail(f"{where}: {text}") from error

    def walk(self) -> Any:
        data, size = self.data, len(self.data)
        table = OPCODES
        while True:
            if self.position >= size:
                raise fail("it ends in the middle of an object")
            code = data[self.position]
            self.position += 1
            if code == STOP:
                return self.pop()
            step = table.get(code)
            if step is None:
                raise fail(f"unknown opcode {code:#04x} at byte {self.position - 1}")
            step(self)

    def charge(self, count: int) -> None:
        """Pay for memory before it is taken."""
        self.budget -= count
        if self.budget + BYTES_PER_BYTE * self.position < 0:
            raise fail("it asks for far more memory than its length explains")

    # -- bytes ------------------------------------------------------------------------------------

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise fail("it ends in the middle of a value")
        found = self.data[self.position : end]
        self.position = end
        return found

    def unpack(self, form: str, count: int) -> Any:
        return struct.unpack(form, self.take(count))[0]

    def line(self) -> bytes:
        start = self.position
        end = self.data.find(b"\n", start)
        if end < 0:
            raise fail("it ends in the middle of a line")
        self.position = end + 1
        return self.data[start:end]

    # -- stack ------------------------------------------------------------------------------------

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise fail("an object is missing on the stack")
        return self.stack.pop()

    def top(self) -> Any:
        if not self.stack or self.stack[-1] is MARK:
            raise fail("an object is missing on the stack")
        return self.stack[-1]

    def above_mark(self) -> list[Any]:
        """What lies above the last mark; it leaves the stack: no part is looked at twice."""
        stack = self.stack
        for place in range(len(stack) - 1, -1, -1):
            if stack[place] is MARK:
                found = stack[place + 1 :]
                del stack[place:]
                return found
        raise fail("a mark is missing on the stack")

    def remembered(self, number: int) -> None:
        if 0 <= number < len(self.memo):
            self.push(self.memo[number])
        elif number in self.jumps:
            self.push(self.jumps[number])
        else:
            raise fail(f"entry {shown(number)} of the memo is used before it is made")

    def remember(self, number: int) -> None:
        if number < 0:
            raise fail(f"{shown(number)} is no place in the memo")
        if number < len(self.memo):
            self.memo[number] = self.top()
        elif number == len(self.memo) and number not in self.jumps:
            self.memo.append(self.top())
        else:
            self.charge(DICT_ENTRY_BYTES)
            self.jumps[number] = self.top()

    # -- containers -------------------------------------------------------------------------------

    def append(self, values: list[Any]) -> None:
        target = self.top()
        self.charge(8 * len(values))
        if type(target) is list:
            target.extend(values)
        elif isinstance(target, Inert):
            add_items(target, values)
        else:
            raise fail(f"items are added to a {type(target).__name__}")

    def set_items(self, values: list[Any]) -> None:
        if len(values) % 2:
            raise fail("a key has no value")
        target = self.top()
        self.charge(DICT_ENTRY_BYTES // 2 * len(values))
        pairs = zip(values[::2], values[1::2])
        if type(target) in (dict, OrderedDict, Counter):
            for key, value in pairs:
                target[self.hashable(key)] = value
        elif isinstance(target, Inert):
            if target.pairs == ():
                target.pairs = []
            target.pairs.extend(pairs)
        else:
            raise fail(f"entries are added to a {type(target).__name__}")

    def add_members(self, values: list[Any]) -> None:
        target = self.top()
        self.charge(SET_ENTRY_BYTES * len(values))
        if type(target) is set:
            for value in values:
                target.add(self.hashable(value))
        elif isinstance(target, Inert):
            add_items(target, values)
        else:
            raise fail(f"members are added to a {type(target).__name__}")

    def as_dict(self, values: list[Any]) -> None:
        self.charge(DICT_BYTES)
        self.push({})
        self.set_items(values)

    def as_frozenset(self, values: list[Any]) -> None:
        self.charge(SET_BYTES + SET_ENTRY_BYTES * len(values))
        self.push(frozenset([self.hashable(value) for value in values]))

    def as_tuple(self, values: list[Any]) -> None:
        self.charge(TUPLE_BYTES + 8 * len(values))
        self.push(tuple(values))

    def hashable(self, key: Any) -> Any:
        """The key, if its hash and comparison are cheap and its hash is not made to collide."""
        cls = type(key)
        if cls is str or cls is bytes or key is None or (cls is int and abs(key) < LARGE_INT):
            return key
        if cls is list or cls is dict or cls is set or cls is bytearray or cls is slice:
            raise fail(f"a {cls.__name__} is a key")
        if isinstance(key, (tuple, frozenset)):
            self.check_parts(key)
        elif not isinstance(key, (int, complex, np.complexfloating)):
            return key
        alike = self.hashes.setdefault(hash(key), [])
        if key not in alike:
            self.charge(DICT_ENTRY_BYTES + LIST_BYTES)
            alike.append(key)
            if len(alike) > MAX_KEYS_PER_HASH:
                raise fail("its keys are made to collide")
        return key

    def check_parts(self, key: Any) -> None:
        waiting, count = [key], 0
        while waiting:
            part = waiting.pop()
            count += 1
            if isinstance(part, (tuple, frozenset)):
                count += len(part)
                if count > MAX_KEY_PARTS:
                    raise fail("a key has too many parts")
                waiting.extend(part)
        self.charge(8 * count)

    # -- names ------------------------------------------------------------------------------------

    def name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise fail("the name of a class is no text")
        found = self.names(module, name)
        if isinstance(found, Inert):
            self.charge(INERT_BYTES)
            self.inert.add(f"{module}.{name}")
        elif isinstance(found, Known) and found.build is not None:
            self.builders[found.target] = found.build
        self.push(found)

    def call(self, function: Any, args: Any, kwargs: Any = None, new: bool = False) -> None:
        if type(args) is not tuple:
            raise fail("arguments are not a tuple")
        if isinstance(function, Inert):
            self.charge(INERT_BYTES)
            self.push(function.made(args, kwargs))
        elif isinstance(function, Known):
            if kwargs:
                raise fail(f"{function.name} takes no keywords")
            self.charge(8 * len(args) + (0 if function.cost is None else function.cost(*args)))
            if function.keys is not None:
                for key in function.keys(*args):
                    self.hashable(key)
            make = function.new if new and function.new is not None else function.call
            self.push(make(*args))
        else:
            raise fail(f"{shown(function)} is called")

    def build(self) -> None:
        state = self.pop()
        target = self.top()
        if isinstance(target, Inert):
            target.state = state
            return
        rule = BUILDERS.get(type(target)) or self.builders.get(type(target))
        if rule is None:
            raise fail(f"a {type(target).__name__} is given a state")
        self.charge(state_cost(state))
        rule(target, state)


def state_cost(state: Any) -> int:
    if type(state) in (dict, OrderedDict):
        return DICT_ENTRY_BYTES * len(state)
    if type(state) is tuple and len(state) <= 8:
        return sum([len(part) for part in state if type(part) in (bytes, bytearray, dict)])
    return 0


# Larger numbers share their hash with smaller ones.
LARGE_INT = (1 << 61) - 1


def add_items(target: Inert, values: list[Any]) -> None:
    if target.items == ():
        target.items = []
    target.items.extend(values)


def state_of_ordered_dict(target: Any, state: Any) -> None:
    """Module state dicts carry `_metadata`; nothing else is set."""
    if type(state) not in (dict, OrderedDict):
        raise fail("the state of an OrderedDict is not a dict")
    if "_metadata" in state:
        target._metadata = state["_metadata"]


# type -> function(object, state); the modules that make objects of the type add to it.
BUILDERS: dict[type, Callable[[Any, Any], None]] = {OrderedDict: state_of_ordered_dict}


# -- opcodes ----------------------------------------------------------------------------------


def text_line(self: Walker) -> str:
    return self.line().decode("utf-8")


# Python warns of other escapes.
ESCAPES = re.compile(
    rb"""(?s)(?:[^\\]|\\(?:[\\'"abfnrtv\n]|x[0-9a-fA-F]{2}|[0-3][0-7]{2}|[0-7]{1,2}(?![0-7])))*"""
)


def quoted(self: Walker) -> Any:
    raw = self.line()
    if len(raw) < 2 or raw[:1] != raw[-1:] or raw[:1] not in (b"'", b'"'):
        raise fail("a text has no quotes")
    raw = raw[1:-1]
    if b"\\" in raw:
        if ESCAPES.fullmatch(raw) is None:
            raise fail("a text has an unknown escape")
        # The bytes that a literal of Python 2 stands for.
        raw = codecs.unicode_escape_decode(raw)[0].encode("latin1")
    return old_text(self, raw)


def old_text(self: Walker, raw: bytes) -> Any:
    """A string of Python 2: text where it can be, bytes where the caller wants them."""
    if self.encoding == "bytes":
        return raw
    return raw.decode(self.encoding)


def digits(self: Walker) -> bytes:
    raw = self.line()
    if len(raw) > NUMBER_DIGITS:
        raise fail("a number has too many digits")
    return raw


def integer_line(self: Walker) -> Any:
    raw = digits(self)
    if raw == b"00":
        return False
    if raw == b"01":
        return True
    return int(raw)


def long_line(self: Walker) -> int:
    raw = digits(self)
    return int(raw[:-1] if raw.endswith(b"L") else raw)


def long_bytes(self: Walker, count: int) -> int:
    if count > 1024:
        raise fail("a number has too many digits")
    return int.from_bytes(self.take(count), "little", signed=True)


def text(self: Walker, count: int) -> None:
    self.push(self.take(count).decode("utf-8", "surrogatepass"))


def refer(self: Walker, pid: Any) -> None:
    self.charge(REFERENCE_BYTES)
    self.push(self.persistent(pid))


def frame(self: Walker) -> None:
    if self.unpack("<Q", 8) > len(self.data):
        raise fail("a frame is longer than the file")


def protocol(self: Walker) -> None:
    if self.take(1)[0] > 5:
        raise fail("it is written in an unknown pickle protocol")


def stack_global(self: Walker) -> None:
    name = self.pop()
    self.name(self.pop(), name)


def reduce(self: Walker) -> None:
    args = self.pop()
    self.call(self.pop(), args)


def new_object(self: Walker) -> None:
    args = self.pop()
    self.call(self.pop(), args, new=True)


def new_object_ex(self: Walker) -> None:
    kwargs, args = self.pop(), self.pop()
    if type(kwargs) is not dict:
        raise fail("keywords are not a dict")
    self.call(self.pop(), args, kwargs, new=True)


def instance(self: Walker) -> None:
    module, name = text_line(self), text_line(self)
    args = tuple(self.above_mark())
    self.name(module, name)
    self.call(self.pop(), args)


def object_(self: Walker) -> None:
    found = self.above_mark()
    if not found:
        raise fail("an object has no class")
    self.call(found[0], tuple(found[1:]))


def pair(self: Walker) -> None:
    second, first = self.pop(), self.pop()
    self.as_tuple([first, second])


def triple(self: Walker) -> None:
    third, second, first = self.pop(), self.pop(), self.pop()
    self.as_tuple([first, second, third])


def empty_list(self: Walker) -> None:
    self.charge(LIST_BYTES)
    self.push([])


def empty_dict(self: Walker) -> None:
    self.charge(DICT_BYTES)
    self.push({})


def empty_set(self: Walker) -> None:
    self.charge(SET_BYTES)
    self.push(set())


def list_of(self: Walker) -> None:
    found = self.above_mark()
    self.charge(LIST_BYTES + 8 * len(found))
    self.push(found)


def append_one(self: Walker) -> None:
    self.append([self.pop()])


def set_one(self: Walker) -> None:
    value, key = self.pop(), self.pop()
    self.set_items([key, value])


def pop_any(self: Walker) -> None:
    if not self.stack:
        raise fail("an object is missing on the stack")
    self.stack.pop()


def pop_mark(self: Walker) -> None:
    self.above_mark()


def extension(self: Walker) -> None:
    raise fail("it uses pickle's extension registry")


def buffer(self: Walker) -> None:
    raise fail("it refers to memory outside of the file")


def memoize(self: Walker) -> None:
    self.remember(len(self.memo) + len(self.jumps))


STOP = ord(".")
OPCODES: dict[int, Callable[[Walker], None]] = {
    ord("("): lambda w: w.stack.append(MARK),
    ord("0"): pop_any,
    ord("1"): pop_mark,
    ord("2"): lambda w: w.push(w.top()),
    ord("F"): lambda w: w.push(float(digits(w))),
    ord("I"): lambda w: w.push(integer_line(w)),
    ord("J"): lambda w: w.push(w.unpack("<i", 4)),
    ord("K"): lambda w: w.push(w.take(1)[0]),
    ord("M"): lambda w: w.push(w.unpack("<H", 2)),
    ord("L"): lambda w: w.push(long_line(w)),
    0x8A: lambda w: w.push(long_bytes(w, w.take(1)[0])),
    0x8B: lambda w: w.push(long_bytes(w, w.unpack("<i", 4))),
    ord("N"): lambda w: w.push(None),
    0x88: lambda w: w.push(True),
    0x89: lambda w: w.push(False),
    ord("P"): lambda w: refer(w, text_line(w)),
    ord("Q"): lambda w: refer(w, w.pop()),
    ord("R"): reduce,
    ord("S"): lambda w: w.push(quoted(w)),
    ord("T"): lambda w: w.push(old_text(w, w.take(w.unpack("<i", 4)))),
    ord("U"): lambda w: w.push(old_text(w, w.take(w.take(1)[0]))),
    ord("V"): lambda w: w.push(codecs.raw_unicode_escape_decode(w.line())[0]),
    ord("X"): lambda w: text(w, w.unpack("<I", 4)),
    0x8C: lambda w: text(w, w.take(1)[0]),
    0x8D: lambda w: text(w, w.unpack("<Q", 8)),
    ord("B"): lambda w: w.push(w.take(w.unpack("<I", 4))),
    ord("C"): lambda w: w.push(w.take(w.take(1)[0])),
    0x8E: lambda w: w.push(w.take(w.unpack("<Q", 8))),
    0x96: lambda w: w.push(bytearray(w.take(w.unpack("<Q", 8)))),
    0x97: buffer,
    0x98: buffer,
    ord("a"): append_one,
    ord("e"): lambda w: w.append(w.above_mark()),
    ord("b"): lambda w: w.build(),
    ord("c"): lambda w: w.name(text_line(w), text_line(w)),
    ord("d"): lambda w: w.as_dict(w.above_mark()),
    ord("}"): empty_dict,
    ord("l"): list_of,
    ord("]"): empty_list,
    ord("t"): lambda w: w.as_tuple(w.above_mark()),
    ord(")"): lambda w: w.push(()),
    0x85: lambda w: w.as_tuple([w.pop()]),
    0x86: pair,
    0x87: triple,
    0x8F: empty_set,
    0x90: lambda w: w.add_members(w.above_mark()),
    0x91: lambda w: w.as_frozenset(w.above_mark()),
    ord("g"): lambda w: w.remembered(integer_line(w)),
    ord("h"): lambda w: w.remembered(w.take(1)[0]),
    ord("j"): lambda w: w.remembered(w.unpack("<I", 4)),
    ord("p"): lambda w: w.remember(integer_line(w)),
    ord("q"): lambda w: w.remember(w.take(1)[0]),
    ord("r"): lambda w: w.remember(w.unpack("<I", 4)),
    0x94: memoize,
    ord("s"): set_one,
    ord("u"): lambda w: w.set_items(w.above_mark()),
    ord("G"): lambda w: w.push(w.unpack(">d", 8)),
    ord("i"): instance,
    ord("o"): object_,
    0x80: protocol,
    0x81: new_object,
    0x92: new_object_ex,
    0x93: stack_global,
    0x95: frame,
    0x82: extension,
    0x83: extension,
    0x84: extension,
}
