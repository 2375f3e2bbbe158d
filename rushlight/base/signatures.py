"""Functions and constructors whose signature is made of data.

They are compiled from it, so that whoever reads names of arguments off their code finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

__all__ = ["function_of", "signed"]


def function_of(
    signature: Signature, name: str, function: Callable[[dict[str, Any]], Any]
) -> Callable[..., Any]:
    """A function of that signature; `function(arguments)` is given every argument, defaults
    included. Errors name the function `name`."""
    parameters = signature.parameters.values()
    bare = [
        each.replace(default=Parameter.empty, annotation=Parameter.empty) for each in parameters
    ]
    given = ", ".join(f"{each!r}: {each}" for each in signature.parameters)
    short = name.rpartition(".")[2]
    source = f"def {short}{Signature(bare)}:\n    return _function({{{given}}})\n"
    scope: dict[str, Any] = {"_function": function, "__name__": __name__}
    exec(compile(source, f"<rushlight {name}>", "exec"), scope)
    outer = scope[short]
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    by_name = {each.name for each in parameters if each.kind is Parameter.KEYWORD_ONLY}
    outer.__defaults__ = tuple(defaults[each] for each in defaults if each not in by_name)
    outer.__kwdefaults__ = {each: defaults[each] for each in defaults if each in by_name}
    outer.__signature__ = signature
    outer.__qualname__ = name
    return outer  # type: ignore[no-any-return]


def signed(
    signature: Signature, owner: str, function: Callable[[Any, dict[str, Any]], None]
) -> Callable[..., None]:
    """An `__init__` of that signature, `self` first; `function(self, arguments)` is given every
    other argument. `owner` is the class that errors name."""

    def construct(arguments: dict[str, Any]) -> None:
        function(arguments.pop("self"), arguments)

    return function_of(signature, f"{owner}.__init__", construct)
