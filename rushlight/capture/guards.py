"""Kinds of guards: the text of the test that fails when what was read has changed.

A test is written for an expression that reads the value; `Names` gives names to objects. The same
text, evaluated outside generated code, says which guard was missed.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from numbers import Number
from typing import Any

from rushlight.capture.sources import Id, Source, fetch
from rushlight.capture.tracer import Guard
from rushlight.capture.world import World

__all__ = ["MISSES", "Kept", "Names", "described", "failing_test", "first_missed", "wrong_type"]

# What reading a source may raise where it is not there any more, or computing with it: the entry
# does not fit.
MISSES = (
    AttributeError, KeyError, IndexError, TypeError, ValueError, NameError, ArithmeticError,
)  # fmt: skip


class Names:
    """Names bound to objects in a namespace: the same name for the same object."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self.namespace = namespace
        self.names: dict[int, str] = {}
        self.count = 0
        # Names that code from before the last `restart` may use while it runs.
        self.former: list[str] = []

    def constant(self, value: Any) -> str:
        name = self.names.get(id(value))
        if name is None:
            name = self.names[id(value)] = f"__k{self.count}"
            self.count += 1
            self.namespace[name] = value
        return name

    def restart(self) -> None:
        """Forget the objects. No name ever means another object: code that runs now is not hurt."""
        for name in self.former:
            self.namespace.pop(name, None)
        self.former = list(self.names.values())
        self.names = {}


class Kept:
    """The arrays that tensors had when an entry last fitted, as numbers: 0 once one is gone. While
    the numbers are the same, so is all that an array tells. Nothing is kept alive."""

    __slots__ = ("__weakref__", "lock", "numbers", "references")

    def __init__(self, count: int) -> None:
        self.numbers = [0] * count
        self.references: list[Any] = [None] * count
        self.lock = threading.RLock()

    def note(self, *arrays: Any) -> None:
        """Remember arrays, unless two tensors have one: then the tensors may be one, too."""
        if len(set(map(id, arrays))) != len(arrays):
            return
        with self.lock:
            for place, array in enumerate(arrays):
                self.numbers[place] = 0
                gone = functools.partial(self.forget, place)
                self.references[place] = weakref.ref(array, gone)
                self.numbers[place] = id(array)

    def forget(self, place: int, reference: Any) -> None:
        with self.lock:
            if self.references[place] is reference:
                self.numbers[place] = 0


def test_value(e: str, expected: Any, names: Names) -> str:
    if expected is None or expected is True or expected is False or expected is ...:
        return f"{e} is not {'...' if expected is ... else expected!r}"
    kind = type(expected)
    if kind in (int, str):
        return f"type({e}) is not {kind.__name__} or {e} != {expected!r}"
    if kind is float:
        # 0.0 == -0.0 and nan != nan: compare what repr shows.
        if expected and expected == expected:
            return f"type({e}) is not float or {e} != {names.constant(expected)}"
        return f"repr({e}) != {repr(expected)!r}"
    known = names.constant(expected)
    if expected != expected or (expected == 0 and kind is not int and isinstance(expected, Number)):
        return f"type({e}) is not {names.constant(kind)} or repr({e}) != {repr(expected)!r}"
    return f"{e} is not {known} and (type({e}) is not {names.constant(kind)} or {e} != {known})"


def wrong_type(e: str, kind: type, names: Names) -> str:
    return f"type({e}) is not {names.constant(kind)}"


def test_keys(e: str, expected: tuple[type, list[Any]], names: Names) -> str:
    kind, keys = expected
    is_other = wrong_type(e, kind, names)
    if any(type(key) is Id for key in keys):
        return f"{is_other} or not {names.constant(has_keys)}({e}, {names.constant(keys)})"
    if all(type(key) is str for key in keys):
        return f"{is_other} or [*{e}] != {names.constant(keys)}"
    typed = [(type(key), key) for key in keys]
    return f"{is_other} or [(type(__x), __x) for __x in {e}] != {names.constant(typed)}"


def has_keys(table: Any, keys: list[Any]) -> bool:
    """Whether a dict has these keys in this order, those that are tensors by identity."""
    return len(table) == len(keys) and all(
        found is key.value if type(key) is Id else type(found) is type(key) and found == key
        for found, key in zip(table, keys)
    )


def test_length(e: str, expected: tuple[type, int], names: Names) -> str:
    kind, length = expected
    return f"{wrong_type(e, kind, names)} or len({e}) != {length}"


