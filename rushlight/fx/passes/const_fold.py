"""The part of a graph that depends on no input, computed once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rushlight.core.parameter import Parameter
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.tracing import symbolic_trace
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node

__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]

FOLDED = "_FX_CONST_FOLDED_ATTRS"


class FoldedGraphModule(GraphModule):
    """A graph module whose constant part runs before its first call, and then never again."""

    def __init__(
        self,
        root: Any,
        graph: Graph,
        const_subgraph: Graph | None = None,
        fx_const_folded_attrs_name: str | None = None,
        device_for_folded_attrs: str = "cuda",
    ) -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = (
            None if const_subgraph is None else GraphModule(root, const_subgraph)
        )
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Compute the constant part."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("folding has been run already")
        self.has_folding_been_run = True
        found = self.const_subgraph_module()

        def parameter(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            return Parameter(value.detach(), requires_grad=value.requires_grad)

        values = [parameter(v) for v in found] if isinstance(found, tuple) else parameter(found)
        if isinstance(values, list):
            for place, value in enumerate(values):
                setattr(self, f"{self.fx_const_folded_attrs_name}_{place}", value)
        else:
            setattr(self, self.fx_const_folded_attrs_name, values)


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """A name made of this one that the module does not have."""
    name = re.sub("[^0-9a-zA-Z_]+", "_", name)
    if name[0].isdigit():
        name = f"_{name}"
    while hasattr(mod_traced, name):
        numbered = re.match(r"(.*)_(\d+)$", name)
        name = f"{name}_1" if numbered is None else f"{numbered[1]}_{int(numbered[2]) + 1}"
    return name


def constant_nodes(module: GraphModule, skip: Callable[[Node], bool] | None) -> dict[Node, None]:
    """The nodes that depend on no input, without reads of attributes."""
    reads: set[Node] = set()
    found: dict[Node, None] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr":
            reads.add(node)
            continue
        if node.op in ("placeholder", "output") or node.is_impure():
            continue
        given = set(node.all_input_nodes)
        if not given or not given <= reads | found.keys():
            continue
        if skip is not None and skip(node):
            continue
        found[node] = None
    return found


def split_const_subgraphs(
    module: Any,
    skip_folding_node_fn: Callable[[Node], bool] | None = None,
    device_for_folded_attrs: str = "cpu",
) -> FoldedGraphModule:
    """A module that computes what depends on no input once.

    Nodes that `skip_folding_node_fn` names stay where they are.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = constant_nodes(traced, skip_folding_node_fn)
    used = [node for node in constant if any(user not in constant for user in node.users)]
    if not used:
        return FoldedGraphModule(traced, traced.graph)
    name = get_unique_attr_name_in_module(traced, FOLDED)
    names = [name] if len(used) == 1 else [f"{name}_{place}" for place in range(len(used))]
    const_graph = graph_of_constants(traced, constant, used)
    for place in names:
        # Filled by folding.
        traced.register_parameter(place, Parameter(Tensor()))
    folded = graph_of_rest(traced, constant, dict(zip(used, names, strict=True)))
    return FoldedGraphModule(traced, folded, const_graph, name, device_for_folded_attrs)


def graph_of_constants(traced: GraphModule, constant: dict[Node, None], used: list[Node]) -> Graph:
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        if node in constant or (node.op == "get_attr" and any(u in constant for u in node.users)):
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    results = tuple([copies[node] for node in used])
    graph.output(results if len(results) > 1 else results[0])
    return graph


def graph_of_rest(
    traced: GraphModule, constant: dict[Node, None], places: dict[Node, str]
) -> Graph:
    """The graph in which reads of attributes stand for constant nodes."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        if node in places:
            copies[node] = graph.get_attr(places[node])
            copies[node].meta = node.meta.copy()
        elif node not in constant and not (node.op == "get_attr" and is_inner(node, constant)):
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    return graph


def is_inner(node: Node, constant: dict[Node, None]) -> bool:
    return bool(node.users) and all(user in constant for user in node.users)
