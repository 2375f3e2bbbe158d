"""torch.cuda.amp: the older names, for the device that is not there."""

from __future__ import annotations

from functools import partial
from typing import Any

from rushlight.amp import autocasting, custom, scaler
from rushlight.core import dtype as dtypes

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

GradScaler = scaler.GradScaler
custom_fwd = partial(custom.custom_fwd, device_type="cuda")
custom_bwd = partial(custom.custom_bwd, device_type="cuda")


class autocast(autocasting.autocast):
    """`amp.autocast` for CUDA."""

    def __init__(
        self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


def amp_definitely_not_available() -> bool:
    """Whether there is surely no CUDA device."""
    return True
