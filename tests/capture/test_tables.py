"""Instances of users' classes of dicts, as model libraries return them: made, read and given back
without a break."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, fields
from typing import Any

import pytest

import rushlight as torch
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


class ModelOutput(OrderedDict):
    def __post_init__(self):
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


@dataclass
class Output(ModelOutput):
    loss: Any = None
    logits: Any = None
    hidden: Any = None


class Table(dict):
    limit = 3

    def total(self):
        return sum(self.values())

    @property
    def first(self):
        return next(iter(self))


class Filled(dict):
    def __init__(self, x, **more):
        super().__init__(x=x, **more)
        self.count = len(self)


class Strict(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)


def output(x):
    made = Output(logits=x * 2, hidden=(x, x + 1))
    made.loss = made.logits.sum()
    made["extra"] = made[0] + made["hidden"][1]
    return made


def inside(x):
    made = Output(loss=x.sum(), logits=x)
    return made.loss + made[1] * len(made), list(made), "hidden" in made, made.get("hidden", 5)


def table(x):
    made = Table(a=x, b=x * 2)
    made["c"] = x + 1
    made.update({"d": x})
    made.pop("a")
    made.setdefault("e", x)
    made.note = "n"
    return made, made.total(), made.first, [key for key in made], made.limit, bool(made)


def filled(x):
    made = Filled(x, y=x * 3)
    del made["y"]
    return made, made.count, made.copy()


def strict(x):
    made = Strict()
    made["a"] = x
    made["b"] = x * 2
    return made, next(iter(made.items()))[0]


def shared(x):
    made = Table(a=x * 1)
    made["again"] = made["a"]
    made.same = made["a"]
    return made, made, [made["a"]]


def others(x):
    class Counted(Counter):
        pass

    class Grown(defaultdict):
        pass

    counted, grown = Counted("aab"), Grown(list)
    grown["x"].append(x * counted["a"])
    return grown, counted


def parts(value):
    """What equality of dicts does not see."""
    if isinstance(value, dict):
        attrs = getattr(value, "__dict__", {})
        items = [parts(dict.__getitem__(value, key)) for key in value]
        return [type(value).__name__, list(value), items, {k: parts(v) for k, v in attrs.items()}]
    if isinstance(value, list | tuple):
        return [parts(item) for item in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


WHOLE = [output, inside, table, strict, shared]


@pytest.mark.parametrize("function", [*WHOLE, filled, others])
def test_results_are_those_of_eager_code(function):
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, fullgraph=function in WHOLE)
    for step in range(3):
        x = torch.arange(3.0) + step
        assert parts(compiled(x)) == parts(function(x))
    assert function not in WHOLE or counter.frame_count == 1


def test_one_object_is_one_object():
    made, again, (value,) = torch.compile(shared, backend="eager")(torch.ones(2))
    assert made is again and made["a"] is made["again"] is made.same is value


def test_a_changed_method_is_seen():
    compiled = torch.compile(lambda x: Table(a=x).total(), backend="eager")
    assert compiled(torch.ones(1)).item() == 1
    before = Table.total
    try:
        Table.total = lambda self: 7
        assert compiled(torch.ones(1)) == 7
    finally:
        Table.total = before


def test_gradients_flow_through_an_output():
    x = torch.ones(3, requires_grad=True)
    torch.compile(output)(x).loss.backward()
    assert x.grad.tolist() == [2.0] * 3
