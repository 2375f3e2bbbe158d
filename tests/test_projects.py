"""Projects of several files and command-line tools, run as their users run them.

`programs/projects/*.expected` hold what the same commands print under torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_programs import agree

HERE = Path(__file__).parent / "programs" / "projects"
ROOT = Path(__file__).parents[1]
COMMANDS = {
    "train": ["-m", "digits.train"],
    "package": ["-m", "digits", "--model", "mlp", "--steps", "4"],
    "misused": ["-m", "digits.train", "--steps", "many"],
    "summary": ["summary_tool.py", "summary"],
    "check": ["summary_tool.py", "check"],
}


def printed(words, *, folder=HERE):
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "run", *words], cwd=folder, text=True,
        capture_output=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return f"{done.stdout}{done.stderr}status {done.returncode}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_runs_as_under_torch(name):
    found = printed(COMMANDS[name]).splitlines()
    wanted = (HERE / f"{name}.expected").read_text().splitlines()
    assert len(found) == len(wanted), "\n".join(found)
    assert not [pair for pair in zip(found, wanted, strict=True) if not agree(*pair)]


def test_seed_of_the_command_line_fixes_every_number():
    words = ["summary_tool.py", "--seed", "5", "train"]
    assert printed(words) == printed(words) != printed(["summary_tool.py", "--seed", "6", "train"])
