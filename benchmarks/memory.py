"""Peak memory of compiled functions beside eager ones and PyTorch's.

    python benchmarks/memory.py [--json FILE] [-k WORD]

Each figure is a process of its own: how much its resident memory grows, at most, during one call
after two others. Needs Linux, whose kernel keeps that mark and lets a process reset it.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training import MODELS, set_threads

LENGTH = 20
ELEMENTS = 1 << 24  # 64 MiB of float32

WAYS = {
    "torch": "PyTorch, eager",
    "eager": "eager",
    "graph": "aot_function, graphs as they are",
    "recomputing": "the same, recomputing (min-cut)",
    "native": "aot_function, native code",
    "native recomputing": "the same, recomputing (min-cut)",
}


def compiled(t: Any, way: str, function: Any) -> Any:
    """A function or module, compiled in one of the ways."""
    if way in ("torch", "eager"):
        return function
    from rushlight.aot.api import aot_function, aot_module
    from rushlight.aot.compilers import nop
    from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
    from rushlight.compiler import compile_graph

    compiler = aot_module if isinstance(function, t.nn.Module) else aot_function
    return compiler(
        function,
        fw_compiler=compile_graph if "native" in way else nop,
        partition_fn=min_cut_rematerialization_partition
        if "recomputing" in way
        else default_partition,
    )


def chain(x: Any) -> Any:
    for _ in range(LENGTH):
        x = x.sin()
    return x


def inference(t: Any, way: str) -> Callable[[], Any]:
    run, x = compiled(t, way, chain), t.zeros(ELEMENTS)

    def call() -> None:
        with t.no_grad():
            run(x)

    return call


def training(t: Any, way: str) -> Callable[[], Any]:
    run, x = compiled(t, way, chain), t.zeros(ELEMENTS, requires_grad=True)

    def call() -> None:
        t.autograd.grad(run(x).sum(), x)

    return call


def gradient(name: str) -> Callable[[Any, str], Callable[[], Any]]:
    """The gradient of a model of the training benchmark."""

    def make(t: Any, way: str) -> Callable[[], Any]:
        model, _, loss_of = MODELS[name](t)
        run = compiled(t, way, model)
        parameters = list(model.parameters())
        return lambda: t.autograd.grad(loss_of(run), parameters)

    return make


def step(name: str) -> Callable[[Any, str], Callable[[], Any]]:
    """A whole training step."""

    def make(t: Any, way: str) -> Callable[[], Any]:
        model, optimizer, loss_of = MODELS[name](t)
        run = compiled(t, way, model)

        def call() -> None:
            optimizer.zero_grad()
            loss_of(run).backward()
            optimizer.step()

        return call

    return make


GPT, RESNET = "GPT 4x256, 128 symbols, batch 8", "ResNet-20, CIFAR, batch 32"


CASES = {
    f"{LENGTH} sines of 64 MiB": inference,
    f"{LENGTH} sines of 64 MiB, gradient": training,
    "GPT 4x256, batch 8, gradient": gradient(GPT),
    "GPT 4x256, batch 8, step": step(GPT),
    "ResNet-20, batch 32, step": step(RESNET),
}


def resident(field: str) -> int:
    """A field of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def measure(case: str, way: str) -> int:
    if way == "torch":
        import torch as t
    else:
        import rushlight as t  # type: ignore[no-redef]
    call = CASES[case](t, way)
    for _ in range(2):
        call()
    if way != "torch":
        t.compiler.reset()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description="Peak memory of compiled functions.")
    parser.add_argument("--json", metavar="FILE", help="also write the table to FILE")
    parser.add_argument("-k", metavar="WORD", default="", help="only cases whose name has WORD")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(measure(*options.one))
        return
    table: dict[str, dict[str, int]] = {}
    for case in CASES:
        if options.k not in case:
            continue
        print(f"{case:44s} {'MiB':>8s}")
        for way, words in WAYS.items():
            command = [sys.executable, __file__, "--one", case, way]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            table.setdefault(case, {})[way] = int(done.stdout)
            print(f"  {words:42s} {int(done.stdout) / 2**20:8.0f}", flush=True)
    if options.json:
        Path(options.json).write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    set_threads()
    main()
