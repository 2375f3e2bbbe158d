"""Padding."""

from __future__ import annotations

import rushlight as torch


def test_padding_with_a_negative_zero_keeps_its_sign() -> None:
    for value, sign in ((0.0, 1.0), (-0.0, -1.0), (0, 1.0)):
        found = torch.nn.functional.pad(torch.ones(2), (1, 1), value=value)
        assert torch.copysign(torch.ones(4), found).tolist() == [sign, 1.0, 1.0, sign]


def test_shuffled_pixels_never_share_memory():
    for shuffle in (torch.nn.functional.pixel_shuffle, torch.nn.functional.pixel_unshuffle):
        x = torch.ones(1, 4, 1, 1)
        shuffle(x, 1).zero_()
        assert x.sum().item() == 4
    x = torch.ones(1, 1, 4, 2)
    torch.nn.functional.pixel_unshuffle(x, 2).zero_()
    x = torch.ones(1, 4, 1, 1)
    torch.nn.functional.pixel_shuffle(x, 2).zero_()
    assert x.sum().item() == 4
