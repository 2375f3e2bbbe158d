"""Switches of grad mode in a graph become regions: graphs that an op calls.

A graph is cut at its switches. A part in another mode than the one that the graph is exported in
becomes a graph of its own; the rest stays where it is.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

from rushlight.autograd.grad_mode import write_grad
from rushlight.core.state import LOCAL
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.higher_order.regions import wrap_with_set_grad_enabled
from rushlight.nn.module import Module

__all__ = ["make_regions"]

NAME = "wrap_with_set_grad_enabled"


def make_regions(module: GraphModule) -> None:
    """Put regions in the place of switches, in a graph and in the graphs that it calls."""
    ambient = LOCAL.state.grad
    for member in list(module.modules()):
        if isinstance(member, GraphModule):
            Cutting(member, ambient).run()


class Cutting:
    """One graph."""

    def __init__(self, module: GraphModule, ambient: bool) -> None:
        self.module = module
        self.graph = module.graph
        self.ambient = ambient
        self.parts: list[tuple[bool, list[Node]]] = []

    def run(self) -> None:
        switches = [n for n in self.graph.nodes if n.target is write_grad]
        if not switches:
            return
        self.cut()
        count = len(self.parts)
        made = 0
        for number, (mode, nodes) in enumerate(self.parts):
            if mode is self.ambient or not nodes:
                continue
            if self.results_of(nodes):
                self.make_region(f"submod_{number}", f"submod_{count + made}", mode, nodes)
                made += 1
        for node in switches:
            self.graph.erase_node(node)
        self.graph.eliminate_dead_code()
        self.module.recompile()

    def cut(self) -> None:
        mode = self.ambient
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.target is write_grad:
                self.parts.append((mode, nodes))
                mode, nodes = bool(node.args[0]), []
            else:
                nodes.append(node)
        self.parts.append((mode, nodes))

    def results_of(self, nodes: list[Node]) -> list[Node]:
        """What the rest of the graph takes from a part."""
        inside = set(nodes)
        return [node for node in nodes if any([user not in inside for user in node.users])]

    def make_region(self, attribute: str, name: str, mode: bool, nodes: list[Node]) -> None:
        inside = set(nodes)
        inputs: dict[Node, None] = {}
        for node in nodes:
            if node.op == "get_attr":
                continue
            for used in node.all_input_nodes:
                if used not in inside:
                    inputs[used] = None
        results = self.results_of(nodes)
        body = Graph()
        values: dict[Node, Node] = {}
        for used in inputs:
            made = body.create_node("placeholder", used.name, name=used.name)
            made.meta = copy.copy(used.meta)
            made.meta.pop("nn_module_stack", None)
            made.meta.pop("stack_trace", None)
            values[used] = made
        root = Module()
        for node in nodes:
            values[node] = body.node_copy(node, lambda used: values[used])
            if node.op == "get_attr":
                setattr(root, str(node.target), getattr(self.module, str(node.target)))
        is_single = len(results) == 1
        outputs = [values[node] for node in results]
        body.output(outputs[0] if is_single else tuple(outputs))
        setattr(self.module, attribute, GraphModule(root, body))
        self.call_region(attribute, name, mode, list(inputs), nodes, results)

    def call_region(
        self,
        attribute: str,
        name: str,
        mode: bool,
        inputs: list[Node],
        nodes: list[Node],
        results: list[Node],
    ) -> None:
        stack = common_stack(nodes)
        with self.graph.inserting_before(nodes[0]):
            held = self.graph.create_node("get_attr", attribute, name=name)
            called = self.graph.create_node(
                "call_function", wrap_with_set_grad_enabled, (mode, held, *inputs), name=NAME
            )
        for made in (held, called):
            if stack:
                made.meta["nn_module_stack"] = dict(stack)
        called.meta["torch_fn"] = (NAME, f"{type(wrap_with_set_grad_enabled).__name__}.{NAME}")
        called.meta["val"] = tuple([node.meta.get("val") for node in results])
        if len(results) == 1:
            called.meta.update(results[0].meta)
            results[0].replace_all_uses_with(called)
        else:
            for place, node in enumerate(results):
                with self.graph.inserting_before(nodes[0]):
                    part = self.graph.call_function(operator.getitem, (called, place))
                part.meta = copy.copy(node.meta)
                node.replace_all_uses_with(part)
        single = results[0].name if len(results) == 1 else None
        for node in reversed(nodes):
            for user in list(node.users):
                # Uses by the part itself, which goes with it.
                user.args = ()
                user.kwargs = {}
            self.graph.erase_node(node)
        if single is not None:
            called.name = single


def common_stack(nodes: list[Node]) -> Any:
    """The modules that all nodes were made in."""
    stacks = [list((node.meta.get("nn_module_stack") or {}).items()) for node in nodes]
    stacks = [stack for stack in stacks if stack]
    if not stacks:
        return None
    common = []
    for entries in zip(*stacks):
        if any([entry != entries[0] for entry in entries]):
            break
        common.append(entries[0])
    return dict(common)
