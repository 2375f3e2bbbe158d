"""Transforms, `cond` and checkpoints in compiled functions: one graph, values and gradients as in
eager code, with every backend."""

from __future__ import annotations

import functools

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter
from rushlight.utils.checkpoint import checkpoint

W = torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()
LAYER = torch.nn.Linear(3, 3)


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def gradient(x):
    return torch.func.grad(lambda v: (v @ W).sin().sum())(x)


def gradient_and_aux(x):
    def loss(v, k):
        y = v * k
        return (y * y).sum(), y

    got, aux = torch.func.grad(loss, has_aux=True)(x, x + 1)
    return got + aux


def second_argument(x):
    return torch.func.grad(lambda a, b: (a * b * b).sum(), argnums=1)(x, x + 1)


def mapped(x):
    return torch.func.vmap(lambda v: (v @ W).relu() + v.sum())(x)


def mapped_over_two(x):
    return torch.func.vmap(lambda a, b: a * b.sum(), in_dims=(0, 1))(x, x.t())


def mapped_dims(x):
    return torch.func.vmap(lambda a, b: (a + b, a * 2), in_dims=(1, None), out_dims=1)(x, x[0])


def per_sample(x):
    return torch.func.vmap(torch.func.grad(lambda v: F.linear(v, W).sin().sum()))(x)


def tangent(x):
    return torch.func.jvp(lambda v: v.sin() * 2, (x,), (x + 1,))


def pulled(x):
    out, pull = torch.func.vjp(lambda v: v.sin(), x)
    return pull(out)[0]


def jacobian(x):
    return torch.func.jacrev(lambda v: (v * v) @ W)(x[0])


def hessian(x):
    return torch.func.hessian(lambda v: (v * v * v).sum())(x[0])


def chosen(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin() @ W, lambda a: a.cos() * W, (x,))


def chosen_nest(x):
    found = torch.cond(
        x.sum() > 0,
        lambda a: {"p": a + 1, "q": (a * 2,)},
        lambda a: {"p": a - 1, "q": (a * 3,)},
        [x],
    )
    return found["p"] + found["q"][0]


def recomputed(x):
    return checkpoint(lambda v: LAYER(v).sin() * W, x, use_reentrant=False) + 1


PROGRAMS = [
    gradient, gradient_and_aux, second_argument, mapped, mapped_over_two, mapped_dims, per_sample,
    tangent, pulled, jacobian, hessian, chosen, chosen_nest, recomputed,
]  # fmt: skip


def close(a, b):
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(close, a, b))
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def run(f, sign):
    W.grad = None
    x = (torch.linspace(0.1, 2, 9).reshape(3, 3) * sign).requires_grad_()
    out = f(x)
    if isinstance(out, tuple):
        out = out[0] + out[-1]
    if out.requires_grad:
        out.sum().backward()
    none = torch.zeros(0)
    return tuple(none if v is None else v.detach() for v in (out, x.grad, W.grad))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_gradients(program, backend):
    compiled = torch.compile(program, backend=backend, fullgraph=True)
    for sign in (1, -1, 1):
        assert close(run(compiled, sign), run(program, sign)), sign


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(program):
    counter = CompileCounter()
    compiled = torch.compile(program, backend=counter)
    for sign in (1, -1):
        run(compiled, sign)
    assert counter.frame_count == 1


def test_a_transformed_function_that_is_kept():
    def f(x):
        y = x * 2
        g = torch.func.grad(lambda v: (v * v).sum())
        return g(y), g

    compiled = torch.compile(f, backend="eager")
    got, g = compiled(torch.ones(2))
    assert got.tolist() == [4.0, 4.0]
    assert g(torch.ones(2)).tolist() == [2.0, 2.0]


