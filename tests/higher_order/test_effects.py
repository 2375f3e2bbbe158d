"""Effects of ops in graphs: tokens are inputs and outputs, calls keep their order.

Graph texts are those of torch 2.13, whose forward and backward return tuples.
"""

import pytest

import rushlight as torch
from rushlight.aot import config
from rushlight.aot.api import aot_export_joint_simple, aot_export_module, aot_function
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.aot.wrappers import Chain, Tokens
from rushlight.codegen import lower
from rushlight.higher_order.cond import cond
from rushlight.higher_order.effects import EffectType, register_effectful_op
from tests.aot.test_subclasses import Pair, pair, parts

PARTITIONS = pytest.mark.parametrize(
    "partition", [default_partition, min_cut_rematerialization_partition], ids=["all", "min-cut"]
)


@pytest.fixture
def said():
    """What `torch.ops.efftest.say` and `quiet` were told. `say` has an effect, in the forward and
    in the backward; `quiet` only in the backward."""
    log = []
    with torch.library._scoped_library("efftest", "FRAGMENT"):

        def define(name):
            @torch.library.custom_op(f"efftest::{name}", mutates_args=())
            def op(x: torch.Tensor, text: str) -> torch.Tensor:
                log.append(text)
                return x.clone()

            op.register_fake(lambda x, text: torch.empty_like(x))
            return op

        say, quiet = define("say"), define("quiet")
        register_effectful_op("efftest::say", EffectType.ORDERED)
        for op in (say, quiet):
            # After the effect: a later registration leaves it as it is.
            op.register_autograd(
                lambda ctx, grad: (torch.ops.efftest.say(grad, "d" + ctx.text), None),
                setup_context=lambda ctx, inputs, output: setattr(ctx, "text", inputs[1]),
            )
        yield log


def twice(x):
    y = torch.ops.efftest.say(x, "a")
    return torch.ops.efftest.say(y.sin(), "b") * 2


class Keep:
    """A compiler that keeps texts and what it was told of the inputs."""

    def __init__(self, compiler=None):
        self.compiler = compiler
        self.texts = []
        self.shapes = []

    def __call__(self, graph, examples):
        self.texts.append([line.strip() for line in graph.code.strip().splitlines()])
        self.shapes.append([tuple(v.shape) for v in examples if isinstance(v, torch.Tensor)])
        return graph if self.compiler is None else self.compiler(graph, examples)


def test_a_graph_takes_and_returns_tokens_first(said):
    keep = Keep()
    compiled = aot_function(twice, keep)
    x = torch.tensor([1.0, -0.0])
    assert torch.equal(compiled(x), x.sin() * 2)
    assert keep.shapes == [[(0,), (2,)]]
    say = "torch.ops.efftest.say.default"
    assert keep.texts[0] == [
        "def forward(self, arg0_1, arg1_1):",
        f"with_effects = torch.ops.higher_order.with_effects(arg0_1, {say}, arg1_1, 'a');"
        "  arg0_1 = arg1_1 = None",
        "getitem = with_effects[0]",
        "getitem_1 = with_effects[1];  with_effects = None",
        "sin = torch.ops.aten.sin.default(getitem_1);  getitem_1 = None",
        f"with_effects_1 = torch.ops.higher_order.with_effects(getitem, {say}, sin, 'b');"
        "  getitem = sin = None",
        "getitem_2 = with_effects_1[0]",
        "getitem_3 = with_effects_1[1];  with_effects_1 = None",
        "mul = torch.ops.aten.mul.Tensor(getitem_3, 2);  getitem_3 = None",
        "return (getitem_2, mul)",
    ]
    assert said == ["a", "b"]


