"""Where a symbol's value comes from: an input, or a size, stride or offset of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class NamedSource(Protocol):
    """A source as others write it: with a `name` or a `name()`."""

    @property
    def name(self) -> str | Callable[[], str]: ...


SourceLike = str | NamedSource


class Source:
    """A Python expression that reads an input; `base` and `kind` say which property of which."""

    __slots__ = ("base", "idx", "kind", "text")

    def __init__(
        self, text: str, base: SourceLike | None = None, kind: str = "", idx: int | None = None
    ) -> None:
        self.text = text
        self.base = base
        self.kind = kind
        self.idx = idx

    @property
    def name(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Source({self.text})"


def source_name(source: SourceLike | None) -> str:
    """The text of a source: a string, or an object with a `name` or a `name()`."""
    if isinstance(source, str):
        return source
    name = getattr(source, "name", source)
    return str(name() if callable(name) else name)
