"""Whether a graph that is run once more on the same inputs surely gives the same."""

from __future__ import annotations

from rushlight.jit.ir.aliasing import written_values
from rushlight.jit.ir.graph import Graph, Node
from rushlight.jit.ir.operators import constant_argument, is_random, match_node
from rushlight.jit.passes.inlining import called

# Flags of layers that, while they train, draw numbers or keep what they have seen: their schemas
# do not say so.
TRAINING = ("train", "training", "use_input_stats")


def is_settled(graph: Graph) -> bool:
    """Whether nothing in a graph, or in what it calls, draws, writes or does anything else."""
    return Settling().holds(graph)


class Settling:
    def __init__(self) -> None:
        # Graphs that have been looked at, or are being, by identity.
        self.known: dict[int, bool] = {}

    def holds(self, graph: Graph) -> bool:
        key = id(graph)
        if key not in self.known:
            self.known[key] = True
            self.known[key] = all([self.node_holds(node) for node in graph.all_nodes()])
        return self.known[key]

    def node_holds(self, node: Node) -> bool:
        kind = node.kind()
        if kind == "prim::Constant" or kind == "prim::GetAttr":
            return True
        callee = called(node)
        if callee is not None:
            return self.holds(callee.graph)
        if node.hasSideEffects() or node.hasAttribute("Subgraph") or written_values(node):
            return False
        if kind.startswith("prim::"):
            return True
        return kind.startswith("aten::") and not is_random(node) and not trains(node)


def trains(node: Node) -> bool:
    """Whether a layer may be told that it trains."""
    operator = match_node(node)
    assert operator is not None
    for name in TRAINING:
        if any([argument.name == name for argument in operator.schema.arguments]):
            flag = constant_argument(node, operator, name)
            if flag is None or flag.toIValue():
                return True
    return False
