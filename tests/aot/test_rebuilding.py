"""What a compiled function gives back: strides, histories and memory as they are eagerly."""

import warnings

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition


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


@pytest.mark.parametrize("part", [lambda a: a.squeeze(), lambda a: a.unbind()[0]])
def test_views_of_what_the_graph_writes_are_not_saved(part):
    def f(a):
        view = part(a)
        result = torch.where(view > 0, view, 1).sin()
        with torch.no_grad():
            a.zero_()
        return result

    x = torch.ones(1, 3, dtype=torch.float64, requires_grad=True)
    function = aot_function(
        f,
        nop,
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    function(x).sum().backward()
    assert torch.allclose(x.grad, torch.ones_like(x).cos())


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


def test_parts_of_an_argument_that_became_smaller_are_valid():
    def f(a):
        view = a.view(2, 3)
        a.as_strided_((2,), (1,), 0)
        return view.unbind()[0]

    def gradient(function):
        x = leaf(2, 3)
        part = function(x * 1)
        assert part.grad_fn is not None
        part.sum().backward()
        return x.grad.tolist()

    assert gradient(aot_function(f, nop)) == gradient(f)


def test_the_backward_reads_no_written_argument_for_a_value_that_was_overwritten():
    def f(a):
        made = torch.zeros(3, dtype=torch.float64)
        a[a > 1] = 0.25
        with torch.no_grad():
            torch.sin(made, out=a)
        return a

    x = leaf(3)
    aot_function(f, nop)(x * 1).sum().backward()
    assert x.grad.tolist() == [1, 1, 0]


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


def test_a_move_without_grad_mode_leaves_the_history_as_it_is():
    def f(a, part):
        with torch.no_grad():
            a.transpose_(0, 2)
        return a

    def gradient(function):
        x = leaf(2, 2, 2)
        value = x * 1
        part = value[:, :, 0]
        ((function(value, part) * leaf(2, 2, 2).detach()).sum() + part.sum()).backward()
        return x.grad.tolist()

    assert gradient(aot_function(f, nop)) == gradient(f)


def test_moves_with_and_without_grad_mode_leave_what_each_leaves():
    def f(a):
        a.unsqueeze_(0).squeeze_(0)
        with torch.no_grad():
            a.t_()
        return a * 2

    def gradient(function):
        x = leaf(2, 2)
        value = x * 1
        made = function(value)
        ((made + value) * leaf(2, 2).detach()).sum().backward()
        return x.grad.tolist()

    assert gradient(aot_function(f, nop)) == gradient(f) == [[0, 3], [6, 9]]


def test_an_argument_that_is_written_and_then_repeats_elements_keeps_its_gradient():
    x = leaf(4)
    value = (x * 1).view(2, 2)
    f = aot_function(lambda a: a.mul_(2).as_strided_((2, 2), (1, 1), 0), nop)
    f(value).sum().backward()
    assert value.tolist() == [[0, 2], [2, 4]]
    assert x.grad.tolist() == [2, 4, 2, 0]


def test_an_argument_that_is_written_and_then_shrinks_keeps_all_that_was_written():
    x = torch.arange(4.0)
    rest = x[2:]
    assert aot_function(lambda a: a.mul_(2).resize_(1), nop)(x).tolist() == [0]
    assert x.tolist() == [0] and rest.tolist() == [4, 6]


def test_a_view_from_before_an_argument_lost_elements_has_the_gradient_of_all():
    def f(a):
        all_of_it = a.view(2, 2)
        a.as_strided_((2,), (1,), 0)
        return all_of_it

    x = leaf(1, 4)
    aot_function(f, nop)((x * 1)[0]).sum().backward()
    assert x.grad.tolist() == [[1, 1, 1, 1]]


def test_views_of_something_moved_inside_are_made_from_it_as_it_is():
    def f(a):
        made = a * 2
        made.t_()
        return made[0], made.t()

    row, turned = aot_function(f, nop)(leaf(2, 2))
    assert row.tolist() == [0, 4] and turned.tolist() == [[0, 2], [4, 6]]


def test_duplicates_that_move_there_and_back_are_one_argument():
    def f(a, b):
        a.t_()
        b.t_()
        return b[0]

    x = torch.arange(8.0).view(4, 2)
    assert aot_function(f, nop)(x, x).tolist() == [0, 1]


def test_data_has_the_strides_of_its_tensor():
    def f(a):
        copy = a.sin_().data.contiguous()
        copy.zero_()
        return copy

    x = torch.ones(2, 2).diagonal()
    aot_function(f, nop)(x)
    assert 0 not in x.tolist()


def test_out_of_other_sizes_over_transposed_memory_is_refused():
    def f(a):
        turned = a.t()
        turned.masked_fill_(turned > 2, 0)
        return torch.sin(torch.ones(4, 2), out=turned)

    with pytest.raises(RuntimeError) as caught, pytest.warns(UserWarning, match="resized"):
        aot_function(f, nop)(torch.ones(4, 2))
    assert caught.value.code == "RL0741"


def test_writes_to_elements_that_repeat_are_refused_for_symbolic_sizes():
    def f(a):
        a.unfold(0, 2, 1)[0] = 4
        return a

    with pytest.raises(NotImplementedError) as caught:
        aot_function(f, nop, dynamic=True)(torch.arange(4.0))
    assert caught.value.code == "RL0702"


def test_an_alias_of_what_the_backward_writes_has_the_strides_of_its_argument():
    class WritesLate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            with torch.no_grad():
                ctx.saved_tensors[0].mul_(2)
            return grad * 3

    def f(a):
        return WritesLate.apply(a), a.view(a.shape)

    value = leaf(2, 2) * 1
    with torch.no_grad():
        column = value[:, :1]
    tripled, alias = aot_function(f, nop, dynamic=True)(column)
    assert alias.stride() == (2, 1) and alias.tolist() == [[0], [2]]
    tripled.sum().backward()
    assert alias.tolist() == [[0], [4]]


def test_an_argument_that_is_detached_and_gets_another_history_is_refused():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError) as caught:
        aot_function(lambda a, b: a.detach_().add_(b), nop)(x, x * 1)
    assert caught.value.code == "RL0626"


