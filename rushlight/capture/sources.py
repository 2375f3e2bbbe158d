"""Sources: how a value of the outside is reached again from a frame's arguments.

A source is read by guards, gives graph inputs their names, and rebuilds values. Two sources that
read the same thing the same way are equal.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

__all__ = ["Id", "Source", "cell", "const", "fetch", "free", "local"]


class Id:
    """An object compared by identity; `label` is how messages call it."""

    __slots__ = ("label", "value")

    def __init__(self, value: Any, label: str = "") -> None:
        self.value = value
        self.label = label or getattr(value, "__name__", type(value).__name__)

    def __eq__(self, other: object) -> bool:
        return type(other) is Id and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:
        return self.label


class Held(NamedTuple):
    """What a dict itself holds under a key, whatever its class says."""

    key: Any

    def __str__(self) -> str:
        return f"item {self.key!r} of "

    def __call__(self, table: Any) -> Any:
        return dict.__getitem__(table, self.key)


class Source(NamedTuple):
    """`kind` is one of local, free, const, attr, item, cell, size, referent, computed: the key of
    the last is a function and the sources of its arguments."""

    kind: str
    base: Any
    key: Any

    def attr(self, name: str) -> Source:
        return Source("attr", self, name)

    def item(self, key: Any) -> Source:
        return Source("item", self, key)

    def held(self, key: Any) -> Source:
        return Source("computed", None, (Held(key), (self,)))

    @property
    def root(self) -> Source:
        """What it is reached from."""
        source = self
        while source.base is not None:
            source = source.base
        return source

    def size(self, dim: int) -> Source:
        return Source("size", self, dim)

    def referent(self) -> Source:
        """What a weak reference refers to."""
        return Source("referent", self, None)

    @property
    def name(self) -> str:
        """The expression that reads it, for messages."""
        if self.kind in ("local", "free"):
            return f"L[{self.key!r}]"
        if self.kind == "cell":
            return f"L[{self.key!r}]"
        if self.kind == "const":
            return str(self.key.label)
        if self.kind == "computed":
            function, parts = self.key
            name = getattr(function, "__name__", str(function))
            return f"{name}({', '.join([part.name for part in parts])})"
        base = self.base.name
        if self.kind == "attr":
            return f"{base}.{self.key}"
        if self.kind == "referent":
            return f"{base}()"
        return f"{base}.size()[{self.key}]" if self.kind == "size" else f"{base}[{self.key!r}]"

    def identifier(self) -> str:
        """The name of the graph input that holds it."""
        return re.sub(r"[^a-zA-Z0-9]+", "_", self.name)


def local(name: str) -> Source:
    return Source("local", None, name)


def free(name: str) -> Source:
    """A free variable of the frame that is compiled."""
    return Source("free", None, name)


def const(value: Any, label: str = "") -> Source:
    return Source("const", None, Id(value, label))


def cell(base: Source, variable: str) -> Source:
    """The contents of a cell, known to the user as `variable`."""
    return Source("cell", base, variable)


def fetch(source: Source, scope: dict[str, Any]) -> Any:
    """The value that a source reads now."""
    kind, base, key = source
    if kind in ("local", "free"):
        return scope[key]
    if kind == "const":
        return key.value
    if kind == "computed":
        function, parts = key
        return function(*[fetch(part, scope) for part in parts])
    owner = fetch(base, scope)
    if kind == "attr":
        return getattr(owner, key)
    if kind == "cell":
        return owner.cell_contents
    if kind == "referent":
        return owner()
    if type(key) is Id:
        key = key.value
    return owner.shape[key] if kind == "size" else owner[key]
