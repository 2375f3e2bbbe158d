"""Ops that call another op: writes as values, effects in order, results of other dtypes."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.aot.tracing import make_fx
from rushlight.core.functional import FunctionalMode, from_functional, to_functional
from rushlight.func import vmap
from rushlight.higher_order.effects import EffectType, effect_of, register_effectful_op

hop = torch.ops.higher_order


@pytest.fixture(scope="module")
def ops():
    with torch.library._scoped_library("hoptest", "FRAGMENT"):

        @torch.library.custom_op("hoptest::bump", mutates_args=("x",))
        def bump(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.add_(y)
            return x * y

        @bump.register_fake
        def _(x, y):
            return torch.empty_like(x)

        @torch.library.custom_op("hoptest::scale", mutates_args=("xs",))
        def scale(xs: list[torch.Tensor], s: float) -> None:
            for x in xs:
                x.mul_(s)

        @scale.register_fake
        def _(xs, s):
            return None

        yield bump, scale


class Keep:
    """A compiler that keeps the graphs."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        self.graphs.append(graph)
        return graph


def calls(graph, target):
    return [node for node in graph.graph.nodes if node.target is target]


def test_a_write_of_a_custom_op_is_a_call_on_copies(ops):
    bump, scale = ops

    def f(x, y):
        z = bump(x, y)
        scale([x.view(-1), y], 2.0)
        return z + x

    keep = Keep()
    ours, theirs = [torch.ones(3), torch.arange(3.0)], [torch.ones(3), torch.arange(3.0)]
    assert torch.equal(aot_function(f, keep)(*ours), f(*theirs))
    for got, expected in zip(ours, theirs, strict=True):
        assert torch.equal(got, expected)
    first, second = calls(keep.graphs[0], hop.auto_functionalized)
    assert first.args == (torch.ops.hoptest.bump.default,)
    assert [*first.kwargs] == ["x", "y"]
    assert second.kwargs["s"] == 2.0
    assert not calls(keep.graphs[0], torch.ops.hoptest.bump.default)


def test_a_write_on_a_view_reaches_its_base_and_gradients_flow_around_it(ops):
    bump, _ = ops

    def f(x, y):
        z = x.detach() * 2
        bump(z[1:], y)
        return x * z

    x = torch.arange(3.0, requires_grad=True)
    y = torch.ones(2)
    compiled = aot_function(f, nop)
    assert torch.equal(compiled(x, y), f(x, y))
    compiled(x, y).sum().backward()
    assert x.grad.tolist() == [0.0, 3.0, 5.0]


def test_arguments_that_share_what_is_written_are_refused(ops):
    bump, _ = ops
    with pytest.raises(NotImplementedError, match="shares memory"):
        aot_function(lambda x: bump(x, x.view(-1)), nop)(torch.ones(3))


def test_the_op_itself_leaves_its_operands_alone(ops):
    x = torch.ones(2)
    got = hop.auto_functionalized(torch.ops.hoptest.bump.default, x=x, y=x)
    assert [value.tolist() for value in got] == [[2.0, 2.0], [2.0, 2.0]]
    assert x.tolist() == [1.0, 1.0]
    got = hop.auto_functionalized(torch.ops.hoptest.scale.default, xs=[x, x], s=3.0)
    assert got[0] is None
    assert [value.tolist() for value in got[1]] == [[3.0, 3.0], [3.0, 3.0]]
    with pytest.raises(NotImplementedError, match="no functional form"):
        hop.auto_functionalized(torch.ops.aten.sin.default, self=x)


def test_effects_are_kept_in_order_by_tokens(capsys):
    def f(x):
        torch.ops.aten._print("one")
        y = x + 1
        torch.ops.aten._print("two")
        return y

    keep = Keep()
    compiled = aot_function(f, keep)
    compiled(torch.ones(2))
    first, second = calls(keep.graphs[0], hop.with_effects)
    assert second.args[0].args == (first, 0)
    assert first.args[1:] == (torch.ops.aten._print.default, "one")
    capsys.readouterr()
    compiled(torch.ones(2))
    assert capsys.readouterr().out == "one\ntwo\n"


