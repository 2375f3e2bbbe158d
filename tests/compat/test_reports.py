"""What a report says of a missing name: what comes near, and what was hidden by libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rushlight.compat.near import CONCEPTS, words_of

ROOT = Path(__file__).parents[2]


def python(*words, cwd=None):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=cwd, timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def near(*names):
    code = (
        "import json, sys, rushlight.compat; rushlight.compat.install()\n"
        "from rushlight.compat.near import nearest\n"
        "print(json.dumps([nearest(name) for name in sys.argv[1:]]))"
    )
    done = python("-c", code, *names)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, json.loads(done.stdout), strict=True))


def test_names_are_ranked_by_place_meaning_and_words():
    found = near(
        "torch.nn.Lineer", "torch.nn.xavier_uniform_", "torch.nn.LayerNorm2d", "torch.tensorrt",
        "torch.quantize_model", "torch.package_model", "torch.hubs", "torch.nn.zzz",
        "torch.optim.AdamWW",
    )  # fmt: skip
    assert found["torch.nn.Lineer"][0] == "torch.nn.Linear"
    assert found["torch.nn.xavier_uniform_"][0] == "torch.nn.init.xavier_uniform_"
    assert found["torch.nn.LayerNorm2d"] == ["torch.nn.LayerNorm"]
    assert found["torch.tensorrt"][0] == "torch.compile"
    assert "torch.float16" in found["torch.quantize_model"]
    assert "torch.jit.save" in found["torch.package_model"]
    # By letters alone "hubs" would be near to "sub".
    assert found["torch.hubs"] == ["torch.hub"] and found["torch.nn.zzz"] == []
    assert found["torch.optim.AdamWW"][0] == "torch.optim.AdamW"


def test_every_purpose_leads_to_names_that_are_there():
    targets = [path for _, paths in CONCEPTS for path in paths.split()]
    code = (
        "import sys, rushlight.compat; rushlight.compat.install()\n"
        "from rushlight.compat.near import object_at\n"
        "print([path for path in sys.argv[1:] if object_at(path) is None])"
    )
    assert python("-c", code, *targets).stdout.strip() == "[]"
    words = [word for group, _ in CONCEPTS for word in group.split()]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("LayerNorm2d", ["layer", "norm", "2d"]),
        ("scaled_dot", ["scaled", "dot"]),
        ("LSTM", ["lstm"]),
    ],
)
def test_words(name, words):
    assert words_of(name) == words


SWALLOWS = """import torch
try:
    from torch.nn import NoSuchLayer
except ImportError:
    pass
hasattr(torch, "only_a_question")
try:
    import torch._nowhere.deep
except ImportError:
    pass
"""


def test_a_library_that_swallows_errors(tmp_path):
    (tmp_path / "lib.py").write_text(SWALLOWS)
    (tmp_path / "x.py").write_text("import lib\nraise RuntimeError('install pytorch')\n")
    done = python("-m", "rushlight", "run", "--missing", "all.json", "x.py", cwd=tmp_path)
    assert done.returncode == 1
    told = done.stderr.split("RuntimeError: install pytorch\n")[1]
    lib = tmp_path / "lib.py"
    assert told.splitlines()[1:] == [
        f"  torch.nn.NoSuchLayer  ({lib}:3)", f"  torch._nowhere  ({lib}:8)"
    ]  # fmt: skip
    rows = {row["name"]: row for row in json.loads((tmp_path / "all.json").read_text())}
    assert [row["used"] for row in rows.values()] == [True, False, True]
    assert rows["torch.only_a_question"]["line"] == 6


def test_a_run_that_succeeds_says_nothing(tmp_path):
    (tmp_path / "x.py").write_text(SWALLOWS + "print('fine')\n")
    done = python("-m", "rushlight", "run", "x.py", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_what_the_package_asks_itself_is_not_reported(tmp_path):
    # Capture imports its modules on first use, by way of namespaces that do not have them yet.
    (tmp_path / "x.py").write_text(
        "import torch\n@torch.compile(backend='eager')\ndef f(x):\n    return x + 1\n"
        "f(torch.ones(2))\nraise RuntimeError('mine')\n"
    )
    done = python("-m", "rushlight", "run", "--missing", "all.json", "x.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.endswith("RuntimeError: mine\n")
    assert json.loads((tmp_path / "all.json").read_text()) == []


def test_an_exit_status_is_a_failure_too(tmp_path):
    (tmp_path / "x.py").write_text(SWALLOWS + "raise SystemExit(4)\n")
    done = python("-m", "rushlight", "run", "x.py", cwd=tmp_path)
    assert done.returncode == 4 and "torch.nn.NoSuchLayer" in done.stderr


def test_a_distribution_that_is_missing(tmp_path):
    (tmp_path / "x.py").write_text("import importlib.metadata as m\nm.version('torch-xla')\n")
    done = python("-m", "rushlight", "run", "x.py", cwd=tmp_path)
    assert done.returncode == 3
    assert "no distribution named 'torch-xla' is installed" in done.stderr
    assert "nearest" not in done.stderr
