"""Whether code is compiled at all, and whether graphs are optimised before they run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


class Switches:
    """The settings of the process."""

    is_enabled = os.environ.get("PYTORCH_JIT", "1") != "0"
    optimizes = True


def is_enabled() -> bool:
    """Whether `trace` and `script` compile; the environment's PYTORCH_JIT=0 says no."""
    return Switches.is_enabled


def enable() -> None:
    Switches.is_enabled = True


def disable() -> None:
    """From now on `trace` and `script` return what they are given."""
    Switches.is_enabled = False


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Whether graphs that run inside may be optimised; results are the same either way."""
    before = Switches.optimizes
    Switches.optimizes = bool(should_optimize)
    try:
        yield
    finally:
        Switches.optimizes = before
