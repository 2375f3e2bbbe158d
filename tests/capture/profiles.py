"""Which functions Python calls: what a cached call of a compiled function must not do."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

__all__ = ["called"]


@contextlib.contextmanager
def called(file: str | None = None) -> Iterator[list[CodeType]]:
    """The code of every function that is called in the block; only those of a file, if named."""
    seen: list[CodeType] = []

    def watch(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and file in (None, frame.f_code.co_filename):
            seen.append(frame.f_code)

    sys.setprofile(watch)
    try:
        yield seen
    finally:
        sys.setprofile(None)
