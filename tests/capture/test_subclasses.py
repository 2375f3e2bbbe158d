"""Classes of tensors with methods, properties and operators of their own."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.compiler import compiling


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


class Own(torch.Tensor):
    scale = 3.0

    def sigmoid(self):
        return super().sigmoid() * self.scale

    def times(self, k):
        return self * k

    @property
    def twice(self):
        return self * 2

    @property
    def ndim(self):
        return 17

    @classmethod
    def named(cls, x):
        return x + len(cls.__name__)

    @staticmethod
    def halved(x):
        return x / 2

    def __add__(self, other):
        return torch.mul(self, other)

    def __rsub__(self, other):
        return torch.sin(self)

    def __truediv__(self, other):
        return NotImplemented

    def __getitem__(self, index):
        return torch.cos(self)

    def __neg__(self):
        return torch.exp(self)

    def __lt__(self, other):
        return "less"

    def __iadd__(self, other):
        return torch.tanh(self)


class Heir(Own):
    def __radd__(self, other):
        return "heir"


class Divisor(torch.Tensor):
    def __rtruediv__(self, other):
        return torch.floor(self)


def in_place(x):
    x += 1
    return x


def with_an_attribute(x):
    x.times = 4
    return x * x.times


def a_method_of_an_intermediate(x):
    y = x.sin()
    return y.sigmoid(), y.twice


PROGRAMS = {
    "method": lambda x: x.sigmoid(),
    "function": lambda x: torch.sigmoid(x),
    "new_method": lambda x: x.times(5),
    "property": lambda x: x.twice,
    "other_property": lambda x: x + x.ndim,
    "class_method": lambda x: x.named(x * 1),
    "static_method": lambda x: x.halved(torch.ones(2)),
    "constant": lambda x: x * x.scale,
    "add": lambda x: (x + 3, x + x, torch.ones(2) + x),
    "sub": lambda x: (3 - x, torch.ones(2) - x, x - 3),
    "divide": lambda x: x / torch.ones(2).as_subclass(Divisor),
    "getitem": lambda x: x[0],
    "negative": lambda x: -x,
    "less": lambda x: (x < 3, x > 3),
    "heir": lambda x: x.as_subclass(Own) + x.as_subclass(Heir),
    "in_place": in_place,
    "with_an_attribute": with_an_attribute,
    "intermediate": a_method_of_an_intermediate,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_class_says_holds(name, backend):
    program = PROGRAMS[name]
    compiled = torch.compile(program, backend=backend, fullgraph=program is not with_an_attribute)
    for start in (0.0, 2.0):
        given = [torch.arange(start, start + 2).as_subclass(Own) for _ in range(2)]
        found, expected = compiled(given[0]), program(given[1])
        assert repr(found) == repr(expected)
        assert repr(given[0]) == repr(given[1])
        kinds = [[type(leaf) for leaf in pytree.tree_leaves(x)] for x in (found, expected)]
        assert kinds[0] == kinds[1]


def test_a_class_that_gets_or_loses_methods_is_noticed():
    class Changing(torch.Tensor):
        pass

    f = torch.compile(lambda x: (x.sigmoid(), x + 1), backend="eager")
    x = torch.zeros(2).as_subclass(Changing)
    assert f(x)[0].tolist() == [0.5, 0.5]
    Changing.sigmoid = lambda self: 5
    assert f(x)[0] == 5
    Changing.sigmoid = lambda self: 6
    assert f(x)[0] == 6
    Changing.__add__ = lambda self, other: "sum"
    assert f(x) == (6, "sum")
    del Changing.sigmoid
    assert f(x)[0].tolist() == [0.5, 0.5]
    Changing.sigmoid = False
    with pytest.raises(TypeError, match="'bool' object is not callable"):
        f(x)


class Pair(torch.Tensor):
    """A tensor that is made of two others."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.shape, dtype=a.dtype, requires_grad=a.requires_grad
        )

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return Pair(parts["a"], parts["b"])

    @classmethod
    def __torch_dispatch__(cls, op, types, args, kwargs=None):
        def side(name):
            pick = lambda x: getattr(x, name) if isinstance(x, Pair) else x  # noqa: E731
            return op(*pytree.tree_map(pick, args), **pytree.tree_map(pick, kwargs or {}))

        a, b = side("a"), side("b")
        return Pair(a, b) if isinstance(a, torch.Tensor) else a


def test_wrappers_that_are_parameters():
    def f(w):
        return w + 1 if isinstance(w, torch.nn.Parameter) else w + 2

    compiled = torch.compile(f, backend="aot_eager")
    plain = Pair(torch.ones(2), torch.zeros(2))
    weight = torch.nn.Parameter(Pair(torch.ones(2), torch.zeros(2)))
    for w, expected in ((weight, 1), (plain, 2), (weight, 1)):
        assert compiled(w).b.tolist() == [expected, expected]
