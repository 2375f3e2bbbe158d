"""How an attempt to capture may end other than with a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.capture.values import Var


class Break(Exception):
    """This cannot be captured; the reason is for the user."""


class Abandon(Exception):
    """The frame must run as it is: it looks at itself."""


class Specialize(Exception):
    """A number kept symbolic is needed as a value: start again with constants."""


class SpecializeFloats(Exception):
    """A backend does not take floats that change: start again with constants."""


class UserRaise(Exception):
    """The program raised; `var` is the exception."""

    def __init__(self, var: Var) -> None:
        super().__init__(var)
        self.var = var


class NeedBreak(Exception):
    """Start again, and end the graph before step `step` of the frame."""

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(reason)
        self.step = step
        self.reason = reason
