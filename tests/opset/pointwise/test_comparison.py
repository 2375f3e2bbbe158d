"""Comparison, logic, bits and predicates."""

from __future__ import annotations

import math

import pytest

import rushlight as torch


def test_comparison_promotes_and_broadcasts():
    x = torch.tensor([[1, 2], [3, 4]])
    assert (x > 2.5).tolist() == [[False, False], [True, True]]
    assert (x == torch.tensor([1.0, 4.0])).tolist() == [[True, False], [False, True]]
    assert (x >= x.t()).dtype is torch.bool
    assert torch.less_equal(x, 2).tolist() == [[True, True], [False, False]]
    assert x.clone().ne_(1).tolist() == [[0, 1], [1, 1]]


def test_complex_has_no_order():
    z = torch.tensor([1 + 1j])
    assert (z == z).tolist() == [True]
    with pytest.raises(NotImplementedError, match="not implemented for 'ComplexFloat'"):
        z < z  # noqa: B015


def test_closeness():
    x = torch.tensor([1.0, 2.0, math.nan])
    y = torch.tensor([1.0 + 1e-6, 2.1, math.nan])
    assert torch.isclose(x, y).tolist() == [True, False, False]
    assert torch.isclose(x, y, equal_nan=True).tolist() == [True, False, True]
    assert torch.allclose(x[:1], y[:1])
    assert torch.equal(x[:2], x[:2])
    assert not torch.equal(x, x)
    assert not torch.equal(x, x[:2])
    with pytest.raises(RuntimeError, match="rtol must be greater"):
        torch.isclose(x, y, rtol=-1.0)


def test_logic_and_bits():
    a, b = torch.tensor([0.0, 2.0]), torch.tensor([1, 1])
    assert torch.logical_xor(a, b).tolist() == [True, False]
    assert torch.logical_not(a).tolist() == [True, False]
    assert (~torch.tensor([1, -3])).tolist() == [-2, 2]
    assert (torch.tensor([1, 2]) << torch.tensor([1, 70])).tolist() == [2, 0]
    assert (torch.tensor([-8, 8]) >> 70).tolist() == [-1, 0]
    assert (torch.tensor([True, False]) | 2).tolist() == [3, 2]
    with pytest.raises(TypeError, match="only implemented on integer and Boolean-type"):
        ~a
    with pytest.raises(NotImplementedError, match='"bitwise_and_cpu" not implemented'):
        torch.bitwise_and(a, a)


def test_predicates():
    x = torch.tensor([-0.0, math.inf, -math.inf, math.nan])
    assert torch.signbit(x).tolist() == [True, False, True, False]
    assert torch.isposinf(x).tolist() == [False, True, False, False]
    assert torch.isfinite(x).tolist() == [True, False, False, False]
    assert torch.isnan(torch.tensor([1, 2])).tolist() == [False, False]
    assert torch.isreal(torch.tensor([1j, 2 + 0j])).tolist() == [False, True]
    with pytest.raises(RuntimeError, match="isposinf does not support complex"):
        torch.isposinf(torch.tensor([1j]))


def test_written_answers_have_no_gradient():
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    y = x * 1
    y.eq_(1)
    assert y.grad_fn.name() == "EqBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_isclose_refuses_negative_tolerances():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match=r"rtol must be .*, but got -1$"):
        torch.isclose(x, x, rtol=-1)
    with pytest.raises(RuntimeError, match=r"atol must be .*, but got -0.5$"):
        torch.allclose(x, x, atol=-0.5)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_eighths_are_compared_for_equality_alone(dtype):
    x, y = (torch.tensor(values).to(dtype) for values in ([1.0, 2.0], [1.0, 3.0]))
    assert (x == y).tolist() == [True, False]
    assert (x != 1).tolist() == [False, True]
    assert x.isnan().tolist() == [False, False]
    with pytest.raises(NotImplementedError, match="Float8"):
        x < y  # noqa: B015
