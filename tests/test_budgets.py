"""Promises about weight: what `import rushlight` may load, how deep graphs may be, what ships."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
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
