"""Histories of what compiled functions give back, and backwards that do more than give gradients:
as they are eagerly."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from tests.aot.programs import functions, pair_class


def leaf(*shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64).view(shape) * 1).requires_grad_()


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


def test_data_beside_a_view_of_its_tensor_takes_no_history_away():
    def f(a):
        made = a.clone()
        return made.unsqueeze(1), made.data

    x = leaf(2, 2)
    view, data = aot_function(f, nop)(x * 1)
    assert not data.requires_grad
    view.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]


def test_a_part_of_one_of_two_equal_results_has_memory_of_its_own():
    def f(a):
        whole = a.sin()
        return a.sin().chunk(2)[0], whole

    options = {"partition_fn": min_cut_rematerialization_partition}
    part, whole = aot_function(f, nop, **options)(leaf(4) * 1)
    assert part.untyped_storage() is not whole.untyped_storage()


@pytest.mark.parametrize("name", ["mul_", "fill_"])
def test_a_written_argument_that_starts_a_gradient_beside_one_that_has_one(name):
    def f(a, b):
        a.mul_(2) if name == "mul_" else a.fill_(2)
        return a.requires_grad_()

    x = torch.ones(2)
    found = aot_function(f, nop)(x, leaf(4) * 1)
    assert found is x and found.tolist() == [2, 2]


class Row(torch.autograd.Function):
    """A view."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, grad):
        return grad.reshape(())


@pytest.mark.parametrize("compiler", [nop, torch.compiler.compile_graph])
def test_an_output_that_was_saved_is_valid_after_its_argument_moved(compiler):
    def f(a, b):
        a.unsqueeze_(0)
        row = Row.apply(b)
        return row * a, row

    seen = []
    for function in (f, aot_function(f, compiler)):
        x = (torch.ones((), dtype=torch.float64) * 3).requires_grad_()
        value = x * 1
        first, second = function(value, value.view(()))
        (first.sum() + second.sum()).backward()
        seen.append((first.tolist(), value.shape, x.grad.tolist()))
    assert seen[0] == seen[1]


def test_the_geometry_of_what_lost_elements_and_was_written_may_change_again():
    def f(a):
        a.as_strided_((2,), (1,), 0).zero_().transpose_(0, 0)
        return a

    seen = []
    for function in (f, aot_function(f, nop)):
        x = leaf(4)
        value = x * 1
        function(value).sum().backward()
        seen.append((value.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


def test_set_of_a_view_with_a_history_is_refused():
    def f(a, b):
        return b.set_(a * 2)

    value = leaf(2, 3) * 1
    with pytest.raises(RuntimeError) as caught:
        aot_function(f, nop, keep_inference_input_mutations=True)(leaf(2), value.diagonal())
    assert caught.value.code == "RL0611"


def test_a_part_of_a_wrapper_taken_without_grad_mode_has_no_gradient():
    Pair = pair_class(torch)

    def part_without_grad_mode(a):
        made = a.clone()
        with torch.no_grad():
            part = made.chunk(2)[1]
        return made, part.unsqueeze(0)

    seen = []
    for function in (part_without_grad_mode, aot_function(part_without_grad_mode, nop)):
        argument = Pair(torch.ones(2, 3), torch.ones(2, 3)).requires_grad_()
        made, part = function(argument)
        (made.sum() + part.sum() * 3).backward()
        seen.append((argument.grad.a.tolist(), argument.grad.b.tolist()))
    assert seen[0] == seen[1]


def test_a_wrapper_set_to_memory_of_an_argument_is_refused():
    Pair = pair_class(torch)

    def f(a):
        made = a * 2
        return made.set_(a)

    with pytest.raises(RuntimeError) as caught:
        aot_function(f, nop)(Pair(torch.ones(2), torch.ones(2)))
    assert caught.value.code == "RL0761"


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
def test_equal_parts_beside_a_repeated_one_are_several(partition):
    def f(a):
        first, second = a.chunk(2)[1], a.chunk(2)[1]
        return first, second, second

    first, second, third = aot_function(f, nop, partition_fn=partition)(leaf(4) * 1)
    assert first is not second and second is third


@pytest.mark.parametrize("compiler", [nop, torch.compiler.compile_graph])
def test_what_was_set_to_a_repeated_output_keeps_its_own_history(compiler):
    def f(a):
        made = a.sin()
        product = made * a
        with torch.no_grad():
            product.set_(made)
        return product, made, made

    seen = []
    for function in (f, aot_function(f, compiler)):
        x = leaf(3)
        product, made, same = function(x)
        assert made is same and product is not made and not made._is_view()
        (product.sum() + made.sum() * 2).backward()
        seen.append((product.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1]


def test_a_write_outside_of_what_a_view_was_taken_of_is_refused():
    def f(a):
        return a.resize_(2).as_strided_((2,), (1,), 2).mul_(2)

    x = torch.ones(4)
    assert f(x).tolist() == [2, 2]
    with pytest.raises(RuntimeError) as caught:
        aot_function(f, nop)(torch.ones(4))
    assert caught.value.code == "RL0762"


def test_backwards_of_functions_whose_gradients_go_nowhere_run():
    def f(x):
        with torch.no_grad():
            view = x.select(1, 0)
        # A view without a history requires a gradient as its base does, and hands none on.
        return functions(torch).WritesSaved.apply(view.unsqueeze(0))

    def run(function):
        base = torch.arange(4.0).view(2, 2).requires_grad_() * 1
        function(base).sum().backward()
        return base.tolist()

    assert run(f) == [[0.0, 1.0], [4.0, 3.0]]
    assert run(aot_function(f, nop)) == run(f)


def test_a_view_of_an_argument_that_moves_without_grad_mode_is_refused():
    def f(view, base):
        with torch.no_grad():
            base.t_()
        return view * 3

    def arguments():
        base = leaf(2, 2) * 1
        return base.select(1, 0), base

    with pytest.raises(RuntimeError) as caught:
        aot_function(f, nop)(*arguments())
    assert caught.value.code == "RL0631"
    view, base = arguments()
    # A view without a history has no part in it.
    assert aot_function(f, nop)(view.detach(), base).tolist() == [0, 6]
    assert base.tolist() == [[0, 2], [1, 3]]
