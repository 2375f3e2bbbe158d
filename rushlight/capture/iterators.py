"""Iterators that capture runs step by step, and how each is made again in generated code.

An iterator holds what CPython's holds, so that one that is half used can be rebuilt: over the rest
of its inner iterators. A generator that has begun cannot; capture then ends before it was made.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from rushlight.capture.attributes import Iter
from rushlight.capture.outcomes import Break, UserRaise
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import NULL, Const, Dict, New, Seq, Var

__all__ = [
    "Chain",
    "Count",
    "Cycle",
    "Enumerate",
    "Filter",
    "Generator",
    "Items",
    "MapIter",
    "Over",
    "OverRange",
    "Repeat",
    "Stepped",
    "Zip",
]


class Over(Iter):
    """Over a list, tuple or deque as it is when each item is asked for."""

    def __init__(self, base: Seq) -> None:
        self.base = base
        self.position = 0

    def next(self, tracer: Any) -> Any:
        if self.position >= len(self.base.items):
            # An exhausted iterator stays so, whatever is added later.
            self.base = Seq(list if self.base.kind is list else tuple, [])
            self.position = 0
            return NULL
        self.position += 1
        return self.base.items[self.position - 1]


class Items(Iter):
    """Over items that are known."""

    def __init__(self, items: list[Any], owner: Dict | None = None) -> None:
        self.items = items
        self.position = 0
        self.owner = owner
        self.size = len(owner.items) if owner is not None else 0

    def next(self, tracer: Any) -> Any:
        if self.owner is not None and len(self.owner.items) != self.size:
            raise raise_user(RuntimeError, "dictionary changed size during iteration")
        if self.position >= len(self.items):
            return NULL
        self.position += 1
        return self.items[self.position - 1]

    def rest(self) -> list[Any]:
        return self.items[self.position :]


class Stepped(Iter):
    """An iterator of a class of the user's."""

    def __init__(self, owner: Var) -> None:
        self.owner = owner

    def next(self, tracer: Any) -> Any:
        return tracer.advance(self.owner)


class OverRange(Iter):
    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def next(self, tracer: Any) -> Any:
        if not self.numbers:
            return NULL
        first, self.numbers = self.numbers[0], self.numbers[1:]
        return Const(first)


class Zip(Iter):
    def __init__(self, inner: list[Iter], strict: bool = False) -> None:
        self.inner = inner
        self.strict = strict

    def next(self, tracer: Any) -> Any:
        items = []
        for number, it in enumerate(self.inner):
            item = it.next(tracer)
            if item is NULL:
                if self.strict and (number or any(x.next(tracer) is not NULL for x in self.inner)):
                    raise Break("zip of different lengths")
                return NULL
            items.append(item)
        return Seq(tuple, items) if items else NULL


class Chain(Iter):
    def __init__(self, inner: list[Iter]) -> None:
        self.inner = inner

    def next(self, tracer: Any) -> Any:
        while self.inner:
            item = self.inner[0].next(tracer)
            if item is not NULL:
                return item
            del self.inner[0]
        return NULL


class Count(Iter):
    def __init__(self, number: Any, step: Any) -> None:
        self.number = number
        self.step = step

    def next(self, tracer: Any) -> Any:
        found, self.number = self.number, self.number + self.step
        return Const(found)


class Repeat(Iter):
    """The same item for ever."""

    def __init__(self, item: Any) -> None:
        self.item = item

    def next(self, tracer: Any) -> Any:
        return self.item


class Cycle(Iter):
    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self.position = 0

    def next(self, tracer: Any) -> Any:
        if not self.items:
            return NULL
        item = self.items[self.position]
        self.position = (self.position + 1) % len(self.items)
        return item


class Enumerate(Iter):
    def __init__(self, inner: Iter, count: int) -> None:
        self.inner = inner
        self.count = count

    def next(self, tracer: Any) -> Any:
        item = self.inner.next(tracer)
        if item is NULL:
            return NULL
        self.count += 1
        return Seq(tuple, [Const(self.count - 1), item])


