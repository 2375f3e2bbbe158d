"""Compiled random programs are what they are eagerly: values, gradients, aliases, errors.

`FUZZ_AOT` says how many programs run (`make fuzz-aot`), `FUZZ_AOT_FROM` where to begin.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.aot.api import aot_function
from rushlight.aot.compilers import nop
from rushlight.aot.partition import default_partition, min_cut_rematerialization_partition
from tests.aot.programs import Program, execute, generate, observe, shrink


@dataclass(frozen=True)
class Setting:
    """How a program is compiled."""

    least: bool
    keep: bool
    dynamic: bool
    native: bool

    @property
    def options(self) -> dict[str, Any]:
        partition = min_cut_rematerialization_partition if self.least else default_partition
        return {
            "fw_compiler": torch.compiler.compile_graph if self.native else nop,
            "partition_fn": partition,
            "keep_inference_input_mutations": self.keep,
            "dynamic": self.dynamic,
        }


# The code generator takes graphs of fixed sizes.
SETTINGS = [
    Setting(*flags) for flags in product([False, True], repeat=4) if not (flags[2] and flags[3])
]


def differences(eager: dict[str, Any], compiled: dict[str, Any]) -> list[str]:
    """The names of what differs."""
    if "error" in eager or "error" in compiled:
        if "error" in eager and "error" in compiled:
            return []
        return ["error"]
    return [name for name in eager if eager[name] != compiled[name]]


def compare(program: Program, setting: Setting) -> tuple[list[str], Any, Any]:
    def run(*args: Any) -> list[Any]:
        return execute(torch, program, args)

    eager = observe(torch, program, run)
    compiled = observe(torch, program, aot_function(run, **setting.options))
    return differences(eager, compiled), eager, compiled
