"""Blocks that become graphs of their own: nodes are moved, nothing is copied."""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node, Use, Value


def graph_of(block: Block) -> tuple[Graph, list[Value]]:
    """The graph that a block becomes, and the values that it uses from outside.

    Those are further inputs of the graph. The block must have been taken off its node.
    """
    move = Move(block)
    return move.graph, list(move.outside)


class Move:
    """One block on its way. Values are named and numbered as copies of them would be."""

    def __init__(self, block: Block) -> None:
        self.graph = Graph()
        self.block = block
        # Value of the graph around -> the input that stands for it.
        self.outside: dict[Value, Value] = {}
        self.graph.top = block
        self.graph.insert_before = block.exit
        block.owner = None
        self.move_block(block)

    def move_block(self, block: Block) -> None:
        block.graph = block.exit.graph = self.graph
        self.move_node(block.entry)
        for node in block.nodes():
            self.capture(node)
            self.move_node(node)
            for inner in node._blocks:
                self.move_block(inner)
        self.capture(block.exit)

    def capture(self, node: Node) -> None:
        """What a node uses from outside becomes an input."""
        graph = self.graph
        for place, value in enumerate(node._inputs):
            if value._node.graph is graph:
                continue
            inner = self.outside.get(value)
            if inner is None:
                inner = self.outside[value] = graph.addInput().copyMetadata(value)
            value._uses.remove(Use(node, place))
            node._inputs[place] = inner
            inner._uses.append(Use(node, place))

    def move_node(self, node: Node) -> None:
        graph = self.graph
        names = node.graph.names
        node.graph = graph
        for value in node._outputs:
            value._unique = graph.next_unique
            graph.next_unique += 1
            name = value._name
            if name:
                del names[name]
                value._name = ""
                value.setDebugName(name)
