"""What quantisation does not do, it says; numbers are compared in tests/compat/recorded."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch
from rushlight import quantization as q
from rushlight.base.errors import MissingFeature


def test_layers_that_cannot_be_quantised_are_refused():
    model = torch.nn.Sequential(q.QuantStub(), torch.nn.Conv2d(1, 1, 1)).eval()
    model.qconfig = q.default_qconfig
    watched = q.prepare(model)
    watched(torch.ones(1, 1, 2, 2))
    with pytest.raises(MissingFeature, match="convert of Conv2d"):
        q.convert(watched)
    with pytest.raises(MissingFeature, match="quantize_dynamic of GRU"):
        q.quantize_dynamic(torch.nn.Sequential(torch.nn.GRU(2, 2)), {torch.nn.GRU})
    with pytest.raises(MissingFeature, match="float16"):
        q.quantize_dynamic(model, dtype=torch.float16)


def test_an_observer_instance_is_no_configuration():
    with pytest.raises(ValueError, match="pass observer class"):
        q.QConfig(q.MinMaxObserver(), q.MinMaxObserver)


def test_the_model_itself_stays_as_it_is():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    made = q.quantize_dynamic(model)
    assert type(model[0]) is torch.nn.Linear and model.training
    x = torch.randn(2, 3)
    assert torch.equal(copy.deepcopy(made)(x), made(x))
    assert q.quantize_dynamic(model, inplace=True) is model
    with pytest.raises(RuntimeError, match="larger than or equal to 2"):
        made(x[0])


def test_sums_stay_exact_however_long_they_are():
    weight = torch.full((1, 4000), 1.0)
    layer = q.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(4000, 1, bias=False)))[0]
    layer.quantized = torch.quantize_per_tensor(weight, 1 / 127, 0, torch.qint8)
    assert layer(torch.ones(2, 4000)).tolist() == [[pytest.approx(4000.0, rel=1e-6)]] * 2
