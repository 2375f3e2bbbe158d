"""torch.signal.windows: tapering windows of `M` points; with sym=False those of a period of `M`.

Every window is a function of evenly spaced numbers, so gradients and devices follow from linspace.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.core.device import strided

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


class Grid:
    """Where a window's points are, and in what dtype."""

    def __init__(self, name: str, M: int, sym: bool, options: dict[str, Any]) -> None:
        dtype = options.get("dtype")
        self.options = {
            "dtype": torch.get_default_dtype() if dtype is None else dtype,
            "layout": options.get("layout", strided),
            "device": options.get("device"),
            "requires_grad": options.get("requires_grad", False),
        }
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if self.options["layout"] is not strided:
            raise ValueError(
                f"{name} is implemented for strided tensors only, got: {self.options['layout']}"
            )
        if self.options["dtype"] not in (torch.float32, torch.float64):
            raise ValueError(
                f"{name} expects float32 or float64 dtypes, got: {self.options['dtype']}"
            )
        unknown = options.keys() - self.options.keys()
        if unknown:
            raise TypeError(f"{name}() got an unexpected keyword argument '{min(unknown)}'")
        self.count = M
        # A periodic window leaves out the last point of a symmetric one that is longer by one.
        self.last = M if not sym and M > 1 else M - 1

    def empty(self) -> Any:
        return torch.empty((0,), **self.options)

    def spaced(self, start: Any, step: float) -> Any:
        end = start + (self.count - 1) * step
        return torch.linspace(start, end, self.count, **self.options)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **options: Any,
) -> Any:
    """exp(-|n - center| / tau)."""
    grid = Grid("exponential", M, sym, options)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if M == 0:
        return grid.empty()
    middle = grid.last / 2.0 if center is None else center
    return torch.exp(-torch.abs(grid.spaced(-middle / tau, 1 / tau)))


def cosine(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Half a period of a sine."""
    grid = Grid("cosine", M, sym, options)
    if M == 0:
        return grid.empty()
    step = math.pi / (grid.last + 1)
    return torch.sin(grid.spaced(0.5 * step, step))


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Any) -> Any:
    """exp(-n**2 / (2 std**2)), n counted from the middle."""
    grid = Grid("gaussian", M, sym, options)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    if M == 0:
        return grid.empty()
    step = 1 / (std * math.sqrt(2))
    return torch.exp(-(grid.spaced(-grid.last / 2.0 * step, step) ** 2))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Any) -> Any:
    """I0(beta sqrt(1 - x**2)) / I0(beta), x from -1 to 1."""
    grid = Grid("kaiser", M, sym, options)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M == 0:
        return grid.empty()
    if M == 1:
        return torch.ones((1,), **grid.options)
    scale = torch.tensor(beta, dtype=grid.options["dtype"], device=grid.options["device"])
    # Rounding may not lead beyond the window's end, where the root is of a negative number.
    end = torch.minimum(scale, -scale + (M - 1) * (2.0 * scale / grid.last))
    places = torch.linspace(-scale, end, M, **grid.options)
    return torch.i0(torch.sqrt(scale * scale - places**2)) / torch.i0(scale)


def bartlett(M: int, *, sym: bool = True, **options: Any) -> Any:
    """A triangle that is 0 at both ends."""
    grid = Grid("bartlett", M, sym, options)
    if M == 0:
        return grid.empty()
    if M == 1:
        return torch.ones((1,), **grid.options)
    return 1 - torch.abs(grid.spaced(-1.0, 2 / grid.last))


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, **options: Any) -> Any:
    """A sum of cosines of whole periods, of weights `a` and alternating signs."""
    grid = Grid("general_cosine", M, sym, options)
    if M == 0:
        return grid.empty()
    if M == 1:
        return torch.ones((1,), **grid.options)
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    places = grid.spaced(0, 2 * math.pi / grid.last)
    made = {name: grid.options[name] for name in ("dtype", "device", "requires_grad")}
    weights = torch.tensor([(-1) ** at * weight for at, weight in enumerate(a)], **made)
    periods = torch.arange(len(a), dtype=weights.dtype, device=weights.device)
    return (weights.unsqueeze(-1) * torch.cos(periods.unsqueeze(-1) * places)).sum(0)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, **options: Any) -> Any:
    """alpha - (1 - alpha) cos(x), x over one period."""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, **options)


def hamming(M: int, *, sym: bool = True, **options: Any) -> Any:
    """The general window of alpha = 0.54."""
    return general_hamming(M, sym=sym, **options)


def hann(M: int, *, sym: bool = True, **options: Any) -> Any:
    """The general window of alpha = 0.5: 0 at both ends."""
    return general_hamming(M, alpha=0.5, sym=sym, **options)


def blackman(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Three cosine terms with nearly the least leakage that three can have."""
    Grid("blackman", M, sym, options)
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, **options)


def nuttall(M: int, *, sym: bool = True, **options: Any) -> Any:
    """Four cosine terms with the least sidelobes."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, **options)
