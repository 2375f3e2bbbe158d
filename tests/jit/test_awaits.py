"""Calls that are made when their result is asked for; closures in saved code."""

from __future__ import annotations

import io

import pytest

import rushlight as torch

Tensor = torch.Tensor
Await = torch.jit._Await


def added(x: Tensor, y: int) -> Tensor:
    print("adding")
    return x + y


def awaits(x: Tensor):
    late = torch.jit._awaitable(added, x, y=3)
    y = x * 2
    print("waiting")
    ready = torch.jit._awaitable_nowait(y)
    return torch.jit._awaitable_wait(late) + torch.jit._awaitable_wait(ready)


def saved(scripted):
    return torch.jit.load(io.BytesIO(scripted.save_to_buffer()))


def test_awaited_calls_run_late(capsys):
    scripted = torch.jit.script(awaits)
    for run in (awaits, scripted, saved(scripted)):
        assert torch.equal(run(torch.ones(2)), torch.full((2,), 6.0))
        assert capsys.readouterr().out == "waiting\nadding\n"
    assert "prim::awaitable_0(%x.1" in str(scripted.graph)
    assert "aw" not in scripted.code.replace("await", "")
    assert "def __awaitable_function():" in scripted.code


def test_awaited_objects():
    late = torch.jit._awaitable(lambda x: [x], 3)
    assert (late.is_nowait(), late.args()) == (False, (3,))
    assert torch.jit._awaitable_wait(late) is late.wait()
    ready = torch.jit._awaitable_nowait(5)
    assert (ready.is_nowait(), ready.args(), ready.wait()) == (True, (5,), 5)
    assert str(ready.type()) == "Await[PyObject]"
    with pytest.raises(RuntimeError, match="does not have fn"):
        ready.fn()
    with pytest.raises(TypeError, match="not a int"):
        torch.jit._awaitable_wait(5)


def returned(x: Tensor) -> Await[Tensor]:
    return torch.jit._awaitable(added, x, 1)


def test_awaited_calls_are_results():
    found = torch.jit.script(returned)(torch.ones(1))
    assert isinstance(found, Await)
    assert found.wait().item() == 2


class Forks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x, flag: bool):
        a = torch.jit.fork(added, x * 2, 3)
        b = torch.jit.fork(self.inner, x)
        if flag:
            c = torch.jit.fork(added, x, 1)
        else:
            c = torch.jit.fork(added, x, 2)
        return torch.jit.wait(a), torch.jit.wait(b), torch.jit.wait(c)


def test_forks_are_saved_as_closures():
    module, x = Forks(), torch.rand(3, 2)
    scripted = torch.jit.script(module)
    assert "  def __forked_function():\n" in scripted.code
    assert "a = fork(__forked_function)\n" in scripted.code
    loaded = saved(scripted)
    for flag in (True, False):
        assert all(map(torch.equal, loaded(x, flag), module(x, flag)))
    assert saved(loaded).code == loaded.code
    loaded(x, True)[1].sum().backward()
    assert loaded.inner.weight.grad is not None


def test_closures_of_files_take_nothing():
    import ast

    from rushlight.jit.archive.importing import check
    from rushlight.jit.scripting.sources import SourceText

    for text in (
        "def f(x):\n  def __forked_function(y):\n    return y\n  return fork(__forked_function)\n",
        "def f(x):\n  def other():\n    return x\n  return fork(other)\n",
        "def f(x):\n  def __forked_function():\n    import os\n  return fork(__forked_function)\n",
    ):
        with pytest.raises((RuntimeError, torch.jit.frontend.FrontendError)):
            check(ast.parse(text).body[0], SourceText(text, "code/__torch__.py"))
