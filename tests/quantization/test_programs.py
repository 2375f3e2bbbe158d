"""Programs with quantised numbers: integers and scales are torch's, floats nearly (recorded)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded" / "programs.json").read_text())
NUMBER = re.compile(r"-?\d+\.\d*(?:e-?\d+)?")
RUN = """
import importlib, json, sys, traceback
import rushlight.compat
rushlight.compat.install()
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    for program in module.PROGRAMS:
        try:
            said = module.run(program)
        except Exception:
            said = traceback.format_exc()
        print("@@" + json.dumps([program, said]))
"""


@pytest.fixture(scope="module")
def given():
    modules = sorted(path.stem for path in HERE.glob("programs*.py"))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(HERE), *modules], capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("@@")]
    return dict(json.loads(line) for line in lines)


def near(found, expected):
    if isinstance(expected, list):
        assert isinstance(found, list) and len(found) == len(expected), (found, expected)
        for one, other in zip(found, expected, strict=True):
            near(one, other)
    elif isinstance(expected, dict):
        assert isinstance(found, dict) and found.keys() == expected.keys(), (found, expected)
        for key in expected:
            near(found[key], expected[key])
    elif isinstance(expected, float) and not isinstance(found, str):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5, nan_ok=True)
    elif isinstance(expected, str) and isinstance(found, str):
        # Printed scales are floats too.
        assert NUMBER.sub("#", found) == NUMBER.sub("#", expected)
        near(
            [float(n) for n in NUMBER.findall(found)], [float(n) for n in NUMBER.findall(expected)]
        )
    else:
        assert found == expected


@pytest.mark.parametrize("name", RECORDED)
def test_as_torch(given, name):
    near(given[name], RECORDED[name])


def test_every_program_is_recorded(given):
    assert given.keys() == RECORDED.keys()
