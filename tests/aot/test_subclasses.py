"""Wrapper subclasses through compiled functions: graphs hold their parts, callers see wholes."""

import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from rushlight.base import pytree
from rushlight.core.modes import return_and_correct_aliasing
from tests.aot.programs import pair_class


class Pair(torch.Tensor):
    """Every op runs on both parts."""

    @staticmethod
    def __new__(cls, a, b, note="n"):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.shape, strides=a.stride(), dtype=a.dtype, requires_grad=a.requires_grad
        )

    def __init__(self, a, b, note="n"):
        self.a, self.b, self.note = a, b, note

    def __tensor_flatten__(self):
        return ["a", "b"], self.note

    @staticmethod
    def __tensor_unflatten__(parts, note, size, stride):
        return Pair(parts["a"], parts["b"], note)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        runs = []
        for name in ("a", "b"):
            part = pytree.tree_map(
                lambda v, name=name: getattr(v, name) if isinstance(v, Pair) else v, (args, kwargs)
            )
            runs.append(func(*part[0], **part[1]))
        first, structure = pytree.tree_flatten(runs[0])
        second = pytree.tree_leaves(runs[1])
        made = [
            Pair(x, y) if isinstance(x, torch.Tensor) else x
            for x, y in zip(first, second, strict=True)
        ]
        out = pytree.tree_unflatten(made, structure)
        return return_and_correct_aliasing(func, args, kwargs, out)


def pair(*values, needs=False):
    made = Pair(torch.tensor(values), torch.tensor(values) * 10)
    return made.requires_grad_() if needs else made


def parts(value):
    if isinstance(value, Pair):
        return (parts(value.a), parts(value.b))
    return value.tolist() if isinstance(value, torch.Tensor) else value


def test_graphs_hold_plain_tensors():
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        assert all(
            type(node.meta["val"]) is not Pair
            for node in graph.graph.nodes
            if node.op == "placeholder"
        )
        return graph

    x, y = pair(1.0, 2.0, needs=True), torch.tensor([3.0, 4.0], requires_grad=True)
    result = aot_function(lambda x, y: x * y, keep)(x, y)
    result.sum().backward()
    assert parts(result) == ([3.0, 8.0], [30.0, 80.0])
    assert parts(x.grad) == ([3.0, 4.0], [3.0, 4.0])
    # A plain tensor that met a wrapper gets a wrapper as its gradient.
    assert parts(y.grad) == ([1.0, 2.0], [10.0, 20.0])
    assert len([n for n in graphs[0].graph.nodes if n.op == "placeholder"]) == 3


@pytest.mark.parametrize("partition", [default_partition, min_cut_rematerialization_partition])
@pytest.mark.parametrize("needs", [False, True])
def test_values_writes_and_attributes(partition, needs):
    def f(x, y):
        x.mul_(2)
        return x.a.sin() + y, x + 1, x.note

    found = []
    for run in (f, aot_function(f, nop, partition_fn=partition)):
        leaf = pair(1.0, 2.0, needs=needs)
        x, y = leaf * 1, torch.ones(2)
        first, second, note = run(x, y)
        if needs:
            (second + x).sum().backward()
        grad = None if leaf.grad is None else parts(leaf.grad)
        found.append((parts(first), parts(second), note, parts(x), grad))
    assert found[0] == found[1]


def test_a_wrapper_that_nobody_uses_has_no_gradient_of_its_class():
    def f(x, y):
        x.mul_(2)
        return x + y, y * 3

    leaf, y = pair(1.0, 2.0, needs=True), torch.ones(2, requires_grad=True)
    x = leaf * 1
    result, _ = aot_function(f, nop)(x, y)
    with pytest.raises(AssertionError, match="let the loss depend on it"):
        result.sum().backward(retain_graph=True)
    # Of plain tensors that are not used, the gradient is zero.
    (result + x).sum().backward()
    assert parts(leaf.grad) == ([4.0, 4.0], [4.0, 4.0])


def test_a_wrapper_that_is_given_back_twice_has_one_gradient():
    x = pair(1.0, 2.0, needs=True)
    first, second = aot_function(lambda x: [x * 3] * 2, nop)(x)
    assert first is second
    first.sum().backward()
    assert parts(x.grad) == ([3.0, 3.0], [3.0, 3.0])


def test_views_of_a_wrapper_are_views_again():
    x = pair(1.0, 2.0)
    view = aot_function(lambda x: x.view(2, 1), nop)(x)
    assert type(view) is Pair
    view.mul_(5)
    assert parts(x) == ([5.0, 10.0], [50.0, 100.0])


