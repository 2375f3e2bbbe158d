"""Modules spread over devices: there is one, so they run where they are."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.nn.module import Module

__all__ = ["DataParallel"]


class DataParallel(Module):
    """Calls the wrapped module; with no devices to split a batch over, nothing else happens."""

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            raise MissingFeature("DataParallel over devices", "Leave device_ids out.")
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
