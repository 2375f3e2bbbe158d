"""Recurrent, normalising and convolving modules."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight import nn


def filled(module, value):
    for parameter in module.parameters():
        parameter.data.fill_(value)
    return module


def test_lstm_by_hand():
    module = filled(nn.LSTM(1, 1, bias=False), 1.0)
    output, (hidden, cell) = module(
        torch.zeros(1, 1, 1), (torch.ones(1, 1, 1), torch.ones(1, 1, 1))
    )
    gate = 1 / (1 + math.exp(-1))
    wanted = gate + gate * math.tanh(1)
    assert cell.item() == pytest.approx(wanted, rel=1e-6)
    assert hidden.item() == pytest.approx(gate * math.tanh(wanted), rel=1e-6)
    assert output.item() == hidden.item()


def test_layers_directions_and_layouts():
    module = nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True)
    assert [name for name, _ in module.named_parameters()][:5] == [
        "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
    ]  # fmt: skip
    output, (hidden, _) = module(torch.ones(2, 5, 3))
    assert tuple(output.shape) == (2, 5, 8) and tuple(hidden.shape) == (4, 2, 4)
    assert tuple(nn.GRU(3, 4)(torch.ones(5, 3))[0].shape) == (5, 4)


def test_frozen_weights_pass_gradients_on():
    module = nn.LSTM(2, 3)
    for parameter in module.parameters():
        parameter.requires_grad = False
    x = torch.ones(1, 1, 2, requires_grad=True)
    module(x)[0].sum().backward()
    assert x.grad.abs().sum().item() > 0


def test_wrong_inputs_are_named():
    with pytest.raises(RuntimeError, match="Expected 3, got 2"):
        nn.LSTM(3, 4)(torch.ones(5, 1, 2))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \(1, 1, 4\)"):
        nn.LSTM(3, 4)(torch.ones(5, 1, 3), (torch.ones(1, 2, 4), torch.ones(1, 2, 4)))
    with pytest.raises(ValueError, match="proj_size has to be smaller than hidden_size"):
        nn.LSTM(3, 4, proj_size=4)
    with pytest.raises(ValueError, match="only supported for LSTM"):
        nn.GRU(3, 4, proj_size=2)
    with pytest.raises(ValueError, match="does not match weight dtype"):
        nn.GRU(3, 4)(torch.ones(5, 1, 3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        nn.RNN(3, 4)(torch.ones(0, 1, 3))
    with pytest.raises(TypeError, match="must be tuple of Tensors, not Tensor"):
        nn.LSTMCell(3, 4)(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="hidden0 has inconsistent hidden_size: got 5"):
        nn.GRUCell(3, 4)(torch.ones(2, 3), torch.ones(2, 5))


def test_looks():
    assert repr(nn.LSTM(3, 4, 2, proj_size=2, bidirectional=True)) == (
        "LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True)"
    )
    assert repr(nn.RNNCell(3, 4, nonlinearity="relu")) == "RNNCell(3, 4, nonlinearity=relu)"
    assert list(nn.LSTM(3, 4, proj_size=2).state_dict())[-1] == "weight_hr_l0"


def test_batch_norm_counts_batches():
    module = nn.BatchNorm1d(2)
    assert repr(module) == (
        "BatchNorm1d(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )
    module(torch.ones(3, 2))
    assert module.num_batches_tracked.item() == 1
    with pytest.raises(ValueError, match=r"expected 2D or 3D input \(got 4D input\)"):
        module(torch.ones(1, 2, 3, 4))
    with pytest.raises(ValueError, match="Expected more than 1 value per channel when training"):
        module(torch.ones(1, 2))
    assert module.eval()(torch.ones(1, 2)).shape == (1, 2)


def test_layer_norm_and_instance_norm():
    module = nn.LayerNorm(3)
    assert torch.allclose(module(torch.tensor([1.0, 2.0, 3.0])).sum(), torch.zeros(()), atol=1e-6)
    with pytest.warns(UserWarning, match="does not match num_features"):
        nn.InstanceNorm2d(2)(torch.ones(1, 1, 1, 2))


def test_convolutions():
    module = nn.Conv2d(2, 4, (3, 2), stride=2, padding=1, groups=2, bias=False)
    assert repr(module) == (
        "Conv2d(2, 4, kernel_size=(3, 2), stride=(2, 2), padding=(1, 1), groups=2, bias=False)"
    )
    assert tuple(module.weight.shape) == (4, 1, 3, 2)
    up = nn.ConvTranspose1d(1, 1, 3, stride=2)
    assert tuple(up(torch.ones(1, 1, 4)).shape) == (1, 1, 9)
    assert tuple(up(torch.ones(1, 1, 4), output_size=[10]).shape) == (1, 1, 10)
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv1d(3, 4, 2, groups=2)
    circular = filled(nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False), 1.0)
    assert circular(torch.tensor([[[1.0, 2.0, 4.0]]])).tolist() == [[[7.0, 7.0, 7.0]]]


def test_data_parallel_passes_through():
    module = nn.DataParallel(nn.Linear(2, 3))
    assert list(module.state_dict()) == ["module.weight", "module.bias"]
    assert tuple(module(torch.ones(4, 2)).shape) == (4, 3)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_batches_of_nothing_have_gradients(kind):
    module = kind(3, 4)
    output, _ = module(torch.zeros(5, 0, 3))
    output.sum().backward()
    assert output.shape == (5, 0, 4)
    assert all(not parameter.grad.any() for parameter in module.parameters())


def test_names_of_weights_in_order():
    layer = torch.nn.GRU(2, 3, 2)
    names = layer._flat_weights_names
    assert names[:2] == ["weight_ih_l0", "weight_hh_l0"] and names[-1] == "bias_hh_l1"
    assert all(a is layer._parameters[b] for a, b in zip(layer._flat_weights, names, strict=True))
