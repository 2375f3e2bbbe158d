"""Promises about weight: what `import rushlight` may load and take, how many instructions a call
runs, how deep graphs may be, how large the packages are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.base.config import config

ROOT = Path(__file__).parent.parent
OPTIONAL = (
    "cupy",
    "llvmlite",
    "mkl",
    "mpi4py",
    "networkx",
    "onnx",
    "scipy",
    "sympy",
    "torch",
    "triton",
)
# Standard modules that cost milliseconds and that nothing at import needs.
HEAVY = ("asyncio", "http", "multiprocessing.pool", "unittest", "urllib.request", "xml")


def run(code: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **settings},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_loads_no_optional_dependency():
    loaded = set(run("import sys, rushlight; print(*sys.modules)").split())
    assert not loaded.intersection(OPTIONAL)
    assert not loaded.intersection(HEAVY)
    assert "ml_dtypes" not in loaded


def test_import_loads_only_the_foundation():
    loaded = run("import sys, rushlight; print(*sys.modules)").split()
    upper = ("rushlight.nn", "rushlight.optim", "rushlight.compat", "rushlight.cli")
    assert not [name for name in loaded if name.startswith(upper)]
    assert "rushlight.core.format" not in loaded
    assert "rushlight.opset.samples.maker" not in loaded


def test_deep_graph_builds_runs_and_is_freed():
    code = """
import gc
gc.disable()
import rushlight as torch
x = torch.ones(2, requires_grad=True)
y = x
for _ in range(300_000):
    y = y + x
y.sum().backward()
print(x.grad.tolist())
z = x
for _ in range(300_000):
    z = z * 1.0
del z
print("freed")
"""
    assert run(code).split("\n")[:2] == ["[300001.0, 300001.0]", "freed"]


def test_no_python_file_is_too_long():
    done = subprocess.run(
        [sys.executable, "tools/check_lengths.py"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


# CPU time of a process that imports rushlight, over that of one that imports numpy.
IMPORT_LIMIT = 1.5
IMPORT_ROUNDS = 12
# Of the six that `sys.monitoring` has, one that no debugger or profiler claims.
TOOL = 4
CPU_TIME = "import time, {module}; print(time.process_time())"


def test_import_time_over_that_of_numpy(tmp_path):
    # As installed: with bytecode that an earlier import left.
    settings = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    best = dict.fromkeys(("numpy", "rushlight"), float("inf"))
    for _ in range(IMPORT_ROUNDS):
        for module in best:
            best[module] = min(best[module], float(run(CPU_TIME.format(module=module), **settings)))
        # Other work on the machine only adds to a reading.
        if best["rushlight"] <= IMPORT_LIMIT * best["numpy"]:
            return
    pytest.fail(f"import rushlight / import numpy: {best['rushlight'] / best['numpy']:.2f}")


def instructions(call) -> int:
    """How many bytecode instructions a warm call runs."""
    for _ in range(8):
        call()
    return monitored(call) if hasattr(sys, "monitoring") else traced(call)


def monitored(call) -> int:
    count = 0

    def see(code, offset):
        nonlocal count
        count += 1

    events = sys.monitoring.events.INSTRUCTION
    sys.monitoring.use_tool_id(TOOL, "budgets")
    sys.monitoring.register_callback(TOOL, events, see)
    try:
        sys.monitoring.set_events(TOOL, events)
        call()
    finally:
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.free_tool_id(TOOL)
    return count


def traced(call) -> int:
    count = 0

    def trace(frame, event, arg):
        nonlocal count
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def calls():
    a, b = torch.rand(4), torch.rand(4)
    x = torch.rand(4, requires_grad=True)
    rows = torch.rand(2, 8)
    weight, bias = torch.rand(8, 8, requires_grad=True), torch.rand(8, requires_grad=True)

    def step():
        x.grad = None
        (x * b + x).sum().backward()

    def step_of_the_engine():
        with config.patch(backward_programs=False):
            step()

    return {
        "add": lambda: a + b,
        "add, recorded": lambda: x + b,
        "view": lambda: a.view(2, 2),
        "view, recorded": lambda: x.view(2, 2),
        "linear, recorded": lambda: F.linear(rows, weight, bias),
        "row": lambda: rows[1],
        "sum": lambda: a.sum(),
        "step": step,
        "step of the engine": step_of_the_engine,
    }


# The most instructions that each of `calls` may run, by version of Python: figures that no load on
# the machine can change.
INSTRUCTIONS = {
    (3, 11): [140, 212, 152, 180, 352, 236, 107, 1260, 3000],
    (3, 12): [146, 215, 155, 183, 360, 240, 116, 1210, 2860],
    (3, 13): [154, 221, 156, 183, 368, 241, 123, 1225, 2890],
}


COUNT = """
import json
from tests.test_budgets import calls, instructions

print(json.dumps({name: instructions(call) for name, call in calls().items()}))
"""


@pytest.fixture(scope="module")
def counted():
    # In a process of its own: threads that other tests have started make calls look around more.
    return json.loads(run(COUNT))


@pytest.mark.parametrize("name", calls())
def test_instructions_of_a_call(name, counted):
    limits = INSTRUCTIONS.get(sys.version_info[:2])
    if limits is None:
        pytest.skip("the figures are those of other versions of Python")
    assert counted[name] <= dict(zip(counted, limits, strict=True))[name]


def test_packages_keep_to_the_size_plan():
    """docs/architecture.md says how many lines each package may have."""
    plan = {
        name: int(lines.replace(",", ""))
        for name, lines in re.findall(
            r"^\| `([\w.]+)` \| ([\d,]+) \|", (ROOT / "docs/architecture.md").read_text(), re.M
        )
    }
    sizes: Counter[str] = Counter()
    for path in (ROOT / "rushlight").rglob("*.py"):
        parts = path.relative_to(ROOT / "rushlight").parts
        with path.open("rb") as lines:
            sizes[parts[0] if len(parts) > 1 else "modules"] += sum(1 for _ in lines)
    assert set(sizes) == set(plan)
    assert {name: count for name, count in sizes.items() if count > plan[name]} == {}


# How many lines may be the same, to the letter, in two places of the package.
PASSAGE = 12


def test_no_passage_stands_twice():
    names: dict[str, int] = {}
    places: dict[tuple[int, ...], tuple[Path, int]] = {}
    again = []
    for path in sorted((ROOT / "rushlight").rglob("*.py")):
        numbers, codes = [], []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if text := line.strip():
                numbers.append(number)
                codes.append(names.setdefault(text, len(names)))
        for start in range(len(codes) - PASSAGE + 1):
            here = (path, numbers[start])
            first = places.setdefault(tuple(codes[start : start + PASSAGE]), here)
            if first is not here:
                again.append(f"{first[0]}:{first[1]} ~ {path}:{here[1]}")
    assert not again, "\n".join(again)
