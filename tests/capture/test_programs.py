"""The programs of tests/programs, compiled: modules at their first call, and every function of the
script. They print the same losses."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.test_programs import HERE, NAMES, TRAINING, agree, expected

DRIVER = """
import ast, contextlib, io, json, sys, traceback, types, warnings
from rushlight.compat import install
install()
import torch
from rushlight.base.counters import counters
from rushlight.compiler import compiling
from rushlight.nn.module import Module

backend = sys.argv[1]
plain, inside = Module.__call__, []

def call(self, *args, **kwargs):
    is_done = "_compiled_call_impl" in self.__dict__
    if not inside and not is_done and not isinstance(self, compiling.OptimizedModule):
        self.compile(backend=backend)
    inside.append(self)
    try:
        return plain(self, *args, **kwargs)
    finally:
        inside.pop()

def run(path):
    tree = ast.parse(open(path).read())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            name = ast.Name("__compiled", ast.Load(), lineno=node.lineno, col_offset=0)
            node.decorator_list.append(name)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__compiled"] = torch.compile(backend=backend)
    exec(compile(ast.fix_missing_locations(tree), path, "exec"), main.__dict__)

found = {}
for path in sys.argv[2:]:
    sys.argv = [path]
    text = io.StringIO()
    counters.clear()
    Module.__call__ = call
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run(path)
        except BaseException:
            traceback.print_exc(file=text)
    Module.__call__ = plain
    compiling.reset()
    found[path] = text.getvalue(), counters["stats"]["unique_graphs"]
print(json.dumps(found))
"""


def run(names, backend):
    """What each program prints, and how many graphs it had."""
    paths = {str(HERE / f"{name}.py"): name for name in names}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, backend, *paths],
        capture_output=True, text=True, timeout=900, cwd=HERE.parent.parent, check=True,
    )  # fmt: skip
    return {paths[path]: found for path, found in json.loads(done.stdout).items()}


# Scripts without functions and modules, or whose tensors are of an overriding class.
PLAIN = {
    "autograd_tricks", "kmeans", "linear_regression", "logging_tensor", "power_iteration",
    "printing", "training/reinforce",
}  # fmt: skip
QUICK = [
    "batching", "checkpointing", "game_of_life", "newton", "training/custom_function",
    "training/detection", "training/ema", "training/gpt", "training/mixed_precision",
    "training/vae",
]  # fmt: skip


def check(name, found):
    text, graphs = found
    lines, wanted = text.splitlines(), expected(name).splitlines()
    assert len(lines) == len(wanted), text[-3000:]
    wrong = [pair for pair in zip(lines, wanted, strict=True) if not agree(*pair)]
    assert not wrong, wrong[:3]
    assert graphs or name in PLAIN, "nothing was captured"


@pytest.fixture(scope="module")
def quick():
    return run(QUICK, "eager")


@pytest.mark.parametrize("name", QUICK)
def test_compiled_programs_print_the_same(name, quick):
    check(name, quick[name])


# What has no form ahead of time: gradients of gradients, sparse gradients, names of autograd nodes.
EAGER_ONLY = {
    "checkpointing", "newton", "training/meta_learning", "training/physics_fit",
    "training/word2vec",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_all_programs_compiled(backend):
    left_out = EAGER_ONLY if backend != "eager" else set()
    names = [name for name in [*NAMES, *TRAINING] if name not in left_out]
    for name, found in run(names, backend).items():
        check(name, found)
