"""Backward from many threads, backward interrupted, and what training leaves behind."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.autograd.engine import current_graph_task_id
from rushlight.core.state import PROCESS

ROOT = Path(__file__).parent.parent.parent
THREADS, ROUNDS = 8, 1000


def in_threads(work, count=THREADS):
    """Run `work(number)` in threads; the first exception of any is raised here."""
    errors = []
    start = threading.Barrier(count)

    def body(number):
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]


@pytest.fixture
def eager_switching():
    """Threads change places as often as the interpreter allows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switching")
def test_shared_parameters_accumulate_exactly():
    w = torch.zeros(3, requires_grad=True)
    v = torch.zeros(3, requires_grad=True)

    def work(number):
        for _ in range(ROUNDS):
            # Integers: sums in floating point are exact whatever the order.
            (w * (number + 1) + v).sum().backward()

    in_threads(work)
    assert w.grad.tolist() == [ROUNDS * sum(range(1, THREADS + 1))] * 3
    assert v.grad.tolist() == [ROUNDS * THREADS] * 3


@pytest.mark.usefixtures("eager_switching")
@pytest.mark.parametrize("steps", [100, *[1] * 40])
def test_one_graph_differentiated_by_all(steps):
    w = torch.full((2,), 3.0, requires_grad=True)
    y = (w * w).sum()

    def work(number):
        for _ in range(steps):
            (grad,) = torch.autograd.grad(y, w, retain_graph=True)
            assert grad.tolist() == [6.0, 6.0]
            y.backward(retain_graph=True)

    in_threads(work)
    assert w.grad.tolist() == [6.0 * steps * THREADS] * 2


@pytest.mark.usefixtures("eager_switching")
def test_module_with_hooks_shared_by_threads():
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.zero_()
    count = []
    layer.weight.register_hook(lambda grad: count.append(1))
    layer.weight.register_post_accumulate_grad_hook(lambda p: count.append(1))

    def work(number):
        for _ in range(50):
            layer(torch.ones(1, 2)).sum().backward()

    in_threads(work)
    assert layer.weight.grad.tolist() == [[50.0 * THREADS] * 2] * 2
    assert len(count) == 2 * 50 * THREADS


def test_grad_mode_is_each_threads_own():
    seen = {}

    def work(number):
        if number % 2:
            with torch.no_grad():
                seen[number] = torch.is_grad_enabled()
        else:
            seen[number] = torch.is_grad_enabled()

    with torch.no_grad():
        in_threads(work)
    assert seen == {number: number % 2 == 0 for number in range(THREADS)}


# -- interruption ----------------------------------------------------------------------------------


def interrupt(*_):
    raise KeyboardInterrupt


def by_tensor_hook(w):
    h = w * 2
    h.register_hook(interrupt)
    return (h * w).sum()


def by_node_hook(w):
    h = w.exp()
    h.grad_fn.register_prehook(interrupt)
    return (h * w).sum()


def by_leaf_hook(w):
    w.register_hook(interrupt)
    return (w.exp() * w).sum()


def by_post_accumulate_hook(w):
    w.register_post_accumulate_grad_hook(interrupt)
    return (w.exp() * w).sum()


def by_custom_function(w):
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyboardInterrupt

    return (Stop.apply(w) * w).sum()


def by_unpack_hook(w):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, interrupt):
        return (w * w).sum()


