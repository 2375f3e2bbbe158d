"""Compiled functions in threads, in recursion, in coroutines and in generators."""

from __future__ import annotations

import asyncio
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
