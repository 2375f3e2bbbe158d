"""Hooks of tensors: put on by the graph, run by backward with what they find then."""

from __future__ import annotations

import functools

import pytest

import rushlight as torch
from rushlight.capture.recording import NATIVE
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounterWithBackend
from tests.capture.profiles import called

STATE = {"k": 3, "log": []}


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def global_hook(g):
    return g * STATE["k"]


class Scaling:
    def __init__(self):
        self.k, self.calls = 2, 0

    def hook(self, g):
        self.calls += 1
        return g * self.k


SCALING = Scaling()


def plain(x):
    z = x * 2
    z.register_hook(lambda g: g * 3)
    return (z * x).sum()


def late_closure(x):
    k = 4

    def hook(g):
        return g * k

    z = x * 2
    z.register_hook(hook)
    k = 5
    return (z * x).sum()


def holds_a_result(x):
    z, s = x * 2, x.relu()
    z.register_hook(lambda g: g * s)
    return (z * x).sum()


def removed(x):
    z = x * 2
    handle = z.register_hook(global_hook)
    w = z * 3
    handle.remove()
    return (w * x).sum()


def removed_by_a_block(x):
    z = x * 2
    with z.register_hook(global_hook):
        w = z + 1
    return (w * x).sum()


def with_effects(x):
    z = x * 2
    z.register_hook(lambda g: STATE["log"].append(g.sum().item()))
    return (z * x).sum()


def on_an_input(x):
    x.register_hook(lambda g: g * 3)
    return (x * x).sum()


def partial(x):
    z = x * 2
    z.register_hook(functools.partial(lambda k, g: g * k, 7))
    return (z * x).sum(), z


def method_of_a_new_object(x):
    made, z = Scaling(), x * 2
    z.register_hook(made.hook)
    made.k = 9
    return (z * x).sum(), made


def method_of_an_object(x):
    z = x * 2
    z.register_hook(SCALING.hook)
    return (z * x).sum(), SCALING.calls


def around_a_write(x):
    z = (x * 2).view(-1)
    z.register_hook(lambda g: g * 3)
    z.mul_(2)
    z.register_hook(lambda g: g + 1)
    return (z * x.view(-1)).sum()


def in_a_loop(x):
    z = x * 2
    for i in range(3):
        z = z * x
        z.register_hook(lambda g, i=i: g * (i + 1))
    return z.sum()


def beside_grad_modes(x):
    with torch.no_grad():
        s = x.sum()
    z = x * 2
    z.register_hook(lambda g: g * 3)
    with torch.no_grad():
        s = s + 1
    return (z * x).sum() * s


def functions_that_call(x):
    def hook(g):
        return other(g) * 2

    def other(g):
        return g * 3

    z = x * 2
    z.register_hook(hook)
    return (z * x).sum(), hook


def retained(x):
    z = x * 2
    z.retain_grad()
    return (z * x).sum(), z


PROGRAMS = [
    plain, late_closure, holds_a_result, removed, removed_by_a_block, with_effects, on_an_input,
    partial, method_of_a_new_object, method_of_an_object, around_a_write, in_a_loop,
    beside_grad_modes, functions_that_call, retained,
]  # fmt: skip


def seen(value):
    if isinstance(value, Scaling):
        return value.k, value.calls
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.is_leaf or value.grad is None or value.grad.tolist()
    return value(2) if callable(value) else value


def outcome(f):
    """Results and gradients of three calls; what hooks read changes between them."""
    STATE["log"].clear()
    SCALING.calls = 0
    x = (torch.arange(6.0).reshape(2, 3) / 4 + 0.5).requires_grad_()
    found = []
    for k in (3, 4, 5):
        STATE["k"] = k
        result = f(x)
        loss, *rest = result if isinstance(result, tuple) else (result,)
        loss.backward()
        found.append((loss.item(), x.grad.tolist(), [seen(value) for value in rest]))
    return found, list(STATE["log"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_hooks_are_in_the_graph(program, backend):
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(program, backend=counter, fullgraph=True)
    assert outcome(compiled) == outcome(program)
    assert counter.frame_count == 1
    assert any(node.meta.get(NATIVE) for node in counter.graphs[0].graph.nodes)


def test_the_forward_of_a_hit_runs_no_user_code():
    compiled = torch.compile(late_closure, backend="aot_eager")
    x = torch.ones(2, 3, requires_grad=True)
    compiled(x)
    with called(__file__) as codes:
        loss = compiled(x)
        of_the_forward = len(codes)
        loss.backward()
    # The entry has the function's name; the hook is the user's.
    assert of_the_forward == 1 and [code.co_name for code in codes] == ["late_closure", "hook"]


def test_the_graph_alone_registers_the_hook():
    recorded = []

    def backend(gm, inputs):
        recorded.append(gm)
        return gm.forward

    torch.compile(plain, backend=backend)(torch.ones(2, 3, requires_grad=True))
    x = torch.ones(2, 3, requires_grad=True)
    (loss,) = recorded[0](x, lambda g: g * 10)
    loss.backward()
    assert x.grad.tolist() == [[22.0] * 3] * 2


def test_the_handle_that_is_returned_removes_the_hook():
    def f(x):
        z = x * 2
        handle = z.register_hook(lambda g: g * 3)
        return (z * x).sum(), handle

    def gradient(f, remove):
        x = torch.ones(2, 3, requires_grad=True)
        loss, handle = f(x)
        if remove:
            handle.remove()
        loss.backward()
        return x.grad.tolist()

    for backend in ("eager", "inductor"):
        compiled = torch.compile(f, backend=backend, fullgraph=True)
        for remove in (False, True, False):
            assert gradient(compiled, remove) == gradient(f, remove)


def test_a_tensor_without_gradient_has_no_hooks():
    def f(x):
        z = x * 2
        z.register_hook(lambda g: g)
        return z

    with pytest.raises(RuntimeError, match="requires_grad|require gradient|doesn't require"):
        torch.compile(f, backend="eager")(torch.ones(2))


def test_hook_behind_every_accumulation():
    seen_grads = []

    def f(x):
        x.register_post_accumulate_grad_hook(lambda p: seen_grads.append(p.grad.sum().item()))
        return (x * 2).sum()

    x = torch.ones(3, requires_grad=True)
    torch.compile(f, backend="inductor", fullgraph=True)(x).backward()
    assert seen_grads == [6.0]
