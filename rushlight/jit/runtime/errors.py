"""Errors inside compiled programs, told in terms of the user's text.

The traceback of an error says which lines of which programs were running; a program knows the
nodes of its lines, and nodes know where they come from.
"""

from __future__ import annotations

from types import FrameType, TracebackType
from typing import Any

from rushlight.jit.ir.graph import Node
from rushlight.jit.ir.highlight import highlighted
from rushlight.jit.ir.parts import SourceRange

# The global of a program that holds the name of the function, and line number -> node.
PROGRAM = "__program__"

HEADER = (
    "The following operation failed in the TorchScript interpreter.\n"
    "Traceback of TorchScript (most recent call last):"
)


class Error(Exception):
    """What a `raise` in compiled code becomes; `torch.jit.Error`."""


class ScriptRaised(Exception):
    """A `raise` in compiled code: the message, and the name of the class as it was written."""

    def __init__(self, message: str, class_name: str) -> None:
        super().__init__(message)
        self.class_name = class_name


def translated(error: Exception) -> Exception:
    """The error that the caller of a program sees."""
    places = [highlighted(source, name) for name, source in frames(error.__traceback__)]
    label = "RuntimeError"
    cls: type[Exception] = RuntimeError
    if isinstance(error, ScriptRaised):
        label, cls = error.class_name, Error
    elif isinstance(error, NotImplementedError):
        cls = NotImplementedError
    return cls(f"{HEADER}\n{''.join(places)}{label}: {error}\n")


def frames(traceback: TracebackType | None) -> list[tuple[str, SourceRange]]:
    """The functions that were running and where, innermost last."""
    found: list[tuple[str, SourceRange]] = []
    while traceback is not None:
        program = traceback.tb_frame.f_globals.get(PROGRAM)
        if program is not None:
            name, nodes = program
            node: Node | None = nodes.get(traceback.tb_lineno)
            if node is not None:
                found += node_frames(name, node.source)
        traceback = traceback.tb_next
    return found


def node_frames(name: str, source: SourceRange) -> list[tuple[str, SourceRange]]:
    """Where a node stands: one that was taken over from a called function stands in that one."""
    names = [*[callee for callee, _ in source.callers], name]
    places = [source, *[place for _, place in source.callers]]
    return [*zip(names, places)][::-1]


def python_report(error: Exception) -> str:
    """An error of Python code that a program called: its class, and the calls that led there."""
    places: list[tuple[FrameType, int]] = []
    traceback = error.__traceback__
    while traceback is not None:
        places.insert(0, (traceback.tb_frame, traceback.tb_lineno))
        traceback = traceback.tb_next
    outer = places[-1][0].f_back
    while outer is not None:
        places.append((outer, outer.f_lineno))
        outer = outer.f_back
    lines = [
        f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n"
        for frame, line in places
        if not is_engine(frame)
    ]
    return f"{type(error).__name__}: {error}\n\nAt:\n{''.join(lines)}"


def is_engine(frame: FrameType) -> bool:
    """Whether a frame is the library's own: users know nothing of it."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "rushlight"


def raise_exception(message: str, class_name: Any = None) -> None:
    raise ScriptRaised(message, class_name or "RuntimeError")
