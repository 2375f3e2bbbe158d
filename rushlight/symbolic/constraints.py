"""What a program's caller says of its inputs' sizes, as data: dims, their roots, what follows.

A `Declaration` is made when the inputs get their symbols; `solving` compares it with what tracing
found. Invariant: the order of dims is that of the inputs, and every text follows that order.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rushlight.symbolic.ranges import ValueRanges, int_oo

if TYPE_CHECKING:
    from rushlight.symbolic.guards import RuntimeAssert
    from rushlight.symbolic.protocols import Expr, Symbol


@dataclass(frozen=True)
class StrictMinMaxConstraint:
    """A size may be any number of a range; a condition that excludes one is an error."""

    vr: ValueRanges
    warn_only: bool = False


@dataclass(frozen=True)
class RelaxedUnspecConstraint:
    """A size may vary; it is an error only that it is one number."""

    warn_only: bool = False


class Role(enum.Enum):
    """How a dimension was declared."""

    AUTO = "auto"  # anything may come out
    DYNAMIC = "dynamic"  # anything but a constant
    NAMED = "named"  # exactly what was said


@dataclass(frozen=True)
class DeclaredDim:
    """A dimension that may vary: `factor * root + offset` where it is named."""

    source: str
    path: str
    size: int
    role: Role
    expr: Expr
    name: str = ""
    root: str = ""
    factor: int = 1
    offset: int = 0
    lower: float = 0
    upper: float = int_oo

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.name or self.source

    @property
    def display(self) -> str:
        return f"{self.name} = {self.source}" if self.name else self.source


@dataclass
class Root:
    """A name that dims are made from. Without a source no dimension is exactly it."""

    name: str
    lower: float
    upper: float
    value: int
    expr: Expr
    source: str = ""


@dataclass
class Declaration:
    """All dims that may vary, and the ranges their symbols had before tracing."""

    dims: list[DeclaredDim] = field(default_factory=list)
    roots: dict[str, Root] = field(default_factory=dict)
    domains: dict[Expr, ValueRanges] = field(default_factory=dict)

    def dims_of(self, root: str) -> Iterator[DeclaredDim]:
        return (dim for dim in self.dims if dim.root == root)

    def least_dim(self, root: str) -> DeclaredDim:
        """The dim of a root that is smallest in the example: others are said in terms of it."""
        return min(self.dims_of(root), key=lambda dim: dim.size)

    def display(self, root: str) -> str:
        """A root with where it is read; a root that is no dimension by its first dim."""
        if self.roots[root].source:
            return f"{root} = {self.roots[root].source}"
        return next(self.dims_of(root)).display


@dataclass(frozen=True)
class Solution:
    """What is known of the inputs' sizes once a program is traced.

    `ranges` maps the expressions of dimensions, and their symbols, to the values they may have.
    `conditions` are to be checked when the program is called: no dim can say them.
    """

    ranges: dict[Expr, ValueRanges]
    conditions: list[RuntimeAssert]


def readers(declaration: Declaration) -> dict[Symbol, str]:
    """The text that reads each symbol of the inputs' sizes."""
    found: dict[Symbol, str] = {}
    for dim in declaration.dims:
        if dim.expr.is_Symbol:
            found.setdefault(dim.expr, dim.source)  # type: ignore[arg-type]
    for root in declaration.roots.values():
        if root.expr.is_Symbol:
            found.setdefault(root.expr, root.source or root.name)  # type: ignore[arg-type]
    return found
