"""Regions run their function at every layer; `strict_mode` keeps it as a graph."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.tracing import make_fx
from rushlight.core.hop import HOPS, RULES
from rushlight.func import grad, jvp, vmap
from rushlight.higher_order import HOMES, find_op
from rushlight.higher_order.regions import strict_mode

hop = torch.ops.higher_order


def test_every_op_has_a_rule_for_every_layer():
    for name in HOMES:
        op = find_op(name)
        assert op is HOPS[name]
        assert set(op.rules) == set(RULES), name


REGIONS = {
    "wrap": lambda f, *args: hop.wrap(f, *args),
    "grad": lambda f, *args: hop.wrap_with_set_grad_enabled(True, f, *args),
    "autocast": lambda f, *args: hop.wrap_with_autocast("cpu", None, False, None, f, *args),
    "checkpoint": lambda f, *args: hop.tag_activation_checkpoint(f, *args),
    "strict": lambda f, *args: strict_mode(f, args),
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_region_is_its_function_at_every_level(name):
    def f(x, w):
        return REGIONS[name](lambda x, w: x.sin() * w, x, w)

    def plain(x, w):
        return x.sin() * w

    x, w = torch.tensor([0.5, 1.5]), torch.tensor([2.0, 3.0])
    transforms = [
        lambda f: f(x, w),
        lambda f: vmap(f, in_dims=(0, None))(torch.stack([x, w]), w),
        lambda f: make_fx(f)(x, w)(w, x),
        lambda f: make_fx(f, pre_dispatch=True)(x, w)(w, x),
        lambda f: aot_function(f, nop)(x, w),
        lambda f: grad(lambda x: f(x, w).sum())(x),
        lambda f: jvp(lambda x: f(x, w), (x,), (w,))[1],
        lambda f: make_fx(grad(lambda x: f(x, w).sum()))(x)(w),
        lambda f: make_fx(vmap(f))(x, w)(w, x),
    ]
    for transform in transforms:
        assert torch.allclose(transform(f), transform(plain))
    given = [value.requires_grad_() for value in (x.clone(), w.clone())]
    aot_function(f, nop)(*given).sum().backward()
    assert torch.allclose(given[0].grad, x.cos() * w)


def test_regions_change_what_holds_inside():
    x = torch.ones(2, requires_grad=True)
    assert not hop.wrap_with_set_grad_enabled(False, torch.sin, x).requires_grad
    got = hop.wrap_with_autocast(
        "cpu", torch.bfloat16, True, None, torch.mm, *[torch.ones(2, 2)] * 2
    )
    assert got.dtype is torch.bfloat16


def test_a_pre_dispatch_graph_has_the_switches_of_a_grad_region():
    def f(x):
        return hop.wrap_with_set_grad_enabled(False, torch.sin, x)

    graph = make_fx(f, pre_dispatch=True)(torch.ones(2))
    switches = [n.args[0] for n in graph.graph.nodes if "set_grad" in n.name]
    assert switches == [False, True]


def test_a_strict_region_is_one_node():
    graph = make_fx(lambda x: strict_mode(lambda x: x.sin() + 1, (x,)))(torch.ones(2))
    assert [node.name for node in graph.graph.nodes][1:3] == ["strict_graph_0", "strict_mode"]


def test_a_function_of_two_bodies_has_the_gradient_of_the_second():
    def forward(_, x, w, hidden):
        y = x * w * hidden
        return (y, y > 0), (w, 3.0)

    def backward(_, grad, unused, w, factor):
        return grad * w * factor, None

    x, w = torch.ones(2, requires_grad=True), torch.tensor([2.0, 4.0], requires_grad=True)
    hidden = torch.ones(2, requires_grad=True)

    def f(x, w, hidden):
        return hop.autograd_function_apply(
            *(forward, backward, x, w, hidden),
            args_tensor_mask=[True, False, True],
            non_differentiable_idx=[1],
        )[0]

    for run in (f, aot_function(f, nop)):
        x.grad = None
        run(x, w, hidden).sum().backward()
        assert x.grad.tolist() == [6.0, 12.0]
        assert (w.grad, hidden.grad) == (None, None)
