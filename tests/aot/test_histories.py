"""Histories of what compiled functions give back, and backwards that do more than give gradients:
as they are eagerly."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition


def leaf(*shape):
    count = torch.Size(shape).numel()
    return torch.arange(count, dtype=torch.float64).view(shape).requires_grad_()


def write_to_view(a, b):
    a.as_strided_((2,), (1,), 0)
    b.fill_(3)
    return b


def write_to_view_before_the_start(a, b):
    a.as_strided_((2,), (1,), 2)
    b[:1].mul_(2)
    return b


def write_to_view_of_single_argument(a, b):
    view = a.view(2, 2)
    a.as_strided_((3,), (1,), 1)
    view.mul_(2)
    return a.sin() + view[0, 0]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function", [write_to_view, write_to_view_before_the_start, write_to_view_of_single_argument]
)
def test_a_write_to_a_view_of_what_lost_elements_is_refused(function, dynamic):
    def arguments():
        base = leaf(4) * 1
        return base, base.view(4)

    found = function(*arguments())
    with pytest.raises(RuntimeError, match="out of bounds|invalid storage offset"):
        found.sum().backward()
    with pytest.raises(RuntimeError) as caught:
        aot_function(function, nop, dynamic=dynamic)(*arguments())
    assert caught.value.code == "RL0760"


@pytest.mark.parametrize("take", [lambda a: a[:, 0:1], lambda a: a.t()])
def test_a_view_without_grad_mode_taken_after_its_base_moved_is_valid(take):
    def f(a, base):
        a.mul_(2)
        base.t_()
        with torch.no_grad():
            return take(a)

    seen = []
    for function in (f, aot_function(f, nop)):
        x = leaf(2, 3)
        base = x * 1
        found = function(base.view(2, 3), base)
        assert found.grad_fn is None
        (found.sum() + base.sum()).backward()
        seen.append((found.tolist(), base.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


class WritesLate(torch.autograd.Function):
    """The backward writes to an operand."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.other = other
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            ctx.other.mul_(3)
        return grad * 2, None


@pytest.mark.parametrize("compiler", [nop, torch.compiler.compile_graph])
@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_backwards_of_functions_run_where_they_lead_to_no_argument(partition, compiler):
    def f(a, b):
        with torch.no_grad():
            row = a[0]
        return WritesLate.apply(row, b) + a.sin().detach(), a * 2

    seen = []
    for function in (f, aot_function(f, compiler, partition_fn=partition)):
        x, y = leaf(2, 3), torch.ones(3, dtype=torch.float64)
        first, second = function(x, y)
        (first.sum() + second.sum()).backward()
        seen.append((y.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]
    assert seen[0][0] == [3, 3, 3]
