"""Graphs of scripted programs read as those recorded from PyTorch, and compute what Python does."""

from __future__ import annotations

import copy
import inspect
import json
import sys
import typing
from pathlib import Path

import pytest

import rushlight as torch

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME))

import programs_script_more as programs  # noqa: E402
import script_texts  # noqa: E402

REFERENCE = HOME.parent / "reference" / "jit"
FUNCTION_TEXTS = json.loads((REFERENCE / "script_functions.json").read_text())
MODULE_TEXTS = json.loads((REFERENCE / "script_modules.json").read_text())


@pytest.mark.parametrize("name", FUNCTION_TEXTS)
def test_function_reads_as_recorded(name):
    numbered, named = FUNCTION_TEXTS[name]
    assert script_texts.function_text(torch, programs.FUNCTIONS[name]) == numbered
    assert script_texts.function_text(torch, programs.FUNCTIONS[name], keep_names=True) == named


@pytest.mark.parametrize("name", MODULE_TEXTS)
def test_module_reads_as_recorded(name):
    numbered, named = MODULE_TEXTS[name]
    assert script_texts.module_text(torch, programs.MODULES[name]) == numbered
    assert script_texts.module_text(torch, programs.MODULES[name], keep_names=True) == named


def test_every_program_has_a_text():
    assert set(FUNCTION_TEXTS) == set(programs.FUNCTIONS)
    assert set(MODULE_TEXTS) == set(programs.MODULES)


# What programs are run on, where their annotations do not say enough.
INPUTS = {
    "swapped_aliases": lambda: (torch.rand(2, 2), torch.rand(2, 2)),
    "type_comment": lambda: (torch.rand(2, 2), 3),
    "tensor_bits": lambda: (torch.tensor([5, 2]), torch.tensor([3, 6])),
    "matmuls": lambda: (torch.rand(3, 3), torch.rand(3, 3)),
    "while_tensor": lambda: (torch.ones(2, 3),),
    "for_tensor": lambda: (torch.rand(4, 3),),
    "advanced_indexing": lambda: (torch.rand(3, 4), torch.tensor([1, 0])),
    "index_assignment": lambda: (torch.rand(3, 4), torch.rand(4)),
    "index_augmented": lambda: (torch.rand(3, 4), torch.tensor([1, 0])),
    "splits": lambda: (torch.rand(2, 4)[:, :],),
    "tensor_conversions": lambda: (torch.tensor(3.5),),
    "tolist": lambda: (torch.tensor([1, 2, 3]),),
    "linear_algebra": lambda: (torch.rand(3, 3), torch.rand(3, 3)),
    "conversions": lambda: (3, 2.5, "7", True),
    "string_methods": lambda: ("a,b",),
    "starred_call": lambda: ((3, 4),),
    "unpack_list": lambda: ([3, 4],),
    "shapes": lambda: (torch.rand(2, 3).expand(2, 3),),
    "list_methods": lambda: ([1, 2, 3, 4],),
    "union_isinstance": lambda: ("abc",),
    "any_isinstance": lambda: (3,),
    "bits": lambda: (5, 2),
    "modulo": lambda: (torch.rand(3),),
    "builtin_functions": lambda: (97, 2.5),
    # Views of dicts change with them in Python; compiled code has lists.
    "delete_item": lambda: ([1, 2], {"a": 1, "b": 2}),
    "dict_of_lists": lambda: ({"a": [1]},),
    "named_tuple": lambda: (programs.Point(1, torch.ones(2)),),
    "set_in_list_of_tensors": lambda: ([torch.ones(2), torch.zeros(2)],),
    "nested_lists": lambda: ([[1, 2], [3]],),
    # Python counts these calls as errors, compiled code does not.
    "isinstance_static": lambda: (torch.ones(2), 3),
    "asserting": lambda: (torch.ones(2, 2),),
}
BY_TYPE = {
    int: lambda: 3,
    float: lambda: 2.5,
    bool: lambda: True,
    str: lambda: "abc",
    complex: lambda: 1 + 2j,
    list[int]: lambda: [4, 2, 3],
    list[float]: lambda: [1.5, 2.5, 0.5],
    list[torch.Tensor]: lambda: [torch.ones(2), torch.zeros(2)],
    dict[str, int]: lambda: {"a": 1, "b": 2},
    dict[int, float]: lambda: {1: 0.5, 2: 1.5},
    programs.Color: lambda: programs.Color.RED,
    programs.Shade: lambda: programs.Shade.DARK,
}


def sample(hint):
    if hint in (inspect.Parameter.empty, torch.Tensor):
        return torch.tensor([[0.5, 1.5], [2.5, -1.5]])
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return tuple(sample(each) for each in args)
    if origin is list and args[0] not in (int, float, torch.Tensor):
        return [sample(args[0]), None]
    if origin is list:
        hint = list[args[0]]
    if origin is dict:
        hint = dict[args]
    if type(None) in args:
        return sample(args[0])
    return BY_TYPE[hint]()


def inputs_of(name):
    if name in INPUTS:
        return INPUTS[name]()
    hints = inspect.signature(programs.FUNCTIONS[name]).parameters.values()
    return tuple(sample(each.annotation) for each in hints if each.kind != each.KEYWORD_ONLY)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b) and a.dtype == b.dtype
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and same(list(a.values()), list(b.values()))
    return a == b


def outcome(function, inputs, **kwargs):
    try:
        return "value", function(*copy.deepcopy(inputs), **kwargs)
    except Exception as error:
        return "error", type(error).__name__


# Only their texts are compared: no one input fits all of the first, and the others take an object
# of a compiled class, give views of a dict that go on changing, or answer what they are.
NOT_RUN = {"functional_several", "takes_class", "dict_methods", "scripting_flag"}


@pytest.mark.parametrize("name", [name for name in FUNCTION_TEXTS if name not in NOT_RUN])
def test_function_computes_what_python_does(name):
    inputs = inputs_of(name)
    kwargs = {"n": 2} if name == "keyword_only" else {}
    function = programs.FUNCTIONS[name]
    kind, expected = outcome(function, inputs, **kwargs)
    script = torch.jit.script(function)
    got_kind, got = outcome(script, inputs, **kwargs)
    assert got_kind == kind, (expected, got)
    if kind == "value":
        assert same(normal(expected), normal(got)), (expected, got)


def normal(value):
    """Views of dicts as lists, sizes as lists, dtypes and the like as numbers."""
    from rushlight.jit.ir.constants import enumerated

    if isinstance(value, (type({}.keys()), type({}.values()), type({}.items()), torch.Size)):
        return [normal(each) for each in value]
    if isinstance(value, tuple):
        return tuple(normal(each) for each in value)
    number = enumerated(value)
    return value if number is None else number
