"""Help for tests: torch.testing's public names."""

from __future__ import annotations

from rushlight.testing.comparison import assert_allclose, assert_close
from rushlight.testing.creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
