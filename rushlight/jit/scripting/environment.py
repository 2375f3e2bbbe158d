"""Variables of a function that is being compiled: frames, one for each block.

A variable that has a value of the graph is written by `prim::Store` and read by `prim::Load`, which
`ssa` takes out when the whole function is known. Others (modules, functions) are held as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.jit.ir.graph import Block, Graph, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import TENSOR, ListType, Type
from rushlight.jit.scripting.matching import convert_value
from rushlight.jit.scripting.names import is_meaningful
from rushlight.jit.scripting.sources import fail_at

if TYPE_CHECKING:
    from rushlight.jit.scripting.values import Sugared

EMPTY_LIST_ADVICE = (
    "Empty lists default to List[Tensor]. Add a variable annotation to the assignment to create "
    "an empty list of another type (torch.jit.annotate(List[T, []]) where T is the type of "
    "elements in the list for Python 2)"
)


def insert_load(graph: Graph, name: str, type_: Type) -> Value:
    node = graph.insertNode(graph.create("prim::Load").write("s", "name", name))
    return node.output().setType(type_)


def insert_named_load(graph: Graph, name: str, type_: Type) -> Value:
    value = insert_load(graph, name, type_)
    return value.setDebugName(name) if is_meaningful(name) else value


def insert_store(graph: Graph, name: str, value: Value) -> None:
    graph.insertNode(graph.create("prim::Store", [value], 0).write("s", "name", name))


class Frame:
    """What a block defines; what it does not, its outer frame may."""

    def __init__(self, block: Block, outer: Frame | None) -> None:
        self.block = block
        self.outer = outer
        self.sugared: dict[str, Sugared] = {}
        self.types: dict[str, Type] = {}
        # Variables that cannot be read, and how to say why.
        self.errors: dict[str, Callable[[], str]] = {}

    def defined(self) -> list[str]:
        return sorted([*self.sugared, *self.types])

    def find_here(self, name: str) -> Sugared | None:
        from rushlight.jit.scripting.values import SimpleValue

        if name in self.sugared:
            return self.sugared[name]
        if name in self.types:
            return SimpleValue(insert_named_load(self.block.graph, name, self.types[name]))
        return None

    def find(self, name: str) -> Sugared | None:
        frame: Frame | None = self
        while frame is not None:
            found = frame.find_here(name)
            if found is not None:
                return found
            frame = frame.outer
        return None

    def knows(self, name: str) -> bool:
        """Whether a name is bound here or outside."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.sugared or name in frame.types:
                return True
            frame = frame.outer
        return False

    def find_error(self, name: str) -> str | None:
        frame: Frame | None = self
        while frame is not None:
            if name in frame.errors:
                return frame.errors[name]()
            frame = frame.outer
        return None

    def remove(self, name: str) -> bool:
        """Makes a name unknown here and outside; whether it was known."""
        known = False
        frame: Frame | None = self
        while frame is not None:
            known = (frame.sugared.pop(name, None) is not None) or known
            known = (frame.types.pop(name, None) is not None) or known
            frame = frame.outer
        return known

    def set_type(self, name: str, type_: Type) -> None:
        self.types[name] = type_
        self.sugared.pop(name, None)

    def set(
        self, place: SourceRange, name: str, value: Sugared, annotated: Type | None = None
    ) -> None:
        """Binds a name; an outer variable keeps its type."""
        simple = value.simple()
        if (
            simple is not None
            and not simple.has_name()
            and is_meaningful(name)
            and simple.node().owningBlock() is self.block
        ):
            simple.setDebugName(name)
        outer = self.outer.find(name) if self.outer is not None else None
        if outer is not None:
            simple = self.check_outer(place, name, value, outer, annotated)
        self.errors.pop(name, None)
        if simple is None:
            self.types.pop(name, None)
            self.sugared[name] = value
            return
        if annotated is not None and not simple.type().isSubtypeOf(annotated):
            fail_at(
                place,
                f"Variable '{name}' is annotated with type {annotated.annotation_str} but is being "
                f"assigned to a value of type {simple.type().annotation_str}",
            )
        insert_store(self.block.graph, name, simple)
        self.set_type(name, annotated or simple.type())

    def check_outer(
        self, place: SourceRange, name: str, value: Sugared, outer: Sugared, annotated: Type | None
    ) -> Value:
        if annotated is not None:
            fail_at(
                place,
                f"Attempting to declare and annotate the type of variable '{name}' that is already "
                "defined in an outer block",
            )
        simple, before = value.simple(), outer.simple()
        if simple is None:
            fail_at(
                place,
                f"Cannot re-assign '{name}' to a value of type {value.kind()} because {name} is "
                "not a first-class value.  Only reassignments to first-class values are allowed",
            )
        if before is None:
            fail_at(
                place,
                f"Cannot re-assign '{name}' because it has type {outer.kind()} and {name} is not a "
                "first-class value.  Only reassignments to first-class values are allowed",
            )
        wanted = before.type()
        simple = convert_value(self.block.graph, place, wanted, simple)
        if not simple.type().isSubtypeOf(wanted):
            message = (
                f"Variable '{name}' previously had type {wanted.annotation_str} but is now being "
                f"assigned to a value of type {simple.type().annotation_str}\n"
            )
            if wanted == ListType(TENSOR) and isinstance(simple.type(), ListType):
                message += EMPTY_LIST_ADVICE
            fail_at(place, message)
        return simple
