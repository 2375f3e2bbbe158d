"""Backward programs: the short way gives the engine's gradients, and steps aside when it must."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import programs as programs_module
from rushlight.autograd.programs import PATIENCE, Program, forget_graphs


@pytest.fixture(autouse=True)
def fresh_start():
    forget_graphs()
    yield
    forget_graphs()


def values(*shape: int, start: float = 0.1) -> torch.Tensor:
    count = int(np.prod(shape))
    return ((torch.arange(count) * 0.37 + start).sin() * 0.5).reshape(shape)


def programs() -> list[Program]:
    return [entry for entry in programs_module.GRAPHS.values() if isinstance(entry, Program)]


def parameters() -> list[torch.Tensor]:
    shapes = ((5, 4), (5,), (3, 5), (3,))
    return [values(*shape, start=i).requires_grad_() for i, shape in enumerate(shapes)]


def loss_of(x: torch.Tensor, p: list[torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
    hidden = torch.relu(F.linear(x, p[0], p[1]))
    return F.cross_entropy(F.linear(hidden, p[2], p[3]), labels)


def engine_gradients(loss: torch.Tensor, p: list[torch.Tensor]) -> list[torch.Tensor]:
    """By `autograd.grad`, which always takes the general engine."""
    return list(torch.autograd.grad(loss, p, retain_graph=True))


def test_a_repeated_graph_becomes_a_program_with_the_engines_gradients():
    x, p, labels = values(6, 4), parameters(), torch.arange(6) % 3
    for step in range(12):
        loss = loss_of(x, p, labels)
        expected = engine_gradients(loss, p)
        for leaf in p:
            leaf.grad = None
        loss.backward()
        for leaf, grad in zip(p, expected, strict=True):
            assert torch.equal(leaf.grad, grad)
            assert leaf.grad.stride() == leaf.stride()
        with torch.no_grad():
            for leaf in p:
                leaf -= 0.1 * leaf.grad
        assert bool(programs()) == (step >= PATIENCE)
    assert ".T" in programs()[0].source


def test_a_program_accumulates_into_existing_gradients():
    a, b = values(4).requires_grad_(), values(4, start=2.0).requires_grad_()
    for _ in range(10):
        (a * b + a).sum().backward()
    assert programs()
    assert torch.allclose(a.grad, 10 * (b.detach() + 1))
    assert torch.allclose(b.grad, 10 * a.detach())


def test_gradients_are_memory_of_their_own():
    a, b = values(4).requires_grad_(), values(4, start=2.0).requires_grad_()
    for _ in range(10):
        a.grad = b.grad = None
        (a + b).sum().backward()
        a.grad.mul_(7)
        assert b.grad.tolist() == [1.0] * 4


def test_other_shapes_and_constants_get_programs_of_their_own():
    for size in (2, 3):
        for factor in (2.0, 5.0):
            a = values(size).requires_grad_()
            for _ in range(8):
                a.grad = None
                (a * factor).sum().backward()
                assert a.grad.tolist() == [factor] * size
    assert len(programs()) == 4


def test_graphs_are_freed_and_say_so():
    a = values(3).requires_grad_()
    for _ in range(8):
        out = (a * a).sum()
        out.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            out.backward()
    kept = (a * a).sum()
    kept.backward(retain_graph=True)
    kept.backward()


def test_a_modified_saved_tensor_is_still_found():
    a = values(3).requires_grad_()
    for _ in range(8):
        b = a * 2
        out = (b * b).sum()
        b.detach().zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


def test_hooks_take_the_general_engine():
    a = values(3).requires_grad_()
    for _ in range(8):
        a.grad = None
        (a * a).sum().backward()
    seen = []
    handle = a.register_hook(lambda grad: seen.append(grad.clone()))
    a.grad = None
    (a * a).sum().backward()
    assert len(seen) == 1
    handle.remove()
    node_seen = []
    out = (a * a).sum()
    out.grad_fn.register_hook(lambda *grads: node_seen.append(grads))
    out.backward()
    assert len(node_seen) == 1


def test_modes_see_every_backward_op():
    from rushlight.core.modes import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            return func(*args, **(kwargs or {}))

    a = values(3).requires_grad_()
    for _ in range(8):
        a.grad = None
        a.sin().sum().backward()
    out = a.sin().sum()
    a.grad = None
    with Log() as log:
        out.backward()
    assert "cos.default" in log.names


def test_custom_functions_and_views_are_left_to_the_engine():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    a = values(4).requires_grad_()
    for _ in range(8):
        a.grad = None
        base = a * 1.0
        base[:2].mul_(3)
        (Double.apply(base)).sum().backward()
        assert a.grad.tolist() == [6.0, 6.0, 2.0, 2.0]
    assert not programs()


def test_signatures_keep_no_tensor_alive():
    import gc
    import weakref

    def run():
        a = values(4).requires_grad_()
        index = torch.tensor([0, 2])
        base = a * 1.0
        out = base.index_put((index,), values(2), accumulate=True)
        out.sum().backward()
        return weakref.ref(index), weakref.ref(a)

    refs = [ref for _ in range(6) for ref in run()]
    gc.collect()
    assert all(ref() is None for ref in refs)


def test_operands_that_happened_to_be_one_are_not_taken_for_one():
    x = values(4).requires_grad_()
    first, second = values(4, start=5.0), values(4, start=9.0)

    def gradient(one, other):
        x.grad = None
        (x * one + x.sin() * other).sum().backward()
        return x.grad

    for _ in range(10):
        gradient(first, first)
    assert programs()
    for _ in range(10):
        expected = first + x.detach().cos() * second
        assert torch.allclose(gradient(first, second), expected)
        assert torch.allclose(gradient(first, first), first + x.detach().cos() * first)


UNARY = ("sin", "cos", "exp", "tanh", "sigmoid", "relu", "neg", "square", "abs", "t", "contiguous")
BINARY = ("add", "sub", "mul", "maximum", "mm", "div")


def random_program(rng: np.random.Generator, leaves: list[torch.Tensor]) -> list[tuple]:
    """Steps (op, operand numbers) over leaves, constants and earlier results."""
    steps = []
    count = len(leaves) + 2
    for _ in range(int(rng.integers(3, 12))):
        if rng.random() < 0.5:
            steps.append((str(rng.choice(UNARY)), (int(rng.integers(count)),)))
        else:
            pair = (int(rng.integers(count)), int(rng.integers(count)))
            steps.append((str(rng.choice(BINARY)), pair))
        count += 1
    return steps


def run_steps(steps: list[tuple], operands: list[torch.Tensor]) -> torch.Tensor:
    values_ = list(operands)
    for name, numbers in steps:
        args = [values_[number] for number in numbers]
        if name == "div":
            result = args[0] / (args[1].square() + 1.0)
        else:
            result = getattr(args[0], name)(*args[1:])
        values_.append(result * 0.5)
    return sum(value.mean() for value in values_[len(operands) :])


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_agree_with_the_engine(seed):
    rng = np.random.default_rng(seed)
    leaves = [torch.tensor(rng.standard_normal((3, 3))).requires_grad_() for _ in range(3)]
    steps = random_program(rng, leaves)
    for _ in range(PATIENCE + 4):
        with torch.no_grad():
            for leaf in leaves:
                leaf.copy_(torch.tensor(rng.standard_normal((3, 3))))
        shared = torch.tensor(rng.standard_normal((3, 3)))
        constants = [shared, shared if rng.random() < 0.5 else shared * 2]
        out = run_steps(steps, [*leaves, *constants])
        if not out.requires_grad:
            return
        expected = torch.autograd.grad(out, leaves, retain_graph=True, allow_unused=True)
        for leaf in leaves:
            leaf.grad = None
        out.backward()
        for leaf, grad in zip(leaves, expected, strict=True):
            if grad is None:
                assert leaf.grad is None
            else:
                assert torch.equal(leaf.grad, grad)
                assert leaf.grad.stride() == leaf.stride()


def test_graphs_that_take_turns_are_told_apart():
    a = values(3).requires_grad_()
    b = values(3, start=4.0).requires_grad_()
    graphs = [
        (lambda: (a * b).sum(), lambda: b.detach()),
        (lambda: (a * 2).sum(), lambda: torch.full((3,), 2.0)),
        (lambda: (a * 3).sum(), lambda: torch.full((3,), 3.0)),
        (lambda: a.sin().sum(), lambda: a.detach().cos()),
        (lambda: (a * a).sum(), lambda: 2 * a.detach()),
        (lambda: (a + b).sum(), lambda: torch.ones(3)),
    ]
    for round_ in range(12):
        for graph, gradient in graphs[round_ % 2 :] + graphs[: round_ % 2]:
            a.grad = None
            graph().backward()
            assert torch.allclose(a.grad, gradient())
    assert len(programs()) >= len(graphs) - 1


def test_an_accumulator_that_someone_holds_is_no_hindrance():
    a = values(3).requires_grad_()
    for _ in range(8):
        a.grad = None
        (a * 2).sum().backward()
    held = (a * 2).sum().grad_fn.next_functions[0][0].next_functions[0][0]
    a.grad = None
    (a * 2).sum().backward()
    assert a.grad.tolist() == [2.0] * 3
    seen = []
    held.register_prehook(lambda grads: seen.append(grads))
    (a * 2).sum().backward()
    assert len(seen) == 1
