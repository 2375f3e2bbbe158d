"""Elementary functions: conflicting bounds, steps, what has no in-place form."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_logit_with_bounds_in_conflict_takes_the_lower_one():
    x = torch.tensor([-3.0, 0.65, 2.0], dtype=torch.float64)
    low, high = 0.4054651081081642, -0.4054651081081644
    assert torch.logit(x, 0.6).tolist() == pytest.approx([low, high, high])


def test_nextafter_has_no_derivative():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative for 'nextafter' is not"):
        torch.nextafter(x, x).sum().backward()


def test_abs_in_place_is_for_real_numbers():
    with pytest.raises(RuntimeError, match="In-place abs is not supported for complex tensors"):
        torch.tensor([1j]).abs_()
    assert torch.tensor([-1.0]).abs_().tolist() == [1.0]


def test_a_function_without_derivative_fails_in_backward():
    y = torch.heaviside(torch.tensor([1.0], requires_grad=True), torch.tensor([0.5]))
    assert y.grad_fn.name() == "torch::autograd::NotImplemented"
    assert type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match="derivative for aten::heaviside is not implemented"):
        y.sum().backward()
