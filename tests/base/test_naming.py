"""Names of types in messages."""

from __future__ import annotations

import rushlight as torch
from rushlight.base.naming import typename


def test_values_are_named_by_their_types():
    assert typename(3) == "int"
    assert typename(dict) == "dict"
    assert typename(torch.float32) == "rushlight.core.dtype.dtype"


def test_tensors_are_named_by_their_dtypes():
    assert torch.typename(torch.ones(1)) == "torch.FloatTensor"
    assert torch.typename is typename
