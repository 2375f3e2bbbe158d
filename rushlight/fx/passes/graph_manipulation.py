"""Changing targets of nodes, and the memory that they need."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.core.recording import TensorMetadata
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.shape_prop import ShapeProp
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node, map_arg

__all__ = [
    "get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta", "replace_target_nodes_with",
    "size_bytes",
]  # fmt: skip


class size_bytes(NamedTuple):
    """Bytes of a node's result, and of that with its parameters and buffers."""

    output_size: int
    total_size: int


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Any, new_op: str, new_target: Any
) -> None:
    """Let all nodes of one kind and target be of another, with the same arguments."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = map_arg((node.args, dict(node.kwargs)), lambda n: copies[n])
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
            copies[node].meta = node.meta.copy()
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    fx_module.graph = graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Set `node.size_bytes` of all nodes, after running the graph on `args` if given."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        vars(node)["size_bytes"] = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> TensorMetadata:
    found = node.meta.get("tensor_meta")
    if not found:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return found  # type: ignore[no-any-return]


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of one node's result, with and without what its module holds."""
    held = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[str(node.target)]
        held = sum(
            [t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers())]
        )
    meta = get_tensor_meta(node)
    output = meta.shape.numel() * meta.dtype.itemsize
    return size_bytes(output, held + output)
