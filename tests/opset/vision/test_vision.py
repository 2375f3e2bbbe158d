"""Operators of torchvision: values and gradients are those of its compiled ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import rushlight as torch

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "recorded.json").read_text())


@pytest.fixture(scope="module")
def answers():
    scope = {"torch": torch}
    exec((HERE / "calls.py").read_text(), scope)
    return scope["answers"](torch.ops.torchvision)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_as_recorded(answers, name):
    for found, wanted in zip(answers[name], RECORDED[name], strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_gradient_of_a_gradient_of_aligned_regions():
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    rois = torch.tensor([[0, 0.5, 1, 4, 5]], dtype=torch.float64)
    pool = torch.ops.torchvision.roi_align

    def call(x):
        return pool(x, rois, 1.0, 2, 2, 2, True)

    assert torch.autograd.gradcheck(call, (x,))
    assert torch.autograd.gradgradcheck(call, (x,))


def test_sizes_are_known_without_values():
    ops = torch.ops.torchvision
    x, rois = torch.empty(2, 8, 9, 9, device="meta"), torch.empty(5, 5, device="meta")
    assert ops.roi_align(x, rois, 1.0, 3, 2, 2, False).shape == (5, 8, 3, 2)
    assert ops.ps_roi_pool(x, rois, 1.0, 2, 2)[0].shape == (5, 2, 2, 2)


def test_what_is_not_there():
    ops = torch.ops.torchvision
    with pytest.raises(NotImplementedError, match="box_iou_rotated"):
        ops.box_iou_rotated(torch.zeros(1, 5), torch.zeros(1, 5))
    assert ops._cuda_version() == -1
