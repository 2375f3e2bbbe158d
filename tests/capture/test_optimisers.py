"""Compiled steps of optimisers, and whole training steps: parameters and state as in eager code."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter

OPTIMISERS = {
    "SGD": (torch.optim.SGD, {"lr": 0.1}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "Adam": (torch.optim.Adam, {"lr": 0.1}),
    "AdamW": (torch.optim.AdamW, {"lr": 0.1}),
    "RMSprop": (torch.optim.RMSprop, {"lr": 0.1}),
    "Adagrad": (torch.optim.Adagrad, {"lr": 0.1}),
    "Adadelta": (torch.optim.Adadelta, {}),
    "Rprop": (torch.optim.Rprop, {}),
}


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def moved(make, options, compile_):
    """Parameters and state after some steps; a parameter is without a gradient at first."""
    params = [torch.nn.Parameter(torch.arange(4.0).reshape(2, 2) + n) for n in range(3)]
    optimiser = make(params, **options)
    step = compile_(optimiser.step)
    for number in range(5):
        for param in params[: 2 if number == 0 else 3]:
            param.grad = torch.ones_like(param) * (number + 1)
        if number == 3:
            optimiser.param_groups[0]["lr"] = 0.05
        step()
    state = [sorted(map(str, optimiser.state[param].items())) for param in params]
    return [param.tolist() for param in params], state, torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps(name, backend):
    make, options = OPTIMISERS[name]
    counter = CompileCounter()
    want = moved(make, options, lambda step: step)
    assert moved(make, options, lambda step: torch.compile(step, backend=backend)) == want
    assert moved(make, options, lambda step: torch.compile(step, backend=counter)) == want
    assert counter.frame_count >= 2


def test_a_step_settles():
    counter = CompileCounter()
    param = torch.nn.Parameter(torch.ones(3))
    optimiser = torch.optim.Adam([param], lr=0.1)
    step = torch.compile(optimiser.step, backend=counter, fullgraph=True)
    counts = []
    for _ in range(4):
        param.grad = torch.ones(3)
        step()
        counts.append(counter.frame_count)
    # The first makes the state.
    assert counts == [1, 2, 2, 2]


def test_hooks_added_to_an_optimiser():
    seen = []
    param = torch.nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimiser = torch.optim.SGD([param], lr=0.1)
    step = torch.compile(optimiser.step, backend="eager")
    step()
    optimiser.register_step_post_hook(lambda *args: seen.append(1))
    step()
    assert seen == [1]


def test_tensors_as_keys():
    a, b = torch.ones(2), torch.ones(2) * 2
    table = {a: 3.0, b: 4.0, "k": 5.0}
    counter = CompileCounter()

    def f(x, y):
        table["last"] = x
        return x * table[x] + table.get(y, 0) + (y in table)

    compiled = torch.compile(f, backend=counter)
    for _ in range(2):
        for pair in ((a, b), (b, a), (a, torch.ones(2))):
            assert compiled(*pair).tolist() == f(*pair).tolist()
    assert counter.frame_count
    table[a] = 7.0
    assert compiled(a, b).tolist() == f(a, b).tolist()
    table["last"] = None
    del table[b]
    assert compiled(a, b).tolist() == f(a, b).tolist()
    assert [type(key) for key in table] == [torch.Tensor, str, str]
