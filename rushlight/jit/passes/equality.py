"""Whether two graphs read the same: node by node, into the functions that they call.

Shapes are left aside, and which of several classes of one name is meant. Nothing is copied, so that
a trace that is checked costs little when it is what it should be.
"""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.constants import same_constant
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.types import TensorType, Type
from rushlight.jit.passes.inlining import called
from rushlight.jit.unit import without_mangles


class Comparison:
    """Two programs side by side."""

    def __init__(self) -> None:
        # Graphs that have been compared, by identity.
        self.known: dict[tuple[int, int], bool] = {}

    def graphs(self, a: Graph, b: Graph) -> bool:
        key = (id(a), id(b))
        if key not in self.known:
            # A function that calls itself is as equal as the rest of it.
            self.known[key] = True
            self.known[key] = self.blocks(a.top, b.top, {})
        return self.known[key]

    def blocks(self, a: Block, b: Block, pairs: dict[Value, Value]) -> bool:
        inputs, others = a.inputs(), b.inputs()
        if len(inputs) != len(others) or not self.pair(inputs, others, pairs):
            return False
        first, second = list(a.nodes()), list(b.nodes())
        return (
            len(first) == len(second)
            and all([self.nodes(x, y, pairs) for x, y in zip(first, second)])
            and self.refer(a.exit, b.exit, pairs)
        )

    def nodes(self, a: Node, b: Node, pairs: dict[Value, Value]) -> bool:
        return (
            a._kind == b._kind
            and a.scope == b.scope
            and str(a.source) == str(b.source)
            and len(a._outputs) == len(b._outputs)
            and len(a._blocks) == len(b._blocks)
            and self.refer(a, b, pairs)
            and self.attributes(a, b)
            and all([self.blocks(x, y, pairs) for x, y in zip(a._blocks, b._blocks)])
            and self.pair(a._outputs, b._outputs, pairs)
            and self.callees(a, b)
        )

    def refer(self, a: Node, b: Node, pairs: dict[Value, Value]) -> bool:
        """Whether two nodes have the same inputs."""
        return len(a._inputs) == len(b._inputs) and all(
            [pairs.get(x) is y for x, y in zip(a._inputs, b._inputs)]
        )

    def pair(self, a: list[Value], b: list[Value], pairs: dict[Value, Value]) -> bool:
        pairs.update(zip(a, b))
        return all(
            [
                same_type(x._type, y._type)
                and x.has_name() == y.has_name()
                and (not x.has_name() or x.name_base() == y.name_base())
                for x, y in zip(a, b)
            ]
        )

    def attributes(self, a: Node, b: Node) -> bool:
        if a._attributes.keys() != b._attributes.keys():
            return False
        if (a.python is None) != (b.python is None):
            return False
        if a.python is not None and b.python is not None and a.python.name != b.python.name:
            return False
        return all(
            [
                entry.letter == b._attributes[name].letter
                and self.same_value(entry.value, b._attributes[name].value)
                for name, entry in a._attributes.items()
            ]
        )

    def same_value(self, a: Any, b: Any) -> bool:
        if isinstance(a, Graph) and isinstance(b, Graph):
            return self.graphs(a, b)
        return same_constant(a, b)

    def callees(self, a: Node, b: Node) -> bool:
        mine, other = called(a), called(b)
        if mine is None or other is None:
            return mine is other
        return mine is other or self.graphs(mine.graph, other.graph)


def same_type(a: Type, b: Type) -> bool:
    if a is b or (isinstance(a, TensorType) and isinstance(b, TensorType)):
        return True
    return type(a) is type(b) and without_mangles(a.str()) == without_mangles(b.str())
