"""Reductions: values, dtypes, errors, gradients, named results."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import rushlight as torch
from rushlight.base import pytree


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_sum_dtypes():
    ints = torch.tensor([1, 2, 3], dtype=torch.int8)
    assert ints.sum().dtype is torch.int64
    assert torch.tensor([True, True]).sum().item() == 2
    assert torch.tensor([0.6, 1.2, 1.8]).sum(dtype=torch.int64).item() == 2
    half = torch.full((4096,), 1.0009765625, dtype=torch.float16)
    assert half.sum().item() == 4100.0


def test_sum_dims():
    x = torch.arange(24.0).reshape(2, 3, 4)
    assert x.sum((0, -1)).tolist() == [60.0, 92.0, 124.0]
    assert x.sum(()).item() == 276.0
    assert x.sum(1, keepdim=True).shape == (2, 1, 4)
    assert torch.tensor(3.0).sum(0).item() == 3.0
    assert torch.empty(0, 3).sum(0).tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of"):
        x.sum(3)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        x.sum((0, -3))
    with pytest.raises(TypeError):
        x.sum(0, 1)


@pytest.mark.parametrize("shape, dim", [((40000, 3), 0), ((3, 40000), 1), ((200, 5, 200), (0, 2))])
def test_sum_accuracy(shape, dim):
    values = (np.arange(np.prod(shape)) % 7 + 0.1).astype(np.float32).reshape(shape)
    exact = values.astype(np.float64).sum(dim)
    found = torch.tensor(values).sum(dim).numpy()
    assert np.max(np.abs(found / exact - 1)) < 5e-7


def test_sum_nodes():
    x = leaf([[1.0, 2.0]])
    assert x.sum().grad_fn.name() == "SumBackward0"
    assert x.sum(0).grad_fn.name() == "SumBackward1"
    assert x.mean().grad_fn.name() == "MeanBackward0"
    assert x.mean(1).grad_fn.name() == "MeanBackward1"
    assert x.max(1)[0].grad_fn.name() == "MaxBackward0"
    assert x.max().grad_fn.name() == "MaxBackward1"


def test_sum_to_size():
    x = torch.ones(2, 3, 4)
    assert x.sum_to_size(3, 1).tolist() == [[8.0], [8.0], [8.0]]
    assert x.sum_to_size(2, 3, 4) is x or x.sum_to_size(2, 3, 4).shape == (2, 3, 4)
    with pytest.raises(RuntimeError, match=r"size \{\[2\]\} is not expandable to size"):
        x.sum_to_size(2)


def test_mean_refuses_integers():
    with pytest.raises(RuntimeError, match=r"could not infer output dtype. Input dtype must be"):
        torch.tensor([1, 2]).mean()
    assert np.isnan(torch.empty(0).mean().item())
    assert torch.tensor([1, 2]).mean(dtype=torch.float32).item() == 1.5


def test_truth():
    x = torch.tensor([[0, 1], [0, 0]])
    assert x.any(0).tolist() == [False, True]
    assert x.any(()).tolist() == [[False, True], [False, False]]
    assert x.to(torch.uint8).all().dtype is torch.uint8
    assert torch.empty(0).all().item() is True
    assert torch.empty(0).any().item() is False


def test_prod_gradient_with_zeros():
    for values, expected in (
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]),
        ([2.0, 0.0, 4.0], [0.0, 8.0, 0.0]),
        ([0.0, 0.0, 4.0], [0.0, 0.0, 0.0]),
    ):
        x = leaf(values)
        (grad,) = torch.autograd.grad(x.prod(), x)
        assert grad.tolist() == expected


def test_extrema_gradients():
    x = leaf([[1.0, 3.0, 3.0]])
    for value, expected in (
        (x.amax(), [[0.0, 0.5, 0.5]]),
        (x.max(), [[0.0, 0.5, 0.5]]),
        (x.max(1)[0].sum(), [[0.0, 1.0, 0.0]]),
        (x.aminmax()[0], [[1.0, 0.0, 0.0]]),
        (x.median(), [[0.0, 0.5, 0.5]]),
    ):
        (grad,) = torch.autograd.grad(value, x)
        assert grad.tolist() == expected


def test_nan_wins():
    nan = float("nan")
    x = torch.tensor([1.0, nan, 3.0])
    assert np.isnan(x.max().item()) and np.isnan(x.amin().item())
    assert x.argmax().item() == 1 and x.min(0).indices.item() == 1


def test_empty_extrema():
    x = torch.empty(0, 3)
    with pytest.raises(IndexError, match=r"amax\(\): Expected reduction dim 0 to have non-zero"):
        x.amax(0)
    with pytest.raises(RuntimeError, match=r"max\(\): Expected reduction dim to be specified"):
        x.max()
    with pytest.raises(IndexError, match=r"argmax\(\): Expected reduction dim to be specified"):
        x.argmax()
    assert x.max(1).values.shape == (0,)


def test_max_of_two():
    a, b = torch.tensor([1, 5]), torch.tensor([3.0, 2.0])
    assert torch.max(a, b).tolist() == [3.0, 5.0]
    assert a.min(b).tolist() == [1.0, 2.0]


def test_named_results():
    x = torch.tensor([[1.0, 2.0], [4.0, 3.0]])
    found = x.max(1)
    assert type(found).__name__ == "max" and type(found) is torch.return_types.max
    values, indices = found
    assert found.values is values and found.indices is indices
    assert repr(found) == (
        "torch.return_types.max(\nvalues=tensor([2., 4.]),\nindices=tensor([1, 0]))"
    )
    assert type(torch.min(x, dim=0, keepdim=True)) is torch.return_types.min
    assert type(pytree.tree_map(lambda t: t * 2, found)) is torch.return_types.max
    assert type(pickle.loads(pickle.dumps(torch.return_types.max((1, 2))))) is type(found)
    with pytest.raises(TypeError, match="takes a 2-sequence"):
        torch.return_types.max((1,))


def test_unbiased_is_not_a_dimension():
    x = torch.tensor([[1.0, 2.0], [5.0, 9.0]])
    assert x.var(0).tolist() == [8.0, 24.5]
    assert x.var(False).item() == pytest.approx(9.6875)
    assert x.std(0, False).tolist() == [2.0, 3.5]
    assert torch.var_mean(x, 0)[1].tolist() == [3.0, 5.5]
    assert x.var(1, correction=0, keepdim=True).tolist() == [[0.25], [4.0]]


@pytest.mark.parametrize("name", ["sum", "nansum", "prod", "mean", "cumsum", "cumprod"])
def test_a_named_dtype_is_that_of_out(name):
    fold, shape = getattr(torch, name), (2,) if name.startswith("cum") else ()
    x = torch.tensor([2.0, 3.0])
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype double, but got"):
        fold(x, 0, dtype=torch.float64, out=torch.zeros(shape))
    out = torch.zeros(shape, dtype=torch.float64)
    assert fold(x, 0, dtype=torch.float64, out=out) is out


def test_softmax_casts_nothing_to_out():
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float"):
        torch.softmax(torch.ones(2), 0, out=torch.zeros(2, dtype=torch.float64))
