"""What a user may do about a break: reasons by their beginnings, with codes of `base.reasons`."""

from __future__ import annotations

import linecache
import types

from rushlight.base.errors import reason_of
from rushlight.capture.exc import Unsupported

__all__ = ["code_of", "unsupported"]

# The first that fits counts.
CODES = (
    ("data-dependent branch", "RL0750"),
    ("value of a tensor", "RL0751"),
    ("Tensor.", "RL0751"),
    ("int of a tensor", "RL0751"),
    ("float of a tensor", "RL0751"),
    ("call to graph_break", "RL0752"),
    ("disabled: ", "RL0752"),
    ("builtin: ", "RL0753"),
    ("library function ", "RL0753"),
    ("user exception ", "RL0754"),
)
OTHER = "RL0755"


def code_of(reason: str) -> str:
    return next((code for beginning, code in CODES if reason.startswith(beginning)), OTHER)


def unsupported(reason: str, code: types.CodeType, line: int) -> Unsupported:
    """The error of a break where none is allowed: what, where, and the way out."""
    number = code_of(reason)
    text = linecache.getline(code.co_filename, line).strip()
    advice = reason_of(number)
    error = Unsupported(
        f"{reason}\n"
        f"  in {code.co_qualname}, {code.co_filename}:{line}\n"
        + (f"    {text}\n" if text else "")
        + f"  {number}: {advice.what} {advice.remedy}"
    )
    # The text has the remedy already.
    error.code = number  # type: ignore[attr-defined]
    error.add_note(f"{number}: {advice.why}")
    return error
