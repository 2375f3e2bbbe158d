"""Switches of grad mode and of autocast in a graph become regions: graphs that an op calls.

A graph is cut at its switches: first at those of grad mode, where a part in another mode than the
one that the graph is exported in becomes a graph of its own, then at the outermost blocks of
autocast. The rest stays where it is. Blocks inside of blocks are cut in the graphs of those.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

from rushlight.amp.autocasting import enter_autocast, exit_autocast
from rushlight.amp.regions import wrap_with_autocast
from rushlight.autograd.grad_mode import write_grad
from rushlight.core.state import LOCAL
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.higher_order.regions import Region, wrap_with_set_grad_enabled
from rushlight.nn.module import Module

__all__ = ["SWITCHES", "graph_modules", "make_regions"]

SWITCHES = (write_grad, enter_autocast, exit_autocast)


def make_regions(module: GraphModule) -> None:
    """Put regions in the place of switches, in a graph and in the graphs that it calls."""
    ambient = LOCAL.state.grad
    for member in graph_modules(module):
        close_blocks(member.graph)
        GradCutting(member, ambient).run()
    waiting = graph_modules(module)
    while waiting:
        cutting = AutocastCutting(waiting.pop())
        cutting.run()
        waiting += cutting.made


def graph_modules(module: GraphModule) -> list[GraphModule]:
    return [member for member in module.modules() if isinstance(member, GraphModule)]


def close_blocks(graph: Graph) -> None:
    """Let no block of autocast reach over a switch of grad mode, if one that is opened in a region
    of grad mode is left outside of it: it is closed before the switch and opened again after it."""
    if not reaches_out(graph):
        return
    entered: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if node.target is enter_autocast:
            entered[node] = node
        elif node.target is exit_autocast:
            first: Any = node.args[0]
            node.args = (entered.pop(first),)
        elif node.target is write_grad:
            with graph.inserting_before(node):
                for now in reversed(entered.values()):
                    graph.call_function(exit_autocast, (now,))
            after = node
            for first, now in entered.items():
                with graph.inserting_after(after):
                    after = entered[first] = graph.call_function(enter_autocast, now.args)


def reaches_out(graph: Graph) -> bool:
    part = 0
    ambient = mode = LOCAL.state.grad
    entered: dict[Any, tuple[int, bool]] = {}
    for node in graph.nodes:
        if node.target is write_grad:
            part, mode = part + 1, bool(node.args[0])
        elif node.target is enter_autocast:
            entered[node] = part, mode is ambient
        elif node.target is exit_autocast:
            start, is_ambient = entered.pop(node.args[0])
            if start != part and not (is_ambient and mode is ambient):
                return True
    return False


class Part(NamedTuple):
    """Nodes in one mode. Those of a region have what its op takes before the graph."""

    mode: tuple[Any, ...] | None
    nodes: list[Node]


class Cutting:
    """One graph, cut at the switches of one kind."""

    op: Region
    switches: tuple[Any, ...]

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.graph = module.graph
        self.made: list[GraphModule] = []

    def parts(self) -> Iterator[Part]:
        """The graph in parts; a switch belongs to none, unless a region is to have it."""
        raise NotImplementedError

    def run(self) -> None:
        if not any([node.target in self.switches for node in self.graph.nodes]):
            return
        self.raise_constants()
        parts = list(self.parts())
        count = len(parts)
        for number, (mode, nodes) in enumerate(parts):
            if mode is not None and (self.results_of(nodes) or any([does(n) for n in nodes])):
                name = f"submod_{count + len(self.made)}"
                self.make_region(f"submod_{number}", name, mode, nodes)
        for node in reversed(list(self.graph.nodes)):
            if node.target in self.switches:
                self.graph.erase_node(node)
        self.graph.eliminate_dead_code()
        self.module.recompile()

    def raise_constants(self) -> None:
        """Read constants before all else: they are inputs of programs, and of regions."""
        constants = [
            node
            for node in self.graph.nodes
            if node.op == "get_attr"
            and isinstance(getattr(self.module, str(node.target), None), Tensor)
        ]
        leading = {*constants, *[node for node in self.graph.nodes if node.op == "placeholder"]}
        first = next(node for node in self.graph.nodes if node not in leading)
        for node in constants:
            first.prepend(node)

    def results_of(self, nodes: list[Node]) -> list[Node]:
        """What the rest of the graph takes from a part, in the order in which it does."""
        inside = set(nodes)
        taken: dict[Node, None] = {}
        for node in self.graph.nodes:
            if node not in inside:
                taken |= dict.fromkeys([used for used in node.all_input_nodes if used in inside])
        return list(taken)

    def make_region(
        self, attribute: str, name: str, mode: tuple[Any, ...], nodes: list[Node]
    ) -> None:
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
        self.free(attribute)
        region = GraphModule(root, body)
        setattr(self.module, attribute, region)
        self.made.append(region)
        self.call_region(attribute, name, mode, list(inputs), nodes, results)

    def free(self, attribute: str) -> None:
        """Let a graph that an attribute holds be under another name."""
        held = getattr(self.module, attribute, None)
        if held is None:
            return
        number = 1
        while hasattr(self.module, f"submod_{number}"):
            number += 1
        setattr(self.module, f"submod_{number}", held)
        delattr(self.module, attribute)
        for node in self.graph.nodes:
            if node.op == "get_attr" and node.target == attribute:
                node.target = f"submod_{number}"

    def call_region(
        self,
        attribute: str,
        name: str,
        mode: tuple[Any, ...],
        inputs: list[Node],
        nodes: list[Node],
        results: list[Node],
    ) -> None:
        stack = common_stack(nodes)
        with self.graph.inserting_before(nodes[0]):
            held = self.graph.create_node("get_attr", attribute, name=name)
            called = self.graph.create_node(
                "call_function", self.op, (*mode, held, *inputs), name=self.op.name()
            )
        for made in (held, called):
            if stack:
                made.meta["nn_module_stack"] = dict(stack)
        kind = self.op.name()
        called.meta["torch_fn"] = (kind, f"{kind.title().replace('_', '')}.{kind}")
        if any([does(node) for node in nodes]):
            called.meta["has_effects"] = True
        called.meta["val"] = tuple([node.meta.get("val") for node in results])
        names = {}
        if len(results) == 1:
            called.meta.update(results[0].meta)
            results[0].replace_all_uses_with(called)
            names[called] = results[0].name
        else:
            for place, node in enumerate(results):
                with self.graph.inserting_before(nodes[0]):
                    part = self.graph.call_function(operator.getitem, (called, place))
                part.meta = copy.copy(node.meta)
                node.replace_all_uses_with(part)
                names[part] = node.name
        for node in reversed(nodes):
            for user in list(node.users):
                # Uses by the part itself, which goes with it.
                user.args = ()
                user.kwargs = {}
            self.graph.erase_node(node)
        for made, name in names.items():
            made.name = name


class GradCutting(Cutting):
    """A graph, cut at switches of grad mode."""

    op = wrap_with_set_grad_enabled
    switches = (write_grad,)

    def __init__(self, module: GraphModule, ambient: bool) -> None:
        super().__init__(module)
        self.ambient = ambient

    def parts(self) -> Iterator[Part]:
        mode = self.ambient
        nodes: list[Node] = []
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if node.target is write_grad:
                yield self.part(mode, nodes)
                mode, nodes = bool(node.args[0]), []
            else:
                nodes.append(node)
        yield self.part(mode, nodes)

    def part(self, mode: bool, nodes: list[Node]) -> Part:
        return Part(None if mode is self.ambient else (mode,), nodes)


class AutocastCutting(Cutting):
    """A graph, cut at its outermost blocks of autocast."""

    op = wrap_with_autocast
    switches = (enter_autocast, exit_autocast)

    def parts(self) -> Iterator[Part]:
        entered: Node | None = None
        nodes: list[Node] = []
        is_first = True
        for node in self.graph.nodes:
            if node.op in ("placeholder", "output"):
                continue
            if entered is None and node.target is enter_autocast:
                if nodes or is_first:
                    # torch: blocks that follow each other are numbered so.
                    yield Part(None, nodes)
                entered, nodes, is_first = node, [], False
            elif entered is not None and node.target is exit_autocast and node.args[0] is entered:
                yield Part(entered.args, nodes)
                entered, nodes = None, []
            else:
                nodes.append(node)
        if nodes:
            yield Part(None, nodes)


def does(node: Node) -> bool:
    """Whether a node does more than to give a value."""
    is_random = "nondeterministic_seeded" in getattr(node.target, "tags", ())
    return node.op == "call_function" and not is_random and node.is_impure()


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
