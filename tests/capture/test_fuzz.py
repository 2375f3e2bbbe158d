"""Random programs: compiled equals native in results, exceptions, effects and identities, call
after call."""

from __future__ import annotations

import os
import random

import pytest

from tests.capture import programs
from tests.capture.generator import NAMES, Box, Tensors, program_of
from tests.capture.toy import Toy, op_neg, toy_capture
from tests.capture.vocabulary import TENSOR_EXPRESSIONS, tensor_names

TOYS = Tensors(("x.relu()", "op_neg(x)", "op_neg(y) + a"), "{e} > {n}")
COUNT = int(os.environ.get("FUZZ_CAPTURE", "2000"))
# The first program of the long run: other programs than last time's.
FIRST = int(os.environ.get("FUZZ_FIRST", "100"))


def identities(values):
    """Which objects of a nest are which, by order of appearance."""
    seen, found = {}, []

    def visit(v):
        if isinstance(v, (int, str, type(None), bool)):
            return
        if isinstance(v, tuple):  # equal ones may be one
            for item in v:
                visit(item)
            return
        if id(v) in seen:
            found.append(seen[id(v)])
            return
        seen[id(v)] = len(seen)
        found.append(-1)
        if isinstance(v, dict):
            for item in v.values():
                visit(item)
        elif isinstance(v, list):
            for item in v:
                visit(item)

    visit(values)
    return found


def run(f, seed, make=Toy):
    r = random.Random(seed)
    x, y = make(r.randint(-3, 3)), make(r.randint(-3, 3))
    items, table, box, log = [make(1), x], {"k": y}, Box(r.randint(0, 3)), []
    programs.LOG.clear()
    try:
        out = f(x, y, r.randint(0, 4), r.randint(0, 3), items, table, box, log)
    except Exception as error:
        chain = type(error.__context__), type(error.__cause__)
        out = type(error).__name__, str(error), str(chain)
    same = identities([out, items, table, box, box.__dict__, log, x, y, programs.LOG])
    return repr((out, items, table, box, log, x, y, programs.LOG, same))


def differs(seed):
    """The text of a random program whose compiled form differs, or None."""
    return compared(program_of(seed, TOYS), {"op_neg": op_neg}, toy_capture(limit=30).function)


def compared(text, names, compile_, make=Toy):
    namespace = {**NAMES, **names}
    exec(compile(text, "<program>", "exec"), namespace)
    f = namespace["f"]
    compiled = compile_(f)
    for k in (1, 2, 3, 1, 2, 3):
        want, got = run(f, k, make), run(compiled, k, make)
        if want != got:
            return f"{text}\nwant {want}\ngot  {got}"
    return None


TENSORS = Tensors(
    (
        "x.relu()", "torch.sin(x)", "x @ y", "x.t()", "y[0] + x", "x.add_(1)", "y.mul_(a)",
        "torch.where(x > y, x, y)", "x.sum() + y", "torch.stack([x, y]).mean(0)", "F.softmax(x, 0)",
        "x.reshape(-1)[:2] + y", "(x > 0) * y", "x.clamp(-5, 5)", "y.detach() + x",
        *TENSOR_EXPRESSIONS,
    ),
    "({e}).sum() > {n}",
)  # fmt: skip


def tensor_differs(seed):
    """The same with tensors."""
    pytest.importorskip("numpy")
    import rushlight as torch
    from rushlight.compiler import compiling, config

    def compile_(f):
        return torch.compile(f, backend="eager")

    def make(n):
        return torch.full((2, 2), float(n))

    names = {"torch": torch, "F": torch.nn.functional, **tensor_names()}
    text = program_of(seed, TENSORS)
    try:
        with config.patch(recompile_limit=30):
            return compared(text, names, compile_, make)
    finally:
        compiling.reset()


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        found = differs(seed)
        assert found is None, f"program {seed}\n{found}"


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_random_programs_with_tensors(first):
    for seed in range(first, first + 10):
        found = tensor_differs(seed)
        assert found is None, f"program {seed}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, COUNT // 10 + FIRST, 10))
def test_more_random_programs_with_tensors(first):
    for seed in range(first, first + 10):
        found = tensor_differs(seed)
        assert found is None, f"program {seed}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, COUNT + FIRST, 100))
def test_more_random_programs(first):
    for seed in range(first, first + 100):
        found = differs(seed)
        assert found is None, f"program {seed}\n{found}"
