"""The order of what the branches of `cond` close over: by name, before the operands.

What only one branch uses comes last, that of the first branch first.
"""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.graph.node import Node
from rushlight.higher_order.cond import cond_op

__all__ = ["order_captured"]


def order_captured(module: GraphModule, names: dict[Node, str]) -> None:
    """Order captured operands in a graph and in the graphs that it calls. `names` are those that
    inputs have in the end."""
    for member in module.modules():
        if not isinstance(member, GraphModule):
            continue
        calls = [n for n in member.graph.nodes if n.target is cond_op]
        for node in calls:
            order_call(member, node, names)
        if calls:
            member.recompile()


def order_call(module: GraphModule, node: Node, names: dict[Node, str]) -> None:
    count = node.meta.pop("captured", 0)
    if not count:
        return
    pred, true_graph, false_graph, operands = node.args
    graphs: Any = [getattr(module, str(part.target)) for part in (true_graph, false_graph)]
    inputs = [[n for n in graph.graph.nodes if n.op == "placeholder"] for graph in graphs]
    given: Any = list(operands)
    explicit = list(range(len(given) - count))
    groups: dict[tuple[bool, bool], list[int]] = {}
    for place in range(len(given) - count, len(given)):
        used = bool(inputs[0][place].users), bool(inputs[1][place].users)
        groups.setdefault(used, []).append(place)

    def by_name(place: int) -> str:
        value = given[place]
        return names.get(value, value.name) if isinstance(value, Node) else ""

    def group(*used: bool) -> list[int]:
        return sorted(groups.get((used[0], used[1]), []), key=by_name)

    order = [
        *group(True, True), *explicit, *group(True, False), *group(False, True),
        *group(False, False),
    ]  # fmt: skip
    node.args = (pred, true_graph, false_graph, [given[place] for place in order])
    for graph, placeholders in zip(graphs, inputs, strict=True):
        rest = next(n for n in graph.graph.nodes if n.op != "placeholder")
        for place in order:
            rest.prepend(placeholders[place])
        graph.recompile()
