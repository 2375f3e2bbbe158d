"""Modules spread over devices: there is one, so they run where they are."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import MissingFeature
from rushlight.nn.module import Module

__all__ = ["DataParallel", "consume_prefix_in_state_dict_if_present"]


class DataParallel(Module):
    """Calls the wrapped module; with no devices to split a batch over, nothing else happens."""

    def __init__(
        self, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        if device_ids:
            raise MissingFeature("DataParallel over devices", code="RL1201")
        self.module = module
        self.device_ids: list[Any] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a wrapper's prefix, as "module.", off the names of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix) :]] = metadata.pop(key)
