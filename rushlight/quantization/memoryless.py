"""Layers that learn to have their inputs quantised as they come."""

from __future__ import annotations

from typing import Any

from rushlight.quantization import training
from rushlight.quantization.qconfig import is_memoryless

__all__ = ["Linear"]


class Linear(training.Linear):
    """A linear layer whose weight is rounded, and whose inputs are each for themselves."""

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, qconfig: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        if not is_memoryless(qconfig):
            raise ValueError(
                "Dynamic QAT requires a memoryless observer. This means a MovingAverage observer "
                "with averaging constant equal to 1"
            )