class MapIter(Iter):
    def __init__(self, func: Any, inner: list[Iter]) -> None:
        self.func = func
        self.inner = inner

    def next(self, tracer: Any) -> Any:
        items = []
        for it in self.inner:
            item = it.next(tracer)
            if item is NULL:
                return NULL
            items.append(item)
        return tracer.call(self.func, items, {})


class Filter(Iter):
    def __init__(self, func: Any, inner: Iter) -> None:
        self.func = func
        self.inner = inner

    def next(self, tracer: Any) -> Any:
        while True:
            item = self.inner.next(tracer)
            if item is NULL:
                return NULL
            func = tracer.real(self.func)
            is_identity = isinstance(func, Const) and func.value is None
            if tracer.truth(item if is_identity else tracer.call(func, [item], {})):
                return item


# From 3.13 on, what a generator returns when it is closed is what `close` gives.
RETURNS_ON_CLOSE = sys.version_info >= (3, 13)


class Generator(Iter):
    """A suspended frame."""

    kinds = (types.GeneratorType,)

    def __init__(self, frame: Any, made_at: int) -> None:
        self.frame = frame
        self.made_at = made_at
        self.started = False
        self.finished = False
        self.result: Var = Const(None)

    def next(self, tracer: Any) -> Any:
        return self.send(tracer, Const(None))

    def send(self, tracer: Any, value: Any) -> Any:
        if self.finished:
            return NULL
        if self.started:
            self.frame.stack.append(value)
        elif not (isinstance(value, Const) and value.value is None):
            message = "can't send non-None value to a just-started generator"
            raise raise_user(TypeError, message)
        if not self.started:
            self.started = True
            tracer.generators.append(self)
        return self.proceed(tracer)

    def throw(self, tracer: Any, error: Any) -> Any:
        """Raise at the `yield` where it waits; the next item, or NULL."""
        if not self.started or self.finished:
            self.finished = True
            raise UserRaise(error)
        frame = self.frame
        m = frame.decoded.micros[frame.pc]
        if m.op == "JUMP" and frame.decoded.micros[frame.decoded.starts[m.arg]].op == "SEND":
            raise Break("throw into a generator that waits for another")
        try:
            frame.note_context(error)
            frame.handle(frame.decoded.micros[frame.pc - 1], UserRaise(error))
        except UserRaise:
            self.finished = True
            raise
        return self.proceed(tracer)

    def close(self, tracer: Any) -> Any:
        if not self.started or self.finished:
            self.finished = True
            return Const(None)
        try:
            found = self.throw(tracer, New(GeneratorExit))
        except UserRaise as error:
            if isinstance(error.var, New) and error.var.cls in (GeneratorExit, StopIteration):
                return Const(None)
            raise
        if found is not NULL:
            raise raise_user(RuntimeError, "generator ignored GeneratorExit")
        return self.result if RETURNS_ON_CLOSE else Const(None)

    def is_left_open(self) -> bool:
        """Whether it waits where its end would run a handler of the user's."""
        if not self.started or self.finished:
            return False
        frame = self.frame
        handler = frame.decoded.handler(frame.decoded.micros[frame.pc - 1].offset)
        if handler is None:
            return False
        first = frame.decoded.micros[frame.decoded.starts[handler.target]]
        # The handler of the whole body that turns StopIteration into an error.
        return str(first.op) != "STOP_ITERATION_ERROR"

    def proceed(self, tracer: Any) -> Any:
        tracer.depth += 1
        try:
            done = self.frame.run()
        except UserRaise as error:
            self.finished = True
            if isinstance(error.var, New) and error.var.cls is StopIteration:
                raise raise_user(RuntimeError, "generator raised StopIteration") from None
            raise
        finally:
            tracer.depth -= 1
        if self.frame.yielded is not None:
            item, self.frame.yielded = self.frame.yielded, None
            return item
        self.finished = True
        self.result = done
        return NULL
