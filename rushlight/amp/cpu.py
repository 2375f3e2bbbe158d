"""torch.cpu.amp: the older name of autocast for the CPU."""

from __future__ import annotations

from typing import Any

from rushlight.amp import autocasting
from rushlight.core import dtype as dtypes

__all__ = ["autocast"]


class autocast(autocasting.autocast):
    """`amp.autocast` for the CPU."""

    def __init__(
        self, enabled: bool = True, dtype: Any = dtypes.bfloat16, cache_enabled: bool = True
    ) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)