def test_a_backward_takes_and_returns_tokens_last(said):
    forward, backward = Keep(), Keep()
    compiled = aot_function(twice, forward, backward)
    compiled(torch.ones(2, requires_grad=True)).sum().backward()
    assert forward.shapes == [[(0,), (2,)]]
    assert backward.shapes == [[(2,), (2,), (0,)]]
    assert forward.texts[0][0] == "def forward(self, primals_1, primals_2):"
    assert forward.texts[0][-1] == "return [getitem_2, mul, getitem_1]"
    say = "torch.ops.efftest.say.default"
    assert backward.texts[0] == [
        "def forward(self, getitem_1, tangents_1, tangents_token):",
        "mul_1 = torch.ops.aten.mul.Tensor(tangents_1, 2);  tangents_1 = None",
        "with_effects_2 = torch.ops.higher_order.with_effects(tangents_token, "
        f"{say}, mul_1, 'db');  tangents_token = mul_1 = None",
        "getitem_4 = with_effects_2[0]",
        "getitem_5 = with_effects_2[1];  with_effects_2 = None",
        "cos = torch.ops.aten.cos.default(getitem_1);  getitem_1 = None",
        "mul_2 = torch.ops.aten.mul.Tensor(getitem_5, cos);  getitem_5 = cos = None",
        f"with_effects_3 = torch.ops.higher_order.with_effects(getitem_4, {say}, mul_2, 'da');"
        "  getitem_4 = mul_2 = None",
        "getitem_6 = with_effects_3[0]",
        "getitem_7 = with_effects_3[1];  with_effects_3 = None",
        "return [getitem_7, getitem_6]",
    ]


@PARTITIONS
@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize(
    ("compiler", "dynamic"),
    [(None, False), (None, True), (lower, False)],
    ids=["static", "dynamic", "codegen"],
)
def test_effects_keep_their_order_and_values(said, partition, debug, compiler, dynamic):
    def f(x, y):
        x = torch.ops.efftest.quiet(x.exp() + y, "q")
        torch.ops.efftest.say(y, "dead")
        x = torch.ops.efftest.say(x, "a") * x.shape[0]
        y.mul_(2)
        return torch.ops.efftest.say(y + x, "b").sin()

    def run(function):
        x = torch.tensor([0.5, -0.0, 2.0], requires_grad=True)
        y = torch.tensor([1.0, 3.0, -4.0])
        said.clear()
        result = function(x, y)
        said.append("backward")
        result.sum().backward()
        return result, x.grad, y, list(said)

    with config.patch(debug_assert=debug):
        compiled = aot_function(f, Keep(compiler), partition_fn=partition, dynamic=dynamic)
        expected = run(f)
        for _ in range(3):
            got = run(compiled)
            assert got[3] == expected[3] == ["q", "dead", "a", "b", "backward", "db", "da", "dq"]
            for value, other in zip(got[:3], expected[:3]):
                assert torch.allclose(value, other) if compiler else torch.equal(value, other)


def test_a_backward_alone_has_tokens(said):
    forward, backward = Keep(), Keep()
    compiled = aot_function(lambda x: torch.ops.efftest.quiet(x, "q"), forward, backward)
    compiled(torch.ones(2, requires_grad=True)).sum().backward()
    assert forward.shapes == [[(2,)]]
    assert backward.shapes == [[(2,), (0,)]]
    assert backward.texts[0][-1] == "return [getitem_1, getitem]"
    assert said == ["q", "dq"]


def test_parts_of_subclasses_stand_between_tokens(said):
    def f(x, y):
        return torch.ops.efftest.say(x, "a") * y

    forward, backward = Keep(), Keep()
    compiled = aot_function(f, forward, backward)
    x, y = pair(1.0, 3.0, needs=True), torch.tensor([2.0, 5.0])
    result = compiled(x, y)
    assert isinstance(result, Pair)
    assert parts(result) == ([2.0, 15.0], [20.0, 150.0])
    assert forward.shapes == [[(0,), (2,), (2,), (2,)]]
    assert said == ["a", "a"]
    result.sum().backward()
    assert parts(x.grad) == ([2.0, 5.0], [2.0, 5.0])
    assert said == ["a", "a", "da", "da"]


