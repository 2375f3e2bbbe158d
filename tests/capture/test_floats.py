"""Floats that change from call to call: inputs of one graph, computed with as Python does it."""

from __future__ import annotations

import math
import struct
import threading

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.config import config as settings
from rushlight.compiler import compiling, config
from rushlight.compiler.counting import CompileCounter, CompileCounterWithBackend

VALUES = [0.1, 0.2, 0.3, 1.0, 0.0, -0.0, 2.0, 1e-30, 3.0]
RATE = 0.5
BACKENDS = ["eager", "aot_eager", "inductor"]


@pytest.fixture(autouse=True)
def clean(tmp_path):
    with settings.patch(cache_dir=str(tmp_path)):
        yield
    compiling.reset()


def bits(tensor):
    return tensor.detach().double().contiguous()._array.tobytes()


PROGRAMS = {
    "mul": lambda x, y, s: x * s + y,
    "alpha": lambda x, y, s: torch.add(x, y, alpha=s),
    "both sides": lambda x, y, s: (1 - s) - x / (s + 1),
    "addcmul": lambda x, y, s: torch.addcmul(x, x, y, value=s),
    "addcdiv": lambda x, y, s: torch.addcdiv(x, x, y, value=-s),
    "lerp": lambda x, y, s: torch.lerp(x, y, s),
    "clamp": lambda x, y, s: x.clamp(min=-s, max=s + 1),
    "addmm": lambda x, y, s: torch.addmm(x[:, :4], x, y.t(), beta=s, alpha=s + 1),
    "fill": lambda x, y, s: x.masked_fill(x > 0, s) + torch.full((5,), s),
    "half": lambda x, y, s: (x.half() * s + y.half()).float(),
    "double": lambda x, y, s: x.double() * s,
    "integers": lambda x, y, s: (x * 10).long() * s + y,
    "in place": lambda x, y, s: x.clone().mul_(s).add_(y, alpha=s),
    "python": lambda x, y, s: x * math.cos(s) / (1 + s**2) - math.sqrt(abs(s)) + max(s, 0.15) * y,
    "as a tensor": lambda x, y, s: x + torch.tensor(s),
    "attention": lambda x, y, s: F.scaled_dot_product_attention(x, y, y, scale=s),
    "compared": lambda x, y, s: (x > s) * y,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_eager_code(name, backend):
    function, counter = PROGRAMS[name], CompileCounterWithBackend(backend)
    run = torch.compile(function, backend=counter)
    for s in VALUES:
        torch.manual_seed(1)
        given = [torch.randn(4, 5, requires_grad=True), torch.rand(4, 5, requires_grad=True)]
        twins = [value.detach().clone().requires_grad_() for value in given]
        got, want = run(*given, s), function(*twins, s)
        # Attention adds up in another order.
        exact = name != "attention"
        torch.testing.assert_close(got, want, **({"rtol": 0, "atol": 0} if exact else {}))
        assert not exact or bits(got) == bits(want)
        got.sum().backward()
        want.sum().backward()
        for one, other in zip(given, twins, strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    assert counter.frame_count <= 3  # `max` has two answers


def test_native_code_holds_one_loop(capfd):
    run = torch.compile(lambda x, y, s: (torch.add(x, y, alpha=s).mul(1 - s) + s).relu())
    x, y = torch.randn(8, 8), torch.randn(8, 8)
    run(x, y, 0.5)
    with settings.patch(logs="kernel"):
        run(x, y, 0.25)
    text = capfd.readouterr().err
    assert text.count("def ") == 1 and "aten." not in text, text


@pytest.mark.parametrize("place", ["attribute", "item", "closure", "module", "global", "default"])
def test_wherever_they_come_from(place):
    class Holder:
        rate = 0.5

    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = 0.5

        def forward(self, x):
            return x * self.rate

    holder, table, counter = Holder(), {"rate": 0.5}, CompileCounter()
    scaled, x = Scaled(), torch.ones(3)
    rate = 0.5
    global RATE

    def closed(x):
        return x * rate

    functions = {
        "attribute": lambda x: x * holder.rate,
        "item": lambda x: x * table["rate"],
        "closure": closed,
        "module": scaled,
        "global": lambda x: x * RATE,
        "default": lambda x, rate=0.5: x * rate,
    }
    run = torch.compile(functions[place], backend=counter)
    for value in (0.5, 0.25, 0.125, 3.0, 0.5):
        holder.rate = table["rate"] = rate = scaled.rate = RATE = value
        given = (x, value) if place == "default" else (x,)
        assert run(*given).tolist() == [value] * 3
    assert counter.frame_count == 2


def test_questions_are_guards():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def f(x, s):
        if s > 1:
            return x * s
        return x - s if round(s, 1) else x

    counts = []
    for s in (0.5, 0.6, 0.7, 1.5, 1.6, 0.01, 0.02, 0.8):
        want = torch.ones(2) * s if s > 1 else torch.ones(2) - s if round(s, 1) else torch.ones(2)
        assert torch.equal(f(torch.ones(2), s), want)
        counts.append(counter.frame_count)
    # Where nothing is computed there is no graph.
    assert counts == [1, 2, 2, 3, 3, 3, 3, 3]


def test_what_is_returned_and_kept():
    class Holder:
        rate, count = 0.5, 0.0

    holder = Holder()

    @torch.compile(backend="eager")
    def f(x):
        holder.count = holder.count + holder.rate * 2
        return x * holder.rate, holder.rate / 3, f"{holder.rate:.2f}", [holder.rate, -holder.rate]

    total = 0.0
    for rate in (0.5, 0.25, 0.1, 0.7, 0.3):
        holder.rate = rate
        total = total + rate * 2
        got = f(torch.ones(1))
        assert got[1:] == (rate / 3, f"{rate:.2f}", [rate, -rate])
        assert struct.pack("d", holder.count) == struct.pack("d", total)


def test_numbers_that_are_none_and_errors():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def f(x, s):
        try:
            return x * (1 / s)
        except ZeroDivisionError:
            return x - 7

    for s in (2.0, 4.0, 0.0, 8.0, float("inf"), float("nan"), -0.0, 1e300, 5.0):
        want = torch.ones(2) - 7 if s == 0 else torch.ones(2) * (1 / s)
        assert bits(f(torch.ones(2), s)) == bits(want), s

    @torch.compile(backend=counter)
    def g(x, s):
        return x / s**-400.0

    g(torch.ones(2), 2.0), g(torch.ones(2), 3.0)
    with pytest.raises(OverflowError):
        g(torch.ones(2), 1e-3)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.compile(lambda x, s: torch.addcmul(x, x, x, value=s))(torch.ones(2), 1e300)


def test_values_that_ops_look_at_are_constants():
    counter = CompileCounter()
    run = torch.compile(lambda x, p: F.dropout(x, p) * p, backend=counter)
    for p in (0.25, 0.5, 0.75):
        torch.manual_seed(0)
        got = run(torch.ones(6), p)
        torch.manual_seed(0)
        assert torch.equal(got, F.dropout(torch.ones(6), p) * p)
    assert counter.frame_count == 3


def test_a_backend_that_wants_constants_gets_them():
    seen = []

    def backend(gm, inputs):
        if any([node.op == "placeholder" and "_s_" in node.name for node in gm.graph.nodes]):
            raise NotImplementedError("numbers")
        seen.append(gm)
        return gm.forward

    run = torch.compile(lambda x, s: x * s, backend=backend)
    for s in (0.5, 0.25, 0.125):
        assert run(torch.ones(1), s).item() == s
    assert len(seen) == 3


def test_the_switch():
    counter = CompileCounter()
    run = torch.compile(lambda x, s: x * s, backend=counter)
    with config.patch(specialize_float=True):
        for s in (0.5, 0.25, 0.125):
            run(torch.ones(1), s)
    assert counter.frame_count == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_rates_that_a_scheduler_changes(kind, backend):
    def trained(compiles):
        torch.manual_seed(2)
        model = torch.nn.Linear(3, 2)
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1, **options)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        counter = CompileCounterWithBackend(backend)
        step = torch.compile(optimizer.step, backend=counter) if compiles else optimizer.step
        for _ in range(14):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            step()
            scheduler.step()
        return [bits(p) for p in model.parameters()], counter.frame_count

    want, _ = trained(False)
    got, graphs = trained(True)
    assert got == want
    assert graphs <= 3


def test_threads():
    run, failures = torch.compile(lambda x, s: x * s + s, backend="inductor"), []

    def work(number):
        for step in range(40):
            s = number + step / 7
            if not torch.equal(run(torch.ones(4), s), torch.ones(4) * s + s):
                failures.append(s)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
