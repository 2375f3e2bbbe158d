"""Small changes of graphs: types of items, a breakpoint, a pattern that names its nodes."""

from __future__ import annotations

import typing
from operator import getitem
from typing import Any

from rushlight.base import pytree
from rushlight.core.tensor import Tensor
from rushlight.fx.passes.split_module import split_module
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = [
    "SubgraphMatcherWithNameNodeMap", "annotate_getitem_nodes", "set_trace", "split_module_simple",
]  # fmt: skip


def item_type(whole: Any, index: Any) -> Any:
    """The type of an item of what has the type `whole`; None where that is not known."""
    origin = typing.get_origin(whole)
    if origin is tuple:
        parts = typing.get_args(whole)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return parts[0]
        if index >= len(parts):
            raise AssertionError(
                f"Index {index} out of range for parameterized_types (len={len(parts)})"
            )
        return parts[index]
    if origin is list:
        return typing.get_args(whole)[0]
    fields = getattr(whole, "_fields", None)
    if fields is None or whole is Tensor:
        return None
    return whole.__annotations__[fields[index]]


def annotate_getitem_nodes(graph: Any) -> None:
    """Gives nodes that take an item its type, where the sequence's node has one."""
    for node in graph.nodes:
        if node.op == "call_function" and node.target is getitem and node.args[0].type:
            found = item_type(node.args[0].type, node.args[1])
            if found is not None:
                node.type = found


def set_trace(gm: Any) -> Any:
    """Stops in the debugger where the graph module's code begins."""

    def stopping(before: Any) -> Any:
        return lambda body: [
            "import pdb; pdb.set_trace()\n",
            *(before(body) if before else body),
        ]

    with gm.graph.on_generate_code(stopping):
        gm.recompile()
    return gm


def split_module_simple(
    m: Any, node_to_partition: Any, *, partition_affix: str | None = None
) -> Any:
    """`split_module` by a table from nodes to the numbers of their parts."""
    return split_module(
        m, m, node_to_partition.__getitem__, partition_affix=partition_affix, tuple_return=False
    )


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Finds a pattern that returns, last, a dict from names to its nodes; matches say by the names
    which nodes were found."""

    def __init__(
        self, pattern_gm: Any, match_output: bool = False, match_placeholder: bool = False,
        remove_overlapping_matches: bool = True, ignore_literals: bool = False,
    ) -> None:  # fmt: skip
        output = pattern_gm.graph.output_node()
        returned = output.args[0]
        if getattr(pattern_gm, "_out_spec", None) is not None:
            returned = pytree.tree_unflatten(returned, pattern_gm._out_spec)
        if not isinstance(returned, (tuple, list)):
            raise AssertionError("Expecting the pattern graph to return a tuple")
        if len(returned) < 2:
            raise AssertionError("Expecting the pattern graph to have at least two outputs")
        *results, names = returned
        if not isinstance(names, dict):
            raise AssertionError(
                "Expecting the input graph to have a dict output as the last element"
            )
        self.name_node_map = dict(names)
        output.args = (results[0] if len(results) == 1 else tuple(results),)
        super().__init__(
            pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches,
            ignore_literals,
        )  # fmt: skip

    def match(self, graph: Any, node_name_match: str = "") -> Any:
        matches = super().match(graph, node_name_match)
        for match in matches:
            named = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
            match.name_node_map = named
        return matches
