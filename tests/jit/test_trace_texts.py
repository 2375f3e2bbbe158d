"""Graphs of traces are, text by text, those that PyTorch 2.13 records for the same programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as torch
from tests.jit import programs_trace, texts

HOME = Path(__file__).resolve().parent.parent / "reference" / "jit"


def recorded(family):
    return json.loads((HOME / f"{family}.json").read_text())


FUNCTIONS = recorded("trace_functions")
MODULES = recorded("trace_modules")


def test_every_program_has_a_text():
    assert set(FUNCTIONS) == set(programs_trace.FUNCTIONS)
    assert set(MODULES) == set(programs_trace.MODULES)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_function(name):
    build = programs_trace.FUNCTIONS[name]
    assert texts.function_text(torch, build) == FUNCTIONS[name][0]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_module(name):
    assert texts.module_text(torch, programs_trace.MODULES[name]) == MODULES[name][0]


def test_values_are_named_after_variables():
    """Names come from the frames of the program; those of library frames may differ."""
    own = [name for name in FUNCTIONS if not name.startswith("expr_")]
    for name in own:
        text = texts.function_text(torch, programs_trace.FUNCTIONS[name], keep_names=True)
        assert text == FUNCTIONS[name][1], name
