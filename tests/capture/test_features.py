"""Programs of one feature each: results as in eager code, graphs and operators as in PyTorch."""

from __future__ import annotations

import json
import pathlib
import sys
import types

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling

SOURCE = pathlib.Path(__file__).with_name("features.py")
RECORDED = json.loads(
    (SOURCE.parent.parent / "reference" / "capture" / "features.json").read_text()
)


def load():
    name = "tests.capture.loaded_features"
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(torch=torch, nn=torch.nn, F=F, np=np, graph_break=graph_break)
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module.__dict__)
    return {name: f for name, f in module.__dict__.items() if name.startswith("p_")}


PROGRAMS = load()

# Where graphs differ from PyTorch's: ours, operators in each.
MORE = {
    # PyTorch gives a frame up that breaks in a loop, `try` or `with`; a resume function goes on.
    "p_break_in_loop": [1, 1, 1],
    "p_break_in_with": [1, 1],
    "p_break_in_try": [1, 1],
    # PyTorch has no rule for these.
    "p_yield_from": [2],
    "p_simple_namespace": [1],
    # `backward` is a node.
    "p_backward": [4],
}
FEWER = {
    # A transform is one node with a body; PyTorch's steps into and out of levels are nodes.
    "p_func_grad": [1],
    "p_func_vmap": [1],
    "p_func_vmap_two": [1],
    "p_func_jvp": [2],
    "p_func_vjp": [3],
    "p_func_jacrev": [2],
    "p_func_grad_value": [2],
    # What NumPy knows of a constant is known when the graph is made.
    "p_numpy_scalar": [1],
    # Modules that are made in the function, and copies of their tables, break the graph.
    "p_sequential_slice": [2],
    "p_state_dict": [1],
    "p_loss": [3],
    "p_module_in_function": [1],
    # An error of the program: PyTorch's graph has the hook.
    "p_backward_hook": [1],
}
RANDOM = {"p_rand", "p_module_dropout"}


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def arguments():
    return torch.arange(6.0).reshape(2, 3) / 5 + 0.1, torch.ones(2, 3)


def outcome(f):
    torch.manual_seed(0)
    x, y = arguments()
    try:
        return repr(f(x, y)), repr(x)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_feature(name, capsys):
    ops = []

    def backend(gm, inputs):
        ops.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    program = PROGRAMS[name]
    compiled = torch.compile(program, backend=backend)
    want = outcome(program)
    assert outcome(compiled) == want
    first = list(ops)
    assert outcome(compiled) == want
    assert first == (MORE | FEWER).get(name, RECORDED[name]["ops"])


def test_differences_are_differences():
    for name, ours in (MORE | FEWER).items():
        assert RECORDED[name]["ops"] != ours
    assert len(PROGRAMS) - len(MORE) - len(FEWER) >= 300
