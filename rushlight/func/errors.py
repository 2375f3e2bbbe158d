"""What goes wrong with first-class dims."""

from __future__ import annotations

__all__ = ["DimensionBindError", "DimensionMismatchError"]


class DimensionBindError(Exception):
    """A dim was given a second size, or none that fits."""


class DimensionMismatchError(Exception):
    """Tensors disagree on their dims."""
