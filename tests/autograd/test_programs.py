"""Backward programs: the short way gives the engine's gradients, and steps aside when it must."""

from __future__ import annotations

import linecache
import threading

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.autograd import programs as programs_module
from rushlight.autograd.programs import PATIENCE, Program, forget_graphs
from rushlight.autograd.signature import describe, write_matcher
from rushlight.base.config import config


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


def test_leaves_joined_through_a_view_keep_gradients_of_their_own():
    a, b = values(6).requires_grad_(), values(2, 3, start=2.0).requires_grad_()
    weight = torch.arange(6.0)
    for _ in range(8):
        a.grad = b.grad = None
        for _ in range(2):
            ((a + b.view(6)) * weight).sum().backward()
        assert not np.shares_memory(a.grad._array, b.grad._array)
        assert a.grad.tolist() == b.grad.flatten().tolist() == [0, 2, 4, 6, 8, 10]
        a.grad.zero_()
        assert b.grad.abs().sum() > 0
    assert programs()


def test_a_learned_position_table_trains_as_without_programs():
    def losses() -> list[float]:
        position = values(1, 4, 3).requires_grad_()
        token = values(4, 3, start=3.0).requires_grad_()
        x, target = values(4, 3, start=5.0), values(4, 3, start=7.0)
        leaves = [position, token]
        optimizer = torch.optim.SGD(leaves, lr=0.3, momentum=0.9, weight_decay=0.01)
        found = []
        for _ in range(12):
            optimizer.zero_grad()
            difference = (x + (position.squeeze(0) + token)) - target
            loss = (difference * difference).sum()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(leaves, 1.0)
            optimizer.step()
            found.append(loss.item())
        return found

    with config.patch(backward_programs=False):
        expected = losses()
    assert losses() == expected
    assert programs()


@pytest.mark.parametrize("name", ["mul", "div", "add"])
@pytest.mark.parametrize("number", [0.0, -0.0, 1, 1.0, True, float("nan")])
def test_numbers_are_told_apart_by_type_and_bits(name, number):
    """Also by the matcher, which is tried first."""
    x = values(3).requires_grad_()
    bits = {}
    for warm in (number, 0.0, -0.0, 1, 1.0, True):
        for _ in range(8):
            x.grad = None
            getattr(x, name)(warm).sum().backward()
        got = x.grad._array.tobytes()
        with config.patch(backward_programs=False):
            x.grad = None
            getattr(x, name)(warm).sum().backward()
        assert x.grad._array.tobytes() == got, warm
        bits[repr(warm)] = got
    if name == "div":
        assert bits["0.0"] != bits["-0.0"]


def graphs() -> list[torch.Tensor]:
    """Roots of graphs that differ in little."""
    a, b, c = values(6).requires_grad_(), values(2, 3).requires_grad_(), values(6, start=3.0)
    column = values(3, 2).t()
    return [
        (a * c).sum(), (a * a).sum(), (c * a).sum(), (a * c.double()).sum(), (a + c).sum(),
        (a * 0.0).sum(), (a * -0.0).sum(), (a * 1).sum(), (a * 1.0).sum(), (a * True).sum(),
        (a * float("nan")).sum(), (a * 2.0).sum(), (a * 2.5).sum(), (b * column).sum(),
        (b * column.contiguous()).sum(), (b.sum(0) * 2).sum(), (b.sum(1) * 2).sum(),
        (b.sum((0,)) * b.sum(0)).sum(), (b.view(6) * a).sum(), (b.reshape(6) * c).sum(),
        b.sum(), b.mean(), (a * c).sum().view(1).sum(), (a[:1] * c[:1]).sum(),
        ((a[:1] + c[:1]) + a).sum(), ((a[:1] + c) + a).sum(), (a.detach() * a).sum(),
    ]  # fmt: skip


def test_matchers_say_what_signatures_say():
    roots = [tensor.grad_fn for tensor in graphs()]
    again = [tensor.grad_fn for tensor in graphs()]
    signatures = [describe(root, 0).signature for root in roots]
    for place, signature in enumerate(signatures):
        match = write_matcher(signature, "matcher under test")
        for other, root in enumerate(again):
            is_same = signatures[other] == signature
            assert (match(root, 0) is not None) == is_same
            assert is_same == (hash(signatures[other]) == hash(signature))
            if is_same:
                assert describe(root, 0).signature == signature
                found = describe(root, 0)
                arrays, leaves, nodes = match(root, 0)
                assert [id(t) for t in leaves] == [id(t) for t in found.leaves]
                assert [id(n) for n in nodes] == [id(n) for n in found.nodes]
                assert [id(t) for t in arrays] == [id(t._array) for t in found.saved]
        assert match(roots[place], 1) is None
    linecache.cache.pop("<rushlight matcher under test>", None)


