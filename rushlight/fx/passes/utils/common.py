"""Small helpers over whole graphs."""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule, copy_attr
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
from rushlight.graph.graph import Graph
from rushlight.nn.module import Module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(Module):
    """A module that holds others by name."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, child in d.items():
            self.add_module(name, child)


def lift_subgraph_as_module(
    gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
) -> tuple[GraphModule, dict[str, str]]:
    """A module of its own for a graph that refers to parts of `gm`, and from the paths in it to
    those in `gm`."""
    owner = HolderModule({})
    paths: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        copy_attr(gm, owner, node.target)
        prefix = f"{comp_name}." if comp_name else ""
        paths[prefix + node.target] = node.target
    return GraphModule(owner, subgraph, class_name), paths


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs are the same but for names."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return bool(matcher.match(right))
