"""`cond` through every layer: eager, gradients, levels, vmap, recording, functionalization, AOT."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.export import aot_export_module
from rushlight.aot.tracing import make_fx
from rushlight.func import functionalize, grad, hessian, jvp, vmap
from rushlight.higher_order.mapping import map as map_slices


def branches(x, w):
    return torch.cond(
        x.sum() > 0, lambda x, w: x.sin().add_(1) * w, lambda x, w: (x * x * 2) + w - w, (x, w)
    )


def plain(x, w):
    return (x.sin() + 1) * w if x.sum() > 0 else x * x * 2 + w - w


SIGNS = [1.0, -1.0]


def operands(sign):
    return sign * torch.tensor([0.5, 1.5, 2.5]), torch.tensor([2.0, 3.0, 4.0])


@pytest.mark.parametrize("sign", SIGNS)
def test_the_chosen_branch_is_differentiable_at_every_level(sign):
    x, w = operands(sign)
    assert torch.equal(branches(x, w), plain(x, w))
    for transform in (
        lambda f: grad(lambda x: f(x, w).sum())(x),
        lambda f: jvp(lambda x: f(x, w), (x,), (w,))[1],
        lambda f: hessian(lambda x: f(x, w).sum())(x),
        lambda f: functionalize(lambda x: f(x, w))(x),
    ):
        assert torch.allclose(transform(branches), transform(plain))


def test_what_a_branch_closes_over_gets_its_gradient():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    torch.cond(
        torch.tensor(True), lambda x: x * w, lambda x: x + 0, (torch.ones(2),)
    ).sum().backward()
    assert w.grad.tolist() == [1.0, 1.0]


def test_samples_of_a_vmap_take_their_own_branch():
    rows = torch.tensor([[1.0, 2.0], [-1.0, -2.0]])
    result = vmap(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.abs, (x,)))(rows)
    assert torch.equal(result, torch.stack([rows[0].sin(), rows[1].abs()]))


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_graph_has_both_branches_and_serves_other_sizes(pre_dispatch):
    def f(x):
        z = x * 2
        return torch.cond(x.sum() > 0, lambda x: x.sin() + z, lambda x: x.cos(), (x,))

    graph = make_fx(f, tracing_mode="symbolic", pre_dispatch=pre_dispatch)(torch.ones(3))
    assert [node.name for node in graph.graph.nodes if node.op == "get_attr"] == [
        "true_graph_0",
        "false_graph_0",
    ]
    call = next(n for n in graph.graph.nodes if n.target is torch.ops.higher_order.cond)
    # `z` is an operand: a branch is a graph of its own.
    assert len(call.args[3]) == 2
    for x in (torch.ones(5), -torch.ones(5)):
        assert torch.equal(graph(x), f(x))


@pytest.mark.parametrize("sign", SIGNS)
def test_a_compiled_gradient_chooses_again(sign):
    compiled = aot_function(branches, nop)
    # Compiled for the other branch's operands.
    compiled(*[v.requires_grad_() for v in operands(-sign)]).sum().backward()
    ours = [v.requires_grad_() for v in operands(sign)]
    theirs = [v.requires_grad_() for v in operands(sign)]
    compiled(*ours).sum().backward()
    plain(*theirs).sum().backward()
    for got, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(got.grad, expected.grad)


BAD = {
    "modifying": lambda x, w: x.add_(1),
    "aliasing": lambda x, w: x,
    "closes over a tensor": lambda x, w: x * w,
    "return the same": lambda x, w: x[:1] * 1,
}


@pytest.mark.parametrize("words", BAD)
def test_branches_that_graphs_cannot_hold_are_refused(words):
    def f(x, w):
        return torch.cond(x.sum() > 0, lambda x: BAD[words](x, w), lambda x: x * 1, (x,))

    with pytest.raises(RuntimeError, match=words):
        aot_function(f, nop)(torch.ones(3), torch.ones(3, requires_grad=True))


def test_wrong_arguments_are_named():
    x = torch.ones(2)
    for args, words in (
        (("3.5", torch.sin, torch.cos, (x,)), "pred to be bool or tensor"),
        ((x, torch.sin, torch.cos, (x,)), "single-element"),
        ((True, torch.sin, None, (x,)), "callable"),
        ((True, torch.sin, torch.cos, (x, 3)), "tensor leaves"),
    ):
        with pytest.raises(RuntimeError, match=words):
            torch.cond(*args)


def test_numbers_decide_at_once():
    x = torch.ones(2)
    assert torch.equal(torch.cond(3.5, torch.sin, torch.cos, (x,)), x.sin())
    assert torch.equal(torch.cond(0, torch.mul, torch.add, (x, 4)), x + 4)
    code = make_fx(lambda x: torch.cond(1, torch.sin, torch.cos, (x,)))(x).code
    assert "sin" in code and "cond" not in code


def test_nested_ops_are_nested_graphs_above_autograd_too():
    def f(x, y):
        def body(row, y):
            return row.cos().add_(5) + y

        def false_fn(x, y):
            return x.cos() + map_slices(body, x, y).sum() + map_slices(body, x, y).sum()

        return (torch.cond(x.shape[0] > 4, lambda x, y: x.sin().add_(y), false_fn, (x, y)),)

    class M(torch.nn.Module):
        def forward(self, x, y):
            return f(x, y)

    x, y = torch.ones(2, 2), torch.ones(2)
    module, _ = aot_export_module(M(), (x, y), trace_joint=False, pre_dispatch=True)
    call = "conditional = torch.ops.higher_order.cond(False, true_graph_0, false_graph_0, "
    assert f"{call}[arg0_1, arg1_1]);" in module.code
    assert "map_impl_1 = torch.ops.higher_order.map_impl(body_graph_1, [arg0_1], [arg1_1]);" in (
        module.false_graph_0.code
    )
    assert module.false_graph_0.body_graph_1.code.strip() == (
        "def forward(self, arg0_1, arg1_1):\n"
        "    cos = torch.ops.aten.cos.default(arg0_1);  arg0_1 = None\n"
        "    add = torch.ops.aten.add.Tensor(cos, 5);  cos = None\n"
        "    add_1 = torch.ops.aten.add.Tensor(add, arg1_1);  add = arg1_1 = None\n"
        "    return [add_1]"
    )
    assert torch.equal(module(x, y)[0], f(x, y)[0])


class Scaled(torch.nn.Module):
    def forward(self, pred, first, second, x):
        return torch.cond(pred, lambda y: y * first.item(), lambda y: y * second.item(), (x,))


def test_numbers_of_tensors_that_branches_close_over():
    x = torch.ones(2)
    args = torch.tensor(True), torch.tensor(2.0), torch.tensor(3.0), x
    program = torch.export.export(Scaled(), args).module()
    assert program(*args).tolist() == [2, 2]
    assert program(torch.tensor(False), *args[1:]).tolist() == [3, 3]
    assert program(args[0], torch.tensor(5.0), *args[2:]).tolist() == [5, 5]