def test_graphs_that_differ_in_an_unsaved_shape_are_told_apart():
    def partial_sums(c):
        x, w = values(1).requires_grad_(), values(3).requires_grad_()
        return ((x + c) + w).sum()

    one = describe(partial_sums(values(2, 1)).grad_fn, 0).signature
    other = describe(partial_sums(values(2, 3)).grad_fn, 0).signature
    assert one != other


def test_each_program_has_its_own_text_and_texts_are_dropped():
    x = values(3).requires_grad_()
    for factor in (2.0, 3.0):
        for _ in range(8):
            (x * factor).sin().sum().backward()
    first, second = programs()
    names = [f"<rushlight {program.name}>" for program in (first, second)]
    assert names[0] != names[1]
    for program, name in zip((first, second), names, strict=True):
        assert program.run.__code__.co_filename == name
        assert "".join(linecache.getlines(name)) == program.source
    del first, second, program
    forget_graphs()
    assert not [name for name in linecache.cache if "backward program" in name]


def test_a_thread_without_grad_mode_takes_programs_from_nobody():
    ready, done = threading.Event(), threading.Event()

    def sit():
        with torch.no_grad():
            ready.set()
            done.wait(30)

    thread = threading.Thread(target=sit)
    thread.start()
    try:
        assert ready.wait(30)
        x = values(3).requires_grad_()
        for _ in range(8):
            x.grad = None
            x.sin().sum().backward()
        assert programs() and programs_module.MATCHERS
        assert torch.equal(x.grad, x.detach().cos())
    finally:
        done.set()
        thread.join()


def test_threads_share_programs():
    shared = values(3).requires_grad_()
    for _ in range(8):
        (shared * 2.0).sum().backward()
    shared.grad = None
    failures = []

    def work():
        own = values(3).requires_grad_()
        for step in range(50):
            own.grad = None
            (own * 2.0).sum().backward()
            (shared * 2.0).sum().backward()
            if own.grad.tolist() != [2.0] * 3:
                failures.append(step)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert shared.grad.tolist() == [400.0] * 3


def test_formulas_do_not_notice_that_they_are_recorded():
    """The gradient of `prod` looks at elements: another formula serves where there are zeros."""
    x = (values(3, 5) + 1.3).requires_grad_()
    found = []
    for _ in range(10):
        x.grad = None
        x.prod(1).sum().backward()
        found.append(x.grad._array.tobytes())
    assert len(set(found)) == 1
    with torch.no_grad():
        x[0, 0] = x[1, 1] = 0.0
    x.grad = None
    x.prod(1).sum().backward()
    assert x.grad.isfinite().all()


