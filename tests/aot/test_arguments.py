"""Arguments that are one tensor, overlap, or change under the compiled function's hands."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.arguments import overlap
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.core.fake import FakeTensorMode

PARTITIONS = [default_partition, min_cut_rematerialization_partition]


def agree(function, make, **options):
    """Compiled and eager: results, what the arguments become, gradients."""
    found = []
    for run in (function, aot_function(function, nop, **options)):
        leaves, args = make()
        results = run(*args)
        tensors = results if isinstance(results, (tuple, list)) else [results]
        needing = [t for t in (*tensors, *args) if t.requires_grad]
        if needing:
            sum([(t * t).sum() for t in needing]).backward()
        found.append(
            {
                "results": [(t.tolist(), t.shape, t.stride(), t.requires_grad) for t in tensors],
                "args": [(t.tolist(), t.stride()) for t in args],
                "same": [[t is a for a in args] for t in tensors],
                "grads": [None if leaf.grad is None else leaf.grad.tolist() for leaf in leaves],
            }
        )
    assert found[1] == found[0]


def rows(needs, *picks):
    def make():
        leaf = torch.arange(8.0).view(4, 2).requires_grad_(needs)
        base = leaf * 1
        return [leaf], [pick(base) for pick in picks]

    return make


OVERLAPS = {
    "the same row": (lambda b: b[0], lambda b: b[0]),
    "a row and all": (lambda b: b[0], lambda b: b),
    "two shapes": (lambda b: b[1:3], lambda b: b.view(-1)),
    "columns that cross rows": (lambda b: b[:, 0], lambda b: b[2]),
    "disjoint rows": (lambda b: b[0:2], lambda b: b[2:4]),
    "disjoint columns": (lambda b: b[:, 0], lambda b: b[:, 1]),
}


@pytest.mark.parametrize("needs", [False, True])
@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_write_to_one_argument_is_seen_through_the_other(needs, name, partition):
    def f(a, b):
        a.mul_(3)
        return b * 2 + a.sum()

    agree(f, rows(needs, *OVERLAPS[name]), partition_fn=partition)


@pytest.mark.parametrize("needs", [False, True])
def test_views_without_a_common_base_are_merged_by_their_memory(needs):
    def make():
        with torch.no_grad():
            base = torch.arange(4.0)
            views = [base.view(2, 2), base[1:3]]
        other = torch.ones(2, requires_grad=needs)
        return [other], [*views, other]

    agree(lambda a, b, c: (a.mul_(2), b * c)[1], make)


def test_a_member_that_is_returned_is_the_callers_object():
    agree(lambda a, b: (a.add_(1), b)[1], rows(False, lambda b: b[0], lambda b: b))


def test_geometry_of_an_aliased_argument_may_change_too():
    agree(
        lambda a, b: (a.mul_(2), b.t_(), a + 1)[2],
        rows(False, lambda b: b[0:2], lambda b: b[1:3]),
    )


def test_overlap_is_exact():
    x = torch.zeros(12)
    a, b = x.as_strided((3,), (4,), 0), x.as_strided((3,), (4,), 2)
    assert not overlap(a, b)
    assert overlap(a, x.as_strided((5,), (2,), 0))
    assert not overlap(x[:0], x)
    big = torch.zeros(1).expand(1000, 1000, 1000)
    assert overlap(big, big)


def test_overlapping_leaves_that_need_gradients_are_refused():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="autograd knows no tensor"):
        aot_function(lambda a, b: (b.mul_(2), a * 2)[1], nop)(x, x.detach())


def test_duplicates_that_are_written_become_one_argument():
    def f(x, y):
        x.t_()
        y.unsqueeze_(0)
        return x + y

    compiled = aot_function(f, nop)
    ours, theirs = torch.ones(2, 3), torch.ones(2, 3)
    assert compiled(ours, ours).shape == f(theirs, theirs).shape
    assert ours.shape == theirs.shape
    with pytest.raises(AssertionError, match="input 1 would be a duplicate of input 0"):
        compiled(torch.ones(2, 3), torch.ones(2, 3))


def test_duplicates_that_are_only_read_stay_apart():
    def make():
        x = torch.ones(3, requires_grad=True)
        return [x], [x, x]

    agree(lambda a, b: a * b + a, make)


# -- writes and what the backward needs ------------------------------------------------------------


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_the_backward_never_sees_a_written_input(partition, keep):
    def quiet(x):
        y = x.sigmoid()
        with torch.no_grad():
            x.mul_(2)
        return y

    for f in (quiet, lambda x: x.mul_(2).sin(), lambda x: (x.mul_(2), x.exp())[1]):
        agree(
            f,
            rows(True, lambda b: b),
            partition_fn=partition,
            keep_inference_input_mutations=keep,
        )


class WritesInBackward(torch.autograd.Function):
    """Scales; its backward does something to what was saved or to the gradient."""

    act = staticmethod(lambda grad, saved: saved.zero_())

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        with torch.no_grad():
            WritesInBackward.act(grad, ctx.saved_tensors[0])
        return grad * 2, None


@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_write_of_the_backward_reaches_the_input(partition):
    compiled = aot_function(WritesInBackward.apply, nop, partition_fn=partition)
    for _ in range(3):
        x, y = torch.ones(2, requires_grad=True), torch.ones(2)
        result = compiled(x, y)
        assert y.tolist() == [1.0, 1.0]
        result.sum().backward()
        assert (x.grad.tolist(), y.tolist()) == ([2.0, 2.0], [0.0, 0.0])


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda grad, saved: grad.mul_(2), "mutated during the backward"),
        (lambda grad, saved: saved.transpose_(0, 1), "metadata mutated in the backward"),
    ],
)
def test_other_writes_of_a_backward_are_refused(act, words, monkeypatch):
    monkeypatch.setattr(WritesInBackward, "act", staticmethod(act))
    with pytest.raises(AssertionError, match=words):
        aot_function(WritesInBackward.apply, nop)(
            torch.ones(2, 2, requires_grad=True), torch.ones(2, 2)
        )


def test_a_backward_that_writes_an_input_the_forward_writes_is_refused():
    def f(x, y):
        y.add_(1)
        return WritesInBackward.apply(x, y)

    with pytest.raises(RuntimeError, match="by the forward and by the backward"):
        aot_function(f, nop)(torch.ones(2, requires_grad=True), torch.ones(2))


# -- moved inputs, views of several, memory --------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.t_(), x.view(x.shape))[1],
        lambda x: (x.t_(), x[0].mul_(2), x[1])[2],
        lambda x: (p := x[0], x.t_(), p.mul_(3), x * 1)[3],
        lambda x: (x.t_(), x[1], x.t_())[1],
        lambda x: (x.unsqueeze_(0), x.transpose_(0, 2), x[0])[2],
    ],
)
def test_views_of_an_input_that_moves(f):
    agree(f, lambda: ([], [torch.arange(6.0).view(2, 3)]))


def test_views_of_one_op_refuse_writes_as_in_eager():
    x = torch.ones(3, 2, requires_grad=True) * 1
    first = aot_function(lambda x: x.unbind(0), nop)(x)[0]
    with pytest.raises(RuntimeError, match="Such functions do not allow the output views"):
        first.mul_(2)


def test_set_gives_an_input_other_memory():
    def f(a, b):
        c = b * 2
        with torch.no_grad():
            a.set_(c)
        return a + 1

    compiled = aot_function(f, nop, keep_inference_input_mutations=True)
    for _ in range(3):
        a, b = torch.zeros(3), torch.ones(3)
        assert compiled(a, b).tolist() == [3.0] * 3
        assert a.tolist() == [2.0] * 3
    with pytest.raises(AssertionError, match="other mutations that we cannot"):
        aot_function(f, nop)(torch.zeros(3), torch.ones(3))


def test_what_set_leaves_behind_takes_no_writes():
    def f(a, b):
        old = a.view(-1)
        with torch.no_grad():
            a.set_(b)
            old.mul_(2)
        return a + 1

    with pytest.raises(RuntimeError, match="frozen storage"):
        aot_function(f, nop, keep_inference_input_mutations=True)(torch.zeros(3), torch.ones(3))


def test_memory_is_given_up_at_the_end_and_asked_for_at_once():
    resize = torch.ops.inductor.resize_storage_bytes_

    def down(x):
        y = x.sin()
        resize(x, 0)
        return y

    def up(x):
        resize(x, 12)
        with torch.no_grad():
            x.copy_(torch.ones(3))
        return x + 1

    x = torch.ones(3)
    assert aot_function(down, nop, keep_inference_input_mutations=True)(x).shape == (3,)
    assert x.untyped_storage().nbytes() == 0
    compiled = aot_function(up, nop, keep_inference_input_mutations=True)
    assert compiled(x).tolist() == [2.0] * 3
    assert x.tolist() == [1.0] * 3


def test_numbers_and_index_lists_are_written_into_traced_tensors():
    def f(x):
        y = x.clone()
        y[:, 0] = 0
        y[y > 2] = 7.5
        y[[0, 1], [1, 2]] = -1
        return y

    agree(f, lambda: ([], [torch.arange(6.0).view(2, 3)]))


def test_sizes_among_results_are_tuples_of_numbers():
    compiled = aot_function(lambda x: (x * 2, x.shape), nop, dynamic=True)
    for n in (3, 4):
        value, sizes = compiled(torch.ones(n, 5))
        assert (value.shape, sizes, type(sizes)) == ((n, 5), (n, 5), tuple)


def test_a_fake_tensor_in_the_function_is_refused():
    mode = FakeTensorMode()
    stray = mode.from_tensor(torch.ones(3))
    with pytest.raises(AssertionError, match="Unexpected fake"):
        aot_function(lambda x: x + stray, nop)(mode.from_tensor(torch.ones(3)))


def test_writes_beside_arguments_that_overlap_are_kept():
    def f(a, b, c):
        b.mul_(2)
        with torch.no_grad():
            a.fill_(7)
        return c + 1

    for keep in (False, True):
        base = torch.arange(6.0).view(2, 3).requires_grad_() * 1
        function = aot_function(f, nop, keep_inference_input_mutations=keep)
        assert function(base[:, 2], base[:, 0], base[1, 0]).tolist() == 7
        assert base.tolist() == [[0, 1, 7], [6, 4, 7]]


def test_a_leaf_written_out_of_sight_and_transposed():
    def f(a):
        with torch.no_grad():
            a.mul_(1.5)
        hidden = a.detach()
        with torch.no_grad():
            a.transpose_(0, 1)
        hidden.mul_(2.0)
        return a

    weights = torch.arange(6.0).view(3, 2)
    seen = []
    for function in (f, aot_function(f, nop)):
        a = torch.ones(2, 3, requires_grad=True)
        result = function(a)
        (result * weights).sum().backward()
        seen.append((result is a, a.tolist(), a.grad.tolist()))
        assert a._version > 0
    assert seen[0] == seen[1] == (True, [[3.0, 3.0]] * 3, weights.tolist())


def test_a_saved_argument_is_given_another_geometry():
    def f(a):
        first, second = a.t(), a.unsqueeze(2)
        a.t_()
        return second * first

    seen = []
    compiled = [
        aot_function(f, nop, dynamic=is_dynamic, partition_fn=partition)
        for partition in PARTITIONS
        for is_dynamic in (False, True)
    ]
    for function in (f, *compiled):
        x = torch.arange(1.0, 5.0).view(1, 4).requires_grad_()
        a = x * 1
        result = function(a)
        result.pow(2).sum().backward()
        seen.append((a.shape, result.tolist(), x.grad.tolist()))
    assert all(one == seen[0] for one in seen)


def test_views_of_a_base_that_is_made_smaller():
    def f(a, b):
        alias = torch.ops.aten.alias(b.copy_(a.select(0, 0)))
        a.as_strided_((2,), (2,), 1)
        return alias

    seen = []
    for function in (f, aot_function(f, nop)):
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        a = x * 2
        result = function(a, a.select(0, 2))
        (result * 5 + a.sum()).backward()
        seen.append((result.item(), a.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1] == (2.0, [4.0, 8.0], [0.0, 2.0, 0.0, 2.0])
