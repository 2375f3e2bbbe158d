"""Compiled functions that write to arguments: values are made in the arguments' own memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.codegen import driver
from rushlight.codegen.inplace import Touch
from rushlight.codegen.values import Call

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every graph that a test compiles."""
    found: list[Any] = []
    original = driver.Compiled.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        found.append(self)

    monkeypatch.setattr(driver.Compiled, "__init__", init)
    torch.compiler.reset()
    yield found


def same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())
        np.testing.assert_array_equal(
            np.signbit(mine.detach().numpy()), np.signbit(theirs.detach().numpy())
        )


def update(params: Any, grads: Any, firsts: Any, seconds: Any) -> None:
    with torch.no_grad():
        for p, g, m, v in zip(params, grads, firsts, seconds, strict=True):
            m.mul_(0.9).add_(g, alpha=0.1)
            v.mul_(0.99).addcmul_(g, g, value=0.01)
            p.addcdiv_(m, v.sqrt() + 1e-8, value=-1e-3)


def state(seed: int) -> list[list[Any]]:
    torch.manual_seed(seed)
    shapes = ((16, 33), (33,), (), (4, 3, 2))
    parts = [[torch.randn(shape) for shape in shapes] for _ in range(4)]
    parts[0] = [torch.nn.Parameter(value) for value in parts[0]]
    parts[3] = [value.abs() for value in parts[3]]
    return parts


def test_an_optimiser_step_is_one_pass(made: list[Any]) -> None:
    compiled = torch.compile(update, fullgraph=True)
    mine, theirs = state(0), state(0)
    for step in range(50):
        torch.manual_seed(step)
        for parts in (mine, theirs):
            torch.manual_seed(step)
            parts[1] = [torch.randn(value.shape) for value in parts[0]]
        if step == 20:
            for parts in (mine, theirs):
                parts[1][0][0, :3] = torch.tensor([float("nan"), -0.0, float("inf")])
        compiled(*mine)
        update(*theirs)
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)
    (one,) = made
    assert len([step for step in one.schedule if isinstance(step, Touch)]) == 12
    assert not any([isinstance(step, Call) for step in one.schedule])
    assert all([value._version for value in mine[2]])


CASES: dict[str, tuple[Callable[..., Any], bool | None]] = {
    # name: (function of two matrices, whether a copy is spared; None where either will do)
    "plain": (lambda x, y: x.mul_(2), True),
    "returned": (lambda x, y: (x.mul_(2), x + 1), False),
    "old value kept": (lambda x, y: (x * 3, x.add_(y))[0], True),
    "read later": (lambda x, y: (x.add_(y), x * y)[1], True),
    "transposed": (lambda x, y: x.copy_(x.t() * 2), False),
    "shifted": (lambda x, y: x[1:].copy_(x[:-1] * 2), False),
    "row": (lambda x, y: x[0].zero_(), False),
    "reduced": (lambda x, y: x.sub_(x.mean(0)), False),
    "normalised": (lambda x, y: x.copy_(x.softmax(1)), False),
    "product": (lambda x, y: x.copy_(x @ y), True),
    "both": (lambda x, y: (x.add_(1), y.mul_(3)), True),
    "exchanged": (lambda x, y: (x.copy_(x + y), y.copy_(x - y)), None),
    "twice": (lambda x, y: x.add_(1).mul_(y).sub_(0.5), True),
    "filled": (lambda x, y: x.fill_(2.5), None),
    "of the other": (lambda x, y: x.copy_(y * 2), True),
    "sorted": (lambda x, y: x.copy_(x.sort(1)[0]), True),
    "no write": (lambda x, y: x + y, False),
}