def test_a_view_cannot_be_detached_in_place():
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        aot_function(lambda a: a.detach_(), nop)(torch.ones(2)[:1])


def test_a_detached_alias_that_a_function_writes_has_a_history_of_its_own():
    with pytest.raises(RuntimeError) as caught:
        aot_function(lambda a: Doubled.apply(a.detach().add_(a)), nop)(leaf(2) * 1)
    assert caught.value.code == "RL0627"


def test_views_without_grad_mode_need_no_gradient_of_what_they_are_views_of():
    def f(a):
        made = a * a
        a.mul_(2)
        with torch.no_grad():
            return made[0], made[1]

    first, second = aot_function(f, nop)(leaf(2) * 1)
    assert (first.item(), second.item()) == (0, 1)
    assert first.grad_fn is None and second.grad_fn is None


def test_an_argument_that_shrinks_has_contiguous_strides():
    x = torch.ones(1, 4).diagonal()
    aot_function(lambda a: a.resize_(0), nop)(x)
    assert x.stride() == (1,)


def test_data_of_a_view_of_another_output_requires_no_gradient():
    def f(a):
        made = a.sin()
        return made, made[1:].data

    _, data = aot_function(f, nop)(torch.ones(3, requires_grad=True))
    assert not data.requires_grad and not data._is_view()


def test_data_from_before_a_move_keeps_its_sizes():
    def f(a):
        data = a.data
        a.unsqueeze_(1)
        return data

    assert aot_function(f, nop)(torch.ones(3)).shape == (3,)


def test_tensors_set_to_one_memory_are_two():
    def f(a):
        made = a * 2
        return torch.empty(0).set_(made), made

    first, second = aot_function(f, nop)(torch.ones(3))
    assert first is not second
    second.zero_()
    assert first.tolist() == [0, 0, 0]


def test_tensors_set_to_one_memory_are_two_behind_a_view_of_it():
    def f(a):
        made, other = a * 2, torch.empty(0)
        view = made.view(-1)
        other.set_(made)
        return view, other, made

    view, first, second = aot_function(f, nop)(torch.ones(3))
    assert len({id(view), id(first), id(second)}) == 3
    second.zero_()
    assert view.tolist() == first.tolist() == [0, 0, 0]


