"""Programs of one feature each, and of handlers, over tensors that are numbers: needs no NumPy, so
that it runs on every Python whose bytecode is decoded (see plain.py)."""

from __future__ import annotations

import pathlib
import sys
import types

import pytest

from rushlight.capture.marks import graph_break
from tests.capture import handlers
from tests.capture.toy import OPS, Toy, toy_capture

SOURCE = pathlib.Path(__file__).with_name("features.py")


def load() -> dict[str, types.FunctionType]:
    library = types.SimpleNamespace(**OPS, Tensor=Toy)
    names = {"torch": library, "F": library, "graph_break": graph_break}
    # Dataclasses look their module up.
    name = "tests.capture.loaded_plain"
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(names)
    # What follows is about tensors, and is left to test_features.
    text, found, _ = SOURCE.read_text().partition("# -- tensors --")
    assert found
    exec(compile(text, str(SOURCE), "exec"), module.__dict__)
    return {name: f for name, f in module.__dict__.items() if name.startswith("p_")}


def feature_outcome(f):
    x, y = Toy(0.7), Toy(1.0)
    try:
        return repr(f(x, y)), repr(x)
    except Exception as error:
        return type(error), str(error)


PROGRAMS = load()
# Without those that ask more of a tensor than a number has.
PLAIN = [name for name, f in PROGRAMS.items() if feature_outcome(f)[0].__class__ is str]


def test_most_programs_are_plain():
    assert len(PLAIN) > 0.8 * len(PROGRAMS)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PLAIN)
def test_feature(name):
    program = PROGRAMS[name]
    want = feature_outcome(program)
    compiled = toy_capture().function(program)
    assert [feature_outcome(compiled) for _ in range(3)] == [want] * 3


@pytest.mark.parametrize("program", handlers.PROGRAMS, ids=lambda f: f.__name__)
def test_handlers_without_tensors(program):
    compiled = toy_capture().function(program)
    for _ in range(3):
        assert handlers.outcome(compiled, Toy(3)) == handlers.outcome(program, Toy(3))
