"""What script says about code that it cannot compile: PyTorch's words, and the user's line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import rushlight as torch

HOME = Path(__file__).resolve().parent
sys.path.insert(0, str(HOME))

import programs_refused as programs  # noqa: E402
import refusals  # noqa: E402

TEXTS = json.loads((HOME.parent / "reference" / "jit" / "script_refused.json").read_text())


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_refusal_reads_as_recorded(name):
    assert refusals.refusal_text(torch, programs.PROGRAMS[name]) == TEXTS[name]
