"""Where a symbol's value comes from: an input, an attribute of one, or a size, stride or offset.

A source prints as the Python expression that reads it; sources that read the same are equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

# What can be read of a tensor, as an expression.
PROPERTIES = {
    "size": "{base}.size()[{idx}]",
    "stride": "{base}.stride()[{idx}]",
    "storage_offset": "{base}.storage_offset()",
}


class ForeignSource(Protocol):
    """A source as others write it: with a `name` or a `name()`."""

    @property
    def name(self) -> str | Callable[[], str]: ...


class Source:
    """A Python expression that reads a value."""

    @property
    def name(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class ConstantSource(Source):
    """Something known by a name."""

    source_name: str

    @property
    def name(self) -> str:
        return self.source_name


@dataclass(frozen=True)
class LocalSource(Source):
    """An argument or a local variable."""

    local_name: str

    @property
    def name(self) -> str:
        return f"L[{self.local_name!r}]"


@dataclass(frozen=True)
class AttrSource(Source):
    """An attribute of what another source reads."""

    base: SourceLike
    member: str

    @property
    def name(self) -> str:
        return f"{source_name(self.base)}.{self.member}"


@dataclass(frozen=True)
class TensorPropertySource(Source):
    """A size, stride or offset of the tensor that another source reads."""

    base: SourceLike
    prop: str
    idx: int | None = None

    @property
    def name(self) -> str:
        return PROPERTIES[self.prop].format(base=source_name(self.base), idx=self.idx)


SourceLike = str | ForeignSource | Source


def source_name(source: SourceLike) -> str:
    """The text of a source: a string, or an object with a `name` or a `name()`."""
    if isinstance(source, str):
        return source
    name = source.name
    return name() if callable(name) else name
