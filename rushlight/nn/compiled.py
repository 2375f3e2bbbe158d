"""`Module.compile`: calls of one module object are compiled, the object stays what it is."""

from __future__ import annotations

from typing import Any

__all__ = ["CompiledInPlace"]


class CompiledInPlace:
    """The base of modules. `_compiled_call_impl`, where it is there, is what a call runs."""

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile calls of this module, hooks and all; arguments are those of `torch.compile`.

        >>> import rushlight as torch
        >>> layer = torch.nn.Linear(2, 2)
        >>> layer.compile(backend="eager")
        >>> layer(torch.ones(2)).shape
        torch.Size([2])
        """
        import importlib

        compiling = importlib.import_module("rushlight.compiler.compiling")
        self.__dict__["_compiled_call_impl"] = compiling.compile_in_place(self, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled code belongs to this object.
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state
