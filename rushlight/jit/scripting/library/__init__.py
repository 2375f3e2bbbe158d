"""Functions and modules of the package as compiled code has them.

Those whose Python cannot be compiled have a form here that can: typed, and over operators alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def function_forms() -> dict[Any, Callable[..., Any]]:
    """Functions of `nn.functional` -> the form that is compiled."""
    from rushlight.jit.scripting.library import functions, losses
    from rushlight.nn import functional

    found: dict[Any, Callable[..., Any]] = {}
    for name in functions.__all__:
        original = getattr(functional, name, None)
        if original is not None:
            found[original] = getattr(functions, name)
    for form in losses.FUNCTIONS:
        found[getattr(functional, form.__name__)] = form
    return found


@cache
def dispatched_forms() -> dict[Any, tuple[str, int, Any, Any]]:
    """Functions of `nn.functional` of which a flag says which of two is compiled."""
    from rushlight.jit.scripting.library import functions
    from rushlight.nn import functional

    return {getattr(functional, name): form for name, form in functions.DISPATCHED.items()}


def script_form(function: Any) -> Callable[..., Any] | None:
    """The form of a library function that is compiled; None where it has none of its own."""
    try:
        return function_forms().get(function)
    except TypeError:
        return None


@cache
def layer_forms() -> dict[Any, dict[str, Callable[..., Any]]]:
    """Classes of modules -> their methods as they are compiled."""
    from rushlight import nn
    from rushlight.jit.scripting.library import attention, layers, losses  # noqa: F401

    return {getattr(nn, name): methods for name, methods in layers.FORMS.items()}


def derived_attribute(module: Any, name: str) -> Any:
    """What a library module's compiled methods read and its Python computes; None if nothing."""
    from rushlight.jit.scripting.library import layers

    make = layers.DERIVED.get(name)
    return make(module) if make is not None and layer_methods(type(module)) else None


def layer_methods(cls: Any) -> dict[str, Callable[..., Any]]:
    """The methods of a library module that have a form of their own, by name."""
    forms = layer_forms()
    for base in cls.__mro__:
        if base in forms:
            methods = forms[base]
            # A subclass's own methods are the user's.
            below = cls.__mro__[: cls.__mro__.index(base)]
            return {n: f for n, f in methods.items() if not any([n in vars(b) for b in below])}
    return {}
