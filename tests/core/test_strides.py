"""Strides of elementwise results: as recorded, by every way that a call may take."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

import rushlight as torch
from rushlight.core.modes import TorchDispatchMode
from tests.core.strides import CALLS, operand

CASES = json.loads((Path(__file__).parent / "stride_cases.json").read_text())


class Passing(TorchDispatchMode):
    """Takes calls off the short way and does nothing else."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


WAYS = {
    "eager": ("cpu", nullcontext),
    "dispatch": ("cpu", Passing),
    "no memory": ("meta", nullcontext),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_recorded_strides(name, way):
    device, mode = WAYS[way]
    cases = [(operands, strides) for which, operands, strides in CASES if which == name]
    assert len(cases) > 20
    for operands, strides in cases:
        tensors = [operand(torch, *one, device=device) for one in operands]
        with mode():
            found = CALLS[name][1](torch, *tensors)
        assert list(found.stride()) == strides, operands


def test_equal_strides_leave_the_order_to_the_second_operand():
    row = torch.arange(4.0).view(1, 4)
    for product in (row.unsqueeze(2) * row.t(), row.unsqueeze(2).requires_grad_() * row.t()):
        assert product.stride() == (4, 1, 4)
