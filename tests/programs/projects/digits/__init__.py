"""Reads seven-segment digits from noisy pictures."""

from .version import VERSION as __version__

__all__ = ["__version__"]
