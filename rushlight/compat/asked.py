"""What a program asked of `torch` and did not find, also where it went on without it.

`start` makes the look-ups of lazy namespaces and of the alias finder tell; each name is kept with
the first place that asked, and whether that was a question (`hasattr`) or a use.
"""

from __future__ import annotations

import dis
import importlib
import json
import os
import sys
from types import FrameType
from typing import Any

from rushlight.base import lazy
from rushlight.compat.near import nearest

__all__ = ["ASKED", "as_json", "is_lookup", "is_ours", "start", "stop", "summary"]

_COMPAT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(_COMPAT)) + os.sep
# Functions of the package that look a name up for somebody else.
_LOOKUPS = ("__getattr__", "__getattribute__", "getattr_with_aliases", "import_module")
# Instructions that use a name; anything else that looks one up is a call that asks.
_USES = ("LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_NAME")
SHOWN = 12


class Asked:
    """One missing name."""

    def __init__(self, name: str, file: str, line: int, is_use: bool) -> None:
        self.name = name
        self.file = file
        self.line = line
        self.is_use = is_use
        self.count = 0


ASKED: dict[str, Asked] = {}


def is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE)


def is_lookup(file: str, function: str) -> bool:
    """Whether a frame only passes on a name that somebody asked for."""
    if file.startswith(("<frozen ", importlib.__file__ or "<none>", _COMPAT)):
        return True
    return is_ours(file) and function in _LOOKUPS


def asking_frame() -> FrameType | None:
    """The frame that asked for a name; None where that is the package's own."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not is_lookup(file, frame.f_code.co_name) and file != lazy.__file__:
            return None if is_ours(file) else frame
        frame = frame.f_back
    return None


def is_use(frame: FrameType) -> bool:
    code = frame.f_code.co_code
    return dis.opname[code[frame.f_lasti]] in _USES


def note(module: str, name: str) -> None:
    """Keep that `module.name` is missing."""
    if name.startswith("__"):
        return
    frame = asking_frame()
    if frame is None:
        return
    root, dot, rest = module.partition(".")
    full = f"{'torch' if root == 'rushlight' else root}{dot}{rest}.{name}"
    found = ASKED.get(full)
    used = is_use(frame)
    if found is None:
        found = ASKED[full] = Asked(full, frame.f_code.co_filename, frame.f_lineno, used)
    elif used and not found.is_use:
        found.file, found.line, found.is_use = frame.f_code.co_filename, frame.f_lineno, True
    found.count += 1


def start() -> None:
    if note not in lazy.LISTENERS:
        lazy.LISTENERS.append(note)


def stop() -> None:
    if note in lazy.LISTENERS:
        lazy.LISTENERS.remove(note)
    ASKED.clear()


def as_json() -> str:
    """All of it, with the names that come close."""
    rows: list[dict[str, Any]] = [
        {
            "name": each.name,
            "file": each.file,
            "line": each.line,
            "count": each.count,
            "used": each.is_use,
            "nearest": nearest(each.name),
        }
        for each in ASKED.values()
    ]
    return json.dumps(rows, indent=2)


def summary() -> str:
    """The names that were used and missing, for the end of a run that failed; "" if none."""
    used = [each for each in ASKED.values() if each.is_use]
    if not used:
        return ""
    lines = ["rushlight: asked for and missing, perhaps behind the error above:"]
    lines += [f"  {each.name}  ({each.file}:{each.line})" for each in used[:SHOWN]]
    if len(used) > SHOWN:
        lines.append(f"  and {len(used) - SHOWN} more: rushlight run --missing FILE writes all")
    return "\n".join(lines)
