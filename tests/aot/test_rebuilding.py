"""What a compiled function gives back: strides, histories and memory as they are eagerly."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import min_cut_rematerialization_partition


def leaf(*shape):
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, dtype=torch.float64).view(shape).requires_grad_()


class Doubled(torch.autograd.Function):
    """In place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_duplicates_that_are_written_have_gradients():
    x = leaf(3)
    value = x * 1
    aot_function(lambda a, b: a.mul_(2) + b, nop)(value, value).sum().backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_a_function_that_writes_in_place_keeps_its_gradient():
    x = leaf(3)
    value = x * 1
    result = aot_function(lambda a: Doubled.apply(a), nop)(value)
    assert result is value
    result.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_an_argument_that_is_moved_and_written_keeps_its_strides():
    base = leaf(4, 2) * 1
    column = base[:, 0]
    with torch.no_grad():
        aot_function(lambda a: a.unsqueeze_(1).fill_(7), nop)(column)
    assert column.stride() == (2, 1)
    assert base.tolist() == [[7, 1], [7, 3], [7, 5], [7, 7]]


def test_a_view_from_before_a_move_is_rebuilt():
    base = torch.arange(8.0).view(4, 2)

    def f(a):
        view = a[1:]
        a.mul_(2)
        a.unsqueeze_(0)
        return view

    column = base[:, 1]
    assert aot_function(f, nop)(column).tolist() == [6, 10, 14]
    assert column.shape == (1, 4)


def test_a_view_taken_without_grad_mode_has_no_history():
    x = leaf(2, 2)

    def f(a):
        with torch.no_grad():
            return a.t()

    found = aot_function(f, nop)(x)
    assert found.requires_grad and found.grad_fn is None


def test_an_output_returned_twice_is_one_tensor():
    first, second = aot_function(lambda a: [a.view(-1)] * 2, nop)(torch.ones(2, 2))
    assert first is second


def test_strides_decide_as_they_do_eagerly():
    def f(a):
        a.mul_(2)
        copy = a.contiguous()
        copy.zero_()
        return a

    assert aot_function(f, nop)(torch.arange(4.0).view(2, 2)[:, 0]).tolist() == [0, 4]


def test_equal_outputs_are_two_tensors():
    function = aot_function(
        lambda a: (torch.ones(2), torch.ones(2), a * 2),
        nop,
        partition_fn=min_cut_rematerialization_partition,
    )
    first, second, _ = function(leaf(2))
    first.zero_()
    assert second.tolist() == [1, 1]


def test_a_write_to_an_expanded_tensor_is_one_write():
    x = torch.arange(3.0)
    aot_function(lambda a: a.expand(2, 3).fill_(5), nop)(x)
    assert x.tolist() == [5, 5, 5]


def test_data_is_no_view_and_its_writes_raise_no_version():
    x = torch.ones(3)
    found = aot_function(lambda a: a.data.mul_(2), nop)(x)
    assert found is not x and not found._is_view()
    assert x.tolist() == [2, 2, 2] and x._version == 0


def test_an_argument_that_becomes_a_view_of_itself_keeps_its_gradient():
    x = leaf(2, 2)
    value = x * 1

    def f(a):
        total = a + a
        a.transpose_(0, 0)
        return total

    aot_function(f, nop)(value).sum().backward()
    assert x.grad.tolist() == [[2, 2], [2, 2]]


def move_detached(a):
    made = a.detach()
    made.unsqueeze_(0)
    return made


@pytest.mark.parametrize("f", [move_detached, lambda a: a.view(-1).data])
def test_what_is_no_view_comes_back_as_none(f):
    value = leaf(2, 2) * 1
    assert not f(value)._is_view()
    found = aot_function(f, nop)(value)
    assert not found._is_view()
    assert not found.requires_grad
    found.fill_(7)
    assert value.tolist() == [[7, 7], [7, 7]]


def test_what_moved_inside_may_be_detached_in_place():
    found = aot_function(lambda a: (a * 2).t_(), nop)(torch.ones(2, 3))
    assert not found._is_view()
    found.detach_()


def test_a_view_of_symbolic_sizes_of_a_quiet_view_has_a_history():
    def f(a):
        with torch.no_grad():
            view = a[:, : a.shape[1] - 1]
        return view.view(a.shape[0], -1, 1)

    value = leaf(4, 3) * 1
    assert f(value).grad_fn is not None
    assert aot_function(f, nop, dynamic=True)(value).grad_fn is not None


def test_views_of_symbolic_sizes_of_something_detached_are_views():
    found = aot_function(lambda a: a.detach().view(a.numel()), nop, dynamic=True)(leaf(2, 3) * 1)
    assert found._is_view()
    assert not found.requires_grad
    assert not found._base.requires_grad


def test_an_argument_that_only_moves_may_be_saved_for_the_backward():
    x = leaf(2, 3)
    aot_function(lambda a: a.t_().exp(), nop)(x * 1).sum().backward()
    assert torch.equal(x.grad, x.detach().exp())


def test_parts_of_an_argument_that_moved_are_valid():
    def f(a):
        a.t_()
        return a.unbind()[0]

    x = leaf(2, 3)
    part = aot_function(f, nop)(x * 1)
    assert part.grad_fn is not None
    part.sum().backward()
    assert x.grad.tolist() == [[1, 0, 0], [1, 0, 0]]


def test_parts_of_an_argument_that_moved_and_overlaps_another_are_valid():
    def f(a, b):
        b.t_()
        with torch.no_grad():
            a.mul_(2)
        return b.unbind()[0]

    x = leaf(2, 3)
    value = x * 1
    part = aot_function(f, nop)(value.view(-1), value.view(2, 3))
    assert part.tolist() == [0, 6]
    assert part.grad_fn is not None


# -- resize_ ---------------------------------------------------------------------------------------


def test_an_argument_that_shrinks_changes_its_geometry():
    x = torch.arange(6.0).view(2, 3)
    found = aot_function(lambda a: a.resize_(2, 2) * 2, nop)(x)
    assert found.tolist() == [[0, 2], [4, 6]]
    assert x.tolist() == [[0, 1], [2, 3]]


def test_what_is_made_inside_may_grow():
    def f(a):
        made = a * 2
        made.resize_(5)
        made[3:] = 1
        return made

    assert aot_function(f, nop)(torch.arange(3.0)).tolist() == [0, 2, 4, 1, 1]


def set_to_argument(a):
    made = a * 2
    with torch.no_grad():
        made.set_(a)
    return made


REFUSED = {
    "RL0741": lambda a: a.resize_(9),
    "RL0626": lambda a: a.detach_(),
    "RL0627": lambda a: a.detach().add_(a),
    "RL0629": lambda a: a.mul_(2).resize_(1),
    "RL0627 set_": set_to_argument,
    "RL0744": lambda a: a.mul_(2).set_(torch.ones(2)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused(name):
    code = name.split()[0]
    needs = code in ("RL0626", "RL0627")
    argument = leaf(4) * 1 if needs else torch.ones(4)
    with pytest.raises(RuntimeError) as caught:
        aot_function(REFUSED[name], nop, keep_inference_input_mutations=True)(argument)
    assert caught.value.code == code
