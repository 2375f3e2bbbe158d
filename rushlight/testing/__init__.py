"""Help for tests: torch.testing's public names."""

from __future__ import annotations

from rushlight.testing.comparison import assert_allclose, assert_close
from rushlight.testing.creation import make_tensor
from rushlight.testing.file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]
