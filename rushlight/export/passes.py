"""Passes over the graphs of programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.base.pytree import tree_map
from rushlight.core.device import device
from rushlight.core.fake import FakeTensor, FakeTensorMode
from rushlight.core.op import find_overload
from rushlight.core.parameter import Parameter
from rushlight.core.state import changed
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.passes.infra.pass_base import PassResult
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

if TYPE_CHECKING:
    from rushlight.export.program import ExportedProgram

__all__ = ["GraphRebuilding", "move_to_device_pass"]


class Moving:
    """What holds tensors, with those on other devices; None of a device is none."""

    def __init__(self, location: Any) -> None:
        self.location = location

    def place(self, now: Any) -> device | None:
        if now is None:
            return None
        found = self.location
        if isinstance(found, dict):
            found = found.get(str(now), now)
        return device(str(found))

    def moved(self, value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        there: Any = value.to(self.place(value.device))
        if isinstance(value, Parameter) and there is not value:
            return Parameter(there.detach(), value.requires_grad)
        return there

    def move_node(self, node: Node) -> None:
        if "device" in node.kwargs:
            node.kwargs = {**node.kwargs, "device": self.place(node.kwargs["device"])}
        if node.target is find_overload("aten", "to", "device"):
            node.args = (node.args[0], self.place(node.args[1]), *node.args[2:])
        if "val" in node.meta:
            node.meta["val"] = tree_map(self.moved, node.meta["val"])


def move_to_device_pass(ep: ExportedProgram, location: Any) -> ExportedProgram:
    """A program that runs on another device. `location` is a device, or a dict from devices that
    it runs on to others. The program itself is changed."""
    moving = Moving(location)
    for held in (ep._state_dict, ep._constants):
        for name in held:
            held[name] = moving.moved(held[name])
    if ep.example_inputs is not None:
        ep._example_inputs = tree_map(moving.moved, ep.example_inputs)
    for module in ep.graph_module.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                moving.move_node(node)
            module.recompile()
    ep.validate()
    return ep


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
