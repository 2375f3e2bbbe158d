"""aot_export_module and aot_export_joint_simple: graphs that need nothing around them."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_export_joint_simple, aot_export_module
from rushlight.aot.partition import default_partition

F = torch.nn.functional


class Counted(torch.nn.Module):
    """A linear layer that counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        loss = self.linear(x).relu().sum()
        return loss, (x * 2).detach()


def state(module):
    return [*module.parameters(), *module.buffers()]


def test_the_graph_runs_without_its_module():
    module, x = Counted(), torch.randn(4, 3)
    graph, signature = aot_export_module(module, [x], trace_joint=False)
    expected = module(x)
    values = [v.detach().clone() for v in state(module)]
    module.forward = None
    calls, loss, doubled = graph(*values, x)
    assert torch.equal(loss, expected[0])
    assert torch.equal(doubled, expected[1])
    assert signature.parameters == ["linear.weight", "linear.bias"]
    assert signature.buffers == ["calls"]
    assert signature.inputs_to_parameters == {"arg0_1": "linear.weight", "arg1_1": "linear.bias"}
    assert signature.inputs_to_buffers == {"arg2_1": "calls"}
    assert signature.user_inputs == ["arg3_1"]
    outputs = [node.name for node in graph.graph.output_node().args[0]]
    assert signature.buffers_to_mutate == {outputs[0]: "calls"}
    assert signature.user_outputs == outputs[1:]
    assert calls.tolist() == [values[2].item() + 1]


def test_a_joint_graph_gives_the_gradients_of_its_loss():
    module, x = Counted(), torch.randn(4, 3)
    graph, signature = aot_export_module(module, [x], trace_joint=True, output_loss_index=0)
    results = graph(*state(module), x)
    module(x)[0].backward()
    assert torch.allclose(results[-2], module.linear.weight.grad)
    assert torch.allclose(results[-1], module.linear.bias.grad)
    names = [node.name for node in graph.graph.output_node().args[0]]
    backward = signature.backward_signature
    assert backward.loss_output == names[1]
    assert backward.gradients_to_parameters == {
        names[-2]: "linear.weight",
        names[-1]: "linear.bias",
    }
    assert backward.gradients_to_user_inputs == {}


def test_above_autograd_composites_and_switches_stay():
    class Whole(torch.nn.Module):
        def forward(self, x, w):
            with torch.no_grad():
                y = F.linear(x, w)
            y.add_(1)
            return (y.reshape(-1) * 2,)

    x, w = torch.ones(2, 3), torch.ones(4, 3)
    graph, _ = aot_export_module(Whole(), [x, w], trace_joint=False, pre_dispatch=True)
    names = [node.name for node in graph.graph.nodes if node.op == "call_function"]
    kinds = [name.rstrip("_1") for name in names]
    assert kinds == ["_set_grad_enabled", "linear", "_set_grad_enabled", "add", "view", "mul"]
    assert torch.equal(graph(x, w)[0], Whole()(x, w)[0])


def case(function, *args, words, **options):
    return pytest.param(function, args, words, options, id=words)


@pytest.mark.parametrize(
    ("function", "args", "words", "options"),
    [
        case(lambda x: (x.t_(),), torch.ones(2, 3), words="metadata mutation"),
        case(
            lambda x, y: (x.mul_(2), y + 1)[1:],
            *[(b := torch.ones(4)).view(2, 2), b],
            words="aliased inputs that are mutated",
        ),
        case(
            lambda x, y: (x.mul_(2), y + 1)[1:],
            *[c := torch.ones(2), c],
            words="duplicated inputs that are mutated",
        ),
        case(lambda x: x * 2, torch.ones(2), words="Graph output must be a"),
        case(
            lambda x: (x.sum(), x * 2),
            torch.ones(2, requires_grad=True),
            words="requires gradients, that was not",
            trace_joint=True,
            output_loss_index=0,
        ),
        case(
            lambda x: (x * 2,),
            torch.ones(2, requires_grad=True),
            words="to be a scalar",
            trace_joint=True,
            output_loss_index=0,
        ),
        case(lambda x: (x,), torch.ones(2), words="output_loss_index", trace_joint=True),
    ],
)
def test_what_a_lone_graph_cannot_do_is_refused(function, args, words, options):
    class Holder(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    with pytest.raises(RuntimeError, match=words):
        aot_export_module(Holder(), list(args), **{"trace_joint": False, **options})


def test_the_simple_joint_graph_can_be_cut():
    def f(x, w):
        return (x @ w).sin(), (x * 2).sum()

    args = [torch.randn(2, 3, requires_grad=True), torch.randn(3, 2, requires_grad=True)]
    joint = aot_export_joint_simple(f, args, trace_joint=True)
    forward, backward = default_partition(joint, args, num_fwd_outputs=2)
    first, second, *saved = forward(*args)
    tangents = [torch.randn_like(first), torch.randn_like(second)]
    found = backward(*saved, *tangents)
    expected = torch.autograd.grad(f(*args), args, tangents)
    for got, wanted in zip(found, expected, strict=True):
        assert torch.allclose(got, wanted)
    plain = aot_export_joint_simple(f, args, trace_joint=False)
    assert torch.allclose(plain(*args)[0], f(*args)[0])


def test_the_simple_graph_changes_and_aliases_nothing():
    x = torch.ones(2, 2)
    for f, words in (
        (lambda x: (x.mul_(2),), "input mutations"),
        (lambda x: (x.view(-1),), "alias inputs"),
        (lambda x: ([x + 1],), "outputs not to be pytrees"),
    ):
        with pytest.raises(RuntimeError, match=words):
            aot_export_joint_simple(f, [x], trace_joint=False)


def test_whole_dropout_may_be_its_operand_and_is_not_written_to():
    class Shifted(torch.nn.Module):
        def forward(self, x):
            y = F.dropout(x, 0.1, training=False)
            y.add_(1)
            return (y,)

    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="cannot mutate tensors with frozen storage"):
        aot_export_module(Shifted(), [x], trace_joint=False, pre_dispatch=True)
    graph, _ = aot_export_module(Shifted(), [x], trace_joint=False)
    assert [node.name for node in graph.graph.nodes] == ["arg0_1", "clone", "add", "output"]
