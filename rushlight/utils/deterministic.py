"""torch.utils.deterministic: whether memory that is not set is filled in deterministic mode."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight.core.determinism import ASKED


class Settings(ModuleType):
    """This module, with its setting as an attribute."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        return ASKED.fills

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise RuntimeError(
                f"fill_uninitialized_memory: expected a bool, but got {type(mode).__name__}"
            )
        ASKED.fills = mode


sys.modules[__name__].__class__ = Settings
