"""What users of compiled code write: results and effects as in eager code, graphs and operators as
in PyTorch, and where not, why."""

from __future__ import annotations

import json
import pathlib
import sys
import types

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import compat
from rushlight.capture.marks import graph_break
from rushlight.compiler import compiling

SOURCE = pathlib.Path(__file__).with_name("idioms.py")
RECORDED = json.loads((SOURCE.parent.parent / "reference" / "capture" / "idioms.json").read_text())


@pytest.fixture(autouse=True, scope="module")
def torch_is_rushlight():
    compat.install()
    yield
    compat.uninstall()


def load(name):
    compat.install()
    module = sys.modules[name] = types.ModuleType(name)
    module.__dict__.update(torch=torch, nn=torch.nn, F=F, np=np, graph_break=graph_break)
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), module.__dict__)
    compat.uninstall()
    return module.__dict__


# Two copies, each with a state of its own: one runs as it is, one compiled.
EAGER, COMPILED = load("tests.capture.eager_idioms"), load("tests.capture.compiled_idioms")
PROGRAMS = [name for name in EAGER if name.startswith("p_")]

# Where graphs differ from PyTorch's: ours, operators in each.
MORE = {
    # A hook is registered natively whatever it does, and may be taken away again.
    "p_hook_removed": [5],
    "p_hook_log": [4],
    "p_retain_grad": [4],
    # `backward` is in the graph, and so are the gradients it leaves.
    "p_backward_detached": [1, 5],
    # PyTorch gives the frame up, or has no rule.
    "p_grad_fn": [1, 1],
    "p_function_dirty_plain": [3],
    "p_subclass_back": [1],
    "p_mode_counting": [2],
    "p_default_device": [2],
    "p_np_prod_shape": [1],
    "p_gen_return": [1],
    "p_cached_property": [2],
    "p_singledispatch": [1],
    "p_counter_most": [1],
    "p_deque_rotate": [1],
    "p_warn": [1],
    "p_setattr_loop": [1],
    "p_metaclass": [2],
    "p_object_key": [1],
    "p_module_gru": [4],
    "p_own_error": [1],
    "p_error_assert": [1],
    "p_error_note": [1],
    "p_fork_rng": [1, 2],
    # Attention is written in ops here, PyTorch's call of it is one.
    "p_module_mha": [29],
    "p_module_transformer": [37],
}
SAME_WORK = {
    # Nodes that only look at something, or switch a mode twice.
    "p_is_leaf": [1],
    "p_is_leaf_made": [2],
    "p_enable_in_no_grad": [10],
    "p_function_several": [7],
    "p_np_float32": [1],
    "p_np_int64": [2],
    "p_module_looped": [6],
    "p_numel_zero": [4],
    # A transform is one node with a body; PyTorch's steps into and out of levels are nodes.
    "p_vmap_closure": [1],
    "p_vmap_dims": [2],
    "p_grad_argnums": [1],
    "p_grad_aux": [2],
    "p_hessian": [2],
    "p_jacfwd": [2],
    "p_vmap_grad": [1],
}
FEWER = {
    # What backward would do is not known when forward is captured.
    "p_function_dirty": [1, 1, 2],
    "p_function_materialize": [2, 1],
    "p_function_mixed": [1, 3],
    # A generator that is left inside a handler ends natively.
    "p_gen_throw": [],
    # Subclasses of built-in classes break the graph, as do objects as keys.
    "p_list_subclass": [1],
    "p_list_subclass_global": [1, 1],
    "p_int_subclass": [],
    "p_dir": [],
    # Modules and buffers that are made in the function, and conversions of modules.
    "p_module_to": [1],
    "p_module_sequential_made": [2],
    # What a call leaves as it is needs no graph.
    "p_module_flatten": [],
    "p_buffer_made": [1, 1],
    # An error of the program: it runs natively from the start.
    "p_error_escapes": [],
    "p_eval_lambda": [],
    # Decisions on data.
    "p_min_max_tensors": [2, 1],
    "p_tensor_of_tensors": [2, 1],
    "p_linearize": [],
    "p_data_write": [1, 1],
}


@pytest.fixture(autouse=True)
def clean():
    yield
    compiling.reset()


def outcome(f):
    torch.manual_seed(0)
    x, y = torch.arange(6.0).reshape(2, 3) / 5 + 0.1, torch.ones(2, 3)
    try:
        result = repr(f(x, y))
    except Exception as error:
        result = type(error).__name__, str(error)
    return result, repr(x), repr(y)


def gradient(names, name):
    """The gradient that a program's result gives to W, where it has one."""
    weight = names["W"]
    weight.grad = None
    x, y = torch.arange(6.0).reshape(2, 3) / 5 + 0.1, torch.ones(2, 3)
    result = names[name](x, y)
    if isinstance(result, torch.Tensor) and result.requires_grad and not result.dim():
        result.backward()
    found, weight.grad = repr(weight.grad), None
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_idiom(name, capsys):
    ops = []

    def backend(gm, inputs):
        ops.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    program, copy = EAGER[name], COMPILED[name]
    compiled = torch.compile(copy, backend=backend)
    assert outcome(compiled) == outcome(program)
    first = list(ops)
    assert outcome(compiled) == outcome(program)
    for state in ("LOG", "STATE"):
        assert repr(COMPILED[state]) == repr(EAGER[state])
    if name.startswith(("p_hook", "p_function", "p_enable", "p_no_grad")):
        COMPILED[name] = compiled
        try:
            assert gradient(COMPILED, name) == gradient(EAGER, name)
        finally:
            COMPILED[name] = copy
    assert first == (MORE | SAME_WORK | FEWER).get(name, RECORDED[name]["ops"])


def test_differences_are_differences():
    for name, ours in (MORE | SAME_WORK | FEWER).items():
        assert RECORDED[name]["ops"] != ours, name
    same = len(PROGRAMS) - len(MORE) - len(SAME_WORK) - len(FEWER)
    assert same >= 250 and len(FEWER) <= 30
