"""Scans and differences: refusals, and formulas that read no values."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as torch
from rushlight.core.modes import TorchDispatchMode


def test_diff_names_the_dimension() -> None:
    with pytest.raises(RuntimeError, match=r"input.size\(0\) = 3, but got tensor.size\(0\) = 2"):
        torch.diff(torch.ones(3, 2), append=torch.ones(2, 2))
    assert torch.diff(torch.ones(3, 2), append=torch.zeros(3, 1)).tolist() == [[0.0, -1.0]] * 3


def test_trapezoid_takes_real_steps() -> None:
    for name in ("trapezoid", "cumulative_trapezoid"):
        with pytest.raises(RuntimeError, match=f"{name}: Currently, we only support dx as a real"):
            getattr(torch, name)(torch.ones(3), dx=1j)
    assert torch.trapezoid(torch.arange(4), dx=2).item() == 9.0
    assert torch.cumulative_trapezoid(torch.arange(3), dx=2).tolist() == [1.0, 4.0]


class Names(TorchDispatchMode):
    """Which ops run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["prod", "cumprod"])
def test_recorded_gradients_read_no_values(name: str) -> None:
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with Names() as mode:
        grad = torch.autograd.grad(getattr(x, name)(1).sum(), x)[0]
    assert "aten::_local_scalar_dense" not in mode.seen and "aten::any" not in mode.seen
    expected = [[2.0, 1.0], [4.0, 3.0]] if name == "prod" else [[3.0, 1.0], [5.0, 3.0]]
    assert grad.tolist() == expected
    plain = torch.autograd.grad(getattr(x, name)(1).sum(), x)[0]
    assert plain.tolist() == expected


def test_no_difference_joins_nothing():
    x = torch.arange(3)
    assert torch.diff(x, n=0, prepend=torch.tensor([9])).tolist() == [0, 1, 2]
    assert torch.diff(x, n=1, prepend=torch.tensor([9])).tolist() == [-9, 1, 1]
