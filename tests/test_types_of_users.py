"""What editors and type checkers know of `import rushlight as torch`."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
STUB = ROOT / "rushlight" / "__init__.pyi"


def run(*words, **environment):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=ROOT, timeout=500,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip


def test_the_stub_is_up_to_date():
    done = run("tools/write_types.py", "--check")
    assert done.returncode == 0, "run tools/write_types.py" + done.stderr


def test_the_package_says_that_it_has_types():
    assert (ROOT / "rushlight" / "py.typed").exists()
    text = STUB.read_text()
    for name in ("def add(", "float32: dtype", "from rushlight import nn as nn", "class Tensor("):
        assert name in text


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_programs_are_checked(tmp_path):
    words = (
        "-m", "mypy", "--config-file=", "--follow-imports=silent", "--ignore-missing-imports",
        f"--cache-dir={tmp_path}", "tests/typing/user_code.py", "tests/typing/wrong_code.py",
    )  # fmt: skip
    found = re.findall(r"(\w+)\.py:(\d+): error: (.*)", run(*words, MYPYPATH=str(ROOT)).stdout)
    assert {place for place, _, _ in found} == {"wrong_code"}
    assert {int(line) for _, line, _ in found} == {5, 6, 7}


def test_the_checked_program_runs():
    assert run("tests/typing/user_code.py").returncode == 0
