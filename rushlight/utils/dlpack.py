"""torch.utils.dlpack: exchange of memory with other array libraries."""

from __future__ import annotations

from rushlight.core.interop import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