def test_empty(e: str, expected: None, names: Names) -> str:
    return f"not {names.constant(is_empty_cell)}({e})"


def is_empty_cell(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


Test = Callable[[str, Any, Names], str]
TESTS: dict[str, Test] = {
    "value": test_value,
    "type": wrong_type,
    "is": lambda e, expected, names: f"{e} is not {names.constant(expected)}",
    "length": test_length,
    "keys": test_keys,
    "empty": test_empty,
    # Reading it is the test.
    "present": lambda e, expected, names: "False",
    "absent": lambda e, expected, names: f"{expected!r} in {e}",
    "lacks": lambda e, expected, names: f"hasattr({e}, {expected!r})",
    "unshadowed": lambda e, expected, names: f"{expected!r} in {e}.__dict__",
    "filled": lambda e, expected, names: e if expected is None else str(expected(e, names)),
    "text": lambda e, expected, names: str(expected(e, names)),
    # A condition that seldom holds, and the test where it does.
    "noted": lambda e, expected, names: "{} and ({})".format(*expected(e, names)),
}
# Guards whose expectation is another source.
RELATIONS = {"alias": "is not", "distinct": "is"}


def failing_test(guard: Guard, read: Callable[[Source], str], names: Names, world: World) -> str:
    """The test of a guard, true when it is missed."""
    kind, source, expected = guard
    text = read(source)
    if kind in RELATIONS:
        return f"{text} {RELATIONS[kind]} {read(expected)}"
    if kind == "tensor":
        return world.tensor_guard(text, expected, names)
    return TESTS[kind](text, expected, names)


def named(value: Any) -> str:
    """An object as users know it: classes and functions by name."""
    name = getattr(value, "__qualname__", None)
    return name if isinstance(name, str) else repr(value)


def of_world(expected: Any) -> str:
    """What a test of the library's own is about: its description."""
    if expected is None:
        return "is empty"
    said = str(getattr(expected, "__doc__", None) or "").partition("\n")[0].rstrip(".")
    return said or "is as it was"


# What is expected of a value, in words.
WORDS: dict[str, Callable[[Any], str]] = {
    "value": lambda expected: f"is {expected!r}",
    "type": lambda expected: f"is of type {named(expected)}",
    "is": lambda expected: f"is {named(expected)}, the same object",
    "length": lambda expected: f"is a {named(expected[0])} of length {expected[1]}",
    "keys": lambda expected: f"is a {named(expected[0])} with the keys {expected[1]!r}",
    "empty": lambda expected: "is not set yet",
    "present": lambda expected: "is there",
    "absent": lambda expected: f"has no {expected!r}",
    "lacks": lambda expected: f"has no attribute {expected!r}",
    "unshadowed": lambda expected: f"has no {expected!r} of its own",
    "filled": of_world,
    "text": of_world,
    "noted": of_world,
    "alias": lambda expected: f"is {expected.name}",
    "distinct": lambda expected: f"is not {expected.name}",
    "tensor": lambda expected: f"is {expected}",
}


def described(guard: Guard) -> str:
    """A guard, for users."""
    kind, source, expected = guard
    return f"{source.name} {WORDS[kind](expected)}"


def found_instead(guard: Guard, scope: dict[str, Any], world: World) -> str:
    """What a guard that was missed finds now, in words."""
    kind, source, _ = guard
    try:
        value = fetch(source, scope)
    except Exception:
        return "it is not there"
    if world.is_tensor(value):
        try:
            return f"it is {world.tensor_facts(value, value)}"
        except Exception:
            return f"it is a {named(type(value))}"
    if kind == "type":
        return f"it is of type {named(type(value))}"
    if kind == "length":
        return f"it is a {named(type(value))} of length {len(value)}"
    text = named(value)
    return f"it is {text if len(text) <= 60 else text[:57] + '...'}"


def first_missed(guards: list[Guard], scope: dict[str, Any], world: World) -> str:
    """Which guard of an entry does not hold, in words."""
    for guard in guards:
        namespace: dict[str, Any] = {}
        names = Names(namespace)

        def read(source: Source, names: Names = names) -> str:
            return names.constant(fetch(source, scope))

        try:
            missed = eval(failing_test(guard, read, names, world), namespace)
        except MISSES:
            missed = True
        if missed:
            return f"{described(guard)}; {found_instead(guard, scope, world)}"
    return "global state or relations between inputs"
