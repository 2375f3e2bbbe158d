"""Fake quantization at the edges."""

from __future__ import annotations

import math

import pytest

import rushlight as torch

VALUES = torch.tensor([-3.0, 0.3, 0.05, 0.15, 9.0, math.nan, math.inf])


def test_values_and_mask() -> None:
    output, mask = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(VALUES, 0.1, 1, 0, 15)
    assert output.tolist() == pytest.approx([-0.1, 0.3, 0, 0.2, 1.4, -0.1, 1.4])
    assert mask.tolist() == [False, True, True, True, False, False, False]


def test_gradient_passes_where_nothing_was_clamped() -> None:
    x = VALUES[:5].clone().requires_grad_()
    scale, zero_point = torch.tensor(0.1), torch.tensor(1)
    torch.fake_quantize_per_tensor_affine(x, scale, zero_point, 0, 15).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


def test_channels() -> None:
    x = torch.tensor([[0.26, 5.0], [0.26, 5.0]])
    scale, zero_point = torch.tensor([0.1, 0.5]), torch.tensor([0, 1], dtype=torch.int32)
    found = torch.fake_quantize_per_channel_affine(x, scale, zero_point, 0, 0, 15)
    assert found.tolist() == [pytest.approx([0.3, 1.5]), pytest.approx([0.5, 5.0])]
    with pytest.raises(RuntimeError, match="Zero-point must be Int32, Float or Half, found Long"):
        torch.fake_quantize_per_channel_affine(x, scale, zero_point.long(), 0, 0, 15)
