"""Shapes of a graph's tensors from those of its inputs.

Operators are run on tensors without memory, numbers on themselves. What depends on values, and what
calls or changes things outside, stays unknown. Only sizes are written to the graph, as in torch.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.aliasing import CALLS
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.operators import match_node
from rushlight.jit.ir.types import TensorType, TupleType, Type

UNKNOWN = object()
# Nodes that hold what they are given, known or not.
BUILDING: dict[str, Any] = {
    "prim::ListConstruct": list,
    "prim::TupleConstruct": tuple,
    "prim::unchecked_cast": lambda values: values[0],
}


def propagate_shapes(graph: Graph) -> None:
    """Gives every tensor whose sizes follow from those of the inputs a type that says so."""
    Propagation().block(graph.top)


class Propagation:
    def __init__(self) -> None:
        # A tensor without memory, a number, or a container of such, for each value that is known.
        self.known: dict[Value, Any] = {}

    def block(self, block: Block) -> None:
        for node in block.nodes():
            self.node(node)

    def node(self, node: Node) -> None:
        for inner in node._blocks:
            self.block(inner)
        if node._kind == "prim::If":
            self.merge(node)
            return
        if node._blocks or node._kind in CALLS or node.python is not None:
            return
        results = self.results(node)
        if results is None:
            return
        for value, result in zip(node._outputs, results):
            self.known[value] = result
            value.setType(sized(value._type, result))

    def value(self, value: Value) -> Any:
        found = self.known.get(value, UNKNOWN)
        if found is UNKNOWN:
            found = self.known[value] = specimen_of(value)
        return found

    def results(self, node: Node) -> list[Any] | None:
        """What the outputs of a node are; None where that is not known."""
        if node._kind == "prim::Constant":
            return None
        given = [self.value(value) for value in node._inputs]
        building = BUILDING.get(node._kind)
        if building is not None:
            return [building(given)]
        if any([value is UNKNOWN for value in given]):
            return None
        if node._kind == "prim::TupleIndex":
            return [given[0][given[1]]]
        if node._kind in ("prim::TupleUnpack", "prim::ListUnpack"):
            return list(given[0]) if len(given[0]) == len(node._outputs) else None
        if any([holds_unknown(value) for value in given]):
            return None
        operator = match_node(node)
        if operator is None or (node.hasSideEffects() and operator.op is None):
            return None
        for place, argument in enumerate(operator.schema.arguments):
            if argument.name == "device" and operator.op is not None and place < len(given):
                given[place] = "meta"
        try:
            result = operator.call(*given)
        except Exception:
            # What an operator refuses, or computes from values, has no sizes.
            return None
        return [result] if len(node._outputs) == 1 else list(result or ())

    def merge(self, node: Node) -> None:
        """What both arms give the same sizes has them."""
        arms = [block.outputs() for block in node._blocks]
        for place, output in enumerate(node._outputs):
            one, other = (self.value(arm[place]) for arm in arms)
            if isinstance(one, Tensor) and isinstance(other, Tensor) and one.shape == other.shape:
                self.known[output] = one
                output.setType(sized(output._type, one))


def specimen_of(value: Value) -> Any:
    """What stands for a value that no node here makes: a constant, or a tensor of known sizes."""
    node = value._node
    if node._kind == "prim::Constant":
        held = node.constant_value()
        return held.to("meta") if isinstance(held, Tensor) else held
    type_ = value._type
    sizes = type_.sizes() if isinstance(type_, TensorType) else None
    if sizes is None:
        return UNKNOWN
    from rushlight.opset.creation import create

    assert isinstance(type_, TensorType)
    return create.empty(tuple(sizes), dtype=type_.dtype(), device="meta")


def holds_unknown(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any([holds_unknown(each) for each in value])
    return value is UNKNOWN


def sized(type_: Type, result: Any) -> Type:
    """A type with the sizes of what it stands for."""
    if isinstance(type_, TensorType) and isinstance(result, Tensor):
        if type_.sizes() is not None:
            return type_
        sizes = [int(size) for size in result.shape]
        return TensorType(type_.dtype_name, type_._device, sizes, None, type_._requires_grad)
    if isinstance(type_, TupleType) and isinstance(result, tuple):
        items = [sized(item, each) for item, each in zip(type_.items, result)]
        return TupleType(items, type_.name, type_.fields, type_.defaults)
    return type_
