"""One compiled artifact for all sizes: values, strides and gradients are those of an eager run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.tracing import make_fx
from rushlight.base.counters import counters
from rushlight.codegen import driver, lower, native
from rushlight.codegen.expressions import Inexpressible
from rushlight.codegen.extents import Extents
from rushlight.codegen.loops import Kernel
from rushlight.codegen.values import Call
from rushlight.compiler.sizes import mark_dynamic
from tests.codegen.random_programs import inputs_for, random_program

pytest.importorskip("llvmlite")

F = torch.nn.functional
MADE: list[driver.Compiled] = []


@pytest.fixture(autouse=True)
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Every graph that a test compiles."""
    original = driver.Compiled.__init__

    def init(self: Any, *args: Any) -> None:
        original(self, *args)
        self.native_calls = 0
        for name in [name for name in self.scope if name.startswith("segment")]:
            self.scope[name] = counted(self, self.scope[name])
        MADE.append(self)

    def counted(compiled: Any, segment: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            compiled.native_calls += 1
            return segment(*args)

        return call

    monkeypatch.setattr(driver.Compiled, "__init__", init)
    MADE.clear()
    torch.compiler.reset()
    yield MADE
    MADE.clear()


def randn(*shape: int) -> Any:
    return torch.randn(shape)


def exact(got: Any, wanted: Any) -> None:
    check(got, wanted, 0.0)


def close(got: Any, wanted: Any) -> None:
    check(got, wanted, 2e-5)


def check(got: Any, wanted: Any, tolerance: float) -> None:
    if isinstance(wanted, (tuple, list)):
        for mine, theirs in zip(got, wanted, strict=True):
            check(mine, theirs, tolerance)
        return
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
        return
    assert (got.shape, got.stride(), got.dtype) == (wanted.shape, wanted.stride(), wanted.dtype)
    mine, theirs = got.detach().numpy(), wanted.detach().numpy()
    np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)
    if not tolerance and wanted.dtype.is_floating_point:
        np.testing.assert_array_equal(np.signbit(mine), np.signbit(theirs))


def compiled_once(function: Any, calls: list[tuple[Any, ...]], compare: Any) -> Any:
    """Compile with symbolic sizes, call with all arguments, expect one compilation."""
    counters["stats"].clear()
    made = torch.compile(function, dynamic=True, fullgraph=True)
    for args in calls:
        compare(made(*args), function(*args))
    assert counters["stats"]["unique_graphs"] == 1
    return made


PAIRS = [(5, 8), (4, 3), (3, 64), (17, 5), (64, 129), (300, 31), (9, 1000)]

ELEMENTWISE = {
    "chain": lambda x: (x * 2 + 1).tanh() * x.exp(),
    "broadcast": lambda x: x + x[:1] - x[:, :1],
    "scalar of a size": lambda x: x * x.shape[0] - x.shape[1],
    "fill": lambda x: torch.full((x.shape[1], x.shape[0]), 2.5) + x.t(),
    "transposed copy": lambda x: x.t().contiguous(),
    "transposed sum": lambda x: x.t() + x.t(),
    "slice": lambda x: x[1:] * 2,
    "every second": lambda x: x[:, ::2] * 2,
    "split view": lambda x: x.view(x.shape[0], 1, x.shape[1]) * 3,
    "flat view": lambda x: x.relu().view(-1) + 1,
    "unflat view": lambda x: (x.reshape(-1) * 2).view(x.shape[1], -1) + 1,
    "permuted": lambda x: x.expand(3, x.shape[0], x.shape[1]).permute(2, 0, 1) * 2,
    "triangle": lambda x: x.tril(1) + x.triu(),
    "mask": lambda x: x.masked_fill(x > 0, 3.0),
    "integers": lambda x: (x * 10).to(torch.int64) + x.shape[0],
    "bools": lambda x: (x > 0) & (x < 1),
    "where": lambda x: torch.where(x.isnan(), -0.0, x * -0.0),
    "half": lambda x: x.to(torch.float16) * 3,
    "bfloat16": lambda x: (x.to(torch.bfloat16) + 1).to(torch.float32),
    "several": lambda x: (x + 1, x[0] * 2, x.t() * 3),
    "cat": lambda x: torch.cat([x * 2, x]) + 1,
    "arange": lambda x: torch.arange(x.shape[0]) + x[:, 0],
}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_to_the_bit(name: str, made: list[Any]) -> None:
    calls = [(randn(*shape),) for shape in PAIRS]
    # Not only plain numbers.
    for (x,) in calls:
        x.view(-1)[:5] = torch.tensor([float("nan"), float("inf"), -0.0, 0.0, -1.5])
    compare = close if name in ("chain",) else exact
    compiled_once(ELEMENTWISE[name], calls, compare)
    assert sum([one.native_calls for one in made]) >= len(calls)


REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "rows": lambda x: x.sum(1),
    "columns": lambda x: x.sum(0),
    "mean": lambda x: (x.mean(), x.mean(0), x.mean(-1, keepdim=True)),
    "extremes": lambda x: (x.amax(1), x.amin(0), x.amax()),
    "prod": lambda x: (x * 0.1 + 1).prod(1),
    "any": lambda x: ((x > 2).any(0), (x < 2).all(1)),
    "softmax": lambda x: (x.softmax(-1), x.softmax(0), x.log_softmax(1)),
    "norm": lambda x: F.layer_norm(x, (x.shape[1],)),
    "variance": lambda x: (x.var(0), x.std(1, correction=0), x.var()),
    "centred": lambda x: (x - x.mean(0)) / (x.std(0) + 1),
    "of a view": lambda x: (x.view(1, x.shape[0], x.shape[1]) * 2).sum((0, 2)),
    "product": lambda x: (x @ x.t()).relu(),
    "batched": lambda x: torch.bmm(x.expand(3, *x.shape) * 0.05, x.t().expand(3, *x.t().shape)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, made: list[Any]) -> None:
    compiled_once(REDUCTIONS[name], [(randn(*shape),) for shape in PAIRS], close)
    assert all([one.native_calls for one in made])


def test_long_sums_keep_their_accuracy() -> None:
    made = torch.compile(lambda x: (x.sum(), x.sum(0)), dynamic=True)
    made(torch.ones(5, 3))
    x = torch.full((200_000, 3), 0.1)
    wanted = float(np.float32(0.1)) * 200_000
    total, columns = made(x)
    np.testing.assert_allclose(total.item(), wanted * 3, rtol=1e-6)
    np.testing.assert_allclose(columns.tolist(), [wanted] * 3, rtol=1e-6)


def test_every_size_from_two_to_seventy() -> None:
    def function(x: Any, w: Any) -> Any:
        hidden = F.gelu(x @ w) + x.shape[0]
        return hidden.softmax(0), hidden[1:].sum(0), hidden.t().contiguous()

    made = torch.compile(function, fullgraph=True)
    w = randn(6, 7)
    counters["stats"].clear()
    for size in range(2, 71):
        x = randn(size, 6)
        close(made(x, w), function(x, w))
    # The first size is a constant, the second makes it a symbol.
    assert counters["stats"]["unique_graphs"] == 2


def test_sizes_that_become_one_or_zero_inside() -> None:
    def function(x: Any) -> Any:
        rest = x[2:]
        return rest * 2, rest.sum(0), x[1:].mean(1)

    made = torch.compile(function, dynamic=True)
    for size in (9, 4, 3, 2, 5, 2, 3, 8):
        x = randn(size, 4)
        close(made(x), function(x))


@pytest.mark.parametrize("shape", [(2, 3), (2,), (2, 1, 4)])
def test_a_part_that_is_one_element_is_repeated(shape: tuple[int, ...]) -> None:
    def add(x: Any) -> Any:
        return x.chunk(2)[0] + x

    def multiply(x: Any) -> Any:
        first, last = x.chunk(2)
        return last * first[0], first * x

    for function in (add, multiply):
        made = aot_function(function, fw_compiler=torch.compiler.compile_graph, dynamic=True)
        for _ in range(3):
            x = randn(*shape).requires_grad_()
            exact(made(x), function(x))


def test_bits_are_those_of_the_static_kernel(made: list[Any]) -> None:
    def function(x: Any) -> Any:
        return (x.sin() * x + 1).relu(), x.exp().amax(1), torch.erf(x).t().contiguous()

    symbolic = torch.compile(function, dynamic=True)
    for shape in PAIRS:
        x = randn(*shape)
        exact(symbolic(x), torch.compile(function, dynamic=False)(x))


def model() -> Any:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 5)
    )


def gradients(run: Any, module: Any, x: Any, y: Any) -> list[Any]:
    module.zero_grad()
    loss = F.cross_entropy(run(x), y)
    loss.backward()
    return [loss, *[p.grad for p in module.parameters()], x.grad]