WAYS = [
    by_tensor_hook, by_node_hook, by_leaf_hook, by_post_accumulate_hook, by_custom_function,
    by_unpack_hook,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_interrupted_backward_leaves_everything_intact(way, create_graph):
    special = PROCESS.special
    w = torch.ones(3, requires_grad=True)
    for grad_mode in (True, False):
        y = way(w)
        with torch.set_grad_enabled(grad_mode), pytest.raises(KeyboardInterrupt):
            y.backward(create_graph=create_graph)
        assert torch.is_grad_enabled()
        assert current_graph_task_id() == -1
        assert special == PROCESS.special
        w = torch.ones(3, requires_grad=True)
    # Hooks, locks and tasks: another backward works here and in another thread.
    fresh = torch.ones(3, requires_grad=True)
    seen = []
    fresh.register_hook(seen.append)
    (fresh * 2).sum().backward()
    in_threads(lambda number: (fresh * 2).sum().backward(), 2)
    assert len(seen) == 3 and fresh.grad.tolist() == [6.0] * 3


def test_interrupted_inner_backward():
    w = torch.ones(2, requires_grad=True)

    def inner(grad):
        x = torch.ones(2, requires_grad=True)
        x.register_hook(interrupt)
        with torch.enable_grad():
            (x * x).sum().backward()

    y = w * 2
    y.register_hook(inner)
    with pytest.raises(KeyboardInterrupt):
        y.sum().backward()
    assert current_graph_task_id() == -1 and torch.is_grad_enabled()
    (w * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]


def test_interrupted_graph_can_be_used_again_when_retained():
    w = torch.ones(2, requires_grad=True)
    h = w * w
    handle = h.register_hook(interrupt)
    y = h.sum()
    with pytest.raises(KeyboardInterrupt):
        y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert w.grad.tolist() == [2.0, 2.0]


SIGNALLED = """
import os, signal, sys, threading, time
import rushlight as torch
from rushlight.core.state import LOCAL, PROCESS
from rushlight.autograd.engine import current_graph_task_id

# A job in the background starts with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

w = torch.ones(64, requires_grad=True)
caught = 0
for number in range(40):
    # The signal arrives anywhere: while recording, in the engine, in a hook, while adding up.
    timer = threading.Timer(0.002 + 0.0003 * number, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        while True:
            h = w * 2
            for _ in range(30):
                h = (h * w).sin() + h
            h.register_hook(lambda g: g * 1)
            Twice.apply(h).sum().backward()
            (w * w).sum().backward()
    except KeyboardInterrupt:
        caught += 1
    timer.join()
    assert torch.is_grad_enabled() and current_graph_task_id() == -1
    assert LOCAL.state.excluded == 0 and not LOCAL.state.saved_hooks
    # A signal may leave the flag of special states raised, which costs time only.
    with torch.no_grad():
        pass
    assert PROCESS.special == 0, PROCESS.special
    fresh = torch.ones(2, requires_grad=True)
    thread = threading.Thread(target=lambda: (fresh * 3).sum().backward())
    thread.start()
    thread.join(20)
    (fresh * 2).sum().backward()
    assert not thread.is_alive() and fresh.grad.tolist() == [5.0, 5.0]
    # The gradient of the interrupted leaf can be added to: its lock is free.
    w.sum().backward()
    w.grad = None
print("caught", caught)
"""


def test_real_signals_leave_everything_intact():
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["caught", "40"]


# -- leaks -----------------------------------------------------------------------------------------


def live_tensors():
    gc.collect()
    return sum(1 for entry in gc.get_objects() if isinstance(entry, torch.Tensor))


def trainer(optimizer_class):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optimizer_class(model.parameters(), lr=0.01)
    data, target = torch.linspace(-1, 1, 20).reshape(5, 4), torch.tensor([0, 1, 2, 1, 0])

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(data), target)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("optimizer_class", [torch.optim.SGD, torch.optim.Adam])
def test_training_keeps_the_number_of_tensors(optimizer_class):
    step = trainer(optimizer_class)
    for _ in range(5):
        step()
    before = live_tensors()
    assert before > 8
    first = len(gc.get_objects())
    for _ in range(2000 if optimizer_class is torch.optim.SGD else 200):
        step()
    assert live_tensors() == before
    assert len(gc.get_objects()) < first + 200


def test_graphs_are_freed_by_reference_counts():
    step = trainer(torch.optim.SGD)
    step()
    gc.collect()
    gc.disable()
    try:
        watched = []
        for _ in range(20):
            loss = step()
            node = loss.grad_fn
            watched += [
                weakref.ref(loss),
                weakref.ref(node),
                weakref.ref(node.next_functions[0][0]),
            ]
        del loss, node
        assert [ref() for ref in watched] == [None] * len(watched)
    finally:
        gc.enable()


def test_failed_backward_frees_its_graph():
    gc.collect()
    gc.disable()
    try:
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        h.register_hook(interrupt)
        y = h.sum()
        watched = [weakref.ref(h), weakref.ref(y.grad_fn), weakref.ref(h.grad_fn)]
        with contextlib.suppress(KeyboardInterrupt):
            y.backward()
        del h, y
        assert [ref() for ref in watched] == [None] * 3
    finally:
        gc.enable()
