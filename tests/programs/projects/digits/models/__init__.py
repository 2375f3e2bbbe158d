"""Models by name."""

from . import cnn, mlp
from .registry import build, names

__all__ = ["build", "cnn", "mlp", "names"]
