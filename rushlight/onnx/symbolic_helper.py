"""Decorators of functions that tell an exporter of TorchScript graphs how to write an operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Notes on a function what its arguments are: values, or constants of some type."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._arg_descriptors = list(arg_descriptors)  # type: ignore[attr-defined]
        return function

    return decorate
