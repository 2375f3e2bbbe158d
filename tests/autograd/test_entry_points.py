"""`backward` and `grad`: arguments, what is returned and what is refused."""

from __future__ import annotations

import gc
import traceback
import warnings
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import grad
from rushlight.autograd.graph import GradientEdge, get_gradient_edge


def leaf(*values):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=True)


def test_implicit_gradients():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        torch.autograd.backward([x * 2], [None])
    z = (x * 1j).sum()
    with pytest.raises(RuntimeError, match="implicitly created only for real scalar outputs"):
        z.backward()


def test_given_gradients_must_fit():
    x = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in shape") as info:
        grad(x * 2, x, torch.ones(2))
    assert (
        "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a "
        "shape of torch.Size([2, 2])." in str(info.value)
    )
    with pytest.raises(RuntimeError):
        grad(x * 2, x, torch.ones(2, 2, dtype=torch.complex64))
    y = leaf(1.0)
    (y * 2).backward(torch.ones(1))
    assert y.grad.dtype is torch.float64


def test_roots_without_a_graph():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does"):
        torch.ones(1).backward()
    with pytest.raises(RuntimeError, match="does not have a grad_fn"):
        torch.autograd.backward([x * 2, torch.ones(1)])


def test_several_roots_add_up():
    x = leaf(2.0)
    y = x * 3
    torch.autograd.backward([y, y * y, y])
    assert x.grad.item() == 3 + 2 * 6 * 3 + 3


def test_backward_to_inputs():
    x, w = leaf(1.0), leaf(2.0)
    y = x * w
    z = y * 2
    z.backward(inputs=[x, y], retain_graph=True)
    assert x.grad.item() == 4 and w.grad is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert y.grad.item() == 2
    z.backward(inputs=w)
    assert w.grad.item() == 2 and x.grad.item() == 4
    with pytest.raises(RuntimeError, match="cannot be empty"):
        (x * w).backward(inputs=[])
    unrelated = leaf(1.0)
    (x * w).backward(inputs=[unrelated, x])
    assert unrelated.grad is None


def test_grad_accumulates_nothing():
    x, w = leaf(1.0), leaf(2.0)
    y = x * w
    gx, gy = grad(y * 2, [x, y])
    assert (gx.item(), gy.item()) == (4.0, 2.0) and x.grad is None and w.grad is None
    with pytest.raises(RuntimeError, match="does not require grad"):
        grad(x * 2, torch.ones(1))


def test_unused_inputs():
    x, other = leaf(1.0), leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(x * 2, [x, other])
    assert grad(x * 2, [x, other], allow_unused=True)[1] is None
    zeros = grad(x * 2, [x, other], materialize_grads=True)[1]
    assert zeros.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when"):
        grad(x * 2, other, allow_unused=False, materialize_grads=True)


def test_gradient_edges():
    x = leaf(1.0, 2.0)
    y = x * 2
    edge = get_gradient_edge(y)
    assert isinstance(edge, GradientEdge) and edge.node is y.grad_fn and edge.output_nr == 0
    y *= 3
    loss = y.sum()
    old, new = grad(loss, [edge, y], retain_graph=True)
    assert old.tolist() == [3.0, 3.0] and new.tolist() == [1.0, 1.0]
    assert grad(loss, get_gradient_edge(x))[0].tolist() == [6.0, 6.0]
    _, mean = torch.var_mean(x, 0)
    assert get_gradient_edge(mean).output_nr == 1
    with pytest.raises(RuntimeError, match="when the given input is a GradientEdge"):
        grad(x.sum(), get_gradient_edge(leaf(1.0) * 2), materialize_grads=True)


@pytest.mark.parametrize("early", [True, False])
def test_an_edge_outlives_set(early):
    x = leaf(1.0)
    edge = get_gradient_edge(x) if early else None
    y = x * 2
    edge = edge or get_gradient_edge(x)
    with torch.no_grad():
        x.set_(torch.tensor([2.0], dtype=torch.float64))
    with pytest.raises(RuntimeError, match="not have been used"):
        grad(y.clone(), x, retain_graph=True)
    assert grad(y, edge)[0].item() == 2


def test_freed_graphs():
    x = leaf(1.0)
    y = x.exp() * 2
    y.backward()
    with pytest.raises(RuntimeError, match="second time") as info:
        y.backward()
    assert "Specify retain_graph=True" in str(info.value)
    z = x + 1
    z.backward()
    z.backward()
    assert x.grad.item() == pytest.approx(2 * 2.718281828459045 + 2)


def test_create_graph_warns_in_backward_only():
    x = leaf(2.0)
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match=r"Using backward\(\) with create_graph=True"):
            (x**3).backward(create_graph=True)
    finally:
        torch.set_warn_always(False)
    (g,) = grad(x**3, x, create_graph=True)
    (h,) = grad(g, x, create_graph=True)
    (third,) = grad(h, x)
    assert (g.item(), h.item(), third.item()) == (12.0, 12.0, 6.0)


def test_batched_gradients():
    x = leaf(1.0, 2.0)
    y = x * x
    (rows,) = grad(y, x, torch.eye(2, dtype=torch.float64), is_grads_batched=True)
    assert rows.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    (rows,) = grad(x * 2, x, torch.ones(3, 2, dtype=torch.int64), is_grads_batched=True)
    assert rows.dtype is torch.float64 and rows.shape == (3, 2)
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first"):
        grad(x * 2, x, torch.ones(2, dtype=torch.float64), is_grads_batched=True)


def test_errors_keep_their_lines_and_warnings_arrive():
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            warnings.warn("from backward", stacklevel=1)
            raise ValueError("a line of the user")  # this very line

    x = leaf(1.0)
    first, second = x * 2, Raises.apply(leaf(1.0))
    with (
        pytest.warns(UserWarning, match="from backward"),
        pytest.raises(ValueError, match="a line of the user") as info,
    ):
        torch.autograd.backward([second, first])
    assert "# this very line" in "".join(traceback.format_tb(info.tb))


def test_leaves_done_before_an_error_keep_their_gradients():
    x = leaf(1.0)
    early = leaf(1.0)

    def refuse(g):
        raise RuntimeError("stop")

    y = x * 2
    y.register_hook(refuse)
    with pytest.raises(RuntimeError, match="stop"):
        (y + early * 3).backward()
    assert early.grad.item() == 3 and x.grad is None


def swap_data(x, value):
    x.data = value


def swap_memory(x, value):
    with torch.no_grad():
        x.set_(value)


@pytest.mark.parametrize("swap", [swap_data, swap_memory])
@pytest.mark.parametrize("looked_at", [False, True])
def test_leaves_may_change_their_shape_between_forward_and_backward(swap, looked_at):
    x = leaf(1.0, 2.0)
    first = (x * 2).sum()
    if looked_at:
        first.grad_fn.next_functions[0][0].next_functions
    swap(x, torch.ones(3, dtype=torch.float64))
    second = (x * 3).sum()
    first.backward()
    assert x.grad.tolist() == [2.0, 2.0]
    x.grad = None
    second.backward()
    assert x.grad.tolist() == [3.0, 3.0, 3.0]


def test_a_leaf_that_changed_its_shape_is_freed_at_once():
    x = leaf(1.0, 2.0)
    y = (x * 2).sum()
    swap_data(x, torch.ones(3, dtype=torch.float64))
    y.backward()
    alive = weakref.ref(x)
    gc.disable()
    try:
        del x, y
        assert alive() is None
    finally:
        gc.enable()
