"""What to save for backward: a minimum cut over the bytes of forward values.

A value is worth computing again where that is cheap (elementwise ops, views, fresh constants) and
it is computed from values that are kept anyway. Everything else is saved at the cost of its bytes.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from rushlight.aot import config
from rushlight.core.hop import HigherOrderOperator
from rushlight.core.op import OpOverload
from rushlight.core.tensor import Tensor, sizes_of
from rushlight.fx.passes.dialect.common.cse_pass import is_seeded, writes
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.symbolic.numbers import NUMBERS
from rushlight.symbolic.queries import hint_int

__all__ = ["choose_saved", "kept_for", "minimum_cut", "region_of"]

# Where values flow: the two sides of each node, between the source and the sink.
Vertex = tuple[Node, str] | str
INFINITE = float("inf")
# How much a value gains in weight with each step that separates it from its use in the backward.
STEP_WEIGHT = 1.1
# A value that would not have been written to memory but for the backward counts double.
FUSED_WEIGHT = 2
# An input that is written after it was saved is of no use: only if there is nothing else.
WRITTEN_WEIGHT = 1e9


def is_cheap(node: Node) -> bool:
    """Whether a node may be computed again."""
    if node.op == "get_attr" or node.target is operator.getitem:
        return True
    if node.op != "call_function" or is_seeded(node) or writes(node):
        return False
    target = node.target
    if isinstance(target, HigherOrderOperator):
        return False
    if not isinstance(target, OpOverload):
        # Arithmetic on sizes.
        return True
    return bool(target.recompute)


# -- checkpointed regions --------------------------------------------------------------------------


def must_recompute(node: Node) -> bool:
    """Whether a checkpointed region wants a value computed again. Random numbers are kept, as is
    what one region takes from another."""
    policy, region = region_of(node)
    if policy is None or "RECOMPUTE" not in policy.name or is_seeded(source_of(node)):
        return False
    others = [region_of(user) for user in node.users if user.op == "call_function"]
    return all(number is None or number <= region for _, number in others)


def must_save(node: Node) -> bool:
    """Whether a checkpointed region wants a value kept."""
    policy, _ = region_of(node)
    return policy is not None and not must_recompute(node)


def source_of(node: Node) -> Any:
    """The call that a member of a tuple belongs to."""
    found: Any = node
    while found.target is operator.getitem:
        found = found.args[0]
    return found


def region_of(node: Node) -> tuple[Any, Any]:
    """(what the policy said, number) of the region that a node was made in."""
    meta = source_of(node).meta
    return meta.get("recompute"), meta.get("ac_graph_id")


def kept_for(nodes: Iterable[Node]) -> list[Node]:
    """What to save for values of the forward, if checkpointed ones are computed again."""
    found: dict[Node, None] = {}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop(0)
        if must_recompute(node):
            waiting = [*node.all_input_nodes, *waiting]
        elif node.op != "get_attr":
            found[node] = None
    return list(found)


def is_view(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and bool(node.target.is_view_op)


def size_in_bytes(node: Node) -> float:
    value = node.meta.get("val")
    if isinstance(value, NUMBERS) or value is None or isinstance(value, (int, float, bool)):
        return 1.0
    if isinstance(value, Tensor):
        count = 1
        for size in sizes_of(value):
            count *= hint_int(size, fallback=4096)
        return float(max(count * value._dtype.itemsize, 1))
    return INFINITE


def steps_to_backward(graph: Graph, forward: set[Node]) -> dict[Node, int]:
    """How many nodes lie between a forward value and its nearest use in the backward."""
    distance: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        if node.op == "output" or node not in forward:
            distance[node] = 0 if node.op != "output" else 10**9
        else:
            distance[node] = min([distance[user] + 1 for user in node.users], default=10**9)
    return distance


def choose_saved(
    graph: Graph,
    forward: set[Node],
    backward: set[Node],
    primals: set[Node],
    backward_outputs: Sequence[Any],
) -> list[Node]:
    """The forward values to save, in the order of the graph."""
    distance = steps_to_backward(graph, forward)
    edges: list[tuple[Vertex, Vertex, float]] = []
    gradients = {node for node in backward_outputs if isinstance(node, Node)}
    for node in graph.nodes:
        if node.op == "output" or node not in forward:
            continue
        enter, leave = (node, "in"), (node, "out")
        again = must_recompute(node)
        if node in primals or must_save(node) or not (again or is_cheap(node)):
            edges.append(("source", enter, INFINITE))
        edges.append((enter, leave, INFINITE if again else weight_of(node, distance)))
        if node in gradients:
            edges.append((leave, "sink", INFINITE))
        for user in node.users:
            if user in backward:
                edges.append((leave, "sink", INFINITE))
            elif user in forward:
                edges.append((leave, (user, "in"), INFINITE))
    reached = minimum_cut(edges, "source", "sink")
    return [
        node
        for node in graph.nodes
        if node in forward and (node, "in") in reached and (node, "out") not in reached
    ]


def weight_of(node: Node, distance: dict[Node, int]) -> float:
    size = size_in_bytes(node)
    if size == INFINITE or (config.recompute_views and is_view(node)):
        return INFINITE
    size = float(int(size * STEP_WEIGHT ** max(min(distance[node], 100), 1)))
    if is_of_written(node):
        return size * WRITTEN_WEIGHT
    if node.op == "placeholder" or isinstance(node.meta.get("val"), NUMBERS):
        return size
    fused = all(is_cheap(user) for user in node.users if user.op != "output")
    return size * FUSED_WEIGHT if fused else size


def is_of_written(node: Node) -> bool:
    """Whether a value lies in the memory of an input that is written."""
    while (is_view(node) or node.target is operator.getitem) and isinstance(node.args[0], Node):
        node = node.args[0]
    return bool(node.meta.get("is_written"))


# -- maximum flow ----------------------------------------------------------------------------------


def minimum_cut(
    edges: Iterable[tuple[Vertex, Vertex, float]], source: Vertex, sink: Vertex
) -> set[Vertex]:
    """The vertices on the source's side of a minimum cut (Dinic's algorithm)."""
    flow = Flow(edges)
    flow.saturate(source, sink)
    return flow.levels(source).keys() | {source}


class Flow:
    """A residual network: each edge lies beside its reverse."""

    def __init__(self, edges: Iterable[tuple[Vertex, Vertex, float]]) -> None:
        self.outgoing: dict[Vertex, list[int]] = {}
        self.heads: list[Vertex] = []
        self.room: list[float] = []
        for tail, head, capacity in edges:
            for vertex, other, amount in ((tail, head, capacity), (head, tail, 0.0)):
                self.outgoing.setdefault(vertex, []).append(len(self.heads))
                self.heads.append(other)
                self.room.append(amount)

    def levels(self, source: Vertex) -> dict[Vertex, int]:
        """Distances from the source over edges with room."""
        found = {source: 0}
        waiting = deque([source])
        while waiting:
            vertex = waiting.popleft()
            for edge in self.outgoing.get(vertex, ()):
                head = self.heads[edge]
                if self.room[edge] > 0 and head not in found:
                    found[head] = found[vertex] + 1
                    waiting.append(head)
        return found

    def saturate(self, source: Vertex, sink: Vertex) -> None:
        while True:
            levels = self.levels(source)
            if sink not in levels:
                return
            next_edge = dict.fromkeys(levels, 0)
            while self.push(source, sink, levels, next_edge):
                pass

    def push(
        self, source: Vertex, sink: Vertex, levels: dict[Vertex, int], next_edge: dict[Vertex, int]
    ) -> bool:
        """Send flow along one shortest path; False when there is none left."""
        path: list[int] = []
        vertex = source
        while vertex != sink:
            edges = self.outgoing[vertex]
            advanced = False
            while next_edge[vertex] < len(edges):
                edge = edges[next_edge[vertex]]
                head = self.heads[edge]
                if self.room[edge] > 0 and levels.get(head) == levels[vertex] + 1:
                    path.append(edge)
                    vertex = head
                    advanced = True
                    break
                next_edge[vertex] += 1
            if not advanced:
                if not path:
                    return False
                edge = path.pop()
                vertex = self.heads[edge ^ 1]
                next_edge[vertex] += 1
        amount = min(self.room[edge] for edge in path)
        if amount == INFINITE:
            raise RuntimeError("a value that the backward needs can neither be saved nor computed")
        for edge in path:
            self.room[edge] -= amount
            self.room[edge ^ 1] += amount
        return True
