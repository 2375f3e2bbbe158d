"""What quantisation does not do, it says; numbers are compared in test_programs."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch
from rushlight import quantization as q
from rushlight.base.errors import MissingFeature


def test_layers_that_cannot_be_quantised_are_refused():
    model = torch.nn.Sequential(q.QuantStub(), torch.nn.LSTM(2, 2)).eval()
    model.qconfig = q.default_qconfig
    with pytest.raises(MissingFeature, match="static quantisation of LSTM"):
        q.prepare(model)
    with pytest.raises(MissingFeature, match="reference modules"):
        q.convert(model, is_reference=True)
    with pytest.raises(ValueError, match="Don't know how to quantize"):
        q.quantize_dynamic(model, dtype=torch.qint32)


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
    layer.set_weight_bias(torch.quantize_per_tensor(weight, 1 / 127, 0, torch.qint8), None)
    assert layer(torch.ones(2, 4000)).tolist() == [[pytest.approx(4000.0, rel=1e-6)]] * 2


def test_wrong_operands_of_operators_are_told():
    packed = torch.ops.quantized.linear_prepack(
        torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.qint8), None
    )
    with pytest.raises(NotImplementedError, match="quantized::linear"):
        torch.ops.quantized.linear(torch.ones(2, 3), packed, 0.1, 0)
    with pytest.raises(RuntimeError, match=r"torch\.qint8"):
        torch.ops.quantized.linear_prepack(torch.ones(2, 3), None)
    one = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    other = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    with pytest.raises(RuntimeError, match="same data type"):
        torch.ops.quantized.add(one, other, 0.1, 0)


def test_sums_of_bytes_are_exact_at_their_bounds():
    for inner in (1, 513, 514, 515, 1500, 40000, 70000):
        rows = torch.full((2, inner), 255, dtype=torch.uint8)
        made = torch._make_per_tensor_quantized_tensor(rows, 1.0, 0)
        weight = torch._make_per_tensor_quantized_tensor(
            torch.full((1, inner), -128, dtype=torch.int8), 1.0, 0
        )
        packed = torch.ops.quantized.linear_prepack(weight, None)
        assert packed.sums(rows.numpy(), 0).tolist() == [[-128 * 255 * inner]] * 2
        assert packed.sums(rows.numpy(), 255).tolist() == [[0]] * 2
        scale = 128 * 255 * inner / 100
        found = torch.ops.quantized.linear(made, packed, scale, 100)
        assert found.int_repr().tolist() == [[0], [0]]


def test_engines_are_chosen_among_those_with_these_integers():
    engines = torch.backends.quantized
    assert engines.engine == "x86" and "fbgemm" in engines.supported_engines
    engines.engine = "fbgemm"
    assert engines.engine == "fbgemm"
    engines.engine = "x86"
    with pytest.raises(RuntimeError, match="quantized engine QNNPACK is not supported"):
        engines.engine = "qnnpack"
    with pytest.raises(RuntimeError, match="not a valid value"):
        engines.engine = "other"
