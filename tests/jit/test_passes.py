"""Passes: what they leave of a graph, and that it computes the same."""

import copy

import pytest

import rushlight as torch
from rushlight.jit.ir.checks import check_graph
from rushlight.jit.ir.parsing import parse_ir
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.passes.folding import propagate_constants
from rushlight.jit.passes.freezing import freeze
from rushlight.jit.passes.mutation import remove_inplace_ops, remove_mutation
from rushlight.jit.passes.peephole import optimize_peepholes
from rushlight.jit.passes.settled import is_settled
from rushlight.jit.passes.shapes import propagate_shapes
from rushlight.jit.passes.simple import (
    canonicalize,
    eliminate_common,
    erase_shapes,
    lower_tuples,
    pool_constants,
)
from rushlight.jit.passes.unrolling import unroll_constant_loops, unroll_loops
from rushlight.jit.runtime.program import compile_graph

# What PyTorch 2.13 gives for the same texts.
FOLDED = """graph(%x : Tensor):
  %n : int = prim::Constant[value=3]()
  %m : int = prim::Constant[value=4]()
  %s : int = aten::add(%n, %m)
  %c : bool = aten::gt(%s, %n)
  %l : int[] = prim::ListConstruct(%n, %m)
  %tu : (int, int) = prim::TupleConstruct(%n, %m)
  %a : int, %b : int = prim::TupleUnpack(%tu)
  %z : Tensor = prim::If(%c)
    block0():
      %y : Tensor = aten::add(%x, %x, %s)
      -> (%y)
    block1():
      -> (%x)
  %w : Tensor = aten::view(%z, %l)
  %q : Tensor = aten::mul(%w, %b)
  return (%q)
"""
LOOP = """graph(%x : Tensor, %n : int):
  %t : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %t, %x)
    block0(%i : int, %a : Tensor):
      %b : Tensor = aten::add(%a, %x, %i)
      -> (%t, %b)
  return (%y)
"""
THREE = LOOP.replace(", %n : int", "").replace(
    "  %t :", "  %n : int = prim::Constant[value=3]()\n  %t :"
)


def kinds(graph):
    return [node.kind() for node in graph.all_nodes()]


def test_constants_are_propagated():
    graph = parse_ir(FOLDED)
    assert propagate_constants(graph)
    graph.lint()
    assert kinds(graph) == ["prim::Constant"] * 3 + ["aten::add", "aten::view", "aten::mul"]
    values = [node.output().toIValue() for node in graph.nodes()][:3]
    assert values == [7, [3, 4], 4]
    x = torch.arange(12.0)
    assert torch.equal(compile_graph(graph, "f")(x), (x + 7 * x).view(3, 4) * 4)


def test_what_fails_stays_for_the_run():
    graph = parse_ir(
        "graph():\n  %a : int = prim::Constant[value=1]()\n  %z : int = prim::Constant[value=0]()\n"
        "  %q : int = aten::floordiv(%a, %z)\n  return (%q)\n"
    )
    propagate_constants(graph)
    assert "aten::floordiv" in kinds(graph)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 25])
def test_unrolled_loops_compute_the_same(count):
    x = torch.ones(2)
    plain, unrolled = parse_ir(LOOP), parse_ir(LOOP)
    assert unroll_loops(unrolled)
    unrolled.lint()
    assert kinds(unrolled).count("prim::Loop") == 2
    expected = compile_graph(plain, "f")(x, count)
    assert torch.equal(compile_graph(unrolled, "g")(x, count), expected)


def test_loops_of_a_known_count_are_written_out():
    graph = parse_ir(THREE)
    assert unroll_constant_loops(graph)
    graph.lint()
    assert "prim::Loop" not in kinds(graph) and kinds(graph).count("aten::add") == 5
    assert compile_graph(graph, "f")(torch.ones(2)).tolist() == [4, 4]


def test_dead_code_goes_and_writes_stay():
    graph = parse_ir(
        """graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %dead : Tensor = aten::mul(%x, %y)
  %own : Tensor = aten::neg(%x)
  %lost : Tensor = aten::add_(%own, %y, %one)
  %seen : Tensor = aten::add_(%x, %y, %one)
  %view : Tensor = aten::t(%y)
  %through : Tensor = aten::add_(%view, %one, %one)
  return (%x)
"""
    )
    eliminate_dead_code(graph)
    graph.lint()
    assert kinds(graph) == ["prim::Constant", "aten::add_", "aten::t", "aten::add_"]


