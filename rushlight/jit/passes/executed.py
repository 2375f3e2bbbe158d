"""The graph that runs: what `graph_for` shows.

Calls are expanded, numbers that stood for tensors are plain numbers, and equal constants are one.
"""

from __future__ import annotations

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.numbers import is_wrapped_number, unwrapped_number
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.passes.inlining import inline_calls
from rushlight.jit.passes.simple import erase_shapes, pool_constants


def executed_graph(graph: Graph) -> Graph:
    """A copy of a graph as it runs."""
    copy = graph.copy()
    inline_calls(copy)
    erase_shapes(copy)
    unwrap_numbers(copy)
    pool_constants(copy)
    eliminate_dead_code(copy)
    return copy


def unwrap_numbers(graph: Graph) -> None:
    """Tensors that stand for numbers become the numbers."""
    for node in list(graph.all_nodes()):
        if node.kind() != "prim::Constant":
            continue
        held = node.constant_value()
        if is_wrapped_number(held):
            with graph.insert_point_guard(node):
                number = graph.insertConstant(unwrapped_number(held), node.source)
            node.output().replaceAllUsesWith(number)
            node.destroy()
