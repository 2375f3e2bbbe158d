"""A tensor that is a number, and the world of it: capture without NumPy."""

from __future__ import annotations

import copy
import functools
import math
from typing import Any

from rushlight.capture.cache import Capture, Options
from rushlight.capture.tracer import raise_user
from rushlight.capture.world import World


def value_of(other: Any) -> Any:
    return other.v if isinstance(other, Toy) else other


class Toy:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __add__(self, other: Any) -> Toy:
        return Toy(self.v + value_of(other))

    __radd__ = __add__

    def __mul__(self, other: Any) -> Toy:
        return Toy(self.v * value_of(other))

    __rmul__ = __mul__

    def __sub__(self, other: Any) -> Toy:
        return Toy(self.v - value_of(other))

    def __gt__(self, other: Any) -> Toy:
        return Toy(self.v > value_of(other))

    def __bool__(self) -> bool:
        return bool(self.v)

    def __rsub__(self, other: Any) -> Toy:
        return Toy(value_of(other) - self.v)

    def __truediv__(self, other: Any) -> Toy:
        return Toy(self.v / value_of(other))

    def __neg__(self) -> Toy:
        return Toy(-self.v)

    def sum(self) -> Toy:
        return Toy(self.v)

    def sin(self) -> Toy:
        return Toy(math.sin(self.v))

    def cos(self) -> Toy:
        return Toy(math.cos(self.v))

    def relu(self) -> Toy:
        return Toy(max(self.v, 0))

    def add_(self, other: Any) -> Toy:
        self.v += value_of(other)
        return self

    def inverse(self) -> Toy:
        # An example is never zero: what raises, raises when the graph runs.
        return Toy(1 / self.v if not isinstance(self, Example) else 1)

    def __repr__(self) -> str:
        return f"Toy({self.v})"

    def __eq__(self, other: object) -> bool:
        return type(other) is Toy and self.v == other.v

    __hash__ = object.__hash__


class Example(Toy):
    pass


def op_neg(x: Toy) -> Toy:
    return Toy(-x.v)


def op_sin(x: Toy) -> Toy:
    return Toy(math.sin(x.v))


def op_cos(x: Toy) -> Toy:
    return Toy(math.cos(x.v))


def op_relu(x: Toy) -> Toy:
    return x.relu()


def op_add(x: Toy, y: Any) -> Toy:
    return x + y


def op_mul(x: Toy, y: Any) -> Toy:
    return x * y


# What the programs call as functions of a library.
OPS = {f.__name__.removeprefix("op_"): f for f in (op_neg, op_sin, op_cos, op_relu, op_add, op_mul)}


class ToyWorld(World):
    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, Toy)

    def example(self, value: Any, source: Any, tracer: Any) -> Any:
        return Example(value.v)

    def tensor_type(self, tensor: Any) -> type:
        return Toy

    def tensor_attr(self, tracer: Any, tensor: Any, name: str) -> Any:
        if not hasattr(Toy, name):
            raise raise_user(AttributeError, f"'Toy' object has no attribute '{name}'")
        return super().tensor_attr(tracer, tensor, name)

    def is_op(self, function: Any) -> bool:
        return function in OPS.values()


def run_graph(recording: Any, world: Any) -> Any:
    """The backend that runs the graph as it is."""
    namespace: dict[str, Any] = {}
    code = recording.graph.python_code("self")
    exec(code.src, code.globals, namespace)
    return functools.partial(namespace["forward"], None)


def toy_capture(limit: int = 8, **options: Any) -> Capture:
    made = Options(**options)
    made.limit = lambda: limit
    return Capture(ToyWorld, run_graph, made)


def outcome(f: Any, args: Any) -> Any:
    try:
        return f(*args)
    except Exception as error:
        return type(error), str(error)


def check(
    fn: Any,
    *calls: tuple[Any, ...],
    graphs: int | None = None,
    breaks: int | None = None,
    fullgraph: bool = False,
) -> Capture:
    """Compiled equals native on each call, twice, with the counts given."""
    capture = toy_capture(fullgraph=fullgraph)
    compiled = capture.function(fn)
    for args in calls:
        for _ in range(2):
            a, b = copy.deepcopy(args), copy.deepcopy(args)
            want, got = outcome(fn, a), outcome(compiled, b)
            assert repr(want) == repr(got)
            assert repr(a) == repr(b), "side effects"
    assert graphs is None or len(capture.graphs) == graphs, capture.breaks
    assert breaks is None or len(capture.breaks) == breaks, capture.breaks
    return capture
