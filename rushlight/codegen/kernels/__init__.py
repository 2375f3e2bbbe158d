"""Native kernels of heavy ops: convolution, batch norm, and the products they are made of.

They take and answer arrays of float32. `available` is how ops ask for them.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from types import ModuleType

__all__ = ["available"]


@cache
def available() -> ModuleType | None:
    """The module of the kernels; None without the package that compiles them."""
    if find_spec("llvmlite") is None:
        return None
    from rushlight.codegen.kernels import calls

    return calls
