"""Partitioners: a joint graph cut into a forward and a backward graph.

What the backward needs from the forward is saved: `default_partition` saves every value that is
used, `min_cut_rematerialization_partition` as few bytes as it can, and computes the rest again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from rushlight.aot import config
from rushlight.aot.recompute import choose_saved, is_of_written, is_view, kept_for, region_of
from rushlight.core.tensor import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.dialect.common.cse_pass import merge_common
from rushlight.graph.graph import Graph
from rushlight.graph.node import Node
from rushlight.symbolic.numbers import NUMBERS
from rushlight.symbolic.queries import free_symbols

__all__ = ["default_partition", "min_cut_rematerialization_partition", "simplified_partition"]


def is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), NUMBERS)


def is_tangent(node: Node) -> bool:
    return node.op == "placeholder" and "tangents" in str(node.target)


def is_primal(node: Node) -> bool:
    return node.op == "placeholder" and "tangents" not in str(node.target)


def flat_outputs(graph: Graph) -> list[Any]:
    found = graph.output_node().args[0]
    return list(found)


def needed_for(results: Sequence[Any], given: frozenset[Node] = frozenset()) -> set[Node]:
    """The nodes that the given results depend on, themselves included; `given` ones need none."""
    found: set[Node] = set()
    waiting = [node for node in results if isinstance(node, Node)]
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            if node not in given:
                waiting += node.all_input_nodes
    return found


def has_effect(node: Node) -> bool:
    """`copy_` into an input, a check that may raise: wanted, whatever becomes of the result."""
    return node.op == "call_function" and node.is_impure(impure_random=False)


def effects_of(graph: Graph) -> tuple[list[Node], list[Node]]:
    """The effects that belong to the forward, and those that belong to the backward."""
    found = [node for node in graph.nodes if has_effect(node)]
    tangents = after_tangents(graph)
    late = [node for node in found if node in tangents]
    return [node for node in found if node not in late], late


def forward_nodes(graph: Graph, forward_outputs: Sequence[Any]) -> set[Node]:
    """What belongs to the forward: all that its outputs and its effects need."""
    return needed_for([*forward_outputs, *effects_of(graph)[0]])


def extract(
    joint: Graph, inputs: Sequence[Node], outputs: Sequence[Any], effects: Sequence[Node]
) -> Graph:
    """The part of a joint graph that computes `outputs` and `effects` from `inputs`, names kept."""
    graph = Graph()
    copies: dict[Node, Node] = {}
    needed = needed_for([*outputs, *effects], frozenset(inputs))
    for node in inputs:
        copy = graph.placeholder(node.name)
        copy.meta = dict(node.meta)
        copies[node] = copy
    for node in joint.nodes:
        if node not in needed or node in copies or node.op == "output":
            continue
        if node.op == "placeholder":
            raise RuntimeError(f"{node} is needed, but it is not an input of this graph")
        copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output([copies[value] if isinstance(value, Node) else value for value in outputs])
    graph.lint()
    return graph


def default_partition(
    joint_module: GraphModule, _joint_inputs: Sequence[Any], *, num_fwd_outputs: int
) -> tuple[GraphModule, GraphModule]:
    """Save every value of the forward that the backward uses."""
    graph = joint_module.graph
    results = flat_outputs(graph)
    forward_outputs, backward_outputs = results[:num_fwd_outputs], results[num_fwd_outputs:]
    forward = forward_nodes(graph, forward_outputs) | needed_for(reads_of_written(graph))
    primals = [node for node in graph.nodes if is_primal(node)]
    available = forward | set(primals)
    saved: list[Node] = []
    for node in graph.nodes:
        if node not in available or node.op == "output":
            continue
        users = [user for user in node.users if user not in available and user.op != "output"]
        is_gradient = any(node is value for value in backward_outputs)
        if not users and not is_gradient:
            continue
        if "tensor_meta" not in node.meta and not is_number(node) and node.op == "call_function":
            # A tuple is saved by its members.
            saved += [user for user in node.users if user.target is operator.getitem]
        elif is_number(node):
            saved.append(node)
        elif users and not is_gradient and all(is_number(user) for user in users):
            # Only its sizes are wanted: those are saved, not the tensor.
            saved += users
        else:
            saved.append(node)
    return split(joint_module, kept_for(saved), num_fwd_outputs)


def reads_of_written(graph: Graph) -> list[Node]:
    """What is computed from inputs that are written: the backward would find other values there."""
    late = after_tangents(graph)
    return [
        node
        for node in graph.nodes
        if node.op == "call_function"
        and node not in late
        and not is_of_written(node)
        and any([is_of_written(source) for source in node.all_input_nodes])
    ]


def min_cut_rematerialization_partition(
    joint_module: GraphModule,
    _joint_inputs: Sequence[Any],
    compiler: str = "inductor",
    *,
    num_fwd_outputs: int,
    transposes_again: bool = False,
) -> tuple[GraphModule, GraphModule]:
    """Save as few bytes as a minimum cut allows, and compute the rest again in the backward. With
    `transposes_again` an argument is saved itself where it is needed transposed."""
    if config.cse:
        returned = memory_of_outputs(joint_module.graph)
        merge_common(joint_module, place_of=region_of, is_kept=returned.__contains__)
    graph = joint_module.graph
    results = flat_outputs(graph)
    backward_outputs = results[num_fwd_outputs:]
    if not any(isinstance(value, Node) for value in backward_outputs):
        return default_partition(joint_module, _joint_inputs, num_fwd_outputs=num_fwd_outputs)
    primals = {node for node in graph.nodes if is_primal(node)}
    backward = after_tangents(graph)
    # Everything else could be computed in the forward, where it is needed or not.
    forward = {node for node in graph.nodes if node not in backward}
    saved = choose_saved(graph, forward, backward, primals, backward_outputs)
    if transposes_again:
        saved = list(dict.fromkeys(map(untransposed, saved)))
    return split(joint_module, saved, num_fwd_outputs)


def simplified_partition(
    joint_module: GraphModule, joint_inputs: Sequence[Any], *, num_fwd_outputs: int
) -> tuple[GraphModule, GraphModule]:
    """The minimum cut of a graph in which nothing is transposed there and back."""
    for node in joint_module.graph.nodes:
        before = node.args[0] if is_transpose(node) else None
        if before is not None and is_transpose(before) and axes_of(before) == axes_of(node):
            for user in list(node.users):
                if user.op != "output":  # what is returned keeps its ops
                    user.replace_input_with(node, before.args[0])
    return min_cut_rematerialization_partition(
        joint_module, joint_inputs, num_fwd_outputs=num_fwd_outputs, transposes_again=True
    )


def is_transpose(node: Node) -> bool:
    return str(node.target) in ("aten.t.default", "aten.transpose.int")


def axes_of(node: Node) -> list[int]:
    """The axes that a transposition swaps, counted from the front."""
    dims = node.meta["val"].dim()
    return sorted([int(axis) % dims for axis in node.args[1:] or range(dims)])


def untransposed(node: Node) -> Node:
    """The argument that a value of the forward is a transposition of; else the value."""
    source: Any = node
    while is_transpose(source):
        source = source.args[0]
    return source if source.op == "placeholder" else node


def is_part(node: Node) -> bool:
    """Whether a call gives a view, or one of several."""
    return is_view(node) or node.target is operator.getitem


def memory_of_outputs(graph: Graph) -> set[Node]:
    """What has the memory of what is returned: two results are not one tensor."""
    found: set[Node] = set()
    for value in flat_outputs(graph):
        while isinstance(value, Node):
            found.add(value)
            value = value.args[0] if is_part(value) and value.args else None
    return found


def after_tangents(graph: Graph) -> set[Node]:
    """The tangents, what is marked as the backward's, and all that depends on them."""
    found: set[Node] = set()
    for node in graph.nodes:
        if node.op != "output" and (
            is_tangent(node)
            or node.meta.get("partitioner_tag") == "must_be_in_backward"
            or any(source in found for source in node.all_input_nodes)
        ):
            found.add(node)
    return found


