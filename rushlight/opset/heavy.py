"""Which calls of the heavy ops run as native kernels.

Sizes and dtypes decide, so that a program gives the same bits each time; what was compiled before,
or how long something took, does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.base.config import config
from rushlight.core import ports

__all__ = ["heavy_kernels"]

# Multiplications of a call from which on native kernels gain by more than a call of them costs.
LEAST = 1 << 18


def heavy_kernels(work: int, *arrays: Any) -> Any:
    """The native kernels, for a call of that many multiplications on these arrays; None where NumPy
    is to compute it."""
    if work < LEAST or not config.eager_native:
        return None
    for array in arrays:
        if array.dtype != np.float32:
            return None
    return ports.native_kernels()
