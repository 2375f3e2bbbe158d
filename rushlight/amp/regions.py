"""`wrap_with_autocast`: a function that graphs keep apart, to run it under autocast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.amp.autocasting import autocast
from rushlight.higher_order.regions import Region

__all__ = ["wrap_with_autocast"]


def run_with_autocast(
    device_type: str,
    dtype: Any,
    enabled: bool,
    cache_enabled: bool | None,
    function: Callable[..., Any],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """`wrap_with_autocast(device_type, dtype, enabled, cache_enabled, function, *args)`."""
    with autocast(device_type, dtype, enabled, cache_enabled):
        return function(*args, **kwargs)


wrap_with_autocast = Region("wrap_with_autocast", run_with_autocast)
