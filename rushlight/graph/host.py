"""What a graph is told of the library whose functions it calls; the package's root fills it.

Graph code says `torch`: `library` is what that means.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol


class Library(Protocol):
    """The names of the library that graphs ask for."""

    Tensor: Any
    device: Any
    fx: Any
    nn: Any
    # Public functions that are not operators, by name.
    _FUNCTIONS: dict[str, str]


class OwningModule(Protocol):
    """What is asked of the module that a graph belongs to."""

    @property
    def _parameters(self) -> Mapping[str, Any]: ...
    @property
    def _buffers(self) -> Mapping[str, Any]: ...
    @property
    def _modules(self) -> Mapping[str, Any]: ...
    def get_submodule(self, target: str) -> Any: ...
    def named_children(self) -> Iterable[tuple[str, Any]]: ...


library: Library
# torch: functions that torch shows under private modules: path -> "module:name".
PRIVATE: dict[str, str] = {}
# The `__module__` of functions that are operators, wherever else they are public.
OPERATORS: set[str] = set()
# The same as PRIVATE the other way round.
PRIVATE_PATHS: dict[str, str] = {}


def serve(root: Library, private: dict[str, str], operators: tuple[str, ...]) -> None:
    """Let graphs be graphs over `root`, which also stands behind these private names. Operators
    say that they come from one of the modules `operators`."""
    global library
    library = root
    OPERATORS.update(operators)
    PRIVATE.update(private)
    PRIVATE_PATHS.update((place, path) for path, place in private.items())


def private_function(path: str) -> Any:
    """The function that torch shows under a private path."""
    module, _, name = PRIVATE[path].partition(":")
    return getattr(import_module(module), name)
