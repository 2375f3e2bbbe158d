"""Nested tensors: geometry, elementwise ops, gradients, refusals."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.base.errors import MissingFeature


def pair():
    a = torch.arange(6.0).reshape(2, 3).requires_grad_()
    b = torch.arange(8.0).reshape(2, 4).requires_grad_()
    return a, b, torch.nested.as_nested_tensor([a, b])


def test_geometry():
    _, _, nested = pair()
    assert nested.is_nested and len(nested) == 2
    assert nested.size(0) == 2 and nested.size(1) == 2
    assert nested._nested_tensor_size().tolist() == [[2, 3], [2, 4]]
    with pytest.raises(RuntimeError, match="dimension 2 is irregular"):
        nested.size(2)
    padded = torch.nested.to_padded_tensor(nested, -1.0)
    assert tuple(padded.shape) == (2, 2, 4) and padded[0, 0, 3].item() == -1.0


def test_gradients_reach_the_components():
    a, b, nested = pair()
    (nested * 2).backward(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(2, 4)]))
    assert a.grad.tolist() == [[2.0] * 3] * 2 and tuple(b.grad.shape) == (2, 4)


def test_sum_keeps_its_input():
    leaf = torch.nested.nested_tensor([torch.ones(2), torch.ones(2)], requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    copy = leaf.clone()
    result = copy.sum(-1, keepdim=True)
    assert [part.tolist() for part in result.unbind()] == [[2.0], [2.0]]
    copy.add_(copy)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward(torch.nested.nested_tensor([torch.ones(1), torch.ones(1)]))


def test_refusals():
    _, _, nested = pair()
    with pytest.raises(MissingFeature, match="matmul on nested tensors"):
        nested.matmul(nested)
    with pytest.raises(RuntimeError, match="same dimension"):
        torch.nested.nested_tensor([torch.ones(2), torch.ones(2, 2)])


def test_rule_per_layout():
    t = torch.ones(2, requires_grad=True)
    torch.ops.aten._test_autograd_multiple_dispatch(t).backward(torch.full((2,), 3.0))
    assert t.grad.tolist() == [4.0, 4.0]
    a, _, nested = pair()
    grad = torch.nested.nested_tensor([torch.full((2, 3), 3.0), torch.ones(2, 4)])
    torch.ops.aten._test_autograd_multiple_dispatch(nested, True).backward(grad)
    assert a.grad.tolist() == [[12.0] * 3] * 2


def test_warning_inside_backward():
    t = torch.zeros((), requires_grad=True)
    with pytest.warns(UserWarning, match="Warn from backward"):
        torch.ops.aten._test_warn_in_autograd(t).backward()


def test_gradients_have_components():
    given = torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 3)], requires_grad=True)
    seen = []
    given.register_hook(lambda grad: seen.append([part.tolist() for part in grad.unbind()]))
    product = given * 2
    product.retain_grad()
    torch.nested.to_padded_tensor(product, 0.0).sum().backward()
    wanted = [[[2.0, 2.0]], [[2.0] * 3] * 2]
    assert given.grad.is_nested and [part.tolist() for part in given.grad.unbind()] == wanted
    assert seen == [wanted] and product.grad.unbind()[0].tolist() == [[1.0, 1.0]]
    given.unbind()[0].sum().backward()
    assert given.grad.unbind()[0].tolist() == [[3.0, 3.0]]
    given.grad = None
    assert given.grad is None
