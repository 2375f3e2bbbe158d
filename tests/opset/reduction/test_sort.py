"""Sorting, topk, unique, searching and counting."""

from __future__ import annotations

import pytest

import rushlight as torch

NAN = float("nan")


def t(values, **options):
    return torch.tensor(values, **options)


def test_nan_is_greatest():
    x = t([3.0, NAN, 1.0, 2.0])
    assert x.sort()[1].tolist() == [2, 3, 0, 1]
    assert x.sort(descending=True)[1].tolist() == [1, 0, 3, 2]
    assert x.topk(2)[1].tolist() == [1, 0]
    assert x.topk(2, largest=False)[1].tolist() == [2, 3]


@pytest.mark.parametrize("count", [7, 1000])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float64", "int8", "bfloat16", "bool"])
def test_order_is_stable_both_ways(count, dtype):
    x = (torch.arange(count) % 2).to(getattr(torch, dtype))
    even = list(range(0, count, 2))
    odd = list(range(1, count, 2))
    assert x.sort(stable=True)[1].tolist() == even + odd
    assert x.sort(stable=True, descending=True)[1].tolist() == odd + even


def test_signed_zeros_are_equal():
    x = t([0.0, -0.0] * 200)
    assert x.sort()[1].tolist() == list(range(400))


def test_result_strides_and_fields():
    x = torch.zeros(3, 4).t()
    found = x.sort(0)
    assert found.values.stride() == (1, 4)
    assert found.indices.stride() == (1, 4)
    assert x.topk(2, 0).values.stride() == (3, 1)


def test_sort_gradient():
    x = t([3.0, 1.0, 2.0], requires_grad=True)
    values = x.sort()[0]
    assert values.grad_fn.name() == "SortBackward0"
    assert x.sort(stable=True)[0].grad_fn.name() == "SortBackward1"
    (values * t([1.0, 2.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [4, 1, 2]


def test_topk_of_a_long_row():
    x = torch.arange(5000.0).flip(0)
    found = x.topk(3)
    assert found.values.tolist() == [4999, 4998, 4997]
    assert found.indices.tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        x.topk(5001)


def test_unique():
    x = t([[3, 1], [3, 2]])
    values, inverse, counts = x.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 3]
    assert inverse.tolist() == [[2, 0], [2, 1]]
    assert counts.tolist() == [1, 1, 2]
    assert torch.unique(t([NAN, NAN, 1.0])).shape == (3,)
    assert isinstance(torch.unique(x), torch.Tensor)


def test_unique_along_a_dimension():
    x = t([[3, 1, 3], [3, 1, 3]])
    values, inverse = torch.unique(x, dim=1, return_inverse=True)
    assert values.tolist() == [[1, 3], [1, 3]]
    assert values.stride() == (1, 2)
    assert inverse.tolist() == [1, 0, 1]


def test_runs():
    values, inverse, counts = torch.unique_consecutive(
        t([1, 1, 2, 2, 1]), return_inverse=True, return_counts=True
    )
    assert values.tolist() == [1, 2, 1]
    assert inverse.tolist() == [0, 0, 1, 1, 2]
    assert counts.tolist() == [2, 2, 1]


def test_unique_has_no_derivative():
    x = t([1.0, 2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="derivative for '_unique2'"):
        x.unique().sum().backward()


def test_search():
    rows = t([[1, 3, 5], [2, 4, 6]])
    assert torch.searchsorted(rows, t([[3, 4], [3, 9]])).tolist() == [[1, 2], [1, 3]]
    assert torch.searchsorted(rows[0], t([3, 4]), side="right").tolist() == [2, 2]
    assert torch.searchsorted(t([1.0, 3.0, NAN]), t([NAN, 4.0])).tolist() == [3, 3]
    assert torch.bucketize(t([1.0, 2.0, 5.0]), t([1.0, 3.0, 4.0])).tolist() == [0, 1, 3]
    with pytest.raises(RuntimeError, match="first N-1"):
        torch.searchsorted(rows, t([3, 4]))


def test_counting():
    assert torch.bincount(t([1, 1, 3]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    assert torch.bincount(t([1, 1, 3]), t([0.5, 0.5, 1.0])).dtype is torch.float32
    assert torch.histc(t([1.0, 2.0, 3.0, 3.0]), 4).tolist() == [1, 0, 1, 2]
    assert torch.isin(t([1, 2, 3]), t([2, 3])).tolist() == [False, True, True]
    hist, edges = torch.histogram(t([1.0, 2.0, 1.0]), 4, range=(0.0, 3.0))
    assert hist.tolist() == [0, 2, 1, 0]
    assert edges.tolist() == [0, 0.75, 1.5, 2.25, 3]


def test_nonzero():
    x = t([[0, 1], [1, 0]])
    assert torch.nonzero(x).tolist() == [[0, 1], [1, 0]]
    assert x.nonzero().stride() == (1, 2)
    rows, columns = x.nonzero(as_tuple=True)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert [part.tolist() for part in torch.where(x > 0)] == [[0, 1], [1, 0]]


def test_dims_and_sorters_are_checked():
    x = torch.ones(2, 3)
    for function in (torch.unique, torch.unique_consecutive):
        with pytest.raises(IndexError, match="Dimension out of range"):
            function(x, dim=5)
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        torch.searchsorted(torch.arange(3.0), torch.ones(2), sorter=t([0, 1, 5]))
    with pytest.raises(RuntimeError, match="should have positive dimension"):
        torch.searchsorted(t(1.0), torch.ones(2))


def test_histogram_operands():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="bins tensor should have one dimension"):
        torch.histogram(x, torch.ones(2, 2))
    with pytest.raises(RuntimeError, match="range should have 2 elements, but got 1"):
        torch.histogram(x, 2, range=(1.0,))
    with pytest.raises(RuntimeError, match=r"input\(float\), and weight\(double\)"):
        torch.histogram(x, 2, weight=x.double())
    with pytest.raises(RuntimeError, match="dimension 0 with dtype double"):
        torch.histogram(x, torch.ones(2).double())
    with pytest.raises(RuntimeError, match=r"dimension 0's range \[nan, nan\] is not finite"):
        torch.histogram(t([NAN, 1.0]), 2)


def test_one_hot_rows_of_classes_that_are_there_and_words_for_others() -> None:
    index = torch.tensor([[2, 0], [1, 2]])
    expected = [[[0, 0, 1, 0], [1, 0, 0, 0]], [[0, 1, 0, 0], [0, 0, 1, 0]]]
    for given in (index, index.t().contiguous().t()):
        found = torch.nn.functional.one_hot(given, 4)
        assert found.tolist() == expected
        assert found.dtype is torch.int64
        assert found.is_contiguous()
    assert torch.nn.functional.one_hot(torch.tensor(1), 3).tolist() == [0, 1, 0]
    with pytest.raises(RuntimeError, match="must be smaller than num_classes"):
        torch.nn.functional.one_hot(index, 2)
    with pytest.raises(RuntimeError, match="must be non-negative"):
        torch.nn.functional.one_hot(-index, 4)
