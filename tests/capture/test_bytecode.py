"""The decoder reads all of the standard library that it is given, and writes tables back."""

from __future__ import annotations

import argparse
import ast
import collections
import dis
import functools
import inspect
import json
import sys
import types

import pytest

from rushlight.capture import bytecode

# What frames of modules, classes and coroutines are made with; no function that is captured is one.
OUTSIDE = {
    "LOAD_BUILD_CLASS", "STORE_NAME", "LOAD_NAME", "DELETE_NAME", "SETUP_ANNOTATIONS",
    "LOAD_LOCALS", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_CLASSDEREF",
    "MATCH_CLASS", "CLEANUP_THROW", "DELETE_GLOBAL", "IMPORT_STAR", "GET_AWAITABLE",
    "CALL_INTRINSIC_1 1", "CALL_INTRINSIC_1 2", "CALL_INTRINSIC_2", "DELETE_DEREF",
    "ASYNC_GEN_WRAP", "GET_ANEXT", "GET_AITER", "BEFORE_ASYNC_WITH", "END_ASYNC_FOR",
    "PREP_RERAISE_STAR", "CHECK_EG_MATCH", "PRINT_EXPR", "LOAD_BUILD_TEMPLATE",
}  # fmt: skip


def codes_of(code):
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from codes_of(inner)


@pytest.mark.parametrize(
    "module", [argparse, ast, collections, dis, functools, inspect, json], ids=lambda m: m.__name__
)
def test_decodes_the_standard_library(module):
    unknown = collections.Counter()
    for code in codes_of(compile(inspect.getsource(module), "m", "exec")):
        decoded = bytecode.decode(code)
        unknown.update(m.arg for m in decoded.micros if m.op == "UNSUPPORTED")
        assert bytecode.encode_handlers(decoded.handlers) == code.co_exceptiontable
    assert not {name for name in unknown if name not in OUTSIDE and "INTRINSIC" not in name}


def test_refuses_a_python_it_does_not_know(monkeypatch):
    monkeypatch.setattr(bytecode, "VERSION", (3, 15))
    with pytest.raises(RuntimeError, match=r"3\.11 to 3\.14, not of 3\.15"):
        bytecode.check_version()


@pytest.mark.skipif(sys.platform == "emscripten", reason="it has no processes; and no NumPy")
def test_needs_no_numpy():
    """The core is importable where there is no NumPy: how other Pythons are tested."""
    import subprocess
    from pathlib import Path

    import rushlight

    folder = str(Path(rushlight.__file__).parent)
    program = (
        "import sys, types\n"
        "sys.modules['numpy'] = None\n"
        "package = types.ModuleType('rushlight')\n"
        f"package.__path__ = [{folder!r}]\n"
        "sys.modules['rushlight'] = package\n"
        "import rushlight.capture.cache\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