def test_dead_values_of_loops_and_branches_go():
    graph = parse_ir(
        """graph(%x : Tensor, %n : int, %c : bool):
  %t : bool = prim::Constant[value=1]()
  %a : Tensor, %b : Tensor = prim::Loop(%n, %t, %x, %x)
    block0(%i : int, %p : Tensor, %q : Tensor):
      %r : Tensor = aten::neg(%p)
      %s : Tensor = aten::relu(%q)
      -> (%t, %r, %s)
  %d : Tensor, %e : Tensor = prim::If(%c)
    block0():
      %f : Tensor = aten::sin(%a)
      -> (%f, %a)
    block1():
      -> (%a, %a)
  return (%e)
"""
    )
    eliminate_dead_code(graph)
    graph.lint()
    assert kinds(graph) == ["prim::Constant", "prim::Loop", "aten::neg", "prim::If"]


def test_equal_constants_and_nodes_are_one():
    graph = parse_ir(
        """graph(%x : Tensor, %y : Tensor):
  %o : int = prim::Constant[value=1]()
  %p : int = prim::Constant[value=1]()
  %z : float = prim::Constant[value=0.]()
  %m : float = prim::Constant[value=-0.]()
  %a : Tensor = aten::add(%x, %y, %o)
  %b : Tensor = aten::add(%x, %y, %p)
  %c : Tensor = aten::mul(%a, %b)
  %d : Tensor = aten::mul(%c, %z)
  %e : Tensor = aten::mul(%d, %m)
  return (%e)
"""
    )
    pool_constants(graph)
    eliminate_common(graph)
    graph.lint()
    assert kinds(graph).count("aten::add") == 1
    assert kinds(graph).count("prim::Constant") == 3


def test_what_is_written_is_not_shared():
    graph = parse_ir(
        """graph(%x : Tensor):
  %o : int = prim::Constant[value=1]()
  %a : Tensor = aten::neg(%x)
  %b : Tensor = aten::neg(%x)
  %c : Tensor = aten::add_(%a, %o, %o)
  %d : Tensor = aten::mul(%b, %c)
  return (%d)
"""
    )
    eliminate_common(graph)
    assert kinds(graph).count("aten::neg") == 2


def test_peepholes():
    graph = parse_ir(
        """graph(%x : Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)):
  %i : int = prim::Constant[value=0]()
  %n : NoneType = prim::Constant()
  %a : Tensor = aten::t(%x)
  %b : Tensor = aten::t(%a)
  %d : int = prim::dtype(%x)
  %k : int = aten::dim(%x)
  %no : bool = aten::__is__(%x, %n)
  %s : int[] = aten::size(%x)
  %r : (int, int, bool, int[]) = prim::TupleConstruct(%d, %k, %no, %s)
  return (%b, %r)
"""
    )
    optimize_peepholes(graph)
    graph.lint()
    values = [value.toIValue() for value in graph.outputs()[1].node().inputs()]
    assert values == [6, 2, False, [2, 3]]
    assert graph.outputs()[0] is graph.inputs()[0]


def test_tuples_are_lowered():
    graph = parse_ir(
        """graph(%t : (Tensor, Tensor)):
  %a : Tensor, %b : Tensor = prim::TupleUnpack(%t)
  %r : (Tensor, Tensor) = prim::TupleConstruct(%b, %a)
  return (%r)
"""
    )
    lower_tuples(graph)
    graph.lint()
    assert kinds(graph) == []
    assert graph.outputs() == graph.inputs()[::-1]


def test_shapes_are_erased_and_numbers_renewed():
    graph = parse_ir(
        "graph(%x : Float(2, strides=[1], requires_grad=0, device=cpu)):\n"
        "  %7 : Float(2) = aten::neg(%x)\n  return (%7)\n"
    )
    erase_shapes(graph)
    text = "graph(%x : Tensor):\n  %1 : Tensor = aten::neg(%x)\n  return (%1)\n"
    assert str(canonicalize(graph)) == text


