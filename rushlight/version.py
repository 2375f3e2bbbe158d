"""torch.version: which version this is, and that it was built without accelerators."""

from __future__ import annotations

__all__ = ["cuda", "debug", "git_version", "hip", "rocm", "xpu"]

from rushlight import __version__ as __version__

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
rocm: str | None = None
git_version = "unknown"
