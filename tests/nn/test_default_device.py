"""Modules are made on the default device, as every tensor that names no device."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn

MAKERS = {
    "linear": lambda: nn.Linear(2, 3),
    "bilinear": lambda: nn.Bilinear(2, 3, 4),
    "embedding": lambda: nn.Embedding(4, 2),
    "conv": lambda: nn.Conv2d(1, 2, 3),
    "batch norm": lambda: nn.BatchNorm1d(2),
    "layer norm": lambda: nn.LayerNorm(2),
    "rms norm": lambda: nn.RMSNorm(2),
    "prelu": lambda: nn.PReLU(),
    "lstm": lambda: nn.LSTM(2, 2),
    "gru cell": lambda: nn.GRUCell(2, 2),
    "attention": lambda: nn.MultiheadAttention(4, 2),
    "transformer": lambda: nn.TransformerEncoderLayer(4, 2, 4),
    "lazy": lambda: nn.LazyLinear(2),
}


def places(module):
    return {str(t.device) for t in (*module.parameters(), *module.buffers())}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_device_as_context(make):
    with rl.device("meta"):
        made = make()
    assert places(made) == {"meta"}
    assert places(make()) == {"cpu"}


def test_set_default_device():
    rl.set_default_device("meta")
    try:
        assert places(nn.Linear(2, 2)) == {"meta"}
        assert places(nn.Linear(2, 2, device="cpu")) == {"cpu"}
    finally:
        rl.set_default_device(None)


def test_gradients_stay_where_their_tensors_are():
    x = rl.tensor([0.5, 2.0], requires_grad=True)
    with rl.device("meta"):
        (2.0**x + rl.where(x > 1, x, 0.0) + nn.functional.softplus(x)).sum().backward()
    assert x.grad.device == rl.device("cpu")
    slope = 2.0 ** x.detach() * 0.6931471805599453 + x.detach().sigmoid() + (x.detach() > 1)
    rl.testing.assert_close(x.grad, slope)
