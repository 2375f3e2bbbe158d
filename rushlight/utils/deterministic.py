"""torch.utils.deterministic: whether memory that is not set is filled in deterministic mode."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight.core.process import Switches


class Settings(ModuleType):
    """This module, with its setting as an attribute."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        return Switches.fills_memory

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                f"fill_uninitialized_memory must be a bool, but got {type(mode).__name__}"
            )
        Switches.fills_memory = mode


sys.modules[__name__].__class__ = Settings
