"""torch.cpu.amp: the older name of autocast for the CPU."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.amp import autocasting, scaler
from rushlight.core import dtype as dtypes

__all__ = ["GradScaler", "autocast"]


class autocast(autocasting.autocast):
    """`amp.autocast` for the CPU."""

    def __init__(
        self, enabled: bool = True, dtype: Any = dtypes.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(scaler.GradScaler):
    """`amp.GradScaler` for the CPU, under its older name."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "`torch.cpu.amp.GradScaler(args...)` is deprecated. Please use "
            "`torch.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
