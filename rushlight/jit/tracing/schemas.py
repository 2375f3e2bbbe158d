"""The signature of a function that is known by its graph alone."""

from __future__ import annotations

from rushlight.jit.ir.graph import Graph
from rushlight.jit.ir.relations import without_facts
from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return


def default_schema(name: str, graph: Graph) -> FunctionSchema:
    """Arguments by the names of the inputs, without what is known of the example's tensors."""
    arguments = []
    for place, value in enumerate(graph.inputs()):
        shown = value.name_base() or f"argument_{place}"
        arguments.append(Argument(shown, without_facts(value.type())))
    returns = [Return(without_facts(value.type())) for value in graph.outputs()]
    return FunctionSchema(name, tuple(arguments), tuple(returns))
