"""Rules of the user's in tables of decompositions, symbols as values, named tuples in files."""

from __future__ import annotations

import io
from collections import namedtuple

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.base.treetexts import treespec_dumps, treespec_loads
from rushlight.export import Dim, default_decompositions, export
from rushlight.symbolic.checks import check

aten = torch.ops.aten
Pair = namedtuple("Pair", "left right")
Nameless = namedtuple("Nameless", "left right")


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x)).softmax(0)


def called(program):
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("is_default", [False, True])
def test_rules_for_composites_take_the_place_of_their_bodies(is_default):
    x = torch.randn(4, 3)
    program = export(Layer(), (x,), dynamic_shapes=({0: Dim("n")},))
    table = default_decompositions() if is_default else {}
    table[aten.linear.default] = lambda x, w, b=None: (x.unsqueeze(1) * w).sum(-1) + b + 1
    made = program.run_decompositions(table)
    assert "aten.addmm.default" not in called(made)
    assert "aten.linear.default" not in called(made)
    layer = program.module()
    expected = torch.nn.functional.gelu(
        torch.nn.functional.linear(x, layer.linear.weight, layer.linear.bias) + 1
    )
    torch.testing.assert_close(made.module()(x), expected.softmax(0))


def test_a_rule_that_is_taken_out_again_leaves_the_composite_whole():
    table = default_decompositions()
    table[aten.linear.default] = lambda x, w, b=None: x.new_zeros(x.shape[0], w.shape[0])
    del table[aten.linear.default]
    made = export(Layer(), (torch.ones(4, 3),)).run_decompositions(table)
    assert "aten.linear.default" in called(made)


def test_comparisons_of_sizes_are_values_of_tensors():
    class Chooses(torch.nn.Module):
        def forward(self, x):
            is_long = torch.tensor(x.shape[0] > 4)
            return torch.cond(is_long, lambda t: t + 1, lambda t: t - 1, (x,)), is_long

    program = export(Chooses(), (torch.ones(3),), dynamic_shapes=({0: Dim("n")},))
    for size, value, is_long in ((3, 0.0, False), (6, 2.0, True)):
        found, flag = program.module()(torch.ones(size))
        assert found.tolist() == [value] * size
        assert flag.dtype is torch.bool
        assert flag.item() is is_long


@pytest.fixture
def named_pair():
    pytree._register_namedtuple(Pair, serialized_type_name="tests.Pair")
    yield
    del pytree.NAMEDTUPLE_NAMES[Pair]


def test_named_tuples_with_a_name_are_written(named_pair):
    class Swaps(torch.nn.Module):
        def forward(self, pair):
            return Pair(pair.right * 2, [pair.left])

    pair = Pair(torch.ones(2), torch.zeros(3))
    program = export(Swaps(), (pair,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    found = torch.export.load(file).module()(pair)
    assert isinstance(found, Pair)
    assert found.right[0].tolist() == [1, 1]
    with pytest.raises(ValueError, match="Pair"):
        pytree._register_namedtuple(Pair, serialized_type_name="other")
    with pytest.raises(ValueError, match="int"):
        pytree._register_namedtuple(int, serialized_type_name="other")


def test_texts_of_named_tuples(named_pair):
    spec = pytree.tree_structure((Pair(1, 2), [Pair(3, {"a": 4})]))
    text = treespec_dumps(spec)
    assert '"collections.namedtuple", "context": "tests.Pair"' in text
    assert treespec_loads(text) == spec
    with pytest.raises(NotImplementedError, match="nobody"):
        treespec_loads(text.replace("tests.Pair", "nobody"))
    with pytest.raises(NotImplementedError, match="Nameless"):
        treespec_dumps(pytree.tree_structure(Nameless(1, 2)))


@pytest.mark.parametrize("kind", ["GRU", "RNN", "LSTM"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_over_texts_of_any_length(kind, batch_first):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(4, 3, 2, batch_first=batch_first, bidirectional=True).double()
    shapes = ({0: Dim("first", min=2), 1: Dim("second", min=2)},)
    program = export(layer, (torch.randn(5, 6, 4).double(),), dynamic_shapes=shapes)
    core = program.run_decompositions().module()
    for sizes in ((2, 2), (7, 3), (3, 19)):
        x = torch.randn(*sizes, 4).double().requires_grad_()
        expected = pytree.tree_leaves(layer(x))
        (wanted,) = torch.autograd.grad(sum([part.square().sum() for part in expected]), x)
        for module in (program.module(), core):
            found = pytree.tree_leaves(module(x))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, check_stride=False)
            (grad,) = torch.autograd.grad(sum([part.square().sum() for part in found]), x)
            torch.testing.assert_close(grad, wanted)


def test_buffers_of_two_names_are_one_value():
    class Doubles(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("first", torch.ones(2))
            self.register_buffer("second", self.first)

        def forward(self, x):
            self.first.mul_(2)
            return x + self.second

    for strict in (True, False):
        program = export(Doubles(), (torch.ones(2),), strict=strict)
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        eager = Doubles()
        modules = [torch.export.load(file).module(), program.run_decompositions().module()]
        for _ in range(3):
            expected = eager(torch.ones(2)).tolist()
            assert [module(torch.ones(2)).tolist() for module in modules] == [expected] * 2


def test_lists_of_elements_are_sizes():
    class Splits(torch.nn.Module):
        def forward(self, sizes, x):
            first, second = sizes.tolist()
            check(first >= 0)
            check(second >= 0)
            check(first + second == x.shape[0])
            return x.split([first, second]), sizes.view(1, 2).tolist()[0][1] + 1

    program = export(Splits(), (torch.tensor([2, 3]), torch.arange(5)))
    (one, other), number = program.module()(torch.tensor([1, 4]), torch.arange(5))
    assert (one.tolist(), other.tolist(), number) == ([0], [1, 2, 3, 4], 5)
    with pytest.raises(RuntimeError):
        program.module()(torch.tensor([1, 3]), torch.arange(5))


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_recurrent_layers_become_core_ops(bidirectional, training):
    module = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=bidirectional).train(training)
    x = torch.randn(5, 2, 3)
    program = export(module, (x,)).run_decompositions()
    assert all(
        torch.Tag.core in node.target.tags
        for node in program.graph.nodes
        if node.op == "call_function" and hasattr(node.target, "tags")
    )
    for found, expected in zip(program.module()(x)[1], module(x)[1], strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("has_biases", [False, True])
def test_the_steps_of_a_layer_give_what_its_gradient_reads(reverse, has_biases):
    op = aten.mkldnn_rnn_layer.default
    biases = [torch.randn(16) * has_biases for _ in range(2)]
    operands = [
        torch.randn(5, 3, 2), torch.randn(16, 2), torch.randn(16, 4), *biases,
        torch.randn(3, 4), torch.randn(3, 4),
    ]  # fmt: skip
    args = (*operands, reverse, [], 2, 4, 1, has_biases, False, False, True)
    steps = default_decompositions()[op](*args)
    for found, expected in zip(steps, op(*args), strict=True):
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()
