"""Passes over the graphs of programs."""

from __future__ import annotations

from typing import Any

from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.state import changed
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["GraphRebuilding"]


class GraphRebuilding:
    """A pass that runs every node on fakes and makes the graph anew of what it ran."""

    def call(self, graph_module: GraphModule) -> PassResult:
        source = graph_module.graph
        graph = Graph()
        graph.set_codegen(source._codegen)
        values: dict[Node, Node] = {}
        inputs = [node.meta["val"] for node in source.nodes if node.op == "placeholder"]
        mode = mode_of(inputs)
        shapes = Shapes(graph_module)
        with changed(grad=False), mode:
            shapes.run(*inputs, enable_io_processing=False)
        for node in source.nodes:
            made = values[node] = graph.node_copy(node, lambda used: values[used])
            if node in shapes.found and node.op == "call_function":
                made.meta["val"] = shapes.found[node]
        return PassResult(GraphModule(graph_module, graph), True)

    def __call__(self, graph_module: GraphModule) -> PassResult:
        return self.call(graph_module)


class Shapes(Interpreter):
    """Keeps the value of every node."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.found: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        self.found[n] = super().run_node(n)
        return self.found[n]


def mode_of(values: list[Any]) -> FakeTensorMode:
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return FakeTensorMode(allow_non_fake_inputs=True)
