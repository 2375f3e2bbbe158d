"""Errors inside compiled programs, told in terms of the user's text.

The traceback of an error says which lines of which programs were running; a program knows the
nodes of its lines, and nodes know where they come from.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from rushlight.jit.ir.graph import Node
from rushlight.jit.ir.parts import SourceRange

# The global of a program that holds the name of the function, and line number -> node.
PROGRAM = "__program__"

HEADER = "The following operation failed in the TorchScript interpreter."


class Error(RuntimeError):
    """What a `raise` in compiled code becomes; `torch.jit.Error`."""


class ScriptRaised(Exception):
    """A `raise` in compiled code: the message, and the name of the class as it was written."""

    def __init__(self, message: str, class_name: str) -> None:
        super().__init__(message)
        self.class_name = class_name


def translated(error: Exception) -> Exception:
    """The error that the caller of a program sees."""
    lines = [HEADER, "Traceback of TorchScript (most recent call last):"]
    for name, source in frames(error.__traceback__):
        lines += frame_lines(name, source)
    raised = error if isinstance(error, ScriptRaised) else None
    label = "RuntimeError" if raised is None else raised.class_name
    lines.append(f"{label}: {error}\n")
    return (RuntimeError if raised is None else Error)("\n".join(lines))


def frames(traceback: TracebackType | None) -> list[tuple[str, SourceRange]]:
    """The functions that were running and where, innermost last."""
    found: list[tuple[str, SourceRange]] = []
    while traceback is not None:
        program = traceback.tb_frame.f_globals.get(PROGRAM)
        if program is not None:
            name, nodes = program
            node: Node | None = nodes.get(traceback.tb_lineno)
            if node is not None:
                found += [*node.source.callers, (name, node.source)]
        traceback = traceback.tb_next
    return found


def frame_lines(name: str, source: SourceRange) -> list[str]:
    place = f'  File "{source.file}", line {source.line}, in {name}' if source.file else ""
    return [place, *highlighted(source)]


def highlighted(source: SourceRange) -> list[str]:
    """The line of the user's text, with a mark below it."""
    if not source.text:
        return []
    start = source.text.rfind("\n", 0, source.start) + 1
    end = source.text.find("\n", source.start)
    line = source.text[start : end if end >= 0 else None]
    width = max(min(source.end, start + len(line)) - source.start, 1)
    return [f"    {line}", "    " + " " * (source.start - start) + "~" * width + " <--- HERE"]


def raise_exception(message: str, class_name: Any = None) -> None:
    raise ScriptRaised(message, class_name or "Exception")
