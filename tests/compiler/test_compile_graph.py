"""`compile_graph`: traced functions as native code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import rushlight as torch
from rushlight.aot.tracing import make_fx
from rushlight.base.config import config
from rushlight.compiler import compile_graph

pytest.importorskip("llvmlite")

F = torch.nn.functional


@pytest.fixture(autouse=True)
def private_cache(tmp_path: Any) -> Iterator[None]:
    with config.patch(cache_dir=str(tmp_path)):
        yield


def compiled(function: Any, *inputs: Any) -> Any:
    return compile_graph(make_fx(function)(*inputs), inputs)


def test_traced_function() -> None:
    def function(x: Any, w: Any, b: Any) -> Any:
        hidden = F.gelu(F.linear(x, w, b))
        return hidden.softmax(-1), hidden.sum(0)

    inputs = (torch.randn(8, 16), torch.randn(32, 16), torch.randn(32))
    for mine, theirs in zip(compiled(function, *inputs)(*inputs), function(*inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_one_result_stays_one() -> None:
    x = torch.randn(5)
    torch.testing.assert_close(compiled(lambda x: x.exp() + 1, x)(x), x.exp() + 1)


def test_gradients() -> None:
    def gradients(x: Any, w: Any, g: Any, y: Any) -> Any:
        w, g = w.detach().requires_grad_(), g.detach().requires_grad_()
        hidden = F.layer_norm(F.linear(x, w), (12,), g)
        loss = F.cross_entropy(hidden.tanh(), y)
        return torch.autograd.grad(loss, (w, g))

    inputs = (torch.randn(6, 4), torch.randn(12, 4), torch.rand(12), torch.randint(0, 12, (6,)))
    for mine, theirs in zip(compiled(gradients, *inputs)(*inputs), gradients(*inputs), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_attention() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = q @ k.transpose(-2, -1) / 8**0.5
        hidden = torch.ones(7, 7, dtype=torch.bool).triu(1)
        return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v

    inputs = [torch.randn(2, 3, 7, 8) for _ in range(3)]
    torch.testing.assert_close(compiled(attention, *inputs)(*inputs), attention(*inputs))


def test_missing_llvmlite_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['llvmlite'] = None; sys.modules['llvmlite.binding'] = None\n"
        "import rushlight as torch\n"
        "from rushlight.aot.tracing import make_fx\n"
        "from rushlight.compiler import compile_graph\n"
        "x = torch.ones(2)\n"
        "try:\n"
        "    compile_graph(make_fx(lambda x: x + 1)(x), (x,))\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "rushlight[compile]" in done.stdout, done.stderr


def test_importing_rushlight_loads_no_compiler() -> None:
    program = (
        "import sys, rushlight; print([m for m in sys.modules if 'codegen' in m or 'llvm' in m])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_training_step() -> None:
    from rushlight.aot.api import aot_function

    def loss_of(x: Any, y: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        return F.cross_entropy(F.linear(F.gelu(F.linear(x, w1, b1)), w2, b2), y)

    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randint(0, 10, (8,))
    start = [torch.randn(32, 16) / 4, torch.zeros(32), torch.randn(10, 32) / 4, torch.zeros(10)]

    def train(function: Any) -> list[Any]:
        parameters = [tensor.clone().requires_grad_() for tensor in start]
        losses = []
        for _ in range(5):
            loss = function(x, y, *parameters)
            loss.backward()
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            losses.append(loss.detach())
        return [*losses, *parameters]

    compiled_loss = aot_function(loss_of, compile_graph)
    for mine, theirs in zip(train(compiled_loss), train(loss_of), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_everything_but_symbols_and_kernels_works_without_extras() -> None:
    program = (
        "import sys\n"
        "for name in ('llvmlite', 'llvmlite.binding', 'sympy', 'networkx'):\n"
        "    sys.modules[name] = None\n"
        "import rushlight as torch\n"
        "from rushlight.aot.api import aot_function\n"
        "from rushlight.aot.compilers import nop\n"
        "from rushlight.aot.partition import min_cut_rematerialization_partition as part\n"
        "from rushlight.aot.tracing import make_fx\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "aot_function(torch.sin, nop, partition_fn=part)(x).sum().backward()\n"
        "make_fx(torch.sin, tracing_mode='fake')(x)\n"
        "try:\n"
        "    make_fx(torch.sin, tracing_mode='symbolic')(x)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "sympy is needed here" in done.stdout, done.stderr
    assert "rushlight[compile]" in done.stdout


def test_nested_inputs_are_what_the_graph_takes():
    def function(x, d):
        return {"sum": x + d["w"], "pair": (d["v"] * 2, x)}

    inputs = torch.randn(3), {"w": torch.randn(3), "v": torch.randn(3)}
    graph = make_fx(function)(*inputs)
    compiled = compile_graph(graph, inputs)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))


@pytest.mark.parametrize("width", [4, 8, 10, 16, 24, 64, 72])
def test_short_rows(width: int) -> None:
    def function(x: Any, scale: Any) -> Any:
        y = x * scale
        return y.relu() + 1, y.sum(0), y.amax(1)

    x, scale = torch.randn(300, width), torch.randn(width)
    made = compiled(function, x, scale)
    for mine, theirs in zip(made(x, scale), function(x, scale), strict=True):
        torch.testing.assert_close(mine, theirs)
    # Rows of whole vectors are vectors: their turns are not written out before.
    assert ("!llvm.loop !0" in made.ir) == (width in (8, 16, 24, 64))
