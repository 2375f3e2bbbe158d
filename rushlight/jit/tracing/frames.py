"""The Python code that a trace runs: where it stands, and what it calls its tensors.

What records and what computes is passed by; `nn` and the other modules of torch's Python are code
like the user's.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from rushlight.jit.ir.parts import NOWHERE, SourceRange

ENGINE = (
    *("rushlight.core.", "rushlight.opset.", "rushlight.arrays.", "rushlight.autograd."),
    *("rushlight.base.", "rushlight.jit.", "rushlight.higher_order.", "rushlight.func."),
    *("rushlight.subclasses.", "rushlight.graph.", "rushlight.symbolic.", "rushlight.amp."),
    *("rushlight.nn.module.", "rushlight.nn.hooks."),
)
IS_ENGINE: dict[str, bool] = {}
# How many callers the text of a node's place names.
MOST_CALLERS = 64


def is_engine(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__") or ""
    found = IS_ENGINE.get(name)
    return is_engine_module(name) if found is None else found


def is_engine_module(name: str) -> bool:
    found = IS_ENGINE[name] = f"{name}.".startswith(ENGINE)
    return found


def calling_frame() -> FrameType | None:
    """The innermost frame that is no part of the engine."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_engine(frame):
        frame = frame.f_back
    return frame


def name_of(tensor: Any) -> str:
    """The local variable of the calling frame that holds a tensor; "" where there is none.

    Whoever asked for the trace is no part of it: code that is compiled has no names there.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_engine(frame):
        if frame.f_code.co_name == "run_trace":
            return ""
        frame = frame.f_back
    if frame is None:
        return ""
    for name, value in frame.f_locals.items():
        if value is tensor:
            return "" if name == "self" or not name.isidentifier() else name
    return ""


def source_here() -> SourceRange:
    """Where the calling frame stands, and who called it."""
    frame = calling_frame()
    if frame is None:
        return NOWHERE
    file, line = frame.f_code.co_filename, frame.f_lineno
    lines: list[str] = []
    outer: FrameType | None = frame
    # Every operator of a deep program asks: a call for each frame would be felt.
    while outer is not None and len(lines) < MOST_CALLERS:
        known = IS_ENGINE.get(outer.f_globals.get("__name__") or "")
        if not known and not is_engine(outer):
            code = outer.f_code
            lines.append(f"{code.co_filename}({outer.f_lineno}): {code.co_name}\n")
        outer = outer.f_back
    text = "".join(lines)
    return SourceRange(file, line, 0, text, 0, len(text))
