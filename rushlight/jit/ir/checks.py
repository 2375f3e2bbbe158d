"""`lint`: whether a graph is what `graph` promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.base.errors import fail

if TYPE_CHECKING:
    from rushlight.jit.ir.graph import Block, Graph, Node, Value


def check_graph(graph: Graph) -> None:
    """Raises where a value is used before it is made, a use is not listed, or a name is double."""
    check = Check(graph)
    check.block(graph.top, set())
    for name, value in graph.names.items():
        check.that(value._name == name, f"%{name} is called %{value.debugName()}")
    check.that(
        graph.insert_before is not None and graph.insert_before.graph is graph,
        "the insert point lies in another graph",
    )


class Check:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.seen_nodes: set[Node] = set()
        self.seen_numbers: set[int] = set()

    def that(self, holds: bool, what: str) -> None:
        if not holds:
            fail("RL1412", what=what, graph=self.graph)

    def block(self, block: Block, outside: set[Value]) -> None:
        known = set(outside)
        self.outputs(block.entry, known)
        last = block.exit
        for node in block.nodes():
            self.that(node.block is block, f"a {node._kind} stands in another block than its ring")
            self.that(node.previous is last, f"the ring is broken at a {node._kind}")
            last = node
            self.node(node, known)
        self.that(block.exit.previous is last, "the ring is broken at its end")
        self.uses(block.exit, known)
        self.that(not block.exit._outputs, "a return makes values")

    def node(self, node: Node, known: set[Value]) -> None:
        self.that(node not in self.seen_nodes, f"a {node._kind} stands in two places")
        self.seen_nodes.add(node)
        self.that(node.graph is self.graph, f"a {node._kind} belongs to another graph")
        self.uses(node, known)
        for block in node._blocks:
            self.that(block.owner is node, f"a block of {node._kind} belongs to another node")
            self.block(block, known)
        self.outputs(node, known)
        self.shape(node)

    def uses(self, node: Node, known: set[Value]) -> None:
        for offset, value in enumerate(node._inputs):
            listed = [use for use in value._uses if use.user is node and use.offset == offset]
            self.that(
                value in known, f"%{value.debugName()} is used by {node._kind} before it is made"
            )
            self.that(len(listed) == 1, f"the use of %{value.debugName()} is listed {len(listed)}×")

    def outputs(self, node: Node, known: set[Value]) -> None:
        for offset, value in enumerate(node._outputs):
            self.that(
                value._node is node and value._offset == offset,
                f"%{value.debugName()} does not know where it is made",
            )
            self.that(value._unique not in self.seen_numbers, f"number {value._unique} is double")
            self.seen_numbers.add(value._unique)
            for use in value._uses:
                self.that(
                    use.offset < len(use.user._inputs) and use.user._inputs[use.offset] is value,
                    f"%{value.debugName()} lists a use that is none",
                )
            known.add(value)

    def shape(self, node: Node) -> None:
        """What kinds of nodes with blocks and constants look like."""
        kind, blocks = node._kind, node._blocks
        if kind == "prim::Constant":
            self.that(not node._inputs and len(node._outputs) == 1, "a constant takes nothing")
        elif kind == "prim::If":
            self.that(
                len(node._inputs) == 1 and len(blocks) == 2, "an If has a condition, two arms"
            )
            for block in blocks:
                self.that(not block.inputs(), "an arm of an If takes nothing")
                self.that(
                    len(block.outputs()) == len(node._outputs), "an arm gives what the If gives"
                )
        elif kind == "prim::Loop":
            self.that(
                len(node._inputs) >= 2 and len(blocks) == 1, "a Loop has a count, a condition"
            )
            carried = len(node._outputs)
            self.that(len(node._inputs) == carried + 2, "a Loop starts with what it carries")
            self.that(
                len(blocks[0].inputs()) == carried + 1, "a Loop's body takes index and values"
            )
            self.that(len(blocks[0].outputs()) == carried + 1, "a Loop's body gives the condition")
        else:
            self.that(
                not blocks or kind.startswith(("prim::", "onnx::")), f"{kind} has blocks of its own"
            )