def test_tokens_are_inputs_and_outputs_of_who_asks(capsys):
    token = torch.tensor([])
    mode = FunctionalMode()
    mode.tokens[EffectType.ORDERED] = token
    mode.finds_tokens = False
    with torch.no_grad(), mode:
        torch.ops.aten._print("text")
    assert capsys.readouterr().out == "text\n"
    assert [*mode.tokens] == [EffectType.ORDERED]
    assert mode.tokens[EffectType.ORDERED] is not token
    mode.tokens.clear()
    with mode, pytest.raises(AssertionError, match="token"):
        torch.ops.aten._print("text")


def test_an_op_is_effectful_while_it_is_registered():
    seen = []
    with torch.library._scoped_library("hoptest", "FRAGMENT"):

        @torch.library.custom_op("hoptest::note", mutates_args=())
        def note(x: torch.Tensor) -> torch.Tensor:
            seen.append(x.tolist())
            return x * 2

        note.register_fake(lambda x: torch.empty_like(x))
        handle = register_effectful_op("hoptest::note", EffectType.ORDERED)
        assert effect_of(note) is EffectType.ORDERED
        keep = Keep()
        compiled = aot_function(lambda x: note(x) + 1, keep)
        assert compiled(torch.ones(1)).tolist() == [3.0]
        assert len(calls(keep.graphs[0], hop.with_effects)) == 1
        handle.destroy()
        assert effect_of(note) is None
        keep = Keep()
        aot_function(lambda x: note(x) + 1, keep)(torch.ones(1))
        assert not calls(keep.graphs[0], hop.with_effects)
    assert seen == [[1.0], [1.0]]
    with pytest.raises(AssertionError, match="aliasing"):
        hop.with_effects(torch.tensor([]), torch.ops.aten.add_.Tensor, torch.ones(1), 1)


def test_out_dtype_computes_in_the_wider_dtype():
    x = torch.full((2, 2), 100, dtype=torch.int8)
    mm = torch.ops.aten.mm.default
    assert hop.out_dtype(mm, torch.int32, x, x).tolist() == [[20000, 20000], [20000, 20000]]
    for pre_dispatch in (False, True):
        graph = make_fx(lambda x: hop.out_dtype(mm, torch.int32, x, x), pre_dispatch=pre_dispatch)(
            x
        )
        (node,) = calls(graph, hop.out_dtype)
        assert node.args[:2] == (mm, torch.int32)
        assert graph(x).dtype is torch.int32
    w = torch.ones(2, 2, requires_grad=True)
    aot_function(lambda w: hop.out_dtype(mm, torch.float64, w, w), nop)(w).sum().backward()
    assert w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    rows = torch.stack([x, x])
    assert vmap(lambda x: hop.out_dtype(mm, torch.int32, x, x))(rows)[0, 0, 0] == 20000
    mode = FunctionalMode()
    with torch.no_grad():
        got = hop.out_dtype(mm, torch.int32, to_functional(x, mode), to_functional(x, mode))
    assert from_functional(got)[0, 0] == 20000


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (torch.sin, "must be an OpOverload"),
        (torch.ops.aten.add_.Tensor, "functional operator"),
        (torch.ops.aten.topk.default, "single tensor"),
        (torch.ops.aten.sin.default, "only allows"),
    ],
)
def test_out_dtype_takes_few_ops(op, words):
    with pytest.raises(ValueError, match=words):
        hop.out_dtype(op, torch.int32, torch.ones(1))


class Printing(torch.autograd.Function):
    """Doubles, and says when."""

    @staticmethod
    def forward(ctx, x):
        torch.ops.aten._print("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        torch.ops.aten._print("backward")
        return grad * 2


@pytest.mark.parametrize(
    "partition", [default_partition, min_cut_rematerialization_partition], ids=["all", "min-cut"]
)
def test_effects_happen_where_they_are_in_the_program(partition, capsys):
    def f(x):
        torch.ops.aten._print("before")
        y = Printing.apply(x)
        torch.ops.aten._print("after")
        return y.sin()

    compiled = aot_function(f, nop, partition_fn=partition)
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        result = compiled(x)
        assert capsys.readouterr().out.split() == ["before", "forward", "after"]
        result.sum().backward()
        assert capsys.readouterr().out.split() == ["backward"]
