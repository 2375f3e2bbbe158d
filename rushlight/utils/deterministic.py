"""`torch.utils.deterministic`: whether deterministic algorithms fill memory that is not set."""

from __future__ import annotations

import sys
import types

from rushlight.core.determinism import ASKED

__all__ = ["fill_uninitialized_memory"]

fill_uninitialized_memory: bool


class _Module(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` and `resize_` fill their memory while deterministic algorithms are on."""
        return ASKED.fills

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if type(mode) is not bool:
            raise RuntimeError(f"expected a bool, but got {type(mode).__name__}")
        ASKED.fills = mode


sys.modules[__name__].__class__ = _Module
