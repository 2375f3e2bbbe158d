"""Trees of modules made of programs."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.export import FlatArgsAdapter, export, unflatten


class Leaf(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Leaf()
        self.two = self.one
        self.idle = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.one(self.one(x)) + self.two(x)


def test_shared_modules_are_called_by_their_paths():
    module = Shared()
    tree = unflatten(export(module, (torch.ones(1, 2),)))
    calls = [str(node.target) for node in tree.graph.nodes if node.op == "call_module"]
    assert calls == ["one", "one", "two"]
    assert tree.one.linear.weight is tree.two.linear.weight
    assert set(dict(tree.named_parameters(remove_duplicate=False))) == set(module.state_dict())
    x = torch.randn(1, 2)
    torch.testing.assert_close(tree(x), module(x))
    assert tree.one.linear.weight is not module.one.linear.weight


def test_calls_that_differ_are_modules_of_their_own():
    class Growing(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x, n):
            for _ in range(n):
                x = x * self.w + 1
            return x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.grow = Growing()

        def forward(self, x):
            return self.grow(self.grow(x, 1), 3)

    module = Outer()
    tree = unflatten(export(module, (torch.ones(2),)))
    calls = [str(node.target) for node in tree.graph.nodes if node.op == "call_module"]
    assert calls == ["grow", "grow@1"]
    assert tree(torch.ones(2)).tolist() == module(torch.ones(2)).tolist()


def test_buffers_are_written_where_they_live():
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x):
            y = self.inner(x)
            self.total.add_(y.sum())
            self.inner.count.add_(10)
            return y * self.inner.count

    module = Outer()
    tree = unflatten(export(module, (torch.ones(2),)))
    for _ in range(2):
        assert tree(torch.ones(2)).tolist() == module(torch.ones(2)).tolist()
    assert tree.inner.count.item() == module.inner.count.item() == 22
    assert tree.total.item() == module.total.item()


def test_state_of_another_module_is_passed():
    class Reader(torch.nn.Module):
        def __init__(self, owner):
            super().__init__()
            self.owner = [owner]

        def forward(self, x):
            return x * self.owner[0].scale

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.full((2,), 3.0))
            self.reader = Reader(self)

        def forward(self, x):
            return self.reader(x) + 1

    module = Outer()
    tree = unflatten(export(module, (torch.ones(2),)))
    assert tree(torch.ones(2)).tolist() == [4.0, 4.0]


class Called(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x, *, pair):
        return {"y": self.leaf(x) + pair[0], "z": (pair[1], 3)}


class Caller(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.called = Called()

    def forward(self, x):
        found = self.called(x + 1, pair=(x * 2, x))
        return found["y"] + found["z"][0] * found["z"][1]


class Other(torch.nn.Module):
    def forward(self, x, *, pair):
        return {"y": torch.zeros(2, 2), "z": (pair[0], 5)}


@pytest.mark.parametrize("is_core", [False, True])
def test_kept_signatures_let_modules_be_replaced(is_core):
    module = Caller()
    program = export(module, (torch.ones(2, 2),), preserve_module_call_signature=("called",))
    program = program.run_decompositions() if is_core else program
    tree = unflatten(program)
    x = torch.randn(2, 2)
    torch.testing.assert_close(tree(x), module(x))
    torch.testing.assert_close(tree.called(x, pair=(x, x)), module.called(x, pair=(x, x)))
    tree.called = Other()
    torch.testing.assert_close(tree(x), 3 * 2 * x)


def test_arguments_of_another_structure():
    class Pair(torch.nn.Module):
        def forward(self, pair):
            return pair["a"] - pair["b"]

    class Swap(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[::-1]

    one, two = torch.ones(2), torch.zeros(2)
    program = export(Pair(), ({"a": one, "b": two},))
    assert unflatten(program)({"a": one, "b": two}).tolist() == [1.0, 1.0]
    assert unflatten(program, Swap())(two, one).tolist() == [1.0, 1.0]
