"""Modules against PyTorch: how they print, what they store, their values and gradients."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rushlight as torch
from tests.nn.cases import CASES, told

RECORDED = json.loads(Path(__file__).with_name("recorded_cases.json").read_text())


def close(found, wanted):
    if isinstance(wanted, list):
        assert isinstance(found, list) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            close(one, other)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    else:
        assert found == wanted


@pytest.mark.parametrize(
    ("case", "wanted"), list(zip(CASES, RECORDED, strict=True)), ids=[case[0] for case in CASES]
)
def test_case(case, wanted):
    close(told(torch, case), wanted)
