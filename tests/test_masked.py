"""torch.masked: reductions and normalisations of the elements that a mask leaves."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight import masked

X = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0], [7.0, 8.0, 9.0]])
MASK = torch.tensor([[True, False, True], [False, False, True], [False, False, False]])
INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("name", "along", "everywhere"),
    [
        ("sum", [4.0, -6.0, 0.0], -2.0),
        ("prod", [3.0, -6.0, 1.0], -18.0),
        ("amax", [3.0, -6.0, -INF], 3.0),
        ("amin", [1.0, -6.0, INF], -6.0),
        ("mean", [2.0, -6.0, NAN], -0.6666667),
        ("var", [2.0, NAN, NAN], 22.3333333),
        ("norm", [3.1622777, 6.0, 0.0], 6.7823300),
        ("logsumexp", [3.1269281, -6.0, -INF], 3.1270364),
    ],
)
def test_reductions(name, along, everywhere):
    reduce = getattr(masked, name)
    close = {"equal_nan": True, "rtol": 1e-6}
    assert torch.allclose(reduce(X, dim=1, mask=MASK), torch.tensor(along), **close)
    assert torch.allclose(reduce(X, mask=MASK), torch.tensor(everywhere), **close)
    assert reduce(X, dim=0, keepdim=True, mask=MASK).shape == (1, 3)
    assert torch.allclose(reduce(X, dim=(0, 1)), reduce(X), **close)


def test_whole_numbers_and_dtypes():
    whole = X.long()
    assert masked.sum(whole, 1, mask=MASK).dtype is torch.int64
    assert masked.amax(whole, 1, mask=MASK).tolist() == [3, -6, torch.iinfo(torch.int64).min]
    assert masked.argmax(X, 1, mask=MASK).tolist() == [2.0, 2.0, 0.0]
    assert masked.argmin(whole, 1, mask=MASK).tolist() == [0, 2, 0]
    assert masked.sum(X, 1, dtype=torch.float64, mask=MASK).dtype is torch.float64
    with pytest.raises(ValueError, match="floating point"):
        masked.mean(whole, mask=MASK)


def test_normalisations():
    kept = masked.softmax(X, 1, mask=MASK)
    assert torch.allclose(kept[0], torch.tensor([0.1192029, 0.0, 0.8807971]))
    assert kept[1].tolist() == [0.0, 0.0, 1.0] and kept[2].isnan().all()
    assert torch.allclose(masked.softmin(X, 1), torch.softmax(-X, 1))
    assert torch.allclose(masked.log_softmax(X, 1), torch.log_softmax(X, 1))
    assert masked.normalize(X, 2.0, 1, mask=MASK)[1].tolist() == [0.0, 0.0, -1.0]
    assert masked.cumsum(X, 1, mask=MASK)[0].tolist() == [1.0, 1.0, 4.0]
    assert masked.cumprod(X, 1, mask=MASK)[0].tolist() == [1.0, 1.0, 3.0]
    assert masked.median(X, 1, mask=MASK)[:2].tolist() == [1.0, -6.0]
    assert torch.equal(masked.logaddexp(X, X, input_mask=~MASK)[0, :1], X[0, :1])


def test_gradients_reach_what_the_mask_leaves():
    x = X.clone().requires_grad_()
    masked.mean(x, 1, mask=MASK)[:2].sum().backward()
    assert x.grad.tolist() == [[0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]


def test_what_does_not_fit_is_refused():
    with pytest.raises(IndexError, match="dimensionality"):
        masked.sum(X, mask=MASK[None])


def test_running_sums_keep_small_integers_and_spreads_of_complex_numbers_are_complex():
    for kind in (torch.uint8, torch.int32, torch.bfloat16):
        assert masked.cumsum(torch.ones(3, dtype=kind), 0).dtype is kind
        assert masked.cumprod(torch.ones(3, dtype=kind), 0).dtype is kind
    found = masked.std(torch.tensor([1 + 2j, 2, 3j]), 0)
    assert found.dtype is torch.complex64
    assert abs(found - 1.8257) < 1e-4


def test_dims_of_products():
    x = torch.ones(2, 3)
    assert torch.masked.prod(x, dim=[]).shape == torch.masked.prod(x, dim=(), keepdim=True).shape
    assert torch.masked.prod(x, dim=(0, 1), keepdim=True).shape == (1, 1)
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.masked.prod(x, dim=2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        torch.masked.prod(x, dim=(0, 0))


def test_medians_of_integers():
    x = torch.tensor([[7, 2, 0], [4, 5, 1]])
    mask = torch.tensor([[True, False, True], [False, True, True]])
    assert torch.masked.median(x, 1, mask=mask).tolist() == [0, 1]
    assert torch.masked.median(x, 0, keepdim=True, mask=mask).tolist() == [[7, 5, 0]]
    assert torch.masked.median(x.bool(), 1).tolist() == [True, True]
    with pytest.raises(ValueError, match="no fully masked out rows"):
        torch.masked.median(x, 1, mask=torch.zeros(2, 3, dtype=torch.bool))
