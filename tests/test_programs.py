"""Small PyTorch programs, unmodified: what they print is what torch prints.

`programs/*.expected` hold torch's own output. All programs run in one process, each from a clean
main module.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "programs"
NAMES = sorted(path.stem for path in HERE.glob("*.py"))

DRIVER = """
import contextlib, io, json, runpy, sys, traceback, warnings
from rushlight.compat import install
install()
found = {}
for path in sys.argv[1:]:
    text = io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            runpy.run_path(path, run_name="__main__")
        except BaseException:
            traceback.print_exc(file=text)
    found[path] = text.getvalue()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def printed():
    paths = [str(HERE / f"{name}.py") for name in NAMES]
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, *paths],
        capture_output=True, text=True, timeout=300, cwd=HERE.parent.parent, check=True,
    )  # fmt: skip
    return {Path(path).stem: text for path, text in json.loads(done.stdout).items()}


def expected(name):
    return (HERE / f"{name}.expected").read_text()


def test_programs_are_many():
    assert len(NAMES) >= 12
    assert all((HERE / f"{name}.expected").exists() for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_prints_what_torch_prints(name, printed):
    assert printed[name] == expected(name)


def test_launcher_runs_one_of_them():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", str(HERE / "game_of_life.py")],
        capture_output=True, text=True, timeout=120, cwd=HERE.parent.parent, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == expected("game_of_life")
