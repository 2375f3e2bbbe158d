"""Functions and constructors whose signature is made of data and bound to their arguments."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature
from typing import Any

__all__ = ["function_of", "signed"]


def function_of(
    signature: Signature, name: str, function: Callable[[dict[str, Any]], Any]
) -> Callable[..., Any]:
    """A function of that signature; `function(arguments)` is given every argument, defaults
    included. Errors name the function `name`."""

    def outer(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        bound.apply_defaults()
        return function(dict(bound.arguments))

    outer.__signature__ = signature  # type: ignore[attr-defined]
    outer.__qualname__ = name
    outer.__name__ = name.rpartition(".")[2]
    return outer


def signed(
    signature: Signature, owner: str, function: Callable[[Any, dict[str, Any]], None]
) -> Callable[..., None]:
    """An `__init__` of that signature, `self` first; `function(self, arguments)` is given every
    other argument. `owner` is the class that errors name."""

    def construct(arguments: dict[str, Any]) -> None:
        function(arguments.pop("self"), arguments)

    return function_of(signature, f"{owner}.__init__", construct)
