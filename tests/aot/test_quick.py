"""Calls of compiled functions by the short way behave as those by the long one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as torch
from rushlight.aot import quick
from rushlight.aot.runtime import CompiledFunction
from rushlight.base.config import config

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Any) -> Iterator[None]:
    with config.patch(cache_dir=str(tmp_path)):
        torch.compiler.reset()
        yield


@pytest.fixture(params=["quick", "general"])
def way(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "general":
        monkeypatch.setattr("rushlight.aot.api.quick_call", lambda *_: None)
    return str(request.param)


def layers() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))


def test_the_short_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    original = quick.quick_call
    monkeypatch.setattr(
        "rushlight.aot.api.quick_call", lambda *args: made.append(original(*args)) or made[-1]
    )
    run = torch.compile(layers())
    y = run(torch.randn(5, 4))
    assert type(y.grad_fn) is quick.QuickBackward and None not in made
    with torch.no_grad():
        assert run(torch.randn(5, 4)).grad_fn is None
    assert len(made) == 2 and None not in made


def test_gradients_accumulate_over_many_steps(way: str) -> None:
    module, twin = layers(), layers()
    run = torch.compile(module)
    for step in range(20):
        x = torch.randn(5, 4)
        run(x).square().sum().backward()
        twin(x).square().sum().backward()
        if step % 3 == 2:
            for one, other in zip(module.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-5)
                with torch.no_grad():
                    for p in (one, other):
                        p -= 0.01 * p.grad
                        p.grad = None


def test_node_looks_the_same(way: str) -> None:
    x = torch.randn(5, 4, requires_grad=True)
    y = torch.compile(lambda x, w: (x @ w).relu() + 1)(x, torch.randn(4, 2, requires_grad=True))
    node = y.grad_fn
    assert node.name() == "CompiledFunctionBackward"
    assert type(node)._forward_cls is CompiledFunction
    assert [n.name() for n, _ in node.next_functions] == ["torch::autograd::AccumulateGrad"] * 2
    assert node.needs_input_grad == (False, True, True)
    assert not y.is_leaf and y._version == 0
    assert all([saved.requires_grad in (True, False) for saved in node.saved_tensors])


def test_saved_twice_and_freed(way: str) -> None:
    run = torch.compile(lambda x: x.exp() * x)
    x = torch.randn(3, requires_grad=True)
    y = run(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * (x.exp() * (x + 1)).detach())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("what", ["input", "result", "parameter"])
def test_writes_before_backward_are_noticed(way: str, what: str) -> None:
    w = torch.randn(4, 4, requires_grad=True)
    run = torch.compile(lambda x, w: ((x @ w).exp(), x * 2))
    x = torch.randn(3, 4)
    y, _ = run(x, w)
    with torch.no_grad():
        {"input": x, "result": y, "parameter": w}[what].add_(1)
    if what == "parameter":
        # x needs no gradient, so w is not needed.
        y.sum().backward()
        return
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_a_written_parameter_is_noticed(way: str) -> None:
    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    y = torch.compile(lambda x, w: (x @ w.t()).exp())(x, w)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_gradients_of_gradients_are_refused_alike(way: str) -> None:
    run = torch.compile(lambda x: x.sin() * x)
    x = torch.randn(3, requires_grad=True)
    (grad,) = torch.autograd.grad(run(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="RL0610"):
        grad.sum().backward()


def test_some_gradients_missing_or_strided(way: str) -> None:
    run = torch.compile(lambda x: (x.sin(), x.cos(), (x > 0).to(torch.int64)))
    for pick in range(2):
        x = torch.randn(3, 4, requires_grad=True)
        results = run(x)
        assert not results[2].requires_grad
        results[pick].t().backward(torch.randn(4, 3))
        twin = x.detach().requires_grad_()
        torch.manual_seed(5)
        grad = torch.randn(4, 3)
        torch.autograd.grad(run(twin)[pick].t(), twin, grad)[0]
        wanted = torch.autograd.grad((twin.sin(), twin.cos())[pick].t(), twin, grad)[0]
        got = torch.autograd.grad(run(twin)[pick].t(), twin, grad)[0]
        torch.testing.assert_close(got, wanted)


def test_hooks(way: str) -> None:
    seen: list[str] = []
    w = torch.randn(4, 4, requires_grad=True)
    y = torch.compile(lambda x, w: (x @ w).tanh())(torch.randn(3, 4), w)
    y.register_hook(lambda grad: seen.append("output") or grad * 2)
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append("node"))
    w.register_hook(lambda grad: seen.append("leaf"))
    y.sum().backward()
    assert seen == ["output", "node", "leaf"]


def test_saved_tensor_hooks(way: str) -> None:
    packed: list[Any] = []
    run = torch.compile(lambda x: x.exp().sin())
    x = torch.randn(3, requires_grad=True)
    run(x)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        y = run(x)
    assert packed
    y.sum().backward()
    torch.testing.assert_close(x.grad, (x.exp().cos() * x.exp()).detach())


def test_anomaly_mode(way: str) -> None:
    run = torch.compile(lambda x: x.exp().sin())
    x = torch.randn(3, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        run(x).sum().backward()
    assert x.grad is not None


def test_grad_of_non_leaf_and_views(way: str) -> None:
    run = torch.compile(lambda x, y: (x * y).exp())
    base = torch.randn(6, requires_grad=True)
    x, y = base[:3], base[3:] * 2
    run(x, y).sum().backward()
    twin = base.detach().requires_grad_()
    (twin[:3] * (twin[3:] * 2)).exp().sum().backward()
    torch.testing.assert_close(base.grad, twin.grad)


def test_nan_and_signed_zero_pass_through(way: str) -> None:
    run = torch.compile(lambda x: x * 1.0)
    values = torch.tensor([-0.0, 0.0, float("nan"), float("-inf")])
    x = values.clone().requires_grad_()
    y = run(x)
    assert torch.equal(torch.signbit(y), torch.signbit(values)) and y[2].isnan()
    grad = torch.tensor([-0.0, 1.0, float("nan"), 2.0])
    y.backward(grad)
    assert torch.equal(torch.signbit(x.grad), torch.signbit(grad)) and x.grad[2].isnan()


def test_symbolic_sizes_with_saved_numbers(way: str) -> None:
    run = torch.compile(lambda x: (x * x.shape[0]).exp().view(-1, 2).sum(0), dynamic=True)
    for size in (4, 6, 10, 50, 2):
        x = (torch.randn(size) / size).requires_grad_()
        run(x).sum().backward()
        twin = x.detach().requires_grad_()
        (twin * size).exp().view(-1, 2).sum(0).sum().backward()
        torch.testing.assert_close(x.grad, twin.grad)


def test_threads(way: str) -> None:
    module = layers()
    run = torch.compile(module)
    run(torch.randn(5, 4)).sum().backward()
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for step in range(30):
            x = torch.randn(5, 4, generator=generator).requires_grad_()
            if step % 5 == 0:
                with torch.no_grad():
                    y = run(x)
                if y.requires_grad:
                    wrong.append("recorded")
            got = torch.autograd.grad(run(x).sum(), x)[0]
            wanted = torch.autograd.grad(module(x).sum(), x)[0]
            if not torch.allclose(got, wanted, atol=1e-5):
                wrong.append((seed, step))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_checkpoint_and_inference_mode(way: str) -> None:
    from rushlight.utils.checkpoint import checkpoint

    run = torch.compile(lambda x: x.sin().exp())
    x = torch.randn(4, requires_grad=True)
    checkpoint(run, x, use_reentrant=False).sum().backward()
    torch.testing.assert_close(x.grad, (x.sin().exp() * x.cos()).detach())
    with torch.inference_mode():
        torch.testing.assert_close(run(x.detach()), x.detach().sin().exp())
