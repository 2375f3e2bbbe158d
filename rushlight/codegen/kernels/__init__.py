"""Native kernels of heavy ops: convolution, batch norm, and the products they are made of.

They take and answer arrays of float32. `available` is how ops ask for them.
"""

from __future__ import annotations

from types import ModuleType

from rushlight.opset.heavy import SOURCE

__all__ = ["available"]


def available() -> ModuleType | None:
    """The module of the kernels; None without what compiles them, or a package that has them."""
    from rushlight.codegen.native import can_compile

    if SOURCE.machine is None and not can_compile():
        return None
    from rushlight.codegen.kernels import calls

    return calls
