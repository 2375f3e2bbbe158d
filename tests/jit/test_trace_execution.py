"""The graph of a trace is the program: it runs without the function, on other shapes, and has
gradients of any order."""

from __future__ import annotations

import gc
import io
import warnings
import weakref

import pytest

import rushlight as torch
from rushlight.testing.comparison import assert_close
from tests.jit import programs_trace

# A module that counts its calls, and one that is traced anew each time, are not what they were.
CHANGING = {"batch_norm_train", "buffers", "residual_train", "traced_inside"}


def traced_and_eager(programs, name):
    """What a traced program gives, and what the program itself gives on the same inputs."""
    torch.manual_seed(1)
    target, inputs = programs[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(target, inputs, check_trace=False, strict=False)
        torch.manual_seed(1)
        target, inputs = programs[name](torch)
        torch.manual_seed(2)
        expected = target(*inputs)
    torch.manual_seed(1)
    _, inputs = programs[name](torch)
    torch.manual_seed(2)
    return traced(*inputs), expected


@pytest.mark.parametrize("name", sorted(programs_trace.FUNCTIONS))
def test_functions_compute_what_python_does(name):
    got, expected = traced_and_eager(programs_trace.FUNCTIONS, name)
    if isinstance(expected, int):
        expected = torch.tensor(expected)
    assert_close(got, expected, equal_nan=True)


@pytest.mark.parametrize("name", sorted(set(programs_trace.MODULES) - CHANGING))
def test_modules_compute_what_python_does(name):
    got, expected = traced_and_eager(programs_trace.MODULES, name)
    assert_close(got, expected)


def test_the_function_is_gone():
    def f(x):
        return torch.tanh(x) * 2

    traced = torch.jit.trace(f, torch.ones(3))
    traced.__dict__.clear()
    here = weakref.ref(f)
    expected = f(torch.arange(4.0))
    del f
    gc.collect()
    assert here() is None
    assert_close(traced(torch.arange(4.0)), expected)


def test_the_module_is_gone():
    module = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    expected = module(torch.ones(5, 3))
    traced = torch.jit.trace(module, torch.ones(2, 3))
    here = weakref.ref(module)
    del module
    gc.collect()
    assert here() is None
    assert_close(traced(torch.ones(5, 3)), expected)


def sizes(x):
    rows, columns = x.shape
    half = x[: rows // 2]
    return half.reshape(-1), torch.arange(rows, columns * 2), x.view(columns, rows)


def positions(x):
    return x + torch.arange(x.size(1)) * torch.ones(x.size(0), 1)


def padded(x):
    return torch.cat([x, x.new_zeros(10 - x.size(0), x.size(1))])


def last(x):
    n = x.size(0)
    return x[n - 1], x[:, -1:], x[n - 2 : n]


def heads(x):
    batch, width = x.size()
    return x.view(batch, 2, width // 2).transpose(0, 1).contiguous().view(2, -1)


def grid(x):
    return torch.full(x.shape, 2.0) + torch.zeros(x.size()) + x.numel()


def joined(x):
    # Sizes are added as tuples, which keeps what is traced.
    return x.reshape(x.shape[:1] + (2, -1)), torch.zeros(torch.Size([x.size(1), 2]))  # noqa: RUF005


@pytest.mark.parametrize("function", [sizes, positions, padded, last, heads, grid, joined])
@pytest.mark.parametrize("shape", [(4, 6), (7, 8), (5, 4)])
def test_other_shapes(function, shape):
    traced = torch.jit.trace(function, torch.rand(4, 6))
    x = torch.rand(*shape)
    assert_close(traced(x), function(x))


def test_a_tensor_as_count():
    traced = torch.jit.trace(lambda x, k: x.topk(k)[0], (torch.arange(5.0), torch.tensor(2)))
    assert traced(torch.arange(9.0), torch.tensor(4)).tolist() == [8, 7, 6, 5]


def test_other_dtypes_of_numbers():
    traced = torch.jit.trace(lambda x: x + 1.5, torch.ones(2))
    assert traced(torch.ones(2, dtype=torch.int64)).dtype == torch.float32
    assert traced(torch.ones(2, dtype=torch.float64)).dtype == torch.float64


def loss(x, w):
    return (torch.tanh(x @ w) ** 2).sum()


def test_double_backward():
    def second_order(function, x, w):
        (g,) = torch.autograd.grad(function(x, w), w, create_graph=True)
        return torch.autograd.grad(g.pow(2).sum(), (x, w))

    x = torch.rand(3, 4, requires_grad=True)
    w = torch.rand(4, 2, requires_grad=True)
    traced = torch.jit.trace(loss, (x.detach(), w.detach()))
    assert_close(second_order(traced, x, w), second_order(loss, x, w))


def test_gradients_reach_parameters():
    module = torch.nn.Linear(3, 2)
    traced = torch.jit.trace(module, torch.ones(1, 3))
    traced(torch.ones(4, 3)).sum().backward()
    assert traced.weight is module.weight
    assert_close(module.weight.grad, torch.full((2, 3), 4.0))


def test_writes_are_seen_by_the_caller():
    traced = torch.jit.trace(lambda x: x.add_(1) * 2, torch.zeros(2), check_trace=False)
    x = torch.zeros(3)
    traced(x)
    assert x.tolist() == [1, 1, 1]


def test_buffers_advance_on_each_run():
    module, inputs = programs_trace.MODULES["buffers"](torch)
    traced = torch.jit.trace(module, inputs, check_trace=False)
    before = module.count.item()
    traced(torch.zeros(3))
    traced(torch.zeros(3))
    assert module.count.item() == before + 2


def test_random_numbers_come_as_in_python():
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(4)

    traced = torch.jit.trace(f, torch.ones(4), check_trace=False)
    torch.manual_seed(7)
    expected = f(torch.ones(4))
    torch.manual_seed(7)
    assert_close(traced(torch.ones(4)), expected)


def saved_and_loaded(name, programs):
    target, inputs = programs[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(target, inputs, check_trace=False, strict=False)
    buffer = io.BytesIO()
    torch.jit.save(traced, buffer)
    buffer.seek(0)
    return traced, torch.jit.load(buffer)


# A call of Python stays in the process.
WITH_PYTHON = {"autograd_function", "autograd_function_pair"}


@pytest.mark.parametrize("name", sorted(set(programs_trace.FUNCTIONS) - WITH_PYTHON))
def test_functions_from_files(name):
    traced, loaded = saved_and_loaded(name, programs_trace.FUNCTIONS)
    build = programs_trace.FUNCTIONS[name]
    torch.manual_seed(3)
    expected = traced(*build(torch)[1])
    torch.manual_seed(3)
    assert_close(loaded(*build(torch)[1]), expected, equal_nan=True)


@pytest.mark.parametrize("name", sorted(set(programs_trace.MODULES) - CHANGING))
def test_modules_from_files(name):
    traced, loaded = saved_and_loaded(name, programs_trace.MODULES)
    build = programs_trace.MODULES[name]
    torch.manual_seed(3)
    expected = traced(*build(torch)[1])
    torch.manual_seed(3)
    assert_close(loaded(*build(torch)[1]), expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.nn.LSTMCell(4, 3),
        lambda: torch.nn.LSTMCell(4, 3, bias=False),
        lambda: torch.nn.GRUCell(4, 3),
        lambda: torch.nn.RNNCell(4, 3),
        lambda: torch.nn.RNNCell(4, 3, nonlinearity="relu"),
    ],
)
def test_cells_are_traced_as_their_parts(make):
    torch.manual_seed(0)
    module = make().double()
    x = torch.rand(2, 4, dtype=torch.float64)
    traced = torch.jit.trace(module, x)
    assert "_cell(" not in str(traced.graph)
    x = torch.rand(5, 4, dtype=torch.float64, requires_grad=True)
    results = []
    for run in (module, traced):
        module.zero_grad()
        found = run(x)
        found = found if isinstance(found, tuple) else (found,)
        grads = torch.autograd.grad(
            sum([each.cos().sum() for each in found]), [x, *module.parameters()]
        )
        results.append([*found, *grads])
    assert all([torch.allclose(a, b) for a, b in zip(*results)])
    assert torch.autograd.gradgradcheck(lambda x: traced(x), (x,))
