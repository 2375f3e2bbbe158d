"""Padding."""

from __future__ import annotations

import rushlight as torch


def test_padding_with_a_negative_zero_keeps_its_sign() -> None:
    for value, sign in ((0.0, 1.0), (-0.0, -1.0), (0, 1.0)):
        found = torch.nn.functional.pad(torch.ones(2), (1, 1), value=value)
        assert torch.copysign(torch.ones(4), found).tolist() == [sign, 1.0, 1.0, sign]
