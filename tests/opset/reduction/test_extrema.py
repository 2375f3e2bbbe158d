"""Gradients of extrema over all elements."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_ties_share_and_the_others_get_nothing():
    x = torch.tensor([1.0, 2.0, 2.0], requires_grad=True)
    (grad,) = torch.autograd.grad(x.max(), x, torch.tensor(float("inf")))
    assert grad.tolist() == [0.0, float("inf"), float("inf")]
    (grad,) = torch.autograd.grad(x.max(), x, torch.tensor(3.0))
    assert grad.tolist() == [0.0, 1.5, 1.5]


def test_nan_wins_and_takes_the_gradient():
    x = torch.tensor([[1.0, float("nan")], [2.0, 3.0]], requires_grad=True)
    (grad,) = torch.autograd.grad(x.min(), x)
    assert grad.tolist() == [[0.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("name", ["max", "min"])
def test_gradient_without_values(name):
    x = torch.ones(2, 3, device="meta", requires_grad=True)
    (grad,) = torch.autograd.grad(getattr(x, name)(), x)
    assert (grad.device.type, tuple(grad.shape)) == ("meta", (2, 3))
