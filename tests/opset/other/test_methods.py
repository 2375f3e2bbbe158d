"""Rare Tensor methods."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_callbacks() -> None:
    x = torch.arange(3.0)
    assert x.apply_(lambda v: v + 1) is x
    assert x.map_(torch.ones(3), lambda a, b: a + b).tolist() == [2, 3, 4]
    assert x.map2_(torch.ones(3), torch.ones(1), lambda a, b, c: a * 2 - c).tolist() == [3, 5, 7]
    with pytest.raises(RuntimeError, match=r"Use var.detach\(\).apply_\(\) instead"):
        x.requires_grad_().apply_(lambda v: v)


def test_dim_order() -> None:
    assert torch.zeros(2, 3).t().dim_order() == (1, 0)
    image = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    assert image.dim_order() == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="unique dim order"):
        torch.zeros(2, 1, 4, 5).dim_order(ambiguity_check=True)
    with pytest.raises(TypeError, match="must be a bool"):
        image.dim_order(ambiguity_check=3)


def test_diagonals_in_place() -> None:
    tall = torch.zeros(7, 3).fill_diagonal_(5, wrap=True)
    assert tall.nonzero().tolist() == [[0, 0], [1, 1], [2, 2], [4, 0], [5, 1], [6, 2]]
    assert torch.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2
    x = torch.ones(2, 2, requires_grad=True)
    (x * 2).fill_diagonal_(0).sum().backward()
    assert x.grad.tolist() == [[0, 2], [2, 0]]


def test_absent_devices() -> None:
    x = torch.ones(2)
    assert not (x.is_xpu or x.is_mps or x.is_xla or x.is_distributed())
    with pytest.raises(AssertionError, match="XPU"):
        x.xpu()
    assert torch.get_device(x) == -1


def test_old_names() -> None:
    x = torch.arange(6.0)
    assert x.resize(2, 3).shape == (2, 3)
    with pytest.raises(RuntimeError, match="preserving the number of elements"):
        x.resize(4)
    with pytest.raises(RuntimeError, match="was removed"):
        x.reinforce(1)
    y = torch.ones(2, requires_grad=True) * 2
    assert torch.detach_(y) is y and not y.requires_grad
    assert torch.equal(torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 2)), torch.ones(2, 2))
    assert torch.eye(2).to_sparse_coo().layout is torch.sparse_coo
    assert torch.functional.stft is torch.stft


def test_detached_by_the_op() -> None:
    x = torch.ones(2, requires_grad=True) * 2
    assert torch.ops.aten.detach_.default(x) is x
    assert not x.requires_grad and x.is_leaf


def test_metadata_that_is_stated() -> None:
    stated = torch.ops.aten._assert_tensor_metadata.default
    x = torch.ones(2, 3)
    stated(x, [2, 3], [3, 1], torch.float32, device=x.device, layout=torch.strided)
    for what, args in (
        ("sizes mismatch! Expected: \\[3\\], Got: \\[2, 3\\]", ([3],)),
        ("strides mismatch! Expected: \\[1\\], Got: \\[3, 1\\]", (None, [1])),
        ("dtype mismatch!", (None, None, torch.int32)),
    ):
        with pytest.raises(RuntimeError, match=f"Tensor {what}"):
            stated(x, *args)


def test_callbacks_would_lose_the_gradient_of_an_operand():
    x, z = torch.ones(3), torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.map2_(x, z, lambda a, b, c: a * c)
    with pytest.raises(TypeError, match="'str' object is not callable"):
        x.map_(x, "add")
    assert x.int().type(torch.Tensor).dtype is torch.float32
