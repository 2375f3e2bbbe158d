"""Dropout: what passes through untouched, in-place forms, nodes."""

from __future__ import annotations

import pytest

import rushlight as torch

NAMES = ("dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")


@pytest.mark.parametrize("name", NAMES)
def test_outside_training_any_input_passes(name):
    x = torch.ones(3)
    assert getattr(torch, name)(x, 0.5, False) is x
    assert getattr(torch, name + "_")(x, 0.0, True) is x


@pytest.mark.parametrize("name", NAMES)
def test_in_place_forms_draw_the_same_numbers(name):
    x = torch.ones(4, 8, 2)
    torch.manual_seed(3)
    wanted = getattr(torch, name)(x, 0.5, True)
    torch.manual_seed(3)
    assert getattr(torch, name + "_")(x, 0.5, True) is x
    assert x.tolist() == wanted.tolist()
    assert len(set(x.reshape(-1).tolist())) == 2
    if name.startswith("feature"):
        assert x[..., 0].tolist() == x[..., 1].tolist()


def test_all_is_dropped():
    assert torch.alpha_dropout_(torch.ones(2), 1.0, True).tolist() == [0.0, 0.0]
    assert torch.feature_dropout(torch.ones(2), 1.0, True).tolist() == [0.0, 0.0]
    with pytest.raises(RuntimeError, match="requires at least 2 dimensions"):
        torch.feature_dropout(torch.ones(2), 0.5, True)
