"""addcmul and addcdiv: the factor as the operands' dtype holds it."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_a_fraction_is_cut_off_for_integers():
    ones = torch.ones(2, dtype=torch.int64)
    assert torch.addcmul(ones, ones, ones, value=2.5).tolist() == [3, 3]
    assert torch.addcmul(ones, ones, ones, value=True).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        (torch.float32, 1j, "float"),
        (torch.int64, 1e30, "int64_t"),
        (torch.uint8, 300, "uint8_t"),
    ],
)
def test_a_factor_must_fit(kind, value, name):
    x = torch.ones(2, dtype=kind)
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {name} without overflow"):
        torch.addcmul(x, x, x, value=value)
