"""Switches of warnings about what PyTorch did before 0.2: nothing is left to warn of."""

from __future__ import annotations

__all__ = ["Warning", "broadcast_warning", "keepdim_warning"]


class Warning:
    """One switch, which can be read and set."""

    def __init__(self) -> None:
        self.enabled = False

    def get_enabled(self) -> bool:
        return self.enabled

    def set_enabled(self, value: bool) -> None:
        self.enabled = bool(value)


broadcast_warning = Warning()
keepdim_warning = Warning()