def split(
    joint_module: GraphModule, saved: Sequence[Node], num_fwd_outputs: int
) -> tuple[GraphModule, GraphModule]:
    """The two graphs, for a choice of what is saved."""
    graph = joint_module.graph
    results = flat_outputs(graph)
    forward_outputs, backward_outputs = results[:num_fwd_outputs], results[num_fwd_outputs:]
    primals = [node for node in graph.nodes if is_primal(node)]
    tangents = [node for node in graph.nodes if is_tangent(node)]
    numbers = [node for node in saved if is_number(node)]
    tensors = [node for node in saved if not is_number(node)]
    early, late = effects_of(graph)
    # What the backward turns out not to use need not be saved.
    used = needed_for([*backward_outputs, *late], frozenset((*saved, *tangents)))
    tensors = [node for node in tensors if node in used]
    numbers = [node for node in numbers if node in used]
    numbers = with_symbols(graph, numbers, [*tensors, *tangents])
    forward = extract(graph, primals, [*forward_outputs, *tensors, *numbers], early)
    backward = extract(graph, [*numbers, *tensors, *tangents], backward_outputs, late)
    return (
        GraphModule(joint_module, forward, "GraphModule"),
        GraphModule(joint_module, backward, "GraphModule"),
    )


def with_symbols(graph: Graph, numbers: Sequence[Node], tensors: Sequence[Node]) -> list[Node]:
    """The numbers to save, with those added that shapes of the backward's inputs mention."""
    known: set[Any] = set()
    for node in numbers:
        known |= {node.meta["val"].node.expr}
    wanted: set[Any] = set()
    for node in tensors:
        value = node.meta.get("val")
        if isinstance(value, Tensor):
            wanted |= set(free_symbols(value))
    binders = {
        node.meta["val"].node.expr: node
        for node in graph.nodes
        if is_number(node) and node.op in ("placeholder", "call_function")
    }
    binding: list[Node] = [node for node in numbers if is_symbol(node)]
    derived = [node for node in numbers if not is_symbol(node)]
    missing = sorted(wanted - known, key=str)
    binding += [binders[symbol] for symbol in missing if symbol in binders]
    return binding + derived


def is_symbol(node: Node) -> bool:
    return bool(node.meta["val"].node.expr.is_Symbol)
