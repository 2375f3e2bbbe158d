"""Operations counted; the numbers are PyTorch 2.13's."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch
import rushlight.nn as nn
from rushlight.utils.flop_counter import FlopCounterMode, register_flop_formula
from rushlight.utils.module_tracker import ModuleTracker


def counts(counter):
    return {
        name: {str(op): n for op, n in found.items()}
        for name, found in counter.get_flop_counts().items()
    }


def test_forward_and_backward_of_convolutions_by_module():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 6, 3, stride=2),
        nn.Flatten(), nn.Linear(6 * 17 * 17, 5),
    )  # fmt: skip
    with FlopCounterMode(display=False, depth=3) as counter:
        model(torch.randn(2, 3, 8, 8)).sum().backward()
    every = {
        "aten.convolution": 82944, "aten.addmm": 34680, "aten.mm": 69360,
        "aten.convolution_backward": 138240,
    }  # fmt: skip
    assert counts(counter) == {
        "Global": every,
        "Sequential": every,
        "Sequential.0": {"aten.convolution": 27648, "aten.convolution_backward": 27648},
        "Sequential.2": {"aten.convolution": 55296, "aten.convolution_backward": 110592},
        "Sequential.4": {"aten.addmm": 34680, "aten.mm": 69360},
    }
    assert counter.get_total_flops() == 325224


def test_a_transformer_layer():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with FlopCounterMode(display=False) as counter:
        layer(torch.ones(2, 3, 8, requires_grad=True)).sum().backward()
    assert counts(counter)["Global"] == {"aten.mm": 14592, "aten.bmm": 1728, "aten.addmm": 3840}
    assert "self_attn" in counter.get_table(4)


def test_formulas_of_ones_own():
    def formula(shape, *args, out_shape=None, **kwargs):
        return 7 * shape[0]

    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.sin: formula}) as counter:
        torch.ones(3).sin()
    assert counts(counter) == {"Global": {"aten.sin": 21}}
    try:
        register_flop_formula(torch.ops.aten.mm)(formula)
    except RuntimeError as error:
        assert "duplicate" in str(error)
    else:
        raise AssertionError("a second formula was taken")


def test_the_tracker_forgets_after_an_error():
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    tracker = ModuleTracker()
    with tracker:
        with contextlib.suppress(ValueError):
            Failing()(torch.ones(1))
        assert "Failing" in tracker.parents
        x = torch.ones(2, requires_grad=True)
        nn.Linear(2, 2)(x).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw


def test_modules_are_named_by_their_place_whoever_calls_them():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.listed = nn.ModuleList([nn.ReLU()])

        def forward(self, x):
            return self.listed[0](x)

    seen = []
    with ModuleTracker() as tracker:
        outer = Outer()
        outer.listed[0].register_forward_pre_hook(lambda *_: seen.append(set(tracker.parents)))
        y = outer(torch.ones(2, requires_grad=True))
        y.register_hook(lambda _: seen.append((tracker.is_bw, "Outer.listed.0" in tracker.parents)))
        y.sum().backward()
    assert seen == [{"Global", "Outer", "Outer.listed.0"}, (True, True)]


def test_formulas_are_of_operators_in_all_their_forms():
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula(torch.ops.aten.sin.default)(lambda *args, **kwargs: 1)
    with pytest.warns(UserWarning, match="mods argument is not needed"):
        FlopCounterMode(nn.Linear(2, 2), display=False)
