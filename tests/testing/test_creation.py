"""make_tensor: ranges, layouts, refusals."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.testing import make_tensor

ALL = (
    torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip


@pytest.mark.parametrize("dtype", ALL)
def test_dtype_shape_and_layout(dtype):
    made = make_tensor((2, 3), dtype=dtype, device="cpu")
    assert made.dtype is dtype and tuple(made.shape) == (2, 3) and made.is_contiguous()
    spread = make_tensor(2, 3, dtype=dtype, device="cpu", noncontiguous=True)
    assert tuple(spread.shape) == (2, 3) and not spread.is_contiguous()


def test_bounds():
    made = make_tensor((200,), dtype=torch.int64, device="cpu", low=2, high=4)
    assert set(made.tolist()) == {2, 3}
    made = make_tensor((200,), dtype=torch.float32, device="cpu", low=0.5, high=0.75)
    assert made.min().item() >= 0.5 and made.max().item() < 0.75
    assert make_tensor((200,), dtype=torch.uint8, device="cpu").max().item() <= 9


def test_exclude_zero_and_grad():
    made = make_tensor((300,), dtype=torch.int8, device="cpu", low=0, high=2, exclude_zero=True)
    assert set(made.tolist()) == {1}
    assert make_tensor(3, dtype=torch.float64, device="cpu", requires_grad=True).is_leaf
    with pytest.raises(ValueError, match="requires_grad"):
        make_tensor(3, dtype=torch.int64, device="cpu", requires_grad=True)
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(3, dtype=torch.float32, device="cpu", low=2, high=1)


@pytest.mark.parametrize(("low", "high", "values"), [(0, 1, {0}), (1, 2, {1}), (-1, 3, {0, 1})])
def test_bools_are_drawn_between_bounds(low, high, values):
    found = make_tensor(100, dtype=torch.bool, device="cpu", low=low, high=high)
    assert set(found.int().tolist()) == values


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(torch.bool, 2, 3), (torch.uint8, 300, 400), (torch.float32, 1e39, 1e40), (torch.int8, 3, 3)],
)
def test_bounds_that_leave_no_value_are_refused(dtype, low, high):
    with pytest.raises(ValueError, match="only supports|must be less"):
        make_tensor(3, dtype=dtype, device="cpu", low=low, high=high)


def test_complex_tensors_are_no_views():
    made = make_tensor((4,), dtype=torch.complex64, device="cpu")
    assert made._base is None and not made._is_view()


def test_tensors_are_made_on_the_default_device():
    with torch.device("meta"):
        assert make_tensor(3, dtype=torch.float32, device=None).is_meta
        assert make_tensor(3, dtype=torch.int64, device=None, noncontiguous=True).is_meta
    assert not make_tensor(3, dtype=torch.float32, device=None).is_meta
