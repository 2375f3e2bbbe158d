"""Cached calls of `torch.compile`, side by side: ours compiled and eager, PyTorch's compiled (where
it finds a C++ compiler) and eager; and first calls of both, each in a process of its own. Those
have the interpreter's bytecode of the libraries at hand, as installed packages do.

python benchmarks/calls.py [--seconds 2] [-k WORD]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import arguments, finish, import_torch, measure

# isort: split
import rushlight

# Guards and dispatch against PyTorch's, whole calls against our own eager ones.
GUARDS_BAR = 0.15
# Seconds of CPU time that the first forward and backward may take beyond the second: cold, warm.
FIRST_BARS = {"MLP": (0.5, 0.2), "GPT": (2.5, 0.6)}
# Cold, against PyTorch's.
FIRST_RATIO = 1 / 8


def layers(t: Any) -> Any:
    t.manual_seed(0)
    return t.nn.Sequential(t.nn.Linear(16, 32), t.nn.ReLU(), t.nn.Linear(32, 4))


def returning_input(gm: Any, examples: Any) -> Callable[..., Any]:
    """A backend that leaves guards and dispatch as all that a call does."""
    return lambda *args: (args[0],)


def silent(t: Any, run: Callable[[], Any]) -> Callable[[], Any]:
    def call() -> Any:
        with t.no_grad():
            return run()

    return call


def systems(t: Any, prefix: str, has_compiler: bool) -> dict[str, dict[str, Callable[[], Any]]]:
    module, x = layers(t), t.randn(8, 16)
    guarded = t.compile(module, backend=returning_input)

    def whole(x: Any) -> Any:
        return module(x)

    guarded_function = t.compile(whole, backend=returning_input)
    found: dict[str, dict[str, Callable[[], Any]]] = {
        "guards, module": {prefix: lambda: guarded(x)},
        "guards, function": {prefix: lambda: guarded_function(x)},
    }
    runs = {f"{prefix} eager": module}
    if has_compiler:
        runs[prefix] = t.compile(module)
    for name, run in runs.items():
        found.setdefault("no_grad", {})[name] = silent(t, lambda run=run: run(x))
        found.setdefault("forward", {})[name] = lambda run=run: run(x)
        found.setdefault("forward, backward", {})[name] = lambda run=run: run(x).sum().backward()
    return found


def can_compile(torch: Any) -> bool:
    """Whether PyTorch's default backend works here."""
    try:
        torch.compile(lambda x: x + 1)(torch.ones(2))
    except Exception:
        return False
    return True


BYTECODE = tempfile.TemporaryDirectory()
FIRST = """
import os, sys, time
sys.path.insert(0, {folder!r})
import {library} as torch
torch.manual_seed(0)
F = torch.nn.functional
if {name!r} == "MLP":
    nn = torch.nn
    model, x = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)), None
    x = torch.randn(32, 784)
    loss_of = lambda out: out.square().mean()
else:
    from training import transformer
    model = transformer(torch, 64, layers=4, width=256, heads=4, longest=128)
    x = torch.randint(0, 64, (8, 128))
    loss_of = lambda out: F.cross_entropy(out.view(-1, 64), x.view(-1))
run = torch.compile(model)
def used():
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system
def step():
    start = used()
    loss_of(run(x)).backward()
    return used() - start
first = step()
print(first - min(step() for _ in range(3)))
"""


def first_call(name: str, cache: str, library: str = "rushlight") -> float:
    """Seconds of CPU, those of compilers included, that the first call takes beyond the next."""
    here = Path(__file__).resolve().parent
    text = FIRST.format(folder=str(here), name=name, library=library)
    # What training.py reads of the command line stays its own.
    setting = {
        **os.environ,
        "RUSHLIGHT_CACHE_DIR": cache,
        "TORCHINDUCTOR_CACHE_DIR": cache,
        # Compilers in this process and its children, where their time is seen.
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path]),
        "PYTHONPYCACHEPREFIX": BYTECODE.name,
    }
    setting.pop("PYTHONDONTWRITEBYTECODE", None)
    found = subprocess.run(
        [sys.executable, "-c", text], env=setting, capture_output=True, text=True, check=True
    )
    return float(found.stdout.split()[-1])


def first_calls(name: str, library: str) -> list[float]:
    """With an empty cache, and with what that left there."""
    with tempfile.TemporaryDirectory() as unused:
        first_call(name, unused, library)  # leaves the bytecode
    with tempfile.TemporaryDirectory() as cache:
        return [first_call(name, cache, library) for _ in range(2)]


def main() -> None:
    options = arguments(__doc__ or "", seconds=2.0)
    torch = import_torch()
    has_compiler = can_compile(torch)
    ours = systems(rushlight, "rushlight", True)
    theirs = systems(torch, "torch", has_compiler)
    table: dict[str, Any] = {}
    names = ["rushlight", "rushlight eager", "torch", "torch eager"]
    print(f"{'microseconds per call':24s}" + "".join([f"{name:>17s}" for name in names]))
    for case, runs in ours.items():
        if options.k not in case:
            continue
        best = measure({**runs, **theirs[case]}, options.seconds)
        table[case] = best
        cells = [f"{best[n] * 1e6:17.2f}" if n in best else " " * 17 for n in names]
        other = best["torch"] if case.startswith("guards") else best["rushlight eager"]
        bar = GUARDS_BAR if case.startswith("guards") else 1.0
        ratio = best["rushlight"] / other
        print(f"{case:24s}{''.join(cells)}   {ratio:5.2f} {'ok' if ratio <= bar else 'over'}")
    heads = "".join([f"{head:>10s}" for head in ("cold", "warm", "torch", "warm")])
    print(f"\n{'first call, seconds of CPU':28s}{heads}")
    for name, bars in FIRST_BARS.items():
        if options.k not in name:
            continue
        times = first_calls(name, "rushlight")
        marks = ["ok" if t <= bar else "over" for t, bar in zip(times, bars, strict=True)]
        if has_compiler:
            times += first_calls(name, "torch")
            ratio = times[0] / times[2]
            marks.append(f"{ratio:.3f} {'ok' if ratio <= FIRST_RATIO else 'over'}")
        table[f"first call, {name}"] = times
        print(f"{name:28s}{''.join([f'{t:10.3f}' for t in times])}   {' '.join(marks)}")
    finish(options, table)


if __name__ == "__main__":
    main()