def test_writes_become_plain():
    text = """graph(%x : Tensor):
  %o : int = prim::Constant[value=1]()
  %a : Tensor = aten::mul(%x, %x)
  %b : Tensor = aten::add_(%a, %x, %o)
  %c : Tensor = aten::relu_(%b)
  return (%a, %c)
"""
    graph = parse_ir(text)
    remove_inplace_ops(graph)
    graph.lint()
    assert kinds(graph) == ["prim::Constant", "aten::mul", "aten::add", "aten::relu_"]
    graph = parse_ir(text)
    assert remove_mutation(graph)
    graph.lint()
    assert kinds(graph) == ["prim::Constant", "aten::mul", "aten::add", "aten::relu"]
    x = torch.tensor([-2.0, -0.5, 3.0])
    for made, wanted in zip(compile_graph(graph, "f")(x), compile_graph(parse_ir(text), "g")(x)):
        assert torch.equal(made, wanted)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 1)
        self.norm = torch.nn.BatchNorm2d(2)
        self.drop = torch.nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(1))
        self.factor = 3

    def forward(self, x):
        y = self.drop(self.norm(self.conv(x)))
        self.seen += 1
        return y * self.factor + self.seen

    @torch.jit.export
    def scaled(self, x):
        return x * self.factor


def test_frozen_modules():
    net = Net().eval()
    net.norm.running_mean.fill_(0.25)
    net.norm.running_var.fill_(2.0)
    frozen = freeze(torch.jit.script(copy.deepcopy(net)))
    names = [name for name, _ in frozen.named_buffers()]
    assert names == ["seen"] and list(frozen.named_parameters()) == []
    text = str(frozen.graph)
    assert "batch_norm" not in text and "dropout" not in text and "CallMethod" not in text
    x = torch.rand(2, 1, 3, 3)
    for _ in range(3):
        torch.testing.assert_close(frozen(x), net(x))
    assert not hasattr(frozen, "scaled")


def test_frozen_modules_keep_what_is_asked_for():
    scripted = torch.jit.script(Net().eval())
    frozen = torch.jit.freeze(scripted, preserved_attrs=["scaled", "factor"])
    x = torch.ones(2)
    assert frozen.factor == 3 and frozen.scaled(x).tolist() == [3, 3]
    frozen.factor = 5
    assert frozen.scaled(x).tolist() == [5, 5]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: freeze(torch.jit.script(Net())), "modules in eval mode"),
        (lambda: freeze(Net().eval()), "expects a ScriptModule"),
        (lambda: freeze(torch.jit.script(Net().eval()), ["nothing"]), "Unknown name: nothing"),
    ],
)
def test_what_cannot_be_frozen(make, reason):
    with pytest.raises(RuntimeError, match=reason):
        make()


# PyTorch 2.13 knows these, but for the sizes after `view`, `split` and `TupleUnpack`.
SHAPED = """graph(%x : Float(2, 3), %w : Float(5, 3), %i : Long(4), %u : Tensor, %c : bool):
  %0 : int = prim::Constant[value=0]()
  %1 : int = prim::Constant[value=1]()
  %2 : int = prim::Constant[value=2]()
  %n : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %a : Tensor = aten::linear(%x, %w, %n)
  %s : int = aten::size(%a, %1)
  %t : int = aten::mul(%s, %2)
  %l : int[] = prim::ListConstruct(%t)
  %b : Tensor = aten::view(%a, %l)
  %e : Tensor = aten::embedding(%w, %i, %0, %f, %f)
  %m : Tensor, %mi : Tensor = aten::max(%x, %1, %f)
  %g : Tensor = prim::If(%c)
    block0():
      %p : Tensor = aten::relu(%x)
      -> (%p)
    block1():
      %q : Tensor = aten::sigmoid(%x)
      -> (%q)
  %h : Tensor = aten::add(%g, %u, %1)
  %k : Tensor = aten::add(%g, %x, %1)
  %z : Tensor = aten::nonzero(%x)
  %y : Tensor[] = aten::split(%x, %1, %0)
  %y0 : Tensor, %y1 : Tensor = prim::ListUnpack(%y)
  %r : (Tensor, Tensor) = prim::TupleConstruct(%k, %h)
  %r0 : Tensor, %r1 : Tensor = prim::TupleUnpack(%r)
  %v : Tensor = aten::neg(%r0)
  return (%b, %e, %m, %mi, %h, %v, %z, %y0, %y1, %r1)
"""


