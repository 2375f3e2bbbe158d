"""A trace asks no more of sizes than PyTorch does, whose guards tools/record_guards.py records."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.tracing import make_fx
from tests.reference.guards import checking, programs

PROGRAMS = checking.recorded("programs")


@pytest.mark.parametrize("name", [name for name, guards in PROGRAMS.items() if guards is not None])
def test_guards_of_programs_are_implied_by_those_of_pytorch(name: str) -> None:
    torch.manual_seed(0)
    function, inputs = programs.PROGRAMS[name](torch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced: Any = make_fx(programs.with_gradients(torch, function), tracing_mode="symbolic")(
            *inputs
        )
    ours = checking.texts(traced.shape_env)
    assert checking.not_implied(ours, PROGRAMS[name]) == []


def test_a_guard_that_does_not_follow_is_found() -> None:
    assert checking.not_implied(["Ne(d7, 5)"], ["d7 > 3"]) == ["Ne(d7, 5)"]
    assert checking.not_implied(["d7 > 2", "Ne(d7, 3)"], ["d7 > 3"]) == []
    assert checking.not_implied(["Eq(Mod(d6, 3), 0)"], ["Eq(d6, 3*((d6//3)))"]) == []