def plain(result: Any) -> list[Any]:
    values = result if isinstance(result, tuple) else (result,)
    return [value for value in values if isinstance(value, torch.Tensor)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_writes(name: str, dynamic: bool, made: list[Any]) -> None:
    function, spares = CASES[name]
    compiled = torch.compile(function, dynamic=dynamic)
    for size in (5, 5, 5, 8, 8) if dynamic else (5, 5, 5):
        torch.manual_seed(size)
        given = [torch.randn(size, size), torch.randn(size, size)]
        twins = [value.clone() for value in given]
        memory = [value._array for value in given]
        got, wanted = compiled(*given), function(*twins)
        for mine, theirs in zip([*given, *plain(got)], [*twins, *plain(wanted)], strict=True):
            torch.testing.assert_close(mine, theirs)
        assert all([v._array is array for v, array in zip(given, memory, strict=True)])
        versions = [value._version > 0 for value in given]
        assert versions == [value._version > 0 for value in twins]
    if spares is not None:
        touched = [step for one in made for step in one.schedule if isinstance(step, Touch)]
        assert bool(touched) == spares


def test_arguments_that_share_memory() -> None:
    def function(x: Any, y: Any) -> None:
        x.mul_(2)
        y.add_(1)

    for make in (
        lambda base: (base[:4], base[4:8]),
        lambda base: (base[:6], base[2:8]),
        lambda base: (base[:4], base[:4]),
        lambda base: (base, base),
        lambda base: (base[::2], base[1::2]),
    ):
        compiled = torch.compile(function)
        for _ in range(3):
            mine, theirs = torch.arange(8.0), torch.arange(8.0)
            compiled(*make(mine))
            function(*make(theirs))
            assert mine.tolist() == theirs.tolist()


def test_strided_arguments() -> None:
    compiled = torch.compile(lambda x, y: x.add_(y * 2))
    for make in (
        lambda: torch.randn(4, 6).t(),
        lambda: torch.randn(6, 8)[:, ::2],
        lambda: torch.randn(6, 4),
    ):
        x, y = make(), torch.randn(6, 4)
        twin = x.clone()
        compiled(x, y)
        torch.testing.assert_close(x, twin + y * 2)


def test_saved_values_that_are_written_are_missed() -> None:
    w = torch.randn(3, requires_grad=True)
    x = torch.randn(3)
    y = (w * x).sum()
    torch.compile(lambda x: x.mul_(2))(x)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.backward()


def test_memory_that_may_not_be_written() -> None:
    x = torch.from_numpy(np.arange(4, dtype=np.float32))
    compiled = torch.compile(lambda x: x.mul_(2))
    compiled(x)
    x._array.flags.writeable = False
    with pytest.raises(RuntimeError, match="writable"):
        compiled(x)
    assert x.tolist() == [0, 2, 4, 6]


def test_nothing_is_written_before_what_may_raise(made: list[Any]) -> None:
    def function(x: Any, table: Any, index: Any) -> Any:
        rows = table[index]
        x.mul_(2)
        return rows

    compiled = torch.compile(function)
    table = torch.randn(3, 2)
    for _ in range(2):
        x = torch.ones(4)
        torch.testing.assert_close(compiled(x, table, torch.tensor([0, 2])), table[[0, 2]])
        assert x.tolist() == [2.0] * 4
        with pytest.raises(IndexError):
            compiled(x, table, torch.tensor([0, 5]))
        assert x.tolist() == [2.0] * 4


def test_statistics_of_a_norm_in_training() -> None:
    torch.manual_seed(0)
    module, twin = torch.nn.BatchNorm1d(5), torch.nn.BatchNorm1d(5)
    compiled = torch.compile(module)
    for _ in range(6):
        x = torch.randn(7, 5)
        compiled(x).square().sum().backward()
        twin(x).square().sum().backward()
        for one, other in zip(module.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(one, other)
        torch.testing.assert_close(module.weight.grad, twin.weight.grad)


def test_threads_with_their_own_arguments() -> None:
    compiled = torch.compile(lambda x: x.mul_(1.5).add_(1))
    compiled(torch.zeros(300))
    wrong: list[int] = []

    def work(number: int) -> None:
        x, twin = torch.full((300,), float(number)), torch.full((300,), float(number))
        for _ in range(20):
            compiled(x)
            twin.mul_(1.5).add_(1)
        if x.tolist() != twin.tolist():
            wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


class DoublesLate(torch.autograd.Function):
    """The backward writes to `other`."""

    @staticmethod
    def forward(ctx: Any, x: Any, other: Any) -> Any:
        ctx.other = other
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        with torch.no_grad():
            ctx.other.mul_(2)
        return grad * 2, None


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_a_backward_writes_may_be_given_twice(dynamic: bool) -> None:
    def function(written: Any, read: Any, w: Any) -> Any:
        return DoublesLate.apply(w, written) + read.sin() * w * read

    seen = []
    options = {"fw_compiler": torch.compiler.compile_graph, "dynamic": dynamic}
    for run in (function, aot_function(function, **options)):
        shared = torch.arange(1.0, 5.0)
        w = torch.ones(4, requires_grad=True)
        run(shared, shared, w).sum().backward()
        seen.append((w.grad, shared))
    same(*seen)
