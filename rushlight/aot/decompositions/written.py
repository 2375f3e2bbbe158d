"""Where decompositions that are written as programs are kept, by the names of their ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["PROGRAMS", "program"]

F = TypeVar("F", bound=Callable[..., Any])
# "name.overload" -> the program; the default overload is not named.
PROGRAMS: dict[str, Callable[..., Any]] = {}


def program(*names: str) -> Callable[[F], F]:
    """Keep a function as the decomposition of these ops, whose arguments it takes as they come."""

    def keep(function: F) -> F:
        for name in names:
            PROGRAMS[name] = function
        return function

    return keep
