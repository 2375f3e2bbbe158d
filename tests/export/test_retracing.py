"""Programs of programs, and what outsiders ask of sizes: no more is taken than the first allows."""

from __future__ import annotations

import io
from dataclasses import dataclass

import pytest

import rushlight as torch
from rushlight.base import pytree
from rushlight.capture.exc import UserError
from rushlight.export import Dim, ShapesCollection, draft_export, export, unflatten
from rushlight.export.shapes import _IntWrapper


class Doubles(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Counts(torch.nn.Module):
    """The size is in the results alone: no op asks for it."""

    def forward(self, x):
        return x.sum() * x.shape[0]


class Halves(torch.nn.Module):
    def forward(self, x, y):
        return x[::2] + y


def program_of(bound, size=3):
    shapes = None if bound is None else ({0: Dim("n", max=bound)},)
    return export(Doubles(), (torch.ones(size),), dynamic_shapes=shapes)


@pytest.mark.parametrize("strict", [True, False])
def test_a_program_of_a_program_has_no_larger_range(strict):
    module = program_of(30).module()
    with pytest.raises(UserError, match=r"n <= 40 .*<= 30\n(.|\n)*n = Dim\('n', max=30\)"):
        export(module, (torch.ones(3),), dynamic_shapes=({0: Dim("n", max=40)},), strict=strict)
    for bound in (30, 20):
        shapes = ({0: Dim("n", max=bound)},)
        again = export(module, (torch.ones(3),), dynamic_shapes=shapes, strict=strict)
        assert again.module()(torch.ones(bound)).tolist() == [2.0] * bound
        with pytest.raises(RuntimeError, match=f"<= {bound}"):
            again.module()(torch.ones(bound + 1))


@pytest.mark.parametrize("strict", [True, False])
def test_a_constant_size_stays_one(strict):
    module = export(Counts(), (torch.ones(3),)).module()
    with pytest.raises(UserError, match=r"inferred to be a constant \(3\)"):
        export(module, (torch.ones(3),), dynamic_shapes=({0: Dim("n")},), strict=strict)
    again = export(module, (torch.ones(3),), dynamic_shapes=({0: Dim.AUTO},), strict=strict)
    assert again.module()(torch.ones(3)).item() == 9
    with pytest.raises(RuntimeError, match="equal to 3"):
        again.module()(torch.ones(4))


def test_relations_of_sizes_stay():
    half = Dim("half", min=2, max=50)
    shapes = ({0: 2 * half}, {0: half})
    args = (torch.ones(8), torch.ones(4))
    module = export(Halves(), args, dynamic_shapes=shapes).module()
    with pytest.raises(UserError, match="must always satisfy|not all values|Not all values"):
        export(module, args, dynamic_shapes=({0: Dim("a", max=100)}, {0: Dim("b", max=50)}))
    again = export(module, args, dynamic_shapes=shapes).module()
    assert again(torch.ones(10), torch.ones(5)).tolist() == [2.0] * 5
    with pytest.raises(RuntimeError, match="form 2"):
        again(torch.ones(9), torch.ones(5))


def test_integers_that_are_sizes_are_free():
    class Expands(torch.nn.Module):
        def forward(self, x, n):
            return x.expand(n, 3) * n, x.new_zeros(n).sum()

    program = export(Expands(), (torch.ones(3), 5), dynamic_shapes=(None, Dim.DYNAMIC))
    assert "_assert" not in program.graph_module.code
    for n in (0, 1, 2, 7):
        found = program.module()(torch.ones(3), n)[0]
        assert found.tolist() == [[float(n)] * 3] * n


def test_what_a_module_asks_of_an_integer_holds():
    class Asks(torch.nn.Module):
        def forward(self, x, n):
            return x + 1 if n == 1 else x.expand(n, 3)

    program = export(Asks(), (torch.ones(3), 5), dynamic_shapes=(None, Dim.DYNAMIC))
    assert program.module()(torch.ones(3), 2).shape == (2, 3)
    with pytest.raises(RuntimeError, match="Runtime assertion"):
        program.module()(torch.ones(3), 1)


@pytest.mark.parametrize("exporting", [export, draft_export])
def test_equal_integers_in_wrappers(exporting):
    class Uses(torch.nn.Module):
        def forward(self, x, sizes):
            return x.sum() + sizes["a"] - sizes["b"]

    first, second = _IntWrapper(5), _IntWrapper(5)
    x = torch.ones(3)
    shapes = ShapesCollection()
    shapes[first], shapes[x] = Dim.DYNAMIC, (Dim.DYNAMIC,)
    args = (x, {"a": first, "b": second})
    assert shapes.dynamic_shapes(Uses(), args)["sizes"] == {"a": Dim.DYNAMIC, "b": None}
    module = exporting(Uses(), args, dynamic_shapes=shapes).module()
    assert module(torch.ones(4), {"a": 9, "b": 5}).item() == 8
    with pytest.raises(RuntimeError, match="equal to 5"):
        module(torch.ones(4), {"a": 9, "b": 6})
    with pytest.raises(AssertionError, match="_IntWrapper"):
        shapes[5] = Dim.DYNAMIC


def test_positions_that_only_data_tells():
    class Finds(torch.nn.Module):
        def forward(self, x):
            return torch.where(x > 2)

    program = export(Finds(), (torch.arange(6.0).view(2, 3),), strict=False)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for made in (program, program.run_decompositions(), torch.export.load(file)):
        rows, columns = made.module()(torch.tensor([[9.0, 0, 0], [0, 3, 4]]))
        assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 1, 2])
        assert made.module()(torch.zeros(2, 3))[0].shape == (0,)


