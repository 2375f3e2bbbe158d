"""Averages of weights."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.optim import swa_utils


def model_at(value):
    model = nn.Linear(2, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def averages(**options):
    averaged = swa_utils.AveragedModel(model_at(1.0), **options)
    for value in (1.0, 2.0, 6.0):
        averaged.update_parameters(model_at(value))
    return averaged


def test_means():
    averaged = averages()
    assert averaged.n_averaged.item() == 3
    assert averaged.module.weight.tolist() == [[3.0, 3.0]]
    assert averages(avg_fn=swa_utils.get_swa_avg_fn()).module.bias.tolist() == [3.0]
    assert averaged(torch.ones(1, 2)).tolist() == [[9.0]]
    assert list(averaged.state_dict()) == ["n_averaged", "module.weight", "module.bias"]


@pytest.mark.parametrize("name", ["avg_fn", "multi_avg_fn"])
def test_decaying_means(name):
    made = getattr(swa_utils, f"get_ema_{name}")(0.5)
    assert averages(**{name: made}).module.bias.tolist() == [3.75]


def test_errors():
    with pytest.raises(ValueError, match="Invalid decay value 2"):
        swa_utils.get_ema_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(model_at(1.0), None, abs, abs)


def test_buffers():
    model = nn.BatchNorm1d(2)
    averaged = swa_utils.AveragedModel(model)
    model(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    averaged.update_parameters(model)
    assert averaged.module.running_mean.tolist() == model.running_mean.tolist()
    both = swa_utils.AveragedModel(nn.BatchNorm1d(2), use_buffers=True)
    for mean in (2.0, 4.0):
        model.running_mean.fill_(mean)
        both.update_parameters(model)
    assert both.module.running_mean.tolist() == [3.0, 3.0]


def test_update_bn_measures_anew():
    model = nn.Sequential(nn.BatchNorm1d(1, momentum=0.1))
    model.eval()
    loader = [torch.tensor([[1.0], [3.0]]), [torch.tensor([[5.0], [11.0]]), "label"]]
    swa_utils.update_bn(loader, model)
    assert model[0].running_mean.tolist() == [5.0]
    assert model[0].running_var.tolist() == [10.0]
    assert model[0].momentum == 0.1 and not model.training
