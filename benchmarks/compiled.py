"""Compiled graphs against eager torch on one thread, interleaved, and how long compiling takes.

python benchmarks/compiled.py --json compiled.json
"""

from __future__ import annotations

import operator
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

from harness import Case, arguments, finish, import_torch, report

# isort: split
import numpy as np

import rushlight
from rushlight.aot.tracing import make_fx
from rushlight.compiler import compile_graph
from rushlight.graph.graph import Graph
from rushlight.graph.node import map_arg

BARS = {"gelu(x*w+b) 4096x1024": 0.8, "softmax 4096x1024": 0.8}
# Seconds of CPU time that compiling a graph may take: for the first time, and from the cache.
FRESH_BAR, CACHED_BAR = 0.2, 0.02

aten = rushlight.ops.aten


class Written:
    """A graph written call by call; nodes carry the geometry of their values."""

    def __init__(self, inputs: list[Any], body: Callable[..., Any]) -> None:
        self.graph = Graph()
        self.inputs = inputs
        nodes = []
        for at, tensor in enumerate(inputs):
            node = self.graph.placeholder(f"a{at}")
            node.meta["val"] = tensor.to("meta")
            nodes.append(node)
        self.graph.output((body(self, *nodes),))

    def __call__(self, op: Any, *args: Any) -> Any:
        node = self.graph.call_function(op, args, {})
        given = map_arg(args, lambda n: n.meta["val"])
        node.meta["val"] = given[0][given[1]] if op is operator.getitem else op(*given)
        return node


def mapped(g: Any, x: Any, w: Any, b: Any) -> Any:
    return g(aten.gelu.default, g(aten.add.Tensor, g(aten.mul.Tensor, x, w), b))


def normalised(g: Any, x: Any, w: Any, b: Any) -> Any:
    found = g(aten.native_layer_norm.default, x, [x.meta["val"].shape[-1]], w, b, 1e-5)
    return g(operator.getitem, found, 0)


def layered(g: Any, x: Any, w: Any, b: Any) -> Any:
    h = g(aten.relu.default, g(aten.addmm.default, b, x, g(aten.t.default, w)))
    return g(aten._log_softmax.default, h, -1, False)


def adam(t: Any, p: Any, grad: Any, mean: Any, square: Any) -> Any:
    mean = mean * 0.9 + grad * 0.1
    square = square * 0.999 + grad * grad * 0.001
    return p - 1e-3 * (mean / 0.9) / ((square / 0.99).sqrt() + 1e-8), mean, square


def attention(t: Any, q: Any, k: Any, v: Any) -> Any:
    return t.nn.functional.scaled_dot_product_attention(q, k, v)


def rms_norm(t: Any, x: Any, w: Any) -> Any:
    return x * (x.pow(2).mean(-1, True) + 1e-6).rsqrt() * w


Function = Callable[..., Any]
# Functions of a system and tensors, and the sizes of those; for the last the number of classes.
FUNCTIONS: dict[str, tuple[Function, list[tuple[int, ...]], int]] = {
    "add 10M": (lambda t, x, y: x + y, [(10_000_000,)] * 2, 0),
    "rms_norm 4096x1024": (rms_norm, [(4096, 1024), (1024,)], 0),
    "cross_entropy 4096x1024": (
        lambda t, x, y: t.nn.functional.cross_entropy(x, y), [(4096, 1024), (4096,)], 1024,
    ),
    "cumsum 4096x1024": (lambda t, x: x.cumsum(-1), [(4096, 1024)], 0),
    "Adam update of 10M": (adam, [(10_000_000,)] * 4, 0),
    "attention 8x8x512x64": (attention, [(8, 8, 512, 64)] * 3, 0),
    "conv 3x3 64 to 64, 56x56": (
        lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1), [(8, 64, 56, 56), (64, 64, 3, 3)],
        0,
    ),
}  # fmt: skip


class Traced:
    """A function of tensors as a graph."""

    def __init__(self, name: str) -> None:
        self.function, shapes, self.classes = FUNCTIONS[name]
        rng = np.random.default_rng(0)
        self.arrays = [np.abs(rng.standard_normal(shape)).astype(np.float32) for shape in shapes]
        if self.classes:
            self.arrays[-1] = rng.integers(0, self.classes, shapes[-1])
        self.inputs = [rushlight.from_numpy(array) for array in self.arrays]
        traced = make_fx(lambda *given: self.function(rushlight, *given))(*self.inputs)
        self.graph = traced

    def with_torch(self, torch: Any, is_compiled: bool) -> Callable[[], Any]:
        given = [torch.from_numpy(array) for array in self.arrays]

        def plain(*tensors: Any) -> Any:
            return self.function(torch, *tensors)

        run = torch.compile(plain) if is_compiled else plain
        return lambda: run(*given)


