"""Scripted programs give what the Python they were made from gives: random typed programs.

A quick sample always; `FUZZ_SCRIPT=5000` runs that many more, from `FUZZ_SCRIPT_FROM` on.
"""

from __future__ import annotations

import copy
import linecache
import os
import sys
from pathlib import Path

import pytest

import rushlight as torch

sys.path.insert(0, str(Path(__file__).resolve().parent))

import script_fuzz


def run(function, values):
    try:
        return "value", function(**copy.deepcopy(values))
    except Exception as error:
        return "error", error


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and a.tolist() == b.tolist()
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a == b and list(a) == list(b)
    return type(a) is type(b) and (a == b or (a != a and b != b))


def load(source, name):
    """The functions of a text, as if it were a file."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope = {"__name__": f"fuzz_{name[1:-1]}"}
    exec(compile(source, name, "exec"), scope)
    return scope["program"]


def check(seed):
    source = script_fuzz.Program(seed).source()
    function = load(source, f"<program {seed}>")
    values = script_fuzz.arguments(source, seed, torch)
    kind, expected = run(function, values)
    scripted = torch.jit.script(function)
    # What was compiled stands for itself.
    function.__code__ = (lambda: None).__code__
    linecache.cache.pop(f"<program {seed}>")
    got_kind, got = run(scripted, values)
    assert got_kind == kind, f"{source}\nPython: {expected!r}\nscript: {got!r}"
    if kind == "value":
        assert same(expected, got), f"{source}\nPython: {expected}\nscript: {got}"


@pytest.mark.parametrize("part", range(4))
def test_script_gives_what_python_gives(part):
    for seed in range(part, 60, 4):
        check(seed)


@pytest.mark.slow
@pytest.mark.skipif("FUZZ_SCRIPT" not in os.environ, reason="set FUZZ_SCRIPT to a count")
@pytest.mark.parametrize("part", range(16))
def test_many_programs(part):
    first, count = int(os.environ.get("FUZZ_SCRIPT_FROM", "1000")), int(os.environ["FUZZ_SCRIPT"])
    for seed in range(first + part, first + count, 16):
        check(seed)
