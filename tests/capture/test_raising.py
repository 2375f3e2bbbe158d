"""Graphs that raise in the middle: handlers, effects, writes, random numbers as in eager code."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.capture.witness import Witness
from rushlight.compiler import compiling, config
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def lookup(table, i):
    return F.embedding(i, table)


def write_then_raise(x, i, log):
    x.add_(1)
    log.append("before")
    y = lookup(x, i)
    log.append("behind")
    return y


def raise_then_write(x, i, log):
    log.append("before")
    y = lookup(x, i)
    x.mul_(3)
    log.append("behind")
    return y


def write_in_try(x, i, log):
    try:
        x.add_(1)
        y = lookup(x, i)
        x.add_(10)
    except (IndexError, RuntimeError):
        y = x * 2
    finally:
        x.mul_(2)
    return y


def draw_then_raise(x, i, log):
    noise = torch.rand(3)
    log.append(1)
    y = lookup(x, i)
    return y + noise[0]


def draw_in_try(x, i, log):
    noise = torch.rand(3)
    try:
        y = lookup(x, i)
    except (IndexError, RuntimeError):
        y = torch.rand(3)
    return y, noise, torch.rand(1)


def hidden_write(x, i, log):
    log.append("before")
    mean, var = torch.zeros(3), torch.ones(3)
    F.batch_norm(x, x[0], var, training=True)
    y = lookup(x, i)
    log.append("behind")
    return y, mean


def overlap_behind_a_write(x, i, log):
    try:
        x.add_(1)
        log.append("before")
        if len(i) == 2:
            x -= x.t()
        log.append("behind")
    finally:
        log.append("finally")
    return x


PROGRAMS = [
    overlap_behind_a_write,
    write_then_raise, raise_then_write, write_in_try, draw_then_raise, draw_in_try, hidden_write,
]  # fmt: skip


def outcome(f, index, shift):
    torch.manual_seed(7)
    x, i, log = torch.arange(9.0).reshape(3, 3) + shift, torch.tensor([0, index]), []
    try:
        result = repr(f(x, i, log))
    except (IndexError, RuntimeError) as error:
        result = type(error).__name__, str(error)
    return result, repr(x), log, repr(torch.rand(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_graph_that_raises(program, backend):
    compiled = torch.compile(program, backend=backend)
    for index in (1, 9, 2, 9):
        assert outcome(compiled, index, 0) == outcome(program, index, 0)


def test_a_division_whose_result_nobody_uses():
    def f(x, a, b):
        try:
            a // b
        except ZeroDivisionError:
            return x - 1
        return x + 1

    compiled = torch.compile(f, backend="eager")
    for a, b in ((7, 2), (8, 3), (9, 4), (9, 0), (7, 5)):
        assert compiled(torch.ones(2), a, b).tolist() == f(torch.ones(2), a, b).tolist()


@pytest.mark.parametrize("operation", ["a // b", "a % b", "a / b", "(b - 9) ** -a", "divmod(a, b)"])
def test_a_division_by_zero_raises_though_nothing_uses_its_result(operation):
    namespace = {}
    exec(f"def f(x, a, b):\n    try:\n        {operation}\n    finally:\n        x += 1", namespace)
    compiled = torch.compile(namespace["f"], backend="eager")
    for a, b in ((7, 2), (7, 3), (8, 4), (8, 9), (6, 5), (9, 0), (9, 9), (5, 0), (5, 4)):
        found = []
        for run in (compiled, namespace["f"]):
            x = torch.ones(2)
            try:
                with config.patch(recompile_limit=30):
                    found.append((run(x, a, b), x.tolist()))
            except ZeroDivisionError as error:
                found.append((str(error), x.tolist()))
        assert found[0] == found[1], (a, b)


def test_programs_that_cannot_raise_stay_whole():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def f(x, log):
        x.add_(1)
        log.append(1)
        x[0] = 3
        return x[1] * F.dropout(x, 0.5)

    f(torch.ones(3, 3), [])
    assert counter.frame_count == 1


def test_inputs_that_share_memory_are_another_entry():
    counter = CompileCounter()
    f = torch.compile(lambda a, b: a.mul_(2) + b, backend=counter)
    f(torch.ones(2), torch.ones(2))
    f(torch.ones(2), torch.ones(2))
    assert counter.frame_count == 1
    base = torch.ones(4)
    f(base[:2], base[2:])
    f(base[:2], base[2:])
    assert counter.frame_count == 2
    f(base[:2], base[1:3])
    assert counter.frame_count == 3
    g = torch.compile(lambda a, b: a * 2 + b, backend=counter)
    g(torch.ones(2), torch.ones(2))
    g(base[:2], base[1:3])
    assert counter.frame_count == 4


def facts_of(call):
    """What capture learns of a call: whether it writes, draws, may raise."""
    witness = Witness(allow_non_fake_inputs=True, static_shapes=True)
    x = witness.from_tensor(torch.rand(3, 3))
    i = witness.from_tensor(torch.tensor([0, 1, 2]))
    witness.begin()
    with witness:
        call(x, i)
    return witness.writes, witness.draws, witness.may_raise


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: torch.take_along_dim(x, i[:, None], 1),
        lambda x, i: F.embedding_bag(i[None], x),
        lambda x, i: F.cross_entropy(x, i),
        lambda x, i: F.multi_margin_loss(x, i),
        lambda x, i: F.one_hot(i, 4),
        lambda x, i: torch.linalg.inv(x),
        lambda x, i: torch.linalg.cholesky(x),
        lambda x, i: torch.linalg.eigh(x),
        lambda x, i: torch.linalg.svd(x),
        lambda x, i: F.binary_cross_entropy(x, x),
        lambda x, i: i // i,
        lambda x, i: i.remainder_(i),
        lambda x, i: x.index_add(0, i, x),
        lambda x, i: x.scatter_(0, i[None], 1.0),
        lambda x, i: x.masked_scatter(x > 0, x),
        lambda x, i: torch.multinomial(x, 1),
        lambda x, i: x.__setitem__(i, 2.0),
    ],
)
def test_what_may_raise_is_a_fact_of_ops(call):
    assert facts_of(call)[2]


@pytest.mark.parametrize(
    "call, writes, draws",
    [
        (lambda x, i: F.dropout(x, 0.5), False, True),
        (lambda x, i: F.dropout2d(x[None, None], 0.5), False, True),
        (lambda x, i: F.gumbel_softmax(x), False, True),
        (lambda x, i: F.batch_norm(x, x[0], x[1], training=True), True, False),
        (lambda x, i: F.layer_norm(x, (3,)), False, False),
        (lambda x, i: x / x + i // 2, False, False),
        (lambda x, i: torch.fmod(x, x), False, False),
    ],
)
def test_what_writes_and_draws_is_a_fact_of_ops(call, writes, draws):
    assert facts_of(call) == (writes, draws, False)
