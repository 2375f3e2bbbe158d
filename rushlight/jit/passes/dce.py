"""`dce`: nodes whose results nobody uses are taken out.

A node stays where it prints, raises, draws from outside, or writes to what somebody can still see.
"""

from __future__ import annotations

from rushlight.jit.ir.aliasing import Aliases, written_values
from rushlight.jit.ir.graph import Block, Graph, Node, Value


def eliminate_dead_code(graph: Graph, delete_side_effects: bool = False) -> None:
    """Takes out what no output depends on; `delete_side_effects`: also what prints or raises."""
    Elimination(graph, delete_side_effects).run()


class Elimination:
    def __init__(self, graph: Graph, delete_side_effects: bool) -> None:
        self.graph = graph
        self.delete_side_effects = delete_side_effects
        self.aliases = Aliases(graph)
        self.live_nodes: set[Node] = set()
        self.live_values: set[Value] = set()
        self.live_roots: set[Value | str] = {self.aliases.root("OUTSIDE")}

    def run(self) -> None:
        self.mark_returned(self.graph.top)
        while self.mark_block(self.graph.top):
            pass
        self.sweep(self.graph.top)

    def mark_returned(self, block: Block) -> None:
        for value in block.outputs():
            self.mark_value(value)

    def mark_value(self, value: Value) -> None:
        if value not in self.live_values:
            self.live_values.add(value)
            self.live_roots.add(self.aliases.root(value))

    def mark_block(self, block: Block) -> bool:
        """Marks what is live, last node first; whether anything new was found."""
        found = False
        for node in block.reversed_nodes():
            if node not in self.live_nodes and self.is_live(node):
                self.mark_node(node)
                found = True
            if node in self.live_nodes:
                for inner in node._blocks:
                    found = self.mark_block(inner) or found
                if node._kind == "prim::Loop":
                    found = self.mark_carried(node) or found
                elif node._kind == "prim::If":
                    found = self.mark_arms(node) or found
        return found

    def is_live(self, node: Node) -> bool:
        if any([value in self.live_values for value in node._outputs]):
            return True
        if any([self.has_live(block) for block in node._blocks]):
            return True
        if node._kind == "prim::Constant":
            return False
        if not self.delete_side_effects and node.hasSideEffects():
            return True
        return any([self.aliases.root(value) in self.live_roots for value in written_values(node)])

    def has_live(self, block: Block) -> bool:
        """Whether a node inside must stay for what it does."""
        return any([self.is_live(node) for node in block.nodes()])

    def mark_node(self, node: Node) -> None:
        self.live_nodes.add(node)
        if node._kind in ("prim::If", "prim::Loop"):
            # Of these, what is carried is marked output by output.
            for value in node._inputs[: 1 if node._kind == "prim::If" else 2]:
                self.mark_value(value)
            if node._kind == "prim::Loop":
                self.mark_value(node._blocks[0].outputs()[0])
            return
        for value in node._inputs:
            self.mark_value(value)
        for block in node._blocks:
            self.mark_returned(block)

    def mark_arms(self, node: Node) -> bool:
        before = len(self.live_values)
        for place, value in enumerate(node._outputs):
            if value in self.live_values:
                for block in node._blocks:
                    self.mark_value(block.exit._inputs[place])
        return len(self.live_values) > before

    def mark_carried(self, node: Node) -> bool:
        """A value that is carried lives if it is used after the loop or inside of it."""
        before = len(self.live_values)
        body = node._blocks[0]
        for place, value in enumerate(node._outputs):
            inner = body.entry._outputs[place + 1]
            if value in self.live_values or inner in self.live_values:
                for each in (
                    value,
                    inner,
                    body.exit._inputs[place + 1],
                    node._inputs[place + 2],
                ):
                    self.mark_value(each)
        return len(self.live_values) > before

    def sweep(self, block: Block) -> None:
        for node in block.reversed_nodes():
            if node not in self.live_nodes:
                self.remove(node)
                continue
            dead: list[int] = []
            if node._kind in ("prim::If", "prim::Loop"):
                dead = self.drop_outputs(node)
            for inner in node._blocks:
                self.sweep(inner)
            if node._kind == "prim::Loop":
                for place in dead:
                    # Who used it inside is gone by now.
                    node.removeInput(place + 2)
                    node._blocks[0].eraseInput(place + 1)

    def remove(self, node: Node) -> None:
        for value in node._outputs:
            # Dead users inside the same dead region go with it.
            for use in value.uses():
                if use.user in self.live_nodes or use.user._kind == "prim::Return":
                    raise AssertionError(f"a live node uses what a dead {node._kind} makes")
        node.destroy()

    def drop_outputs(self, node: Node) -> list[int]:
        """Takes out what an If or a Loop gives and nobody uses; the places, last one first."""
        first = 1 if node._kind == "prim::Loop" else 0
        places = range(len(node._outputs) - 1, -1, -1)
        dead = [place for place in places if node._outputs[place] not in self.live_values]
        for place in dead:
            node.eraseOutput(place)
            for block in node._blocks:
                block.eraseOutput(place + first)
        return dead
