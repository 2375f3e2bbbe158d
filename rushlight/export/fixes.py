"""Suggested fixes of an error text, put into a `dynamic_shapes` specification."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rushlight.export.dimensions import Dim, refuse
from rushlight.export.shapes import dims_in

__all__ = ["refine_dynamic_shapes_from_suggested_fixes"]

HEADER = "Suggested fixes:"
RANGE = re.compile(r"(\w+) = Dim\('\w+'(?:, min=(\d+))?(?:, max=(\d+))?\)")
NUMBER = re.compile(r"(\w+) = (\d+)")
RELATION = re.compile(r"(\w+) = (?:(\d+)\*)?([A-Za-z_]\w*)(?: ([+-]) (\d+))?")


class Relation(NamedTuple):
    """`factor * base + offset`."""

    base: str
    factor: int
    offset: int


class Fixes:
    """The lines of a text, by the name that each is for."""

    def __init__(self, text: str) -> None:
        self.bounds: dict[str, tuple[int | None, int | None]] = {}
        self.numbers: dict[str, int] = {}
        self.relations: dict[str, Relation] = {}
        for line in text.splitlines():
            self.read(line.strip())

    def read(self, line: str) -> None:
        if found := RANGE.fullmatch(line):
            name, lower, upper = found.groups()
            self.bounds[name] = (lower and int(lower), upper and int(upper))  # type: ignore[assignment]
        elif found := NUMBER.fullmatch(line):
            self.numbers[found[1]] = int(found[2])
        elif found := RELATION.fullmatch(line):
            name, factor, base, sign, offset = found.groups()
            shift = int(offset or 0) * (-1 if sign == "-" else 1)
            self.relations[name] = Relation(base, int(factor or 1), shift)

    def names(self) -> set[str]:
        return {*self.bounds, *self.numbers, *self.relations}


class Refinement:
    """New dims for the names of a specification."""

    def __init__(self, fixes: Fixes, known: Mapping[str, Dim]) -> None:
        self.fixes = fixes
        self.known = known
        self.roots: dict[str, Dim] = {}

    def root(self, name: str) -> Dim:
        """A root as the fixes have it. A minimum that is not written is 2, the least size that
        tracing reasons about, unless the root had a lower one and may keep it."""
        if name not in self.roots:
            before = self.known.get(name)
            lower, upper = self.fixes.bounds.get(name, (None, None))
            if name not in self.fixes.bounds and before is not None:
                self.roots[name] = before
            else:
                if lower is None:
                    lower = 2 if before is None else before.min
                self.roots[name] = Dim(name, min=lower, max=upper)
        return self.roots[name]

    def dim(self, name: str) -> int | Dim:
        """What a root of the specification is now."""
        if name in self.fixes.numbers:
            return self.fixes.numbers[name]
        relation = self.fixes.relations.get(name)
        if relation is None:
            return self.root(name)
        return self.root(relation.base).derive(relation.factor, relation.offset)

    def apply(self, part: Any) -> Any:
        """A specification, or a part of one, with the fixes in it."""
        if isinstance(part, Dim):
            found = self.dim(part.root.__name__)
            if isinstance(found, int):
                return part.factor * found + part.offset
            return found.derive(part.factor, part.offset)
        if isinstance(part, dict):
            return type(part)({key: self.apply(value) for key, value in part.items()})
        if isinstance(part, (list, tuple)):
            return type(part)([self.apply(value) for value in part])
        return part


def refine_dynamic_shapes_from_suggested_fixes(
    msg: str, dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any]
) -> Any:
    """The specification with the fixes that an error text of `export` suggests.

    >>> from rushlight.export import Dim, refine_dynamic_shapes_from_suggested_fixes
    >>> text = "... Suggested fixes:\\n  dx = Dim('dx', max=6)\\n  dy = dx + 1"
    >>> refine_dynamic_shapes_from_suggested_fixes(text, {"x": (Dim("dx"),), "y": (Dim("dy"),)})
    {'x': (Dim('dx', min=0, max=6),), 'y': (dx + 1,)}
    """
    _, header, text = msg.partition(HEADER)
    if not header:
        refuse("RL1549")
    fixes = Fixes(text)
    known = dims_in(dynamic_shapes)
    used = {*known, *(relation.base for relation in fixes.relations.values())}
    for name in sorted(fixes.names() - used):
        raise AssertionError(f"The suggested fix of {name!r} is for no dim of dynamic_shapes")
    return Refinement(fixes, known).apply(dynamic_shapes)
