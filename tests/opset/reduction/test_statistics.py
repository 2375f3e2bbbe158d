"""Norms, order statistics, scans, softmax."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_norms():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert x.norm().item() == 5.0
    assert x.norm(1, 1).tolist() == [7.0, 0.0]
    assert torch.norm(x, float("inf")).item() == 4.0
    assert x.norm(0).item() == 2.0
    assert x.norm(2, -1, True).shape == (2, 1)
    with pytest.raises(RuntimeError, match="Expected a floating point or complex tensor as input"):
        torch.tensor([1, 2]).norm()
    with pytest.raises(RuntimeError, match="cannot compute the inf norm on an empty tensor"):
        torch.empty(0).norm(float("inf"))


def test_norm_gradient_is_zero_at_zero():
    x = leaf([0.0, 0.0])
    x.norm().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert leaf([1.0]).norm().grad_fn.name() == "LinalgVectorNormBackward0"


def test_logsumexp():
    x = torch.tensor([[1000.0, 1000.0], [-math.inf, -math.inf]])
    assert x.logsumexp(1).tolist() == [pytest.approx(1000 + math.log(2)), -math.inf]
    assert torch.empty(3, 0).logsumexp(1).tolist() == [-math.inf] * 3
    assert torch.tensor([0, 0]).logsumexp(0).dtype is torch.float32


def test_median():
    x = torch.tensor([4.0, 1.0, math.nan, 3.0])
    assert math.isnan(x.median().item())
    assert x.nanmedian().item() == 3.0
    assert x.median(0).indices.item() == 2
    assert x.nanmedian(0).indices.item() == 3
    assert torch.tensor([1, 2, 3, 4]).median().item() == 2
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.tensor([True]).median()


def test_mode_prefers_the_smallest():
    found = torch.tensor([[5, 1, 1, 5, 2]]).mode()
    assert found.values.tolist() == [1] and found.indices.tolist() == [2]


def test_kthvalue():
    x = torch.tensor([3.0, 1.0, 2.0])
    assert tuple(v.item() for v in x.kthvalue(2)) == (2.0, 2)
    with pytest.raises(RuntimeError, match="selected number k out of range for dimension 0"):
        x.kthvalue(4)


def test_quantile():
    x = torch.arange(5.0)
    assert x.quantile(0.3).item() == pytest.approx(1.2)
    assert x.quantile(0.3, interpolation="higher").item() == 2.0
    assert x.quantile(torch.tensor([0.0, 0.5, 1.0])).tolist() == [0.0, 2.0, 4.0]
    assert torch.tensor([1.0, math.nan, 3.0]).nanquantile(0.5).item() == 2.0
    assert math.isnan(torch.tensor([1.0, math.nan, 3.0]).quantile(0.5).item())
    with pytest.raises(RuntimeError, match=r"q must be in the range \[0, 1\] but got 1.5"):
        x.quantile(1.5)


def test_variance_of_large_arrays():
    values = (np.arange(100000) % 10 + 1e4).astype(np.float32)
    assert torch.tensor(values).var().item() == pytest.approx(8.2500825, rel=1e-5)


def test_variance_without_freedom_warns():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert math.isnan(torch.ones(1).var().item())


def test_cumsum_accumulates_wider():
    ones = torch.full((1 << 15,), 0.1)
    assert ones.cumsum(0)[-1].item() == pytest.approx(3276.8, rel=1e-6)
    assert torch.tensor([True, True]).cumsum(0).tolist() == [1, 2]


def test_cummax_points_to_the_latest():
    found = torch.tensor([1.0, 3.0, 3.0, math.nan, 5.0]).cummax(0)
    assert found.indices.tolist() == [0, 1, 2, 3, 3]
    assert math.isnan(found.values[-1].item())


def test_cumprod_gradient_at_zeros():
    weights = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    x = leaf([2.0, 0.0, 3.0, 0.0])
    (grad,) = torch.autograd.grad((x.cumprod(0) * weights).sum(), x)
    assert grad.tolist() == [1.0, 22.0, 0.0, 0.0]
    (again,) = torch.autograd.grad((x.cumprod(0) * weights).sum(), x, create_graph=True)
    assert again.tolist() == grad.tolist()
    (second,) = torch.autograd.grad(again[0], x)
    assert second.tolist() == [0.0, 11.0, 0.0, 0.0]


def test_diff():
    x = torch.tensor([1, 4, 9, 16])
    assert x.diff().tolist() == [3, 5, 7]
    assert x.diff(2).tolist() == [2, 2]
    assert x.diff(prepend=torch.tensor([0])).tolist() == [1, 3, 5, 7]
    assert torch.tensor([True, False]).diff().tolist() == [True]


def test_trapezoid():
    y = torch.tensor([1.0, 2.0, 3.0])
    assert torch.trapezoid(y).item() == 4.0
    assert torch.trapz(y, dx=2.0).item() == 8.0
    assert torch.trapezoid(y, torch.tensor([0.0, 1.0, 3.0])).item() == 6.5
    assert torch.cumulative_trapezoid(y).tolist() == [1.5, 4.0]


def test_softmax():
    x = leaf([[0.0, math.log(3.0)]])
    result = x.softmax(1)
    assert result.tolist() == [[pytest.approx(0.25), pytest.approx(0.75)]]
    assert result.grad_fn.name() == "SoftmaxBackward0"
    assert x.log_softmax(-1).grad_fn.name() == "LogSoftmaxBackward0"
    (grad,) = torch.autograd.grad(result[0, 0], x, create_graph=True)
    assert grad.tolist() == [[pytest.approx(0.1875), pytest.approx(-0.1875)]]
    (second,) = torch.autograd.grad(grad[0, 0], x)
    assert second.tolist() == [[pytest.approx(0.09375), pytest.approx(-0.09375)]]
    with pytest.raises(NotImplementedError, match='"softmax_lastdim_kernel_impl" not implemented'):
        torch.tensor([1, 2]).softmax(0)
    assert torch.tensor([1, 2]).softmax(0, dtype=torch.float32).dtype is torch.float32


def test_covariance():
    x = torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])
    assert x.cov().tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    assert x.corrcoef().tolist() == [[1.0, -1.0], [-1.0, 1.0]]
    with pytest.raises(RuntimeError, match="bool dtype is not supported"):
        torch.tensor([True]).cov()
