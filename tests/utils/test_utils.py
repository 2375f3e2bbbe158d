"""Tools beside the tensor library."""

from __future__ import annotations

import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import swap_tensors


def test_swapped_tensors():
    a, b = torch.ones(1), nn.Parameter(torch.zeros(2))
    swap_tensors(a, b)
    assert a.tolist() == [0.0, 0.0] and type(a) is nn.Parameter and a.requires_grad
    assert b.tolist() == [1.0] and type(b) is torch.Tensor
    kept = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        swap_tensors(a, b)
    assert kept() is b
