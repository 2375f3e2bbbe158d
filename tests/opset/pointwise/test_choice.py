"""addcmul and addcdiv: the factor as the operands' dtype holds it."""

from __future__ import annotations

import pytest

import rushlight as torch


def test_a_fraction_is_cut_off_for_integers():
    ones = torch.ones(2, dtype=torch.int64)
    assert torch.addcmul(ones, ones, ones, value=2.5).tolist() == [3, 3]
    assert torch.addcmul(ones, ones, ones, value=True).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("kind", "value", "name"),
    [
        (torch.float32, 1j, "float"),
        (torch.int64, 1e30, "int64_t"),
        (torch.uint8, 300, "uint8_t"),
    ],
)
def test_a_factor_must_fit(kind, value, name):
    x = torch.ones(2, dtype=kind)
    with pytest.raises(RuntimeError, match=f"cannot be converted to type {name} without overflow"):
        torch.addcmul(x, x, x, value=value)


@pytest.mark.parametrize(
    "bound",
    [
        lambda x, y: torch.clamp(x, min=y),
        lambda x, y: torch.clamp(x, max=y),
        lambda x, y: torch.clamp(x, y, y),
        lambda x, y: x.clip(y),
        torch.clamp_min,
        torch.clamp_max,
    ],
)
def test_bounds_without_dims_bring_their_dtype(bound):
    whole = torch.arange(3, dtype=torch.int32)
    assert bound(whole, torch.tensor(1.5, dtype=torch.float64)).dtype is torch.float64
    assert bound(whole, torch.tensor(1.5, dtype=torch.float16)).dtype is torch.float16
    assert bound(whole, torch.tensor(1)).dtype is torch.int32
    assert bound(whole, 1.5).dtype is torch.float32
    assert bound(whole.to(torch.bfloat16), torch.tensor(1.5)).dtype is torch.bfloat16
    assert bound(whole > 1, torch.tensor(3, dtype=torch.uint8)).dtype is torch.uint8


def test_lists_take_tensors_without_dims_as_tensors():
    wide = torch.tensor(2.0, dtype=torch.float64)
    for name, kind in (("mul", "float64"), ("div", "float64"), ("add", "float32")):
        (found,) = getattr(torch, f"_foreach_{name}")([torch.ones(2, dtype=torch.int32)], wide)
        assert found.dtype is getattr(torch, kind)


def test_real_operands_refuse_complex_numbers():
    x = torch.ones(2)
    for call in (lambda z: torch.lerp(x, x, z), lambda z: torch.threshold(x, 1, z)):
        with pytest.raises(RuntimeError, match="cannot be converted to type float"):
            call(1j)
        assert call(2 + 0j).dtype is torch.float32


def test_bounds_that_the_dtype_does_not_hold_are_refused():
    small, wide = torch.tensor([0, 200], dtype=torch.uint8), torch.tensor([1.0])
    for clamp in (
        lambda: small.clamp(-1, 300),
        lambda: small.clamp(max=300),
        lambda: small.clone().clamp_(0, 300),
        lambda: small.clamp_min(300),
        lambda: torch.tensor([1]).clamp(max=2**63),
        lambda: wide.clamp(-1e60, 1e60),
        lambda: torch.nn.functional.hardtanh(small, 1, 300),
        lambda: torch.nn.functional.threshold(small, 3, 300),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            clamp()
    assert small.clamp(max=255).tolist() == [0, 200]
    assert small.clamp(-1, 3).tolist() == [3, 3]  # torch: -1 wraps around
    assert wide.clamp(max=float("inf")).tolist() == [1.0]
