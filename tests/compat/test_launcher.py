"""`rushlight run`: exit codes, reports of missing names, modules, relative imports, workers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path):
    def go(*words, files=None, **scripts):
        named = {f"{name}.py": text for name, text in scripts.items()} | (files or {})
        for name, text in named.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "rushlight", "run", *words], cwd=tmp_path, text=True,
            capture_output=True, timeout=120, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return go


def test_missing_name_is_reported_with_its_line(run):
    code, out, err = run("x.py", x="import torch\nfrom torch import nn\nm = nn.Foo(3)\n")
    assert code == 3 and out == ""
    assert err == "rushlight: torch.nn.Foo is missing\n  at x.py:3\n      m = nn.Foo(3)\n"


def test_missing_name_that_the_script_handles(run):
    text = "import torch\ntry: torch.nn.Foo\nexcept AttributeError: print('caught')\n"
    assert run("x.py", x=text) == (0, "caught\n", "")


def test_syntax_error_looks_like_python(run):
    code, _, err = run("x.py", x="import torch\nx = torch.ones(2\nprint(x)\n")
    assert code == 1
    assert err.endswith("SyntaxError: '(' was never closed\n") and "rushlight" not in err


@pytest.mark.parametrize(
    "statement, code, err", [("7", 7, ""), ("", 0, ""), ("'fatal'", 1, "fatal\n"), ("None", 0, "")]
)
def test_exit_codes(run, statement, code, err):
    assert run("x.py", x=f"import sys, torch\nsys.exit({statement})\n") == (code, "", err)


def test_traceback_of_an_error_starts_in_the_script(run):
    code, _, err = run("x.py", x="import torch\ntorch.ones(2).reshape(5)\n")
    assert code == 1
    lines = err.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and "x.py" in lines[1]
    assert lines[-1] == "RuntimeError: shape '[5]' is invalid for input of size 2"
    assert "During handling" not in err


def test_module_of_a_package_with_relative_imports(run):
    files = {
        "pkg/__init__.py": "",
        "pkg/helper.py": "import torch\ndef double(x): return x * 2\n",
        "pkg/mod.py": "import sys, torch\nfrom .helper import double\n"
        "print(__name__, __package__, double(torch.ones(1)), sys.argv[1:])\n",
    }
    assert run("-m", "pkg.mod", "a", "-b", files=files) == (
        0, "__main__ pkg tensor([2.]) ['a', '-b']\n", "",
    )  # fmt: skip


WORKERS = """
import multiprocessing, subprocess, sys, torch

def work(n):
    return torch.__name__, (torch.ones(3) * n).sum().item()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [1, 2]))
    code = "import torch; print(torch.__name__, torch.ones(1))"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
"""


def test_workers_and_subprocesses_see_it_too(run):
    code, out, err = run("x.py", x=WORKERS)
    assert (code, err) == (0, "")
    assert out.split("\n")[:2] == [
        "[('torch', 3.0), ('torch', 6.0)]", "torch tensor([1.])",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "words", [("-mpkg", "-m"), ("-m", "pkg", "-m"), ("-m", "pkg.__main__", "-m")]
)
def test_module_named_as_python_takes_it(run, words):
    files = {
        "pkg/__init__.py": "print(__import__('sys').argv[0])",
        "pkg/__main__.py": "import os, sys\nprint(os.path.basename(sys.argv[0]), sys.argv[1:])\n"
        "print(__spec__.name, sys.path[0] == os.getcwd())\n",
    }
    expected = "-m\n__main__.py ['-m']\npkg.__main__ True\n"
    assert run(*words, files=files) == (0, expected, "")


@pytest.mark.parametrize(
    "name, complaint",
    [
        ("absent", "No module named absent"),
        ("pkg.absent", "No module named pkg.absent"),
        (
            "pkg",
            "No module named pkg.__main__; 'pkg' is a package and cannot be directly executed",
        ),
        (
            "pkg.mod.py",
            "Error while finding module specification for 'pkg.mod.py' (ModuleNotFoundError: "
            "__path__ attribute not found on 'pkg.mod' while trying to find 'pkg.mod.py'). "
            "Try using 'pkg.mod' instead of 'pkg.mod.py' as the module name.",
        ),
    ],
)
def test_module_that_cannot_run(run, name, complaint):
    files = {"pkg/__init__.py": "", "pkg/mod.py": ""}
    assert run("-m", name, files=files) == (1, "", f"rushlight: {complaint}\n")


def test_folder_is_run_by_its_name(run):
    text = "import os, sys\nos.chdir('/')\nimport beside\nprint(sys.argv)\n"
    files = {"tool/__main__.py": text, "tool/beside.py": ""}
    assert run("tool", "a", files=files) == (0, "['tool', 'a']\n", "")


def test_error_inside_a_module_keeps_its_traceback(run):
    files = {"pkg/__init__.py": "", "pkg/mod.py": "import nowhere\n"}
    code, out, err = run("-m", "pkg.mod", files=files)
    assert (code, out) == (1, "")
    assert err.endswith("ModuleNotFoundError: No module named 'nowhere'\n") and "mod.py" in err


def test_missing_name_in_the_package_of_a_module(run):
    files = {"pkg/__init__.py": "from torch.nn import Foo\n", "pkg/mod.py": ""}
    code, out, err = run("-m", "pkg.mod", files=files)
    assert (code, out) == (3, "") and err.startswith("rushlight: torch.nn.Foo is missing\n")
