"""Compiled functions in threads, in recursion, in coroutines and in generators."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import rushlight as torch
from rushlight.capture.marks import disable, graph_break
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def in_threads(work, count=8):
    """Run `work(number)` in threads that start together; their results."""
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@disable
def opaque(x):
    return x


def program(x, k, log):
    y = x * k
    for i in range(3):
        y = y + opaque(i)
        if y.sum() > 50:
            y = y - 1
    with torch.no_grad():
        graph_break()
        log.append(k)
        y = y.relu()
    try:
        if k == 3:
            raise ValueError(k)
    except ValueError:
        y = y * 2
    return y, torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_eight_threads_call_and_compile_one_function(backend):
    compiled = torch.compile(program, backend=backend)

    def work(number):
        wrong = []
        for step in range(12):
            n, k = 2 + (number + step) % 3, (number * step) % 5
            x = torch.full((n,), float(number))
            got, want = [], []
            with torch.set_grad_enabled(step % 2 == 0):
                result, expected = compiled(x, k, got), program(x, k, want)
            if result[0].tolist() != expected[0].tolist() or (result[1], got) != (
                expected[1],
                want,
            ):
                wrong.append((number, step, result, expected))
        return wrong

    assert in_threads(work) == [[] for _ in range(8)]
    assert torch.is_grad_enabled()


def model_of(kind):
    torch.manual_seed(0)
    if kind == "mlp":
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0), torch.nn.LayerNorm(4))


def rounds(count, resets):
    """Eight threads train and evaluate models that are compiled for all of them, with sizes, modes
    and flags of their own; `resets` says whether one drops all compiled code now and then."""
    models = [model_of(kind) for kind in ("mlp", "norm")]
    runs = [torch.compile(model) for model in models]
    step = torch.compile(lambda model, x: model(x).square().sum(), backend="aot_eager")

    def work(number):
        draw = random.Random(number)
        wrong = []
        for turn in range(count):
            which, batch = draw.randrange(2), draw.choice((1, 2, 3, 5))
            x = torch.full((batch, 4), number + turn / 8).requires_grad_(draw.random() < 0.5)
            y = x.detach().requires_grad_(x.requires_grad)
            if resets and number == 0 and turn % 7 == 3:
                compiling.reset()
            with torch.set_grad_enabled(draw.random() < 0.7):
                got, want = runs[which](x), models[which](y)
                loss = step(models[which], x)
            near = torch.allclose(got, want, 1e-4, 1e-5)
            near = near and torch.allclose(loss, want.square().sum(), 1e-4, 1e-4)
            if got.requires_grad and x.requires_grad:
                (mine,) = torch.autograd.grad(got.sum(), x)
                (theirs,) = torch.autograd.grad(want.sum(), y)
                near = near and torch.allclose(mine, theirs, 1e-4, 1e-4)
            if not near or got.requires_grad != want.requires_grad:
                wrong.append((number, turn, which, batch))
        return wrong

    assert in_threads(work) == [[] for _ in range(8)]


@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("resets", [False, True])
def test_modules_in_threads(resets):
    pytest.importorskip("llvmlite")
    rounds(12, resets)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*recompile_limit")
@pytest.mark.parametrize("resets", [False, True])
def test_modules_in_threads_for_long(resets):
    pytest.importorskip("llvmlite")
    rounds(300, resets)


def test_coroutines_in_threads():
    """An event loop in each thread, tasks that call one function between awaits, generators that
    are left half-way, and recursion through the compiled function."""

    @torch.compile(backend="eager")
    def down(x, n):
        y = x + opaque(n)
        return y if n == 0 else down(y, n - 1) * 2

    def plain(x, n):
        y = x + n
        return y if n == 0 else plain(y, n - 1) * 2

    def source(x, count):
        for number in range(count):
            yield down(x, number % 3)

    async def task(number):
        found = []
        for turn in range(6):
            steps = source(torch.full((2,), float(number)), 5)
            found += [next(steps).tolist() for _ in range(turn % 4)]
            await asyncio.sleep(0)
        return found

    async def main(number):
        return await asyncio.gather(*(task(number + k) for k in range(3)))

    def expected(number):
        x = torch.full((2,), float(number))
        return [plain(x, n % 3).tolist() for turn in range(6) for n in range(turn % 4)]

    results = in_threads(lambda number: asyncio.run(main(number)))
    for number, found in enumerate(results):
        assert found == [expected(number + k) for k in range(3)]


def test_one_entry_though_many_threads_miss():
    counter = CompileCounter()
    f = torch.compile(lambda x: x * 2 + 1, backend=counter)
    x = torch.ones(3)
    results = in_threads(lambda number: f(x).tolist())
    assert results == [[3.0] * 3] * 8
    assert counter.frame_count == 1


def test_states_of_other_threads_do_not_matter():
    compiled = torch.compile(lambda x, w: (x @ w, torch.is_grad_enabled()), backend="eager")
    x, w = torch.ones(2, 2), torch.ones(2, 2, requires_grad=True)

    def work(number):
        found = []
        for _ in range(10):
            with (
                torch.set_grad_enabled(number % 2 == 0),
                torch.autocast("cpu", dtype=torch.bfloat16, enabled=number % 4 == 0),
            ):
                result, is_enabled = compiled(x, w)
                found.append((result.dtype, result.requires_grad, is_enabled))
        return set(found)

    for number, found in enumerate(in_threads(work)):
        dtype = torch.bfloat16 if number % 4 == 0 else torch.float32
        assert found == {(dtype, number % 2 == 0, number % 2 == 0)}


def test_reset_while_threads_call():
    compiled = torch.compile(program, backend="eager")

    def work(number):
        for step in range(20):
            if number == 0 and step % 5 == 0:
                compiling.reset()
            result = compiled(torch.full((2,), 3.0), step % 3, [])[0]
            assert result.tolist() == program(torch.full((2,), 3.0), step % 3, [])[0].tolist()
        return True

    assert all(in_threads(work))


def test_recursion():
    def down(x, n):
        return x if n == 0 else down(x + n, n - 1) * 2

    compiled = torch.compile(down, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), 5).tolist() == down(torch.ones(2), 5).tolist()

    @torch.compile(backend="eager")
    def through(x, n):
        y = x + n
        if opaque(n) == 0:
            return y
        return through(y, n - 1) * 2

    def plain(x, n):
        return x + n if n == 0 else plain(x + n, n - 1) * 2

    for n in (3, 4, 3):
        assert through(torch.ones(2), n).tolist() == plain(torch.ones(2), n).tolist()


def test_coroutines():
    counter = CompileCounter()
    layer = torch.compile(lambda x, k: x.sin() * k, backend=counter)

    async def task(k):
        x = torch.ones(2)
        for _ in range(3):
            x = layer(x, 2.0)
            await asyncio.sleep(0)
        return x.tolist()

    async def main():
        return await asyncio.gather(*(task(k) for k in range(5)))

    x = torch.ones(2)
    for _ in range(3):
        x = x.sin() * 2.0
    assert asyncio.run(main()) == [x.tolist()] * 5
    assert counter.frame_count == 1

    @torch.compile(backend="eager")
    async def whole(x):
        await asyncio.sleep(0)
        return x * 2

    assert asyncio.run(whole(torch.ones(2))).tolist() == [2.0, 2.0]


def test_generators():
    @torch.compile(backend="eager")
    def steps(x):
        for i in range(3):
            x = x + i
            got = yield x
            if got is not None:
                x = x * got

    it = steps(torch.ones(2))
    assert next(it).tolist() == [1.0, 1.0]
    assert it.send(3).tolist() == [4.0, 4.0]
    it.close()

    def consumer(x):
        return sum(v * 2 for v in source(x)) + 1

    def source(x):
        yield x
        graph_break()
        yield x + 1

    compiled = torch.compile(consumer, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == consumer(torch.ones(2)).tolist()