def cases(torch: Any) -> dict[str, tuple[Written, Callable[[], Any]]]:
    """What to compile, and the same with torch."""
    rng = np.random.default_rng(0)

    def both(*shape: int) -> tuple[Any, Any]:
        array = rng.standard_normal(shape).astype(np.float32)
        return rushlight.tensor(array), torch.from_numpy(array)

    functional = torch.nn.functional
    x, tx = both(4096, 1024)
    w, tw = both(1024)
    b, tb = both(1024)
    s, ts = both(4)
    m, tm = both(32, 64)
    v, tv = both(64, 64)
    c, tc = both(64)
    return {
        "gelu(x*w+b) 4096x1024": (
            Written([x, w, b], mapped),
            lambda: functional.gelu(tx * tw + tb),
        ),
        "softmax 4096x1024": (
            Written([x], lambda g, x: g(aten._softmax.default, x, -1, False)),
            lambda: torch.softmax(tx, -1),
        ),
        "layer_norm 4096x1024": (
            Written([x, w, b], normalised),
            lambda: functional.layer_norm(tx, (1024,), tw, tb),
        ),
        "tanh 4096x1024": (
            Written([x], lambda g, x: g(aten.tanh.default, x)),
            lambda: torch.tanh(tx),
        ),
        "sum 4096x1024": (
            Written([x], lambda g, x: g(aten.sum.default, x)),
            lambda: tx.sum(),
        ),
        "sum of rows 4096x1024": (
            Written([x], lambda g, x: g(aten.sum.dim_IntList, x, [0])),
            lambda: tx.sum(0),
        ),
        "x + x, 4 elements": (
            Written([s], lambda g, x: g(aten.add.Tensor, x, x)),
            lambda: ts + ts,
        ),
        "linear relu log_softmax 32": (
            Written([m, v, c], layered),
            lambda: torch.log_softmax(functional.linear(tm, tv, tc).relu(), -1),
        ),
    }


def traced_cases(torch: Any, word: str, peers: bool) -> dict[str, Case]:
    """The functions, compiled, beside torch's eager ones and those that torch compiles."""
    table: dict[str, Case] = {}
    for name in FUNCTIONS:
        if word in name:
            made = Traced(name)
            ours = compile_graph(made.graph, made.inputs)
            table[name] = {
                "rushlight": lambda run=ours, given=made.inputs: run(*given),
                "torch": made.with_torch(torch, False),
            }
            if peers:
                table[name]["torch.compile"] = made.with_torch(torch, True)
    return table


def compile_times(graph: Written) -> dict[str, float]:
    """Seconds of CPU time: with an empty cache, and with the entry there."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RUSHLIGHT_CACHE_DIR"] = folder
        for name in ("fresh", "cached"):
            start = time.thread_time()
            compile_graph(graph, graph.inputs)
            found[name] = time.thread_time() - start
        del os.environ["RUSHLIGHT_CACHE_DIR"]
    return found


def main() -> None:
    options = arguments(__doc__ or "", peers=True)
    torch = import_torch()
    made = {name: case for name, case in cases(torch).items() if options.k in name}
    # The compiler itself is loaded by the first graph.
    warm = Written([rushlight.zeros(2)], lambda g, x: g(aten.neg.default, x))
    compile_times(warm)
    table: dict[str, Case] = {}
    compiling = {}
    for name, (graph, theirs) in made.items():
        compiling[name] = compile_times(graph)
        ours = compile_graph(graph, graph.inputs)
        inputs = graph.inputs
        same = np.allclose(ours(*inputs)[0].numpy(), theirs().numpy(), 1e-4, 1e-5)
        assert same, f"{name}: results differ"
        table[name] = {
            "rushlight": lambda run=ours, given=inputs: run(*given),
            "torch": theirs,
        }
    table |= traced_cases(torch, options.k, options.peers)
    # All run on one thread: its own time is what other work on the machine disturbs least.
    found = report(table, options.seconds, BARS, warm_up=5, clock=time.process_time)
    print(f"\n{'compile':28s} {'fresh':>11s} {'cached':>11s}")
    for name, entry in compiling.items():
        late = entry["fresh"] > FRESH_BAR or entry["cached"] > CACHED_BAR
        print(
            f"{name:28s} {entry['fresh'] * 1e3:9.1f}ms {entry['cached'] * 1e3:9.1f}ms"
            f"   {'over' if late else 'ok'}"
        )
        found[name]["compile"] = entry
    finish(options, found)


if __name__ == "__main__":
    main()
