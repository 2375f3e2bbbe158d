"""Trees of modules made of programs."""

from __future__ import annotations

import io

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


class Chosen(torch.nn.Module):
    def forward(self, x, *, flag):
        return x + 1 if flag else x * 3


class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Chosen()

    def forward(self, x):
        x = self.inner(x, flag=True)
        return self.inner(x + 1, flag=False)


class Exchanged(torch.nn.Module):
    def forward(self, x, *, flag):
        return x - 1 if flag else x * 5


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("is_decomposed", [True, False])
def test_a_module_called_twice_can_be_exchanged(strict, is_decomposed):
    x = torch.ones(1)
    program = export(Twice(), (x,), preserve_module_call_signature=("inner",), strict=strict)
    if is_decomposed:
        program = program.run_decompositions({})
    assert [entry.fqn for entry in program.module_call_graph] == ["", "inner", "inner@1"]
    for each in (program, reloaded(program)):
        tree = unflatten(each)
        assert [name for name, _ in tree.named_modules()] == ["", "inner"]
        assert tree(x).item() == tree(x).item() == 9
        tree.set_submodule("inner", Exchanged())
        assert tree(x).item() == 5


def test_sizes_of_arguments_are_computed_on_both_sides_of_a_call():
    class Half(torch.nn.Module):
        def forward(self, x, y):
            return y[: x.size(0) // 2]

    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Half(), Half()

        def forward(self, x, y):
            return self.first(x, y) + self.second(x, y) + y[x.size(0) // 2 :]

    size = 2 * torch.export.Dim("half", max=100)
    x, y = torch.randn(10), torch.randn(10)
    program = export(
        Halves(), (x, y), dynamic_shapes=((size,), (size,)),
        preserve_module_call_signature=("first",), strict=False,
    )  # fmt: skip
    tree = unflatten(program)
    targets = [str(node.target) for node in tree.first.graph.nodes]
    assert targets.count("aten.sym_size.int") == 1
    x, y = torch.randn(16), torch.randn(16)
    torch.testing.assert_close(tree(x, y), Halves()(x, y))
    tree.first = Half()
    torch.testing.assert_close(tree(x, y), Halves()(x, y))


def test_paths_of_one_module_stay_paths_of_one():
    layer = torch.nn.Linear(2, 2)
    module = torch.nn.Sequential(layer, torch.nn.ReLU(), layer)
    x = torch.randn(1, 2)
    tree = unflatten(export(module, (x,)))
    assert tree.get_submodule("0") is tree.get_submodule("2")
    torch.testing.assert_close(tree(x), module(x))


def test_nodes_of_trees_say_what_they_are():
    class Pair(torch.nn.Module):
        def forward(self, x):
            return x + x, x * x

    class Sums(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.layer = Pair(), torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(x + sum(self.pair(x)))

    tree = unflatten(export(Sums(), (torch.ones(2, 3),)))
    for member in tree.modules():
        for node in member.graph.nodes:
            assert node.op == "output" or node.meta.get("val") is not None


def test_a_call_of_another_structure_is_a_type_error():
    tree = unflatten(export(Twice(), (torch.ones(1),)))
    with pytest.raises(TypeError, match="no flat args adapter"):
        tree(torch.ones(1), torch.ones(1))


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


class Partial(torch.nn.Module):
    """Does not use all that it takes, and gives what nobody uses."""

    def forward(self, x, scale, unused):
        return {"sum": x + scale, "rest": unused * 2}


class Choosing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Partial()

    def forward(self, x):
        values, places = torch.topk(x, 2)
        return self.part(x[..., :2], values, places)["sum"]


@pytest.mark.parametrize("strict", [True, False])
def test_modules_are_called_as_before_without_what_nothing_uses(strict):
    x = torch.arange(6.0).reshape(2, 3)
    program = torch.export.export(
        Choosing(), (x,), strict=strict, preserve_module_call_signature=("part",)
    )
    assert "mul" not in program.graph_module.code

    class Instead(torch.nn.Module):
        def forward(self, x, scale, unused):
            assert unused is None
            return {"sum": x - scale, "rest": None}

    for made in (program, reloaded(program)):
        tree = torch.export.unflatten(made)
        assert tree(x).tolist() == Choosing()(x).tolist()
        tree.set_submodule("part", Instead())
        assert tree(x).tolist() == [[-2, 0], [-2, 0]]


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(10.0))

    def forward(self, x):
        self.count.add_(1)
        return x + 2


class Recounts(torch.nn.Module):
    """Reads what a module below has written, after each of its calls."""

    def __init__(self):
        super().__init__()
        self.child = Counts()

    def forward(self, x):
        for _ in range(3):
            x = self.child(x) + self.child.count
        return x, self.child.count.mul_(2)


@pytest.mark.parametrize("kept", [(), ("child",)])
def test_state_that_is_written_in_place_is_read_where_it_is(kept):
    x = torch.ones(2)
    expected = Recounts()(x)
    for _ in range(2):
        program = torch.export.export_for_training(
            Recounts(), (x,), preserve_module_call_signature=kept
        )
        tree = torch.export.unflatten(program)
        if kept:
            tree.set_submodule("child", Counts())
        for found, wanted in zip(tree(x), expected, strict=True):
            assert torch.equal(found, wanted)
        assert tree.child.count == 26 and program.state_dict["child.count"] == 10
