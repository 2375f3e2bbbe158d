"""Small parts of nodes: where they come from, what they hold, whom they call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Where in the user's text something stands: `text[start:end]` of a file."""

    file: str = ""
    line: int = 0
    column: int = 0
    text: str = ""
    start: int = 0
    end: int = 0
    # The calls that led here, outermost last: (function name, range).
    callers: tuple[tuple[str, SourceRange], ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.file else ""


NOWHERE = SourceRange()


@dataclass(slots=True)
class Attribute:
    """A named constant of a node; `letter` says what it is, as in `node.i("value")`."""

    letter: str
    value: Any


@dataclass(slots=True)
class PythonCall:
    """What a `prim::PythonOp` calls: a Function class or a function, and its other arguments."""

    target: Any
    name: str
    convention: str
    constants: tuple[Any, ...] = ()
    module: str = ""
    is_function_class: bool = True


T = TypeVar("T")


class Row(list[T]):
    """Values or blocks: a list of the caller's own, from which `next` takes the first."""

    __slots__ = ()

    def __next__(self) -> T:
        # torch: gives iterators.
        if not self:
            raise StopIteration
        return self.pop(0)
