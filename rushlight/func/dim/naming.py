"""The names of the variables that a call's result is assigned to."""

from __future__ import annotations

import dis
from types import FrameType

__all__ = ["assigned_names"]

SKIPPED = frozenset(("CACHE", "EXTENDED_ARG", "PRECALL", "NOP", "RESUME", "COPY"))


def assigned_names(frame: FrameType) -> tuple[int, list[str]]:
    """(how many values the caller unpacks, the names it gives them) for the call that a frame is
    in; 0 where the result is not assigned. Names end at the first that is not a plain variable."""
    following = [
        instruction
        for instruction in dis.get_instructions(frame.f_code)
        if instruction.offset > frame.f_lasti and instruction.opname not in SKIPPED
    ]
    count = 0
    if following and following[0].opname == "UNPACK_SEQUENCE":
        count = following.pop(0).arg or 0
    elif following and following[0].opname.startswith("STORE_"):
        count = 1
    names: list[str] = []
    for instruction in following:
        if len(names) >= count or not is_variable(instruction.opname):
            break
        given = instruction.argval
        if instruction.opname == "STORE_FAST_STORE_FAST":
            names += given
        else:
            names.append(given[0] if isinstance(given, tuple) else given)
    return count, names[:count]


def is_variable(opname: str) -> bool:
    return opname.startswith(("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF"))
