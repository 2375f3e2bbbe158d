"""Backward programs of graphs that hold compiled functions: the engine's gradients bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import programs
from rushlight.autograd.programs import PATIENCE, Program, forget_graphs
from rushlight.base.config import config

pytest.importorskip("llvmlite")
STEPS = PATIENCE + 8


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Any) -> Iterator[None]:
    with config.patch(cache_dir=str(tmp_path)):
        torch.compiler.reset()
        forget_graphs()
        yield
        forget_graphs()


def written() -> list[Program]:
    return [entry for entry in programs.GRAPHS.values() if isinstance(entry, Program)]


def values(*shape: int, start: float = 0.3) -> torch.Tensor:
    return (torch.arange(int(np.prod(shape))) * 0.7 + start).sin().reshape(shape)


def leaves() -> list[torch.Tensor]:
    return [values(4, 4, start=n).requires_grad_() for n in range(3)]


def chained(a: Any, b: Any, c: Any) -> Any:
    return ((a @ b).tanh() * c).sum()


def two_results(a: Any, b: Any, c: Any) -> Any:
    return (a @ b.t()).relu(), (b * c).exp()


def transposed(a: Any, b: Any, c: Any) -> Any:
    return (a.t() @ b.t()).sin() + c.transpose(0, 1)


def handed_through(a: Any, b: Any, c: Any) -> Any:
    return a + b, c * 1.0


CASES: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "a loss": (chained, lambda r: r),
    "eager behind": (chained, lambda r: (r * 2 + 1).tanh()),
    "two results": (two_results, lambda r: (r[0] * r[1]).sum()),
    "one of two": (two_results, lambda r: r[0].sum()),
    "strided gradient": (transposed, lambda r: r.t().sum()),
    "gradients that are one tensor": (handed_through, lambda r: (r[0] + r[1]).sum()),
    "a sum of squares": (two_results, lambda r: (r[0] * r[0]).sum() + r[1].sum()),
}


def losses(case: str, watch: Callable[[int, list[Any]], None] = lambda step, given: None) -> Any:
    function, loss_of = CASES[case]
    run, given, found = torch.compile(function), leaves(), []
    for step in range(STEPS):
        watch(step, given)
        loss = loss_of(run(*given))
        loss.backward()
        grads = [p.grad for p in given]
        found.append([loss.item(), *[None if g is None else g._array.tobytes() for g in grads]])
        found.append([None if g is None else (g.stride(), g._version) for g in grads])
        with torch.no_grad():
            for p in given:
                if p.grad is not None:
                    p -= 0.01 * p.grad
        if step % 3 == 1:
            for p in given:
                p.grad = None
    return found


@pytest.mark.parametrize("case", CASES)
def test_programs_train_as_the_engine_does(case: str) -> None:
    with config.patch(backward_programs=False):
        expected = losses(case)
    assert losses(case) == expected
    # Gradients that are views are the engine's.
    assert bool(written()) == (case != "strided gradient")


def test_a_hook_that_comes_later_is_called() -> None:
    seen: list[int] = []

    def watch(step: int, given: list[Any]) -> None:
        if step == STEPS - 3:
            given[0].register_hook(lambda grad: seen.append(step) or grad * 2)

    with config.patch(backward_programs=False):
        expected = losses("a loss", watch)
    assert losses("a loss", watch) == expected and len(seen) == 6


def test_special_values_pass_through() -> None:
    run = torch.compile(lambda x, w: (x * w).sin())
    w = torch.ones(4, requires_grad=True)
    for _ in range(STEPS):
        for x in ([0.0, -0.0, 1.0, 2.0], [float("nan"), float("inf"), -0.0, -1e38]):
            given = torch.tensor(x, requires_grad=True)
            (wanted,) = torch.autograd.grad(run(given, w).sum(), given)
            run(given, w).sum().backward()
            assert given.grad._array.tobytes() == wanted._array.tobytes()
    assert written()


def test_gradients_are_memory_of_their_own() -> None:
    run, given = torch.compile(lambda a, b: a + b), leaves()[:2]
    for _ in range(STEPS):
        for p in given:
            p.grad = None
        run(*given).sum().backward()
        given[0].grad.mul_(7)
        assert given[1].grad.unique().tolist() == [1.0]


def test_saved_values_are_freed_and_watched() -> None:
    run, (a, b, c) = torch.compile(chained), leaves()
    for step in range(STEPS):
        loss = run(a, b, c) * 2
        loss.backward(retain_graph=step % 2 == 0)
        if step % 2 == 0:
            loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        loss = run(a, b, c) * 2
        with torch.no_grad():
            c.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            loss.backward()
    assert written()


def test_two_functions_with_equal_signatures_keep_their_own_formulas() -> None:
    first, second = torch.compile(lambda x: x.sin()), torch.compile(lambda x: x.cos())
    x = values(5).requires_grad_()
    for _ in range(STEPS):
        for run, wanted in ((first, x.detach().cos()), (second, -x.detach().sin())):
            x.grad = None
            run(x).sum().backward()
            torch.testing.assert_close(x.grad, wanted)


def test_random_numbers_in_a_backward_are_drawn_once_each_time() -> None:
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1.0

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad + torch.rand(3)

    def gradients(run: Callable[..., Any]) -> list[Any]:
        torch.manual_seed(3)
        x, found = torch.ones(3, requires_grad=True), []
        for _ in range(STEPS):
            x.grad = None
            run(x).sum().backward()
            found.append(x.grad.tolist())
        return found

    run = torch.compile(Noisy.apply)
    assert gradients(run) == gradients(run) == gradients(Noisy.apply)


def test_a_users_compiler_is_called_as_often_as_without() -> None:
    from rushlight.aot.api import aot_module_simplified
    from rushlight.compiler import compile_graph

    calls: list[int] = []

    def counting(gm: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            calls.append(1)
            return gm.forward(*args)

        return run

    def backend(gm: Any, inputs: Any) -> Any:
        return aot_module_simplified(gm, inputs, compile_graph, counting, is_guarded=True)

    run = torch.compile(lambda x: x.sin(), backend=backend)
    x = values(3).requires_grad_()
    for _ in range(STEPS):
        run(x).sum().backward()
    assert len(calls) == STEPS


def test_threads() -> None:
    run, failures = torch.compile(chained), []

    def work(number: int) -> None:
        try:
            a, b, c = [values(4, 4, start=number + n).requires_grad_() for n in range(3)]
            chained(a, b, c).backward()
            wanted = [p.grad.clone() for p in (a, b, c)]
            for _ in range(STEPS * 3):
                for p in (a, b, c):
                    p.grad = None
                run(a, b, c).backward()
                for p, grad in zip((a, b, c), wanted, strict=True):
                    torch.testing.assert_close(p.grad, grad)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
