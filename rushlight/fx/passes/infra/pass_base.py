"""`PassBase`: a pass over a graph module, with checks before and after."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it is another than before."""

    graph_module: Any
    modified: bool


class PassBase(ABC):
    """A pass: `call` changes a graph module; `requires` and `ensures` check it."""

    def __call__(self, graph_module: Any) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abstractmethod
    def call(self, graph_module: Any) -> PassResult | None:
        """Do what the pass is for."""

    def requires(self, graph_module: Any) -> None:  # noqa: B027
        """Raise where the pass cannot work on this module."""

    def ensures(self, graph_module: Any) -> None:  # noqa: B027
        """Raise where the pass did not do what it is for."""
