"""Sets of nodes become calls of modules of their own."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.tools_common import validate_partition
from rushlight.fx.passes.utils.common import lift_subgraph_as_module
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = [
    "erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort",
    "validate_partition",
]  # fmt: skip

Lookup = dict[Node, int | None]


def topo_sort(nodes: Iterable[Node]) -> list[Node]:
    """Nodes of one graph in an order in which each comes after what it uses."""
    chosen = list(nodes)
    waiting = {node: {n for n in node.all_input_nodes if n in set(chosen)} for node in chosen}
    ordered: list[Node] = []
    while waiting:
        ready = [node for node in waiting if not waiting[node]]
        if not ready:
            raise AssertionError("the given nodes use one another in a circle")
        for node in ready:
            del waiting[node]
            ordered.append(node)
            for others in waiting.values():
                others.discard(node)
    return ordered


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: list[Node],
    module_name: str,
    partition_lookup_table: Lookup | None = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """(a module of these nodes, what goes into it, what is used of it)."""
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node not in gm.graph.nodes:
            raise AssertionError(f"{node} is not found in graph module {gm._get_name()}")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes)
    graph = Graph()
    copies: dict[Node, Node] = {}
    inputs: list[Node] = []

    def copy_of(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node.op == "get_attr":
            copies[node] = graph.node_copy(node)
        else:
            inputs.append(node)
            copies[node] = graph.placeholder(node.name, type_expr=node.type)
            copies[node].meta.update(node.meta)
        return copies[node]

    for node in nodes:
        # Inputs come first in the new graph.
        for given in node.all_input_nodes:
            if given not in inside:
                copy_of(given)
    for node in nodes:
        copies[node] = graph.node_copy(node, copy_of)
    used = {n: [user for user in n.users if user not in inside] for n in nodes}
    outputs = [node for node in nodes if used[node]]
    results = [copies[node] for node in outputs]
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else tuple(results))
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Let a call of `sub_gm` stand for nodes of `gm`, after the given node or before the first use
    of its results."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        insertion_point = max(orig_outputs)
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, orig_inputs)
    single = not isinstance(sub_gm.graph.output_node().args[0], tuple)
    if single and len(orig_outputs) == 1:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    last = call
    for position, output in enumerate(orig_outputs):
        with gm.graph.inserting_after(last):
            last = gm.graph.call_function(operator.getitem, (call, position))
        output.replace_all_uses_with(last, propagate_meta=True)
    call.meta["val"] = tuple([output.meta.get("val") for output in orig_outputs])
    return gm


def erase_nodes(gm: GraphModule, nodes: Iterable[Node]) -> None:
    """Remove nodes that nothing uses any more, the last first."""
    for node in reversed(list(nodes)):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[Lookup],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Each set of nodes becomes a call of a module `prefix` + its number."""
    for number, partition in enumerate(partitions):
        ordered = topo_sort(sorted(partition))
        made, inputs, outputs = fuse_as_graphmodule(
            gm, ordered, f"{prefix}{number}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, made, inputs, outputs, ordered[-1])
        erase_nodes(gm, ordered)
    place_in_order(gm.graph)
    gm.graph.lint()
    gm.recompile()
    return gm


def place_in_order(graph: Graph) -> None:
    """Put every node after what it uses, and otherwise where it is."""
    placed: set[Node] = set()

    def place(node: Node) -> None:
        if node in placed:
            return
        placed.add(node)
        for given in node.all_input_nodes:
            place(given)
        order.append(node)

    order: list[Any] = []
    for node in list(graph.nodes):
        place(node)
    for before, node in pairwise(order):
        before.append(node)
