"""What `use_deterministic_algorithms` asks for: memory that nobody has written is filled with
values that show, and ops whose results depend on an order that is not said are refused."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import dtype
from rushlight.core.state import PROCESS

__all__ = ["ASKED", "ask", "refuse_nondeterministic", "unwritten", "unwritten_array"]

# How strictly repeatable results are asked for.
OFF, WARN, RAISE = 0, 1, 2


class Asked:
    """The process's choice."""

    mode = OFF
    fills = True


ASKED = Asked()


def ask(mode: int) -> None:
    """Choose a mode. Shortcuts that make memory themselves are off meanwhile."""
    with PROCESS.lock:
        PROCESS.special += (mode != OFF) - (ASKED.mode != OFF)
        ASKED.mode = mode


def unwritten_array(sizes: Any, dtype: dtype) -> Any:
    """A fresh array whose values nobody has set."""
    return unwritten(np.empty(sizes, dtype.np), dtype)


def unwritten(array: Any, dtype: dtype) -> Any:
    """Memory whose values nobody has set: left as it is unless repeatable results are asked for."""
    if ASKED.mode and ASKED.fills and array.size:
        if dtype.category == dtypes.BOOL:
            array[...] = True
        elif dtype.category == dtypes.INTEGER:
            array[...] = np.iinfo(dtype.np).max
        elif dtype is dtypes.complex32:
            array["real"], array["imag"] = np.nan, 0
        else:
            array[...] = np.nan
    return array


def refuse_nondeterministic(name: str) -> None:
    """Raise or warn, as asked, where the result depends on an order that is not said."""
    if not ASKED.mode:
        return
    text = (
        f"{name} does not have a deterministic implementation, but you set "
        "'torch.use_deterministic_algorithms(True)'. Turn it off for this operation, or pass "
        "warn_only=True."
    )
    if ASKED.mode == RAISE:
        raise RuntimeError(text)
    warnings.warn(text, UserWarning, stacklevel=2)