def test_leaves_over_one_memory_are_two():
    def f(a):
        made = (a * 2).requires_grad_()
        return made.data.requires_grad_(), made

    first, second = aot_function(f, nop)(torch.ones(3))
    assert first is not second
    assert first.requires_grad and second.requires_grad and first.is_leaf and second.is_leaf
    second.data.zero_()
    assert first.tolist() == [0, 0, 0]


def test_what_an_argument_is_set_to_keeps_its_history():
    def f(a):
        made = a * 2
        with torch.no_grad():
            a.set_(made)
        return made

    x = torch.ones(3, requires_grad=True)
    value = x * 1
    made = aot_function(f, nop, keep_inference_input_mutations=True)(value)
    assert made.grad_fn is not None
    made.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize("use", [lambda a: a.t(), lambda a: a.mul_(2)])
def test_memory_that_an_argument_had_before_set_is_refused(use):
    def f(a):
        old = use(a)
        a.set_(torch.zeros(2, 2))
        return old.sum() if old is a else old

    with pytest.raises(RuntimeError) as caught:
        aot_function(f, nop, keep_inference_input_mutations=True)(torch.ones(2, 2))
    assert caught.value.code == "RL0633"


class Tripling(torch.autograd.Function):
    """The backward triples another tensor."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.other = other
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            ctx.other.mul_(3)
        return grad * 2, None


def test_duplicates_that_only_the_backward_writes_are_one():
    f = aot_function(lambda x, a, b: Tripling.apply(Tripling.apply(x, a), b), nop)
    x, other = torch.ones(2, requires_grad=True), torch.ones(2)
    f(x, other, other).sum().backward()
    assert other.tolist() == [9, 9]


def test_data_of_an_argument_that_the_backward_writes_is_returned():
    x, other = torch.ones(2, requires_grad=True), torch.ones(2)
    data, made = aot_function(lambda a, b: (b.data, Tripling.apply(a, b)), nop)(x, other)
    made.sum().backward()
    assert data.tolist() == other.tolist() == [3, 3]


def test_overlapping_arguments_that_the_backward_writes_are_refused():
    f = aot_function(lambda x, a, b: Tripling.apply(Tripling.apply(x, a), b), nop)
    other = torch.ones(3)
    with pytest.raises(RuntimeError) as caught:
        f(torch.ones(2, requires_grad=True), other[:2], other[1:])
    assert caught.value.code == "RL0634"


def test_a_view_that_moves_without_grad_mode_has_the_history_of_its_geometry():
    def f(a):
        with torch.no_grad():
            a.t_()
        return a.masked_fill_(a > 1, 0)

    x = leaf(2, 2)
    aot_function(f, nop)((x * 1).view(2, 2)).sum().backward()
    assert x.grad.tolist() == [[1, 1], [0, 0]]


def test_a_backward_does_not_read_memory_that_was_given_up():
    def f(a, other):
        result = a * other
        torch.ops.inductor.resize_storage_bytes_(other, 0)
        return result

    x, other = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    function = aot_function(f, nop, keep_inference_input_mutations=True)
    result = function(x, other)
    with pytest.raises(RuntimeError) as caught:
        result.sum().backward()
    assert caught.value.code == "RL0635"


def test_a_backward_reads_memory_that_was_asked_for_again():
    def f(a, other):
        result = a * other
        torch.ops.inductor.resize_storage_bytes_(other, 0)
        return result

    x, other = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    result = aot_function(f, nop, keep_inference_input_mutations=True)(x, other)
    torch.ops.inductor.resize_storage_bytes_(other, 12)
    other.data.fill_(2)
    result.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_a_backward_needs_no_argument_that_was_written_before_its_memory_was_given_up():
    def f(a):
        double = a + a
        with torch.no_grad():
            a.zero_()
        torch.ops.inductor.resize_storage_bytes_(a, 0)
        return double.sin()

    x = leaf(3)
    options = {"partition_fn": min_cut_rematerialization_partition}
    function = aot_function(f, nop, keep_inference_input_mutations=True, **options)
    function(x * 1).sum().backward()
    assert torch.allclose(x.grad, 2 * (2 * x.detach()).cos())


def test_memory_given_up_after_a_write_is_not_written():
    def f(a):
        a.mul_(2)
        torch.ops.inductor.resize_storage_bytes_(a, 0)

    x = torch.ones(3)
    aot_function(f, nop, keep_inference_input_mutations=True)(x)
    assert x.untyped_storage().nbytes() == 0


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


def view_then_set(a):
    view = a.view(4)
    a.set_(torch.cat([view, view]))
    return view * 2


def move_then_set(a):
    a.unsqueeze_(1)
    a.set_(torch.cat([a, a]))
    return a.detach() * 2


def test_what_an_argument_was_set_to_a_view_of_is_an_output():
    def f(a, b):
        made = b.clone()
        a.set_(made.view(1, 2))
        return made

    x = torch.ones(4, 2)
    result = aot_function(f, nop, keep_inference_input_mutations=True)(x, torch.arange(2.0))
    assert (result.tolist(), x.tolist()) == ([0, 1], [[0, 1]])
    assert result.data_ptr() == x.data_ptr()


@pytest.mark.parametrize("function", [view_then_set, move_then_set])
@pytest.mark.parametrize("needs", [False, True])
def test_an_argument_that_was_used_is_given_memory_of_another_size(function, needs):
    seen = []
    for run in (function, aot_function(function, nop, keep_inference_input_mutations=True)):
        x = leaf(2, 2).detach().requires_grad_(needs) * 1
        with torch.no_grad():
            result = run(x)
        seen.append((result.tolist(), x.tolist(), x.stride()))
    assert seen[0] == seen[1]


def test_an_alias_of_an_output_that_starts_a_gradient_has_none():
    def f(a):
        total = a.sum()
        view = total.t()
        return view.detach().requires_grad_(), view

    for run in (f, aot_function(f, nop)):
        started, view = run(torch.ones(2))
        assert (started.requires_grad, view.requires_grad) == (True, False)
        assert started.data_ptr() == view.data_ptr()


def test_a_view_of_what_was_computed_anew_with_other_strides():
    def f(a):
        row = a.view(4)
        a.t_()
        a.masked_fill_(a > 2, 0)
        return row, a.t().view(1, 4)

    seen = []
    for run in (f, aot_function(f, nop)):
        x = torch.arange(4.0).view(2, 2)
        results = run(x)
        assert [result.data_ptr() for result in results] == [x.data_ptr()] * 2
        seen.append([value.tolist() for value in (x, *results)])
    assert seen[0] == seen[1]


def test_equal_views_are_several_tensors():
    options = {"partition_fn": min_cut_rematerialization_partition}
    x = leaf(2, 2)
    one, other = aot_function(lambda a: (a.unbind()[1], a.unbind()[1]), nop, **options)(x * 1)
    assert one is not other and one.data_ptr() == other.data_ptr()
    (one + 2 * other).sum().backward()
    assert x.grad.tolist() == [[0, 0], [3, 3]]


def shrink_base(a, b):
    a.as_strided_((2,), (1,), 0)
    return b


def write_view_and_shrink(a, b):
    a.mul_(2)
    view = a.view(2, 2)
    a.as_strided_((2,), (1,), 0)
    return view


def shrink_base_and_use_view(a, b):
    first = b * 2
    a.as_strided_((2,), (1,), 0)
    return b.sin() + first.detach()


def write_shrink_and_use_view(a, b):
    b.mul_(2)
    a.as_strided_((2,), (1,), 0)
    return b.sin()


def parts_after_a_loss(a, b):
    view = a.view(2, 2)
    a.as_strided_((2,), (1,), 0)
    parts = view.chunk(2)
    return torch.cat([view, parts[1]]), view, parts[0]


@pytest.mark.parametrize("compiler", [nop, torch.compiler.compile_graph])
@pytest.mark.parametrize(
    "function",
    [
        shrink_base,
        write_view_and_shrink,
        shrink_base_and_use_view,
        write_shrink_and_use_view,
        parts_after_a_loss,
    ],
)
def test_views_of_a_base_that_loses_elements_have_its_gradient(function, compiler):
    seen = []
    for run in (function, aot_function(function, compiler)):
        x = leaf(4)
        base = x * 1
        results = run(base, base[::2])
        results = results if isinstance(results, tuple) else (results,)
        sum([result.sum() * 3 for result in results]).backward()
        seen.append(x.grad.tolist())
    assert seen[0] == seen[1]
    assert seen[0][2:] == [0, 0]


LEAF_MOVES = {
    "unsqueeze_": ((2, 3), lambda a: a.unsqueeze_(0)),
    "squeeze_": ((1, 6), lambda a: a.squeeze_()),
    "t_": ((2, 3), lambda a: a.t_()),
    "as_strided_": ((6,), lambda a: a.as_strided_((2,), (2,), 1)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", LEAF_MOVES)
def test_a_leaf_moved_without_grad_mode_has_a_gradient_of_its_new_sizes(name, dynamic):
    shape, move = LEAF_MOVES[name]

    def f(a):
        with torch.no_grad():
            move(a)
        return a * a

    seen = []
    for function in (f, aot_function(f, nop, dynamic=dynamic)):
        x = leaf(*shape)
        function(x).sum().backward()
        seen.append((x.tolist(), x.stride(), x.grad.tolist()))
    assert seen[0] == seen[1]
    assert len(seen[0][1]) == torch.tensor(seen[0][2]).dim()


def test_a_write_through_a_window_of_an_argument_moved_past_its_start():
    def f(a):
        window = a.as_strided_((2,), (2,), 1).unfold(0, 2, 1)
        window[0] = 4
        return window

    x = torch.arange(4.0)
    memory = x.detach()
    assert aot_function(f, nop)(x).tolist() == [[4, 4]]
    assert memory.tolist() == [0, 4, 2, 4] and x.stride() == (2,)


LOSSES = {
    "elements": lambda a: a.as_strided_((2,), (1,), 0),
    "elements, then written": lambda a: a.as_strided_((2,), (1,), 0).mul_(3),
    "elements twice": lambda a: a.as_strided_((2, 2), (1, 1), 0),
    "elements, then moved": lambda a: a.as_strided_((2,), (1,), 0).unsqueeze_(0).t_(),
}


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
@pytest.mark.parametrize("name", LOSSES)
def test_views_of_a_written_argument_that_loses_elements_have_its_gradient(name, partition):
    def f(a):
        a.mul_(2)
        view = a.view(2, 2)
        LOSSES[name](a)
        return view.sin()

    seen = []
    for function in (f, aot_function(f, nop, partition_fn=partition)):
        x = leaf(4)
        value = x * 1
        view = value[1:]
        made = function(value)
        (made.sum() + (value * value).sum() + view.sum()).backward()
        seen.append((made.tolist(), value.tolist(), view.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("later", ["masked_fill_", "sin", "t"])
def test_a_view_that_an_out_argument_made_smaller_has_the_history_of_its_sizes(later):
    def f(a):
        made = a.new_ones(2, 2)
        row = made.view(4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.add(a.detach(), a.detach(), out=row)
        made.copy_(a[2] * 2)
        if later == "masked_fill_":
            row.masked_fill_(row > 100, 1)
        return getattr(row, later)() if later != "masked_fill_" else made

    seen = []
    for function in (f, aot_function(f, nop)):
        x = leaf(3)
        found = function(x * 1)
        found.sum().backward()
        seen.append((found.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


def set_to_argument(a):
    made = a * 2
    with torch.no_grad():
        made.set_(a)
    return made


REFUSED = {
    "RL0741": lambda a: a.resize_(9),
    "RL0626": lambda a: a.detach_(),
    "RL0627": lambda a: a.detach().add_(a),
    "RL0629": lambda a: without_gradients(lambda: a.mul_(2), lambda: a.as_strided_((1,), (1,), 0)),
    "RL0632": lambda a: moved_after_a_view(a * 2),
    "RL0627 set_": set_to_argument,
    "RL0611": lambda a: a.view(1, 4).set_(a * 2),
    "RL0611 argument": lambda a: a.set_(a.new_ones(2).detach()),
    "RL0611 inside": lambda a: (a * 2).set_(a.new_ones(2).detach()),
    "RL0611 source": lambda a: a.new_ones(2).detach().set_(a * 2),
}


def without_gradients(first, second):
    """The second of two without grad mode."""
    first()
    with torch.no_grad():
        return second()


def moved_after_a_view(made):
    rows = made.view(2, 2)
    made.unsqueeze_(0)
    return rows, made[:, 1:]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_is_refused(name):
    code = name.split()[0]
    argument = leaf(4) * 1 if code != "RL0741" else torch.ones(4)
    with pytest.raises(RuntimeError) as caught:
        aot_function(REFUSED[name], nop, keep_inference_input_mutations=True)(argument)
    assert caught.value.code == code