def test_side_effects_in_a_body_break_the_graph():
    seen = []

    def f(x):
        def loss(v):
            seen.append(1)
            return (v * v).sum()

        return torch.func.grad(loss)(x)

    compiled = torch.compile(f, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [1]


MODEL = torch.nn.Linear(3, 2)
PARAMS = {name: p.detach() for name, p in MODEL.named_parameters()}
ENSEMBLE = {name: torch.stack([p, p * 2]) for name, p in PARAMS.items()}


def one(params, x):
    return torch.func.functional_call(MODEL, params, (x,))


def loss(params, x, y):
    return (one(params, x[None])[0] - y).square().sum()


def loss_and_parts(params, pair):
    x, y = pair
    value = loss(params, x, y)
    return value, {"value": value, "parts": [x, y * 2]}


VMAPPED, GRADIENT = torch.vmap(one, in_dims=(0, None)), torch.func.grad(loss)
ON_TREES = {
    "mapped": lambda x, y: torch.vmap(one, in_dims=(0, None))(ENSEMBLE, x),
    "mapped by key": lambda x, y: torch.vmap(one, ({"weight": 0, "bias": 0}, None))(ENSEMBLE, x),
    "mapped outside": lambda x, y: VMAPPED(ENSEMBLE, x).sin(),
    "gradient": lambda x, y: torch.func.grad(loss)(PARAMS, x[0], y[0]),
    "gradient outside": lambda x, y: GRADIENT(PARAMS, x[0], y[0]),
    "of each sample": lambda x, y: torch.vmap(torch.func.grad(loss), (None, 0, 0))(PARAMS, x, y),
    "of each sample, outside": lambda x, y: torch.vmap(GRADIENT, (None, 0, 0))(PARAMS, x, y),
    "two arguments": lambda x, y: torch.func.grad(loss, argnums=(0, 2))(PARAMS, x[0], y[0]),
    "and value": lambda x, y: torch.func.grad_and_value(loss)(PARAMS, x[0], y[0]),
    "and aux": lambda x, y: torch.func.grad(loss_and_parts, has_aux=True)(PARAMS, (x[0], y[0])),
    "and both": lambda x, y: torch.func.grad_and_value(loss_and_parts, has_aux=True)(
        PARAMS, (x[0], y[0])
    ),
    "a dict of results": lambda x, y: torch.vmap(lambda d: {"a": d["x"] * d["k"], "b": [d["y"]]})(
        {"x": x, "y": y, "k": y[:, :1]}
    ),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", ON_TREES)
def test_transforms_of_functions_of_containers(name, backend):
    function, counter = ON_TREES[name], CompileCounter()
    torch.testing.assert_close(
        torch.compile(function, backend=counter, fullgraph=True)(
            torch.ones(4, 3), torch.ones(4, 2)
        ),
        function(torch.ones(4, 3), torch.ones(4, 2)),
    )
    assert counter.frame_count == 1
    compiled = torch.compile(function, backend=backend)
    for step in range(3):
        x, y = torch.randn(4, 3) + step, torch.randn(4, 2)
        torch.testing.assert_close(compiled(x, y), function(x, y))


def test_a_transform_made_outside_is_told_from_others():
    made = [torch.vmap(lambda x: x.sum() * 2, in_dims=0)]
    compiled = torch.compile(lambda x: made[0](x), backend="eager")
    x = torch.arange(6.0).reshape(2, 3)
    assert compiled(x).tolist() == [6.0, 24.0]
    made[0] = torch.vmap(lambda x: x.sum() * 2, in_dims=1)
    assert compiled(x).tolist() == [6.0, 10.0, 14.0]
    made[0] = torch.vmap(lambda x: x.sum() * 3, in_dims=1)
    assert compiled(x).tolist() == [9.0, 15.0, 21.0]
    made[0] = torch.func.jacrev(torch.vmap(lambda x: x.sum() * 3, in_dims=1))
    assert compiled(x).shape == (3, 2, 3)
    scale = torch.func.grad(lambda x: (x * x).sum())

    @functools.wraps(scale)
    def wrapped(x):
        return scale(x) + 1

    made[0] = wrapped
    assert torch.equal(compiled(x), x * 2 + 1)