def test_nested_wrappers():
    def make():
        inner = [Pair(torch.ones(2) * k, torch.ones(2) * (k + 1)) for k in (1, 3)]
        return Pair(*inner).requires_grad_()

    ours, theirs = make(), make()
    f = lambda x: (x * x).sin()  # noqa: E731
    aot_function(f, nop)(ours).sum().backward()
    f(theirs).sum().backward()
    assert parts(ours.grad) == parts(theirs.grad)


def test_gradients_of_another_make_are_refused():
    x = pair(1.0, 2.0, needs=True)
    result = aot_function(lambda x: x * 2, nop)(x)
    with pytest.raises(AssertionError, match="incorrect subclass metadata"):
        torch.autograd.grad(result, x, torch.ones(2))
    nested = Pair(pair(1.0, 1.0), pair(1.0, 1.0))
    with pytest.raises(RuntimeError, match="same tensor subclass type"):
        torch.autograd.grad(aot_function(lambda x: x * 2, nop)(x), x, nested)


@pytest.mark.parametrize(
    ("f", "make", "words"),
    [
        (lambda x: x.t_(), lambda: [pair(1.0, 2.0).view(2, 1)], "Metadata mutations"),
        (
            lambda x, y: (x.mul_(2), y + 1)[1],
            lambda: [x := pair(1.0, 2.0), x.view(2, 1)],
            "aliased",
        ),
        (lambda x, y: (x.mul_(2), y + 1)[1], lambda: [x := pair(1.0, 2.0), x], "duplicated"),
    ],
)
def test_what_wrappers_cannot_do_is_refused(f, make, words):
    with pytest.raises(RuntimeError, match=words):
        aot_function(f, nop)(*make())


def test_sizes_of_wrappers_are_symbols_like_those_of_their_parts():
    seen = []

    def keep(graph, examples):
        seen.append([str(value.shape[0]) for value in examples if isinstance(value, torch.Tensor)])
        return graph

    f = aot_function(lambda x, y: x * 2 + y, keep, dynamic=True)
    for count in (3, 5):
        numbers = [float(i) for i in range(count)]
        result = f(pair(*numbers), torch.ones(count))
        assert parts(result)[0] == [2 * n + 1 for n in numbers]
    assert seen == [["s0", "s0", "s0"]]


def test_a_wrapper_returned_twice_has_one_gradient():
    x = pair(1.0, 2.0, needs=True)

    def f(a):
        made = a * 2
        return made, made

    first, second = aot_function(f, nop)(x)
    assert first is second
    first.sum().backward()
    assert parts(x.grad) == ([2, 2], [2, 2])


def test_a_view_of_a_wrapper_that_is_set_to_other_memory_is_no_view_of_it():
    def f(a):
        part = a[:1]
        return part.set_(part * 2)

    x = pair(1.0, 2.0)
    assert parts(aot_function(f, nop)(x)) == ([2], [20])
    assert parts(x) == ([1, 2], [10, 20])


def test_a_wrapper_that_is_detached_in_place_is_refused():
    with pytest.raises(RuntimeError) as caught:
        aot_function(lambda a, b: a.detach_().add_(b), nop)(
            pair(1.0, needs=True), pair(2.0, needs=True)
        )
    assert caught.value.code == "RL0626"


VIEWS_OF_PARTS = {
    "complex": lambda x: torch.view_as_complex(x),
    "conj": lambda x: torch.view_as_complex(x).conj(),
    "second column": lambda x: torch.view_as_complex(x)[1:].imag,
    "bits": lambda x: x.view(torch.int64)[1:],
}


@pytest.mark.parametrize("name", VIEWS_OF_PARTS)
@pytest.mark.parametrize("needs", [False, True])
def test_views_of_wrappers_with_elements_of_another_dtype(name, needs):
    Pair, seen = pair_class(torch), []
    for function in (VIEWS_OF_PARTS[name], aot_function(VIEWS_OF_PARTS[name], nop)):
        part = torch.arange(8.0, dtype=torch.float64).view(4, 2)
        argument = Pair(part, part * 10).requires_grad_(needs)
        found = function(argument * 1)
        parts = [each.resolve_conj().resolve_neg().tolist() for each in (found.a, found.b)]
        grad = None
        if found.requires_grad and name != "conj":
            total = found.sum()
            (total.real if total.is_complex() else total).backward()
            grad = argument.grad.a.tolist(), argument.grad.b.tolist()
        seen.append((found.shape, found.dtype, parts, grad))
    assert seen[0] == seen[1]
