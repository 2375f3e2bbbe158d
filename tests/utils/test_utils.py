"""Tools beside the tensor library."""

from __future__ import annotations

import weakref

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils import swap_tensors


def test_swapped_tensors():
    a, b = torch.ones(1), nn.Parameter(torch.zeros(2))
    swap_tensors(a, b)
    assert a.tolist() == [0.0, 0.0] and type(a) is nn.Parameter and a.requires_grad
    assert b.tolist() == [1.0] and type(b) is torch.Tensor
    kept = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        swap_tensors(a, b)
    assert kept() is b


def test_graphs_of_before_a_swap_are_refused():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3)
    out = a * 2
    swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.sum().backward()
    (b * 3).sum().backward()
    assert b.grad.tolist() == [3.0, 3.0, 3.0] and a.grad is None


def test_graphs_whose_accumulator_is_there_are_refused_too():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    out = a * 2
    out.grad_fn.next_functions[0][0].register_hook(lambda *grads: None)
    swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.sum().backward()
    ((a + b) * 3).sum().backward()
    assert a.grad.tolist() == b.grad.tolist() == [3.0, 3.0, 3.0]