def test_overloads_whose_names_are_keywords():
    with torch.library._scoped_library("keyword_overloads", "FRAGMENT") as library:
        library.define("moved.from(Tensor x, int start) -> Tensor")
        library.impl("moved.from", lambda x, start: x + start, "CompositeExplicitAutograd")

        class Moves(torch.nn.Module):
            def forward(self, x):
                op = getattr(torch.ops.keyword_overloads.moved, "from")
                return op(x, 3)

        program = export(Moves(), (torch.ones(2),))
        assert program.module()(torch.ones(2)).tolist() == [4, 4]
        assert program.run_decompositions().module()(torch.ones(2)).tolist() == [4, 4]


def test_modules_with_signatures_print_names_of_torch():
    class Inner(torch.nn.Module):
        def forward(self, x, *, k):
            return {"sum": x + k, "none": None}

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x, k=x * 2)["sum"]

    program = export(Outer(), (torch.ones(3),), preserve_module_call_signature=("inner",))
    tree = unflatten(program)
    assert "torch.utils._pytree.tree_unflatten" in str(tree.graph)
    assert "torch.fx._pytree.tree_flatten_spec" in str(tree.graph)
    assert tree(torch.ones(3)).tolist() == [3, 3, 3]


def test_attention_of_groups_in_core_ops():
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)

    class Attends(torch.nn.Module):
        def forward(self, q, k):
            attend = torch.nn.functional.scaled_dot_product_attention
            return attend(q, k, k, is_causal=True, enable_gqa=True)

    core = export(Attends(), (q, k)).run_decompositions()
    assert "scaled_dot" not in core.graph_module.code
    torch.testing.assert_close(core.module()(q, k), Attends()(q, k))


def test_draws_in_core_ops_are_the_same():
    class Draws(torch.nn.Module):
        def forward(self, p):
            return torch.bernoulli(p)

    for dtype in (torch.float32, torch.float64):
        p = torch.rand(7, 9, dtype=dtype)
        core = export(Draws(), (p,)).run_decompositions()
        assert "bernoulli" not in core.graph_module.code
        torch.manual_seed(1)
        expected = torch.bernoulli(p)
        torch.manual_seed(1)
        assert core.module()(p).tolist() == expected.tolist()


@dataclass(frozen=True)
class Config:
    width: int


def test_constants_of_trees():
    pytree.register_constant(Config)
    try:
        assert pytree.is_constant_class(Config)
        leaves, spec = pytree.tree_flatten({"a": Config(3), "b": 1})
        assert leaves == [1]
        assert pytree.tree_unflatten([2], spec) == {"a": Config(3), "b": 2}
        assert spec != pytree.tree_structure({"a": Config(4), "b": 1})

        class Widens(torch.nn.Module):
            def forward(self, x, config):
                return x * config.width, config

        program = export(Widens(), (torch.ones(2), Config(3)))
        found = program.module()(torch.ones(2), Config(3))
        assert (found[0].tolist(), found[1]) == ([3, 3], Config(3))
        with pytest.raises(ValueError, match="flatten"):
            program.module()(torch.ones(2), Config(4))
    finally:
        del pytree.SUPPORTED_NODES[Config]
        pytree.CONSTANT_NODES.discard(Config)
    for without in (type("Plain", (), {}), type("Loose", (), {"__eq__": lambda a, b: True})):
        with pytest.raises(TypeError, match="non-default"):
            pytree.register_constant(without)


def test_padding_to_a_multiple():
    class Pads(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.pad(x, (0, 0, 0, (4 - x.shape[1] % 4) % 4), value=1.0)

    shapes = ({0: Dim("b"), 1: Dim("t", min=2, max=64)},)
    program = export(Pads(), (torch.randn(2, 6, 3),), dynamic_shapes=shapes)
    for made in (program, program.run_decompositions()):
        for size in (2, 4, 7, 8, 64):
            x = torch.randn(3, size, 3)
            assert made.module()(x).tolist() == Pads()(x).tolist()


def test_relations_of_sizes_stay_open_when_a_program_is_exported_again():
    class Attends(torch.nn.Module):
        def forward(self, x, past, mask):
            keys = torch.cat([past, x], 1)
            return (x @ keys.transpose(1, 2)) * mask.unsqueeze(1)

    auto = torch.export.Dim.AUTO
    shapes = ({0: auto, 1: auto}, {0: auto, 1: auto}, {0: auto, 1: auto})

    def inputs(batch, length, past):
        sizes = (batch, length, 3), (batch, past, 3), (batch, past + length)
        return tuple([torch.randn(size) for size in sizes])

    program = torch.export.export(Attends(), inputs(3, 4, 5), dynamic_shapes=shapes)
    again = torch.export.export(program.module(), inputs(3, 4, 5), dynamic_shapes=shapes)
    args = inputs(2, 6, 7)
    torch.testing.assert_close(again.module()(*args), Attends()(*args))
    with pytest.raises(RuntimeError):
        again.module()(args[0], args[1], args[2][:, 1:])


def test_a_program_of_a_programs_module_is_made_a_tree():
    class Adds(torch.nn.Module):
        def forward(self, x):
            return x + 1

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Adds(), Adds()

        def forward(self, x):
            return self.second(self.first(x) * 2)

    x = torch.ones(2)
    again = export(export(Twice(), (x,)).module(), (x,))
    tree = torch.export.unflatten(again)
    assert [name for name, _ in tree.named_children()] == ["first", "second"]
    assert torch.equal(tree(x), Twice()(x))
