"""Gradients within bounds, and parameters as vectors."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.nn import utils


def parameters():
    p = torch.tensor([3.0, 4.0], requires_grad=True)
    q = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    p.grad, q.grad = torch.tensor([3.0, -4.0]), torch.full((1, 2), 12.0, dtype=torch.float64)
    return p, q, torch.ones(1, requires_grad=True)


@pytest.mark.parametrize("foreach", [None, False, True])
@pytest.mark.parametrize(
    ("order", "norm"), [(2.0, math.sqrt(25 + 288)), (1, 31.0), (math.inf, 12.0)]
)
def test_norms(order, norm, foreach):
    p, q, r = parameters()
    found = utils.clip_grad_norm_([p, q, r], 1.0, order, foreach=foreach)
    assert found.item() == pytest.approx(norm)
    factor = 1.0 / (norm + 1e-6)
    assert p.grad.tolist() == pytest.approx([3.0 * factor, -4.0 * factor])
    assert q.grad.tolist()[0] == pytest.approx([12.0 * factor] * 2)


def test_small_gradients_stay():
    p, q, _ = parameters()
    utils.clip_grad_norm_((value for value in (p, q)), 100.0)
    assert p.grad.tolist() == [3.0, -4.0]
    assert utils.clip_grad_norm_([], 1.0).item() == 0.0


def test_norm_and_clipping_apart():
    p, _, _ = parameters()
    total = utils.get_total_norm([p.grad])
    assert total.item() == 5.0
    utils.clip_grads_with_norm_(p, 2.5, total)
    assert p.grad.tolist() == pytest.approx([1.5, -2.0], rel=1e-6)


@pytest.mark.parametrize("foreach", [None, False])
def test_values(foreach):
    p, q, r = parameters()
    utils.clip_grad_value_([p, q, r], 3.5, foreach)
    assert p.grad.tolist() == [3.0, -3.5]
    assert q.grad.tolist() == [[3.5, 3.5]]


def test_errors_and_warnings():
    p, _, _ = parameters()
    p.grad[0] = math.inf
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 .* is non-finite"):
        utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    with pytest.warns(UserWarning, match="empty generator"):
        utils.clip_grad_norm_((value for value in ()), 1.0)
    with pytest.warns(FutureWarning, match="is now deprecated"):
        utils.clip_grad_norm([p], 1.0)


def test_vectors():
    p, q = torch.ones(2, 2, requires_grad=True), torch.zeros(1)
    vector = utils.parameters_to_vector([p, q])
    assert vector.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]
    vector.sum().backward()
    assert p.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    utils.vector_to_parameters(torch.arange(5.0), [p, q])
    assert p.tolist() == [[0.0, 1.0], [2.0, 3.0]] and q.tolist() == [4.0]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"):
        utils.vector_to_parameters([1.0], [p])
    with pytest.raises(TypeError, match="Found two parameters on different devices"):
        utils.parameters_to_vector([q, torch.ones(1, device="meta")])