class Scaled(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("calls", torch.zeros(1))
        self.op = getattr(torch.ops.efftest, name)

    def forward(self, x):
        self.calls.add_(1)
        return (self.op(x * self.weight, "a").sum(),)


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_signature_names_tokens(said, pre_dispatch):
    graph, signature = aot_export_module(
        Scaled("say"), [torch.ones(2)], trace_joint=False, pre_dispatch=pre_dispatch
    )
    assert signature.input_tokens == ["arg0_1"]
    assert signature.output_tokens == ["getitem"]
    assert signature.inputs_to_parameters == {"arg1_1": "weight"}
    assert signature.inputs_to_buffers == {"arg2_1": "calls"}
    assert signature.user_inputs == ["arg3_1"]
    assert signature.buffers_to_mutate == {"add": "calls"}
    assert signature.user_outputs == ["sum_1"]
    assert graph.code.strip().endswith("return (getitem, add, sum_1)")
    ones = torch.ones(2)
    token, calls, total = graph(torch.tensor([]), ones, torch.zeros(1), ones)
    assert (token.shape, calls.item(), total.item(), said) == ((0,), 1.0, 2.0, ["a"])


@pytest.mark.parametrize(("name", "order"), [("say", ["a", "da"]), ("quiet", ["a", "da"])])
def test_a_joint_graph_of_a_loss_is_one_sequence(said, name, order):
    graph, signature = aot_export_module(
        Scaled(name), [torch.ones(2)], trace_joint=True, output_loss_index=0
    )
    assert signature.input_tokens == ["arg0_1"]
    assert signature.inputs_to_parameters == {"arg1_1": "weight"}
    ones = torch.ones(2)
    token, calls, total, grad = graph(torch.tensor([]), ones, torch.zeros(1), ones * 3)
    assert (token.shape, calls.item(), total.item()) == ((0,), 1.0, 6.0)
    assert grad.tolist() == [3.0, 3.0]
    assert said == order
    assert signature.backward_signature.loss_output == "sum_1"
    assert list(signature.backward_signature.gradients_to_parameters.values()) == ["weight"]


def test_a_joint_graph_of_tangents_has_tokens_at_both_ends(said):
    graph = aot_export_joint_simple(
        lambda x: [twice(x)], [torch.ones(2, requires_grad=True)], trace_joint=True
    )
    text = graph.code
    assert "primals_1, primals_2, tangents_1, tangents_token, = fx_pytree" in text
    assert "tree_unflatten([getitem_2, mul, getitem_7, getitem_6]" in text
    token = torch.tensor([])
    (_, value), (grad, _) = graph([token, torch.zeros(2)], [torch.ones(2), token])
    assert (value.tolist(), grad.tolist()) == ([0.0, 0.0], [2.0, 2.0])
    assert said == ["a", "b", "db", "da"]


@pytest.mark.parametrize("nested", [False, True])
def test_effects_of_branches_happen_though_nobody_uses_the_result(said, nested):
    def f(p, x):
        def speaking(x):
            return torch.ops.efftest.say(x, "inside")

        def choosing(x):
            return cond(p, speaking, lambda x: x.cos(), (x,))

        torch.ops.efftest.say(x, "before")
        cond(p, choosing if nested else speaking, lambda x: x.sin(), (x,))
        torch.ops.efftest.say(x, "after")
        return x * 2

    for needs in (False, True):
        compiled = aot_function(f, Keep())
        for answer in (True, False):
            said.clear()
            compiled(torch.tensor(answer), torch.ones(2, requires_grad=needs))
            assert said == ["before", *["inside"] * answer, "after"]


def test_the_wrapper_of_tokens_is_data():
    seen = []

    def graph(args):
        seen.append([tuple(value.shape) for value in args])
        return args

    value = torch.ones(3)
    for wrapper, shapes in (
        (Tokens(2), [(0,), (0,), (3,)]),
        (Tokens(1, last=True), [(3,), (0,)]),
    ):
        run = wrapper.around(graph)
        assert isinstance(run, Chain)
        (result,) = run([value])
        assert result is value
        assert seen.pop() == shapes
    assert Tokens(0).around(graph) is graph
