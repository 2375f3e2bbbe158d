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
    import rushlight as torch
    from rushlight.jit.scripting.library import (
        attention,
        contractions,
        functions,
        losses,
        pooling,
        recurrent,
    )
    from rushlight.nn import functional
    from rushlight.nn.utils import rnn

    found: dict[Any, Callable[..., Any]] = {}
    for home in (functions, pooling):
        for name in home.__all__:
            original = getattr(functional, name, None)
            if original is not None:
                found[original] = getattr(home, name)
    own = (*losses.FUNCTIONS, attention.multi_head_attention_forward)
    of_torch = contractions.FUNCTIONS
    for origin, forms in ((functional, own), (rnn, recurrent.FUNCTIONS), (torch, of_torch)):
        found.update({getattr(origin, form.__name__): form for form in forms})
    return found


@cache
def dispatched_forms() -> dict[Any, tuple[str, int, Any, Any]]:
    """Functions of `nn.functional` of which a flag says which of two is compiled."""
    from rushlight.jit.scripting.library import pooling
    from rushlight.nn import functional

    return {getattr(functional, name): form for name, form in pooling.DISPATCHED.items()}


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
    from rushlight.jit.scripting.library import (  # noqa: F401
        attention,
        layers,
        losslayers,
        recurrent,
    )

    return {getattr(nn, name): methods for name, methods in layers.FORMS.items()}


def derived_attribute(module: Any, name: str) -> Any:
    """What a library module's compiled methods read and its Python computes; None if nothing."""
    from rushlight.jit.scripting.library import layers

    make = layers.DERIVED.get(name)
    return make(module) if make is not None and layer_methods(type(module)) else None


def parameter_paths(module: Any, name: str) -> list[str] | None:
    """The parameters in a list that a library module's compiled methods read."""
    from rushlight.jit.scripting.library import layers

    find = layers.PARAMETER_LISTS.get(name)
    return find(module) if find is not None and layer_methods(type(module)) else None


def layer_methods(cls: Any) -> dict[str, Callable[..., Any]]:
    """The methods of a library module that have a form of their own, by name."""
    forms = layer_forms()
    for base in cls.__mro__:
        if base in forms:
            methods = forms[base]
            # A subclass's own methods are the user's.
            below = cls.__mro__[: cls.__mro__.index(base)]
            own = {name for each in below for name in vars(each)}
            return {n: f for n, f in methods.items() if plain_name(n) not in own}
    return {}


def plain_name(method: str) -> str:
    """`forward` of `forward__0`: a method with several signatures has a form for each."""
    name, _, number = method.rpartition("__")
    return name if number.isdigit() else method


def overloaded_methods(cls: Any, name: str) -> list[str]:
    """The forms of a library module's method that has several signatures."""
    return [n for n in layer_methods(cls) if n != name and plain_name(n) == name]
