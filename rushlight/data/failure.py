"""An exception on its way from a worker: its type and its traceback as text."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

__all__ = ["ExceptionWrapper", "KeyErrorMessage"]


class KeyErrorMessage(str):
    """Text that a KeyError shows as it is, with its line ends."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """The exception being handled, or the given one; `reraise` raises one like it elsewhere.

    No traceback object is kept: it would keep every frame of the failure alive.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        import traceback

        exc_info = exc_info or sys.exc_info()
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same type, with the traceback in its text."""
        kind = self.exc_type
        text = f"Caught {kind.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if kind is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(kind, "message", None):
            raise kind(message=text)
        try:
            exception = kind(text)
        except Exception:  # a type that is not made from one text
            raise RuntimeError(text) from None
        raise exception
