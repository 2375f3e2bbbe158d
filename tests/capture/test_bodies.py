"""Transforms, `cond` and checkpoints in compiled functions: one graph, values and gradients as in
eager code, with every backend."""

from __future__ import annotations

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
