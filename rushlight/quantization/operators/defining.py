"""How operators of the namespace `quantized` are written: a schema above a function of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.grad_mode import no_grad
from rushlight.core.modes import EnableTorchFunctionSubclass
from rushlight.library.registration import Library

__all__ = ["quantized"]

LIBRARY = Library("quantized", "FRAGMENT")


def alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a kernel: without gradients, and with what subclasses say of functions."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with no_grad(), EnableTorchFunctionSubclass():
            return function(*args, **kwargs)

    return kernel


def quantized(*schemas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """One operator for each schema, all computed by the function. Nothing is differentiated."""

    def attach(function: Callable[..., Any]) -> Callable[..., Any]:
        for schema in schemas:
            name = LIBRARY.define(schema)
            LIBRARY.impl(name, alone(function), "CompositeExplicitAutograd")
        return function

    return attach
