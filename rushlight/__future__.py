"""torch.__future__: ways of converting modules that may one day be the usual ones."""

from __future__ import annotations

from rushlight.nn.conversion import Conversion

__all__ = [
    "get_overwrite_module_params_on_conversion", "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion", "set_swap_module_params_on_conversion",
]  # fmt: skip


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Whether `Module.to` and its like make new parameters instead of changing their memory."""
    Conversion.overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    return Conversion.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Whether a parameter and its converted form change places."""
    Conversion.swaps = value


def get_swap_module_params_on_conversion() -> bool:
    return Conversion.swaps