def test_sums_have_the_same_bits_under_modes():
    """The quick form of a sum and its kernel add in one order."""
    from rushlight.core.modes import TorchDispatchMode

    class Pass(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        for rows in (2, 8, 17, 33, 64, 65, 100):
            for columns in (1, 3, 10, 40):
                x = torch.tensor(rng.standard_normal((rows, columns))).to(dtype)
                for dim in (0, 1, -1, -2, (0, 1)):
                    plain = x.sum(dim)
                    with Pass():
                        watched = x.sum(dim)
                    assert torch.equal(plain, watched), (dtype, rows, columns, dim)


def test_the_switch_turns_programs_off():
    x = values(3).requires_grad_()
    with config.patch(backward_programs=False):
        for _ in range(8):
            (x * 2.0).sum().backward()
    assert not programs_module.GRAPHS


def test_requires_grad_may_change_between_steps():
    a, b = values(3).requires_grad_(), values(3, start=2.0).requires_grad_()
    for step in range(16):
        b.requires_grad_(step % 4 != 3)
        a.grad = b.grad = None
        (a * b).sum().backward()
        assert torch.equal(a.grad, b.detach())
        assert b.grad is None if step % 4 == 3 else torch.equal(b.grad, a.detach())


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


def odd_values(*shape: int, step: int) -> torch.Tensor:
    """Other values at every step; zeros of both signs, infinity and NaN at some."""
    found = values(*shape, start=float(step))
    if step % 3 == 2:
        found.view(-1)[:4] = torch.tensor([-0.0, 0.0, float("inf"), float("nan")])
    return found


INDEX = torch.tensor([2, 0, 2, 5])
WHOLE_OPS = {
    "cat": lambda x, y: torch.cat([x, y, x], 1),
    "stack": lambda x, y: torch.stack([x, y]),
    "rows": lambda x, y: x[INDEX] * y[INDEX],
    "element pairs": lambda x, y: x[INDEX, INDEX] + y[INDEX, INDEX],
    "index_select": lambda x, y: torch.index_select(x * y, 0, INDEX),
    "gather": lambda x, y: x.gather(1, INDEX[:, None]) + y[:4, :1],
    "where": lambda x, y: torch.where(x > y, x, 0.0),
    "power": lambda x, y: x**3 + y**2,
    "amax": lambda x, y: (x * y).amax(1),
    "cumsum": lambda x, y: (x * y).cumsum(1),
    "layer_norm": lambda x, y: F.layer_norm(x, (x.shape[1],), y[0], y[1]),
    "rms_norm": lambda x, y: F.rms_norm(x * y, (x.shape[1],)),
    "softmax": lambda x, y: torch.softmax(x * y, 1),
    "max_pool": lambda x, y: F.max_pool2d((x * y)[None], 2),
    "avg_pool": lambda x, y: F.avg_pool2d((x * y)[None], 2),
    "clamp": lambda x, y: torch.clamp(x, -0.2, 0.2) * y,
    "one result of two": lambda x, y: torch.max(x * y, 1).values,
}


@pytest.mark.parametrize("shape", [(6, 8), (130, 128)], ids=["small", "large"])
@pytest.mark.parametrize("name", WHOLE_OPS)
def test_programs_of_whole_ops_are_the_engine_bit_for_bit(name, shape):
    for step in range(2 * PATIENCE + 4):
        x, y = [odd_values(*shape, step=step + k).requires_grad_() for k in (0, 9)]
        found = []
        for switch in (True, False):
            x.grad = y.grad = None
            with config.patch(backward_programs=switch):
                out = WHOLE_OPS[name](x, y)
                out.backward(odd_values(*out.shape, step=step + 5))
            leaves = [leaf for leaf in (x, y) if leaf.grad is not None]
            found.append([(g._array.tobytes(), g.stride(), g.dtype) for g in map(grad_of, leaves)])
        assert found[0] == found[1]
    assert programs()


def grad_of(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.grad


def test_a_given_gradient_stays_the_users():
    a = values(4).requires_grad_()
    given = values(4, start=3.0)
    before = given.tolist()
    for _ in range(10):
        a.grad = None
        (a + 0.0).backward(given)
        a.grad.mul_(7)
        assert given.tolist() == before
    assert programs()


def test_a_given_gradient_that_is_also_saved_is_not_taken_for_it():
    a, b = values(4).requires_grad_(), values(4, start=3.0)
    for step in range(16):
        a.grad = None
        given = b if step % 2 or step < 8 else values(4, start=float(step))
        (a * b).backward(given)
        assert torch.equal(a.grad, b * given)


def test_a_given_gradient_of_another_layout_is_the_engines():
    a = values(3, 4).requires_grad_()
    grads = [values(3, 4), values(4, 3).t(), values(1).expand(3, 4), values(3, 4).double()]
    for step in range(16):
        a.grad = None
        given = grads[step % 3]
        (a * 2.0).backward(given)
        assert torch.equal(a.grad, given * 2.0)
        assert a.grad.stride() == a.stride()
    # torch: a gradient of another dtype is cast.
    a.grad = None
    (a * 2.0).backward(grads[3])
    assert a.grad.dtype == torch.float32


def test_noise_in_a_backward_is_drawn_once():
    a = values(50).requires_grad_()
    torch.manual_seed(3)
    for _ in range(12):
        a.grad = None
        state = torch.get_rng_state()
        F.rrelu(a, training=True).backward(values(50, start=2.0))
        expected = torch.get_rng_state()
        torch.set_rng_state(state)
        F.rrelu(a, training=True)
        assert torch.equal(torch.get_rng_state(), expected)


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


def accumulated(step, x: torch.Tensor, before: torch.Tensor, is_on: bool) -> torch.Tensor:
    x.grad = before.clone()
    with config.patch(backward_programs=is_on):
        step(x)
    return x.grad


def test_one_leaf_in_the_place_of_two_gets_the_engines_sum():
    def train(a: torch.Tensor, b: torch.Tensor) -> None:
        ((a @ b) * 2).sum().backward()

    for start in range(2 * PATIENCE):
        train(values(4, 4, start=start).requires_grad_(), values(4, 4, start=-1).requires_grad_())
    assert programs()
    for start in range(2 * PATIENCE):
        x, before = values(4, 4, start=start).requires_grad_(), values(4, 4, start=7.0) * 9
        found = accumulated(lambda x: train(x, x), x, before, True)
        assert torch.equal(found, accumulated(lambda x: train(x, x), x, before, False))


@pytest.mark.parametrize("first", ["sce", "ecs", "ces"])
def test_what_was_computed_in_another_order_adds_up_in_that_order(first):
    def train(x: torch.Tensor, order: str) -> None:
        found = {}
        for name in order:
            found[name] = {"s": torch.sin, "c": torch.cos, "e": torch.exp}[name](x)
        (((found["s"] + found["c"]) + found["e"]) * 3).sum().backward()

    for order in (first, "sce", "ecs", "ces", "sec"):
        for start in range(2 * PATIENCE):
            x, before = values(64, start=start).requires_grad_(), torch.zeros(64)
            found = accumulated(lambda x, order=order: train(x, order), x, before, True)
            plain = accumulated(lambda x, order=order: train(x, order), x, before, False)
            assert torch.equal(found, plain)


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
    early = (a * 2).sum()
    held.register_prehook(lambda grads: seen.append(grads))
    early.backward()
    (a * 2).sum().backward()
    assert len(seen) == 2


def test_a_hook_on_an_accumulator_made_after_the_graph_is_called():
    a = values(3).requires_grad_()
    for _ in range(8):
        a.grad = None
        (a * 2).sum().backward()
    out = (a * 2).sum()
    accumulator = torch.autograd.graph.get_gradient_edge(a).node
    seen = []
    accumulator.register_hook(lambda inputs, outputs: seen.append(outputs))
    out.backward()
    assert len(seen) == 1


def test_a_users_kernel_in_the_place_of_ours_is_called():
    x = values(3).requires_grad_()
    for _ in range(8):
        x.grad = None
        x.sin().sum().backward()
    assert programs()
    calls = []
    library = torch.library.Library("aten", "IMPL")
    library.impl("cos", lambda x: calls.append(1) or torch.ones_like(x), "CPU")
    try:
        x.grad = None
        x.sin().sum().backward()
        assert calls
        assert x.grad.tolist() == [1.0] * 3
    finally:
        library._destroy()
    x.grad = None
    x.sin().sum().backward()
    assert torch.equal(x.grad, x.detach().cos())


def test_kernels_that_answer_with_an_operand_give_leaves_memory_of_their_own():
    """Proved on the graph, whatever kernels do: here one that hands back what it was given."""
    from rushlight.opset.audit import records

    op = next(op for op in records() if op.name() == "aten::threshold_backward")
    kernel = op.options["scalar"]
    a, b = (values(3) + 2).requires_grad_(), (values(3) + 2).requires_grad_()
    weight = torch.arange(3.0)
    op.options["scalar"] = lambda m, grad, x, threshold: grad
    try:
        for step in range(10):
            a.grad = b.grad = None
            ((torch.relu(a) + torch.relu(b)) * weight).sum().backward()
            if step > PATIENCE:
                assert not np.shares_memory(a.grad._array, b.grad._array)
                assert a.grad.tolist() == b.grad.tolist() == [0.0, 1.0, 2.0]
    finally:
        op.options["scalar"] = kernel
    assert "own(" in programs()[0].source


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_program_of_a_classifier_meets_labels_of_every_sort(reduction, dtype):
    """Labels change from step to step; those that do not count, or are no classes, come late."""
    weight = torch.linspace(-1, 1, 12, dtype=dtype).reshape(4, 3).requires_grad_()
    x = torch.linspace(0, 2, 15, dtype=dtype).reshape(5, 3)
    steps = [[0, 1, 2, 3, step % 4] for step in range(8)]
    steps += [[0, -100, 2, -100, 1], [3, 3, 3, 3, 3], [-100] * 4 + [0]]

    def run():
        grads = []
        for labels in steps:
            weight.grad = None
            scores = F.log_softmax(x @ weight.t(), 1)
            target = torch.tensor(labels)
            F.nll_loss(scores, target, reduction=reduction).backward()
            grads.append(weight.grad.numpy().tobytes())
        return grads

    with config.patch(backward_programs=False):
        expected = run()
    assert run() == expected
