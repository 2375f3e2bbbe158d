"""Modules that are a function and the values of its options."""

from __future__ import annotations

from typing import Any

from rushlight.nn.module import Module

__all__ = [
    "FunctionModule", "function_module",
]  # fmt: skip


class FunctionModule(Module):
    """A module that is a function and the defaults of its options, in order."""

    function: Any
    options: tuple[tuple[str, Any], ...] = ()

    def chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The options with what the constructor was given; complains as a signature would."""
        names = [name for name, _ in self.options]
        call = f"{type(self).__name__}.__init__()"
        if len(args) > len(names):
            takes = f"from 1 to {len(names) + 1}" if names else "1"
            takes += " positional arguments" if names else " positional argument"
            raise TypeError(f"{call} takes {takes} but {len(args) + 1} were given")
        given = dict(zip(names, args, strict=False))
        for name in kwargs:
            if name not in names:
                raise TypeError(f"{call} got an unexpected keyword argument '{name}'")
            if name in given:
                raise TypeError(f"{call} got multiple values for argument '{name}'")
        return dict(self.options) | given | kwargs


def function_module(
    name: str, module: str, base: type, function: Any, doc: str, **fields: Any
) -> Any:
    """A subclass of `base` in `module` with a function of its own."""
    made = {"function": staticmethod(function), "__doc__": doc, "__module__": module}
    return type(name, (base,), made | fields)
