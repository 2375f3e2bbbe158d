"""Small programs over torch's less used names: what they give, beside what torch gives (recorded).

A program sets `out`; all run in one process in which `torch` is this package.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RECORDED = json.loads((Path(__file__).parent / "recorded" / "names.json").read_text())
RUN = """
import json, sys, traceback, warnings
import rushlight.compat
rushlight.compat.install()
warnings.simplefilter("ignore")
for name, program in json.load(sys.stdin).items():
    space = {"__name__": "a_program"}
    sys.modules["a_program"] = type(sys)("a_program")
    try:
        exec(program, space)
        said = space["out"]
    except Exception:
        said = traceback.format_exc()
    print("@@" + json.dumps([name, said], default=str))
"""
# What is of the machine and not of the library.
OF_THE_MACHINE = {"compilers"}


@pytest.fixture(scope="module")
def given():
    programs = {name: each["program"] for name, each in RECORDED.items()}
    done = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(programs), capture_output=True, text=True,
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
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)
    else:
        assert found == expected


@pytest.mark.parametrize("name", RECORDED)
def test_as_torch(given, name):
    if name in OF_THE_MACHINE and given[name] != RECORDED[name]["gives"]:
        assert [type(each) for each in given[name]] == [
            type(each) for each in RECORDED[name]["gives"]
        ]
        return
    near(given[name], RECORDED[name]["gives"])
