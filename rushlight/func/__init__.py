"""Function transforms: torch's public names."""

from __future__ import annotations

from rushlight.func.vmap import vmap

__all__ = ["vmap"]
