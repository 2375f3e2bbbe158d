"""Kinds of dropout while training."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("module", "size", "outer"),
    [(nn.Dropout1d, (50, 8, 3), 2), (nn.Dropout1d, (200, 3), 1), (nn.Dropout2d, (50, 8, 3, 2), 2),
     (nn.Dropout3d, (50, 8, 2, 2, 2), 2), (nn.Dropout3d, (200, 2, 2, 2), 1)],
)  # fmt: skip
def test_whole_channels(module, size, outer):
    result = module(0.25)(torch.ones(size)).flatten(outer)
    assert torch.equal(result.amin(-1), result.amax(-1))
    channels = result[..., 0]
    assert sorted(channels.unique().tolist()) == pytest.approx([0.0, 1 / 0.75])
    assert (channels == 0).double().mean().item() == pytest.approx(0.25, abs=0.08)
    x = torch.ones(size)
    assert torch.equal(module(0.25).eval()(x), x)


def test_in_place():
    x = torch.ones(6, 4)
    result = F.dropout1d(x, 0.5, inplace=True)
    assert result is x and sorted(x.unique().tolist()) == [0.0, 2.0]


@pytest.mark.parametrize("module", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_spread(module):
    x = torch.randn(4000, 20)
    result = module(0.3)(x)
    assert result.mean().item() == pytest.approx(0.0, abs=0.03)
    assert result.std().item() == pytest.approx(1.0, abs=0.03)
    assert len(result[:, 0].unique()) < len(result) * 0.8
    assert torch.equal(module(0.3).eval()(x), x)


def test_complaints():
    with pytest.raises(ValueError, match="has to be between 0 and 1, but got 1.5"):
        nn.Dropout2d(1.5)
    for name in ("alpha_dropout", "feature_alpha_dropout", "dropout1d", "dropout2d", "dropout3d"):
        with pytest.raises(ValueError, match="has to be between 0 and 1, but got -1"):
            getattr(F, name)(torch.ones(2, 3), -1)
    with pytest.raises(RuntimeError, match="dropout1d: Expected 2D or 3D input, but received a 1D"):
        F.dropout1d(torch.ones(2))
    with pytest.warns(UserWarning, match="dropout2d: Received a 3D input to dropout2d and assum"):
        F.dropout2d(torch.ones(2, 3, 4))
    with pytest.warns(UserWarning, match="dropout3d: Received a 2-D input to dropout3d, which is"):
        F.dropout3d(torch.ones(2, 3))
    assert not isinstance(nn.Dropout1d(), nn.Dropout)
