"""Capture on CPython 3.14, without NumPy: decoder, interpreter, guards and resume functions.

The Python is the npm package pyodide 314.x under node: `make python314` installs it. Without either
the test is skipped and says what is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PACKAGE = Path(
    os.environ.get("RUSHLIGHT_PYODIDE", REPOSITORY / "build/python314/node_modules/pyodide")
)
# What needs no NumPy.
FILES = (
    "test_bytecode.py", "test_core.py", "test_fuzz.py", "test_iterators.py", "test_plain.py",
)  # fmt: skip


@pytest.mark.skipif(shutil.which("node") is None, reason="node is missing: CPython 3.14 untested")
@pytest.mark.skipif(
    not (PACKAGE / "pyodide.mjs").exists(),
    reason=f"no npm package pyodide at {PACKAGE}: CPython 3.14 untested; run `make python314`",
)
def test_python_3_14():
    site = Path(pytest.__file__).parents[1]
    files = [f"tests/capture/{name}" for name in FILES]
    command = ["node", HERE / "plain.mjs", PACKAGE, REPOSITORY, site, "-q", "-m", "not slow"]
    found = subprocess.run([*command, *files], capture_output=True, text=True, timeout=900)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]
    assert found.stdout.startswith("Python 3.14")
    passed = int(found.stdout.rsplit(" passed", 1)[0].split()[-1])
    assert passed > 300, found.stdout[-1000:]
