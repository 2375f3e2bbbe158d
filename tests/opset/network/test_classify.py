"""Losses over classes: label smoothing, soft targets, and refusals of their backward ops."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.opset import functions


def cross_entropy(scores, target, *rest):
    return functions.cross_entropy_loss(scores, target, *rest)


def test_negative_smoothing_is_none():
    scores, labels = torch.tensor([[1.0, 2.0]]), torch.tensor([0])
    plain = cross_entropy(scores, labels).item()
    assert cross_entropy(scores, labels, None, 1, -100, -0.5).item() == plain
    with pytest.raises(RuntimeError, match="label_smoothing must be between 0.0 and 1.0. Got: 1.5"):
        cross_entropy(scores, labels, None, 1, -100, 1.5)


def test_mean_over_soft_targets_divides_by_a_number():
    scores = torch.zeros(2, 4, requires_grad=True)
    loss = cross_entropy(scores, torch.full((2, 4), 0.25))
    assert loss.grad_fn.name() == "DivBackward1"
    assert loss.item() == pytest.approx(math.log(4))
    assert math.isnan(cross_entropy(torch.zeros(3, 0), torch.zeros(3, 0)).item())
    with pytest.raises(RuntimeError, match="^cross_entropy: weight tensor should be defined"):
        cross_entropy(scores, torch.ones(2, 4), torch.ones(3))


def backward(grad, labels=(0, 1, 2), weight=None, reduction=1, total=None, place="cpu"):
    return functions.nll_loss_backward(
        grad.to(place),
        torch.zeros(3, 4, device=place),
        torch.tensor(labels).to(place),
        weight,
        reduction,
        -100,
        (torch.tensor(3.0) if total is None else total).to(place),
    )


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_nll_backward_refuses_sizes_that_do_not_fit(place):
    one, three = torch.tensor(1.0), torch.ones(3)
    with pytest.raises(RuntimeError, match=r"size mismatch \(got input: \[3, 4\], target: \[2\]"):
        backward(one, labels=(0, 1), place=place)
    with pytest.raises(RuntimeError, match=r"single element grad_output tensor, but got: \[3\]"):
        backward(three, place=place)
    with pytest.raises(RuntimeError, match=r"tensor.size\[0\] == 3 but got: dimension 1"):
        backward(torch.ones(2), reduction=0, place=place)
    with pytest.raises(RuntimeError, match=r"expected total_weight .* got: \[3\] \(3 elements\)"):
        backward(one, total=three, place=place)


def test_nll_backward_takes_a_gradient_of_one_element():
    result = backward(torch.ones(1), total=torch.tensor([2.0]))
    assert result[0].tolist() == [-0.5, 0.0, 0.0, 0.0]


def test_nll2d_backward_refuses_what_would_broadcast():
    scores, labels = torch.zeros(2, 3, 2, 2), torch.zeros(2, 2, 2, dtype=torch.int64)
    total = torch.tensor(1.0)
    with pytest.raises(RuntimeError, match=r"size mismatch \(got grad_output: \[2, 2, 1\]"):
        functions.nll_loss2d_backward(torch.ones(2, 2, 1), scores, labels, None, 0, -100, total)
    with pytest.raises(RuntimeError, match="either for all or no classes"):
        functions.nll_loss2d_backward(total, scores, labels, torch.ones(2), 1, -100, total)
