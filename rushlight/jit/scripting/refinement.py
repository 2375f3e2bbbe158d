"""What a condition says about the types of variables, when it holds and when it does not."""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.relations import alternatives, union
from rushlight.jit.ir.types import ANY, NONE, Type

Refined = dict[str, Type]


@dataclass(frozen=True, slots=True)
class Refinements:
    """Types of variables where the condition is true, and where it is false."""

    true: Refined = field(default_factory=dict)
    false: Refined = field(default_factory=dict)

    def negated(self) -> Refinements:
        return Refinements(self.false, self.true)

    def both(self, other: Refinements) -> Refinements:
        """Of `self and other`."""
        return Refinements(united(self.true, other.true), common(self.false, other.false))

    def either(self, other: Refinements) -> Refinements:
        """Of `self or other`."""
        return Refinements(common(self.true, other.true), united(self.false, other.false))


def united(first: Refined, second: Refined) -> Refined:
    """All that both say; where they contradict each other, nothing."""
    result = dict(first)
    for name, type_ in second.items():
        if name not in result:
            result[name] = type_
        elif result[name] != type_:
            del result[name]
    return result


def common(first: Refined, second: Refined) -> Refined:
    return {name: type_ for name, type_ in first.items() if second.get(name) == type_}


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: its value, what it says of types, and its outcome where that is known."""

    value: Value
    refinements: Refinements = field(default_factory=Refinements)
    known: bool | None = None


def without_none(type_: Type) -> Type:
    """The type of a value that is known not to be None."""
    parts = [part for part in alternatives(type_) if part is not NONE]
    return union(parts) if parts else NONE


def can_be_none(value: Value) -> str:
    """ "always", "never" or "maybe"."""
    type_ = value.type()
    if value.mustBeNone() or type_ is NONE:
        return "always"
    if type_ is ANY or NONE in alternatives(type_):
        return "maybe"
    return "never"


def split_by_types(type_: Type, wanted: list[Type]) -> tuple[list[Type], list[Type]]:
    """What a value of `type_` can be when it is one of `wanted`, and what it can be otherwise."""
    inside: list[Type] = []
    outside: list[Type] = []
    for part in alternatives(type_):
        if any([part.isSubtypeOf(other) for other in wanted]):
            inside.append(part)
            continue
        narrower = [other for other in wanted if other.isSubtypeOf(part)]
        inside += narrower
        outside.append(part)
    return inside, outside