def test_training_step_of_one_artifact(made: list[Any]) -> None:
    module = model()
    run = torch.compile(module, dynamic=True, fullgraph=True)
    sizes = (4, 7, 2, 33, 128, 5)
    for size in sizes:
        x, y = randn(size, 12).requires_grad_(), torch.randint(0, 5, (size,))
        twin = x.detach().clone().requires_grad_()
        close(gradients(run, module, x, y), gradients(module, module, twin, y))
    forward, backward = made
    assert forward.native_calls >= len(sizes) and backward.native_calls >= len(sizes)
    assert any([isinstance(step, Kernel) for step in backward.schedule])


def test_attention_over_batch_and_length(made: list[Any]) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(1)
        return (scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v).sum()

    def run(function: Any, parts: list[Any]) -> list[Any]:
        given = [part.detach().clone().requires_grad_() for part in parts]
        loss = function(*given)
        loss.backward()
        return [loss, *[part.grad for part in given]]

    made_ = torch.compile(attention, dynamic=True, fullgraph=True)
    counters["stats"].clear()
    for batch, length in ((2, 7), (3, 16), (5, 2), (2, 33), (4, 64)):
        parts = [randn(batch, 3, length, 8) for _ in range(3)]
        close(run(made_, parts), run(attention, parts))
    assert counters["stats"]["unique_graphs"] == 1


def test_what_has_no_loops_is_called(made: list[Any]) -> None:
    compiled_once(lambda x: (x * 2).sort(1)[0] + 1, [(randn(*shape),) for shape in PAIRS], exact)
    (one,) = made
    called = [str(step.op) for step in one.schedule if isinstance(step, Call)]
    assert called == ["aten.sort.default"] or called == ["aten.sort.stable"]
    assert one.native_calls == 2 * len(PAIRS)


def test_numbers_as_arguments() -> None:
    calls = [(randn(3, 4), n) for n in (2, 5, 7, 100, -3)]
    compiled_once(lambda x, n: x * n + x.new_full((n * n, 1, 1), 1.0), calls, exact)


def test_strided_inputs() -> None:
    made = torch.compile(lambda x: x * 2 + x.sum(1, keepdim=True), dynamic=True)
    for rows, columns in ((4, 6), (5, 9), (6, 30)):
        for x in (randn(columns, rows).t(), randn(rows, 2 * columns)[:, ::2]):
            close(made(x), x * 2 + x.sum(1, keepdim=True))


def test_a_marked_size_alone_is_symbolic(made: list[Any]) -> None:
    function = torch.compile(lambda x: x.cos() + x.shape[1])
    for size in (4, 9, 23):
        x = randn(size, 6)
        mark_dynamic(x, 0)
        close(function(x), x.cos() + 6)
    (one,) = made
    assert "range(6)" in str(one)


def test_without_knowledge_of_array_objects(
    monkeypatch: pytest.MonkeyPatch, made: list[Any]
) -> None:
    monkeypatch.setattr(native.this_host(), "fast", False)
    calls = [(randn(*shape),) for shape in PAIRS]
    compiled_once(lambda x: (x.softmax(1) * x.shape[0]).t().contiguous(), calls, close)
    assert "PyLong" not in made[0].ir


def test_scratch_grows_with_the_sizes() -> None:
    def function(x: Any) -> Any:
        a = (x.exp() / x.exp().sum(0)).t()
        return (a / (1 + a.exp().sum(0))).sum()

    made = torch.compile(function, dynamic=True)
    for size in (3, 400, 2, 90, 700):
        x = randn(size, size + 1)
        close(made(x), function(x))