def test_shapes_follow_from_those_of_inputs():
    graph = parse_ir(SHAPED)
    propagate_shapes(graph)
    types = [(n.kind(), v.type().str()) for n in graph.nodes() for v in n.outputs()]
    assert [each for each in types if "Tensor" in each[1]] == [
        ("aten::linear", "Tensor(2, 5)"),
        ("aten::view", "Tensor(10)"),
        ("aten::embedding", "Tensor(4, 3)"),
        ("aten::max", "Tensor(2)"),
        ("aten::max", "Tensor(2)"),
        ("prim::If", "Tensor(2, 3)"),
        ("aten::add", "Tensor"),
        ("aten::add", "Tensor(2, 3)"),
        ("aten::nonzero", "Tensor"),
        ("aten::split", "Tensor[]"),
        ("prim::ListUnpack", "Tensor(1, 3)"),
        ("prim::ListUnpack", "Tensor(1, 3)"),
        ("prim::TupleConstruct", "(Tensor(2, 3), Tensor)"),
        ("prim::TupleUnpack", "Tensor(2, 3)"),
        ("prim::TupleUnpack", "Tensor"),
        ("aten::neg", "Tensor(2, 3)"),
    ]
    check_graph(graph)


def test_shapes_of_a_traced_model_are_found_again():
    module = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten())
    traced = torch.jit.trace(module, torch.rand(2, 1, 5, 5))
    graph = traced.inlined_graph
    given = [value.type() for value in graph.inputs()]
    erase_shapes(graph)
    for value, type_ in zip(graph.inputs()[1:], given[1:]):
        value.setType(type_)
    for node in graph.nodes():
        if node.kind() == "prim::GetAttr" and node.s("name") in ("weight", "bias"):
            value = module[0].weight if node.s("name") == "weight" else module[0].bias
            node.output().inferTypeFrom(value)
    assert graph.outputs()[0].type().str() == "Tensor"
    propagate_shapes(graph)
    assert graph.outputs()[0].type().str() == "Tensor(2, 18)"


# -- what a second run tells


class Inner(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x).relu()


class First(torch.nn.Module):
    def forward(self, pair):
        return pair[0]


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


@pytest.mark.parametrize(
    ("layer", "settled"),
    [
        (torch.nn.Linear(4, 4), True),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()).eval(), True),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout()), False),
        (torch.nn.BatchNorm1d(4).eval(), True),
        (torch.nn.BatchNorm1d(4), False),
        (torch.nn.ReLU(inplace=True), False),
        (torch.nn.RReLU(), False),
        (torch.nn.Sequential(torch.nn.LSTM(4, 4), First()), False),
        (torch.nn.Sequential(torch.nn.LSTM(4, 4), First()).eval(), True),
        (Counting(), False),
    ],
)
def test_settled_is_what_draws_and_writes_nothing(layer, settled):
    traced = torch.jit.trace(Inner(layer), torch.ones(3, 4), check_trace=False)
    assert is_settled(traced.graph) is settled


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_what_python_and_users_ops_do_is_not_known():
    def calls_python(x):
        return Doubled.apply(x)

    @torch.jit.script
    def draws(x):
        if bool(x.sum() > 0):
            x = x + torch.rand(2)
        return x

    @torch.jit.script
    def prints(x):
        print(x)
        return x

    @torch.jit.script
    def branches(x, n: int):
        for i in range(n):
            if i > 1:
                x = x + i
        return x

    with torch.library._scoped_library("settled", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeExplicitAutograd")
        traces = [
            torch.jit.trace(f, torch.ones(2), check_trace=False)
            for f in (calls_python, draws, torch.ops.settled.twice)
        ]
        assert [is_settled(each.graph) for each in traces] == [False, False, False]
    assert not is_settled(prints.graph) and is_settled(branches.graph)
