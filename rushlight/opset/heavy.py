"""Which calls of the heavy ops run as native kernels.

Sizes and dtypes decide, so that a program gives the same bits each time; what was compiled before,
or how long something took, does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rushlight.base.config import config
from rushlight.core import ports

__all__ = ["SOURCE", "heavy_kernels", "may_compile", "packaged"]

# Multiplications of a call from which on native kernels gain by more than a call of them costs.
LEAST = 1 << 18


class Source(threading.local):
    """Where a thread's native kernels come from: the compiler, or within the call of a package
    that package's machine, None where it has none."""

    in_package = False
    machine: Any = None


SOURCE = Source()


@contextmanager
def packaged(machine: Any) -> Iterator[None]:
    """Within, no native code is made: heavy kernels are the machine's."""
    before = SOURCE.in_package, SOURCE.machine
    SOURCE.in_package, SOURCE.machine = True, machine
    try:
        yield
    finally:
        SOURCE.in_package, SOURCE.machine = before


def may_compile() -> bool:
    """Whether a call may have native code made for it."""
    return config.eager_native and not SOURCE.in_package


def heavy_kernels(work: int, *arrays: Any) -> Any:
    """The native kernels, for a call of that many multiplications on these arrays; None where NumPy
    is to compute it."""
    if work < LEAST or not config.eager_native:
        return None
    for array in arrays:
        if array.dtype != np.float32:
            return None
    if SOURCE.in_package and SOURCE.machine is None:
        return None
    return ports.native_kernels()