def test_threads_of_different_sizes() -> None:
    def function(x: Any) -> Any:
        a = (x.exp() / x.exp().sum(0)).t()
        return (a / (1 + a.exp().sum(0))).sum(0)

    made = torch.compile(function, dynamic=True)
    made(randn(3, 4))
    wrong: list[Any] = []

    def work(size: int) -> None:
        for _ in range(20):
            x = randn(size, size + 1)
            if not torch.allclose(made(x), function(x), rtol=1e-4, atol=1e-5):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(size,)) for size in (2, 7, 30, 111, 200, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# -- sizes that depend on data ---------------------------------------------------------------------


def test_sizes_that_results_tell() -> None:
    def function(x: Any) -> Any:
        places = x.nonzero()
        chosen = x[places[:, 0]]
        return places.to(torch.float32).exp(), (chosen * 3).relu(), torch.ones(places.shape[0] + 1)

    graph = make_fx(function, tracing_mode="symbolic")(torch.tensor([1.0, 0.0, 2.0, 0.0, -3.0]))
    run = lower(graph, None)
    for x in (torch.tensor([0.0, 0.0, 5.0]), torch.zeros(6), torch.ones(2), randn(40)):
        check(run(x), function(x), 1e-6)


def test_numbers_that_results_tell() -> None:
    def function(x: Any, y: Any) -> Any:
        return y * x.sum().item(), (y + 1) * 2

    graph = make_fx(function, tracing_mode="symbolic")(torch.arange(4), randn(3))
    run = lower(graph, None)
    for x, y in ((torch.arange(4), randn(3)), (torch.arange(9), randn(5))):
        exact(run(x, y), function(x, y))


# -- polynomials -----------------------------------------------------------------------------------


def test_polynomials() -> None:
    lines: list[str] = []

    def variable(text: str, atoms: Any) -> str:
        lines.append(text)
        return f"v{len(lines)}"

    family = Extents(variable)
    n, m = family.atom("n", "n", 7, 2), family.atom("m", "m", 5, 0)
    assert (n + m) * 2 is 2 * m + n * 2
    assert (n + 1) * (n - 1) is n * n - 1
    assert n - n == 0 and (n * 6) // 3 is n * 2 and (n * m) // m is n
    assert str(n * m * 3 - 1) == "(n*m*3 - 1)" and str(-n) == "(-n)"
    assert n > 1 and n >= 2 and not n < 2 and m >= 0 and n * m * 4 + 1 > 0
    assert n != 2 and n != m and hash(n + 1) == hash(1 + n)
    assert (n + 1) // 2 is (1 + n) // 2 and ((n + 1) // 2).hint == 4
    assert (n + 1) // 2 >= 1 and (n + 1) % 2 >= 0
    assert lines == ["(n + 1) // 2", "(n + 1) % 2"]
    for question in (lambda: n < m, lambda: n > 2, lambda: int(n), lambda: n / 2, lambda: [1][n]):
        with pytest.raises(Inexpressible):
            question()


# -- random programs -------------------------------------------------------------------------------


def with_gradients(function: Any, inputs: list[Any]) -> list[Any]:
    given = [value.detach().clone().requires_grad_() for value in inputs]
    results = function(*given)
    loss = sum([value.square().mean() for value in results])
    grads = torch.autograd.grad(loss, given, allow_unused=True)
    return [*results, *[torch.zeros(()) if grad is None else grad for grad in grads]]


def check_program(seed: int) -> None:
    program = random_program(seed)
    run = torch.compile(program, dynamic=True)
    for rows, columns in ((5, 7), (4, 6), (9, 3), (3, 12), (17, 33), (6, 5)):
        inputs = inputs_for(seed, rows, columns)
        got, wanted = with_gradients(run, inputs), with_gradients(program, inputs)
        for mine, theirs in zip(got, wanted, strict=True):
            # Gradients may be large, and differences of larger numbers.
            check(mine, theirs, 2e-4 * max(1.0, theirs.abs().max().item()))


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 110])
def test_random_programs(seed: int) -> None:
    check_program(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 608, 50))
def test_many_random_programs(first: int) -> None:
    for seed in range(first, first + 50):
        check_program(seed)
        torch.compiler.reset()


def test_a_view_that_is_all_of_its_memory_is_an_operand() -> None:
    def function(x: Any, w: Any) -> Any:
        product = (x @ w).t().t()
        return product, product @ product.t()

    for dynamic in (False, True):
        run = torch.compile(function, dynamic=dynamic)
        x, w = randn(4, 5).requires_grad_(), randn(5, 4).requires_grad_()
        close(with_gradients(run, [x, w]), with_gradients(function, [x, w]))


def test_sizes_that_guards_make_one_are_repeated():
    def function(x):
        first, last = x.chunk(2)
        total = last + x
        # Nothing uses it; that it can be computed says more of the sizes.
        first + total
        return total

    made = aot_function(function, fw_compiler=torch.compiler.compile_graph, dynamic=True)
    x = torch.arange(8.0).view(2, 2, 2)
    assert torch.equal(made(x), function(x))
