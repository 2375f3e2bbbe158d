"""Whole training steps as one compiled function: zero_grad, forward, backward, step. Losses and
parameters as in eager code; one graph for the first step, one for all others."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.counters import counters
from rushlight.compiler import compiling
from rushlight.compiler.counting import CompileCounter, CompileCounterWithBackend
from tests.capture.profiles import called

OPTIMISERS = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(
        params, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "Adam": lambda params: torch.optim.Adam(params, lr=0.01),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.01, amsgrad=True),
    "RMSprop": lambda params: torch.optim.RMSprop(params, lr=0.01),
    "Adagrad": lambda params: torch.optim.Adagrad(params, lr=0.01),
}


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def plain(net, optimiser):
    def step(x, y):
        optimiser.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def keeping_gradients(net, optimiser):
    def step(x, y):
        optimiser.zero_grad(set_to_none=False)
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimiser.step()
        return loss

    return step


def zeroed_at_the_end(net, optimiser):
    def step(x, y):
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        return loss

    return step


def clipped(net, optimiser):
    def step(x, y):
        optimiser.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimiser.step()
        return loss + norm

    return step


def accumulated(net, optimiser):
    def step(x, y):
        optimiser.zero_grad()
        total = 0
        for part in range(2):
            loss = F.mse_loss(net(x[part::2]), y[part::2]) / 2
            loss.backward()
            total = total + loss.detach()
        optimiser.step()
        return total

    return step


def by_hand(net, optimiser):
    def step(x, y):
        net.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        with torch.no_grad():
            for param in net.parameters():
                param -= 0.1 * param.grad
        return loss

    return step


def mixed_precision(net, optimiser):
    def step(x, y):
        optimiser.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.mse_loss(net(x), y.bfloat16())
        loss.float().backward()
        optimiser.step()
        return loss

    return step


STEPS = [
    plain, keeping_gradients, zeroed_at_the_end, clipped, accumulated, by_hand, mixed_precision,
]  # fmt: skip


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # No bias before the norm: its true gradient is zero, and Adam makes steps of the rounding.
        self.first, self.last = torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 2)
        self.norm, self.drop = torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.25)

    def forward(self, x):
        return self.last(self.drop(torch.relu(self.norm(self.first(x)))))


def trained(make_step, optimiser, compile_):
    """Losses, parameters, buffers and gradients after eight steps."""
    torch.manual_seed(0)
    net = Net()
    step = compile_(make_step(net, OPTIMISERS[optimiser](net.parameters())))
    losses = [step(torch.randn(6, 4), torch.randn(6, 2)).item() for _ in range(8)]
    state = [value.tolist() for value in net.state_dict().values()]
    grads = [None if param.grad is None else param.grad.tolist() for param in net.parameters()]
    return losses, state, grads


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make_step", STEPS, ids=lambda f: f.__name__)
def test_steps_of_all_kinds(make_step, backend):
    counters.clear()
    counter = CompileCounterWithBackend(backend)
    want = trained(make_step, "Adam", lambda step: step)
    compiled = trained(
        make_step, "Adam", lambda step: torch.compile(step, backend=counter, fullgraph=True)
    )
    assert compiled == want
    # The first has no state of the optimiser and no gradients; the third may find other ones.
    assert counter.frame_count <= 3 and not counters["graph_break"]


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_optimisers(optimiser):
    want = trained(plain, optimiser, lambda step: step)
    counter = CompileCounter()
    assert trained(plain, optimiser, lambda step: torch.compile(step, backend=counter)) == want
    assert counter.frame_count <= 3
    compiling.reset()
    losses, state, _ = trained(plain, optimiser, lambda step: torch.compile(step))
    assert losses == pytest.approx(want[0], rel=1e-4, abs=1e-6)
    for found, wanted in zip(state, want[1], strict=True):
        assert torch.allclose(torch.tensor(found), torch.tensor(wanted), rtol=1e-3, atol=1e-5)


def test_a_hit_runs_no_user_code_and_the_graph_trains_alone():
    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    torch.manual_seed(0)
    net = torch.nn.Linear(3, 1)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    step = torch.compile(plain(net, optimiser), backend=backend, fullgraph=True)
    x, y = torch.ones(2, 3), torch.zeros(2, 1)
    step(x, y)
    step(x, y)
    with called(__file__) as codes:
        step(x, y)
    assert [code.co_name for code in codes] == ["step"] and len(graphs) == 2
    before = net.weight.detach().clone()
    inputs = [node for node in graphs[1].graph.nodes if node.op == "placeholder"]
    sizes = {(2, 3): x, (2, 1): y, (1, 3): net.weight, (1,): net.bias}
    shapes = [tuple(node.meta["example_value"].shape) for node in inputs]
    assert sorted(shapes) == sorted(sizes)
    inputs = [sizes[shape] for shape in shapes]
    graphs[1](*inputs)
    assert not torch.equal(net.weight, before)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_backward_finds_may_change(backend):
    """Parameters that are frozen, hooks that are added, gradients that are there."""

    def run(compile_):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
        seen = []

        def step(x):
            loss = net(x).sum()
            loss.backward()
            return loss

        step = compile_(step)
        x = torch.arange(6.0).reshape(2, 3)
        found = []

        def note():
            step(x)
            grads = [None if p.grad is None else p.grad.tolist() for p in net.parameters()]
            found.append((grads, list(seen)))

        note()
        note()
        net[0].weight.requires_grad_(False)
        note()
        net[0].weight.requires_grad_(True)
        handle = net[1].weight.register_hook(lambda g: seen.append(g.shape) or g * 2)
        note()
        handle.remove()
        net[1].bias.register_post_accumulate_grad_hook(lambda p: seen.append("post"))
        note()
        net.zero_grad()
        note()
        x.requires_grad_()
        note()
        found.append(x.grad.tolist())
        x = (x * 2).detach().requires_grad_() * 1
        note()
        return found

    assert run(lambda f: torch.compile(f, backend=backend)) == run(lambda f: f)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_loss_that_was_used_and_is_detached_later(backend):
    def first(w):
        return (w * w).sin().sum()

    def later(loss, w):
        return loss.detach() + (w * w).sum()

    w = torch.ones(3, requires_grad=True)
    loss = torch.compile(first, backend=backend)(w)
    loss.backward()
    torch.compile(later, backend=backend)(loss, w).backward()
    want = torch.ones(3, requires_grad=True)
    found = first(want)
    found.backward()
    later(found, want).backward()
    assert torch.allclose(w.grad, want.grad)


def test_a_loss_that_is_no_number():
    def f(x):
        (x * 2).backward()

    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        torch.compile(f, backend="eager")(torch.ones(2, requires_grad=True))
