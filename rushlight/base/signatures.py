"""Constructors whose signature is made of data: given to a function, and bound to its arguments."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature
from typing import Any

__all__ = ["signed"]


def signed(
    signature: Signature, owner: str, function: Callable[[Any, dict[str, Any]], None]
) -> Callable[..., None]:
    """An `__init__` of that signature, `self` first; `function(self, arguments)` is given every
    argument, defaults included. `owner` is the class that errors name."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{owner}.__init__() {error}") from None
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        function(arguments.pop("self"), arguments)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{owner}.__init__"
    return __init__
