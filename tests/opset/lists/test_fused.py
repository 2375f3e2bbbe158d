"""Composites in one piece: the same bits and the same graph as op by op."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F


def data(*shape: int, seed: int = 0, dtype: str = "float32") -> torch.Tensor:
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def names(node) -> list[str]:
    """The graph below a node, as names in order of edges."""
    if node is None:
        return ["-"]
    return [node.name(), *[n for below, _ in node.next_functions for n in names(below)]]


def same(fused, plain, leaves) -> None:
    assert torch.equal(fused, plain)
    assert fused.stride() == plain.stride()
    assert names(fused.grad_fn) == names(plain.grad_fn)
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not wanted:
        return
    weights = data(*fused.shape, seed=9, dtype=str(fused.dtype).split(".")[1])
    for a, b in zip(
        torch.autograd.grad(fused, wanted, weights, create_graph=True),
        torch.autograd.grad(plain, wanted, weights, create_graph=True),
        strict=True,
    ):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
        assert names(a.grad_fn) == names(b.grad_fn)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "flags", [(0, 0, 0), (0, 1, 1), (1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
)
def test_linear(flags, dtype):
    leaves = [data(5, 4, seed=1, dtype=dtype), data(3, 4, seed=2, dtype=dtype)]
    leaves.append(data(3, seed=3, dtype=dtype))
    for leaf, flag in zip(leaves, flags, strict=True):
        leaf.requires_grad_(bool(flag))
    same(F.linear(*leaves), torch.ops.aten.linear.default(*leaves), leaves)


def test_linear_of_views_and_modified_weights():
    base = data(6, 4, seed=1).requires_grad_()
    weight, bias = data(3, 4, seed=2).requires_grad_(), data(6, seed=3).requires_grad_()
    leaves = [base, weight, bias]
    args = (base[1:4], weight, bias[:3])
    same(F.linear(*args), torch.ops.aten.linear.default(*args), leaves)
    out = F.linear(base, weight, bias[:3]).sum()
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_linear_refuses_what_it_cannot_multiply():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        F.linear(data(2, 3), data(4, 5), data(4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(5, 3), (1, 4), (8, 10)])
def test_cross_entropy(shape, reduction, dtype):
    logits = data(*shape, dtype=dtype).requires_grad_()
    labels = torch.arange(shape[0]) % shape[1]
    number = {"mean": 1, "sum": 2}[reduction]
    fused = F.cross_entropy(logits, labels, reduction=reduction)
    plain = torch.ops.aten.cross_entropy_loss.default(logits, labels, None, number)
    same(fused, plain, [logits])


def test_cross_entropy_leaves_the_rest_to_the_general_way():
    logits = data(4, 3).requires_grad_()
    ignored = F.cross_entropy(logits, torch.tensor([0, 1, -100, 2]))
    kept = F.cross_entropy(logits[[0, 1, 3]], torch.tensor([0, 1, 2]))
    assert torch.allclose(ignored, kept)
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(logits, torch.tensor([0, 1, 5, 2]))
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(logits, torch.tensor([0, 1, -1, 2]))


def test_keywords_in_any_order():
    x = data(2, 3)
    assert torch.equal(torch.softmax(input=x, dim=1), x.softmax(1))
    assert torch.equal(torch.logsumexp(x, axis=0, keepdims=True), x.logsumexp(0, True))
    assert torch.equal(x.sum(axis=1), x.sum(1))
    assert torch.equal(torch.add(other=x, input=x, alpha=2), 3 * x)
