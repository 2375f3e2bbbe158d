"""Small passes: names, shapes, equal constants, equal nodes, tuples."""

from __future__ import annotations

from typing import Any

from rushlight.jit.ir.aliasing import Aliases, can_alias, written_values
from rushlight.jit.ir.constants import same_constant
from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.relations import without_facts
from rushlight.jit.ir.types import TensorType, TupleType


def canonicalize(graph: Graph, keep_unique_names: bool = True) -> Graph:
    """A copy whose values are numbered in order; names are numbers too unless they are kept."""
    result = Graph()
    result.top.cloneFrom(graph.top, {})
    if not keep_unique_names:
        for value in list(result.names.values()):
            value.setDebugName("")
    return result


def erase_shapes(graph: Graph) -> None:
    """Forgets what is known of tensors: every type is the plain one."""
    for value in all_values(graph):
        value.setType(without_facts(value.type()))


def all_values(graph: Graph) -> list[Value]:
    found = graph.inputs()
    for node in graph.all_nodes():
        found += node._outputs
        for block in node._blocks:
            found += block.inputs()
    return found


def pool_constants(graph: Graph) -> None:
    """Equal constants become one; all of them stand at the top, the last one found first."""
    pool_block(graph.top, {})


def pool_block(block: Block, known: dict[Any, list[Node]]) -> None:
    """`known` are the constants found so far, by what their text and type are."""
    for node in block.nodes():
        for inner in node._blocks:
            pool_block(inner, known)
        if node._kind != "prim::Constant":
            continue
        alike = known.setdefault(constant_key(node), [])
        same = next((each for each in alike if is_same_constant(each, node)), None)
        if same is None:
            alike.append(node)
            move_to_top(node)
            continue
        node._outputs[0].replaceAllUsesWith(same._outputs[0])
        node.destroy()


def constant_key(node: Node) -> Any:
    """What equal constants have in common, cheap to compare."""
    entry = node._attributes.get("value") or node._attributes.get("name")
    held = None if entry is None else entry.value
    plain = isinstance(held, bool | int | float | str)
    return node._outputs[0].type().str(), held if plain and held == held else type(held)


def move_to_top(node: Node) -> None:
    first = node.graph.top.exit.next
    assert first is not None
    if first is not node:
        node.moveBefore(first)


def is_same_constant(a: Node, b: Node) -> bool:
    return (
        a._outputs[0].type() == b._outputs[0].type()
        and list(a._attributes) == list(b._attributes)
        and all(
            [
                entry.letter == b._attributes[name].letter
                and same_constant(entry.value, b._attributes[name].value)
                for name, entry in a._attributes.items()
            ]
        )
    )


def eliminate_common(graph: Graph) -> None:
    """`cse`: of nodes that compute the same, the first one stays."""
    aliases = Aliases(graph)
    written = {
        aliases.root(value)
        for node in graph.all_nodes()
        for value in written_values(node)
        if can_alias(value.type())
    }
    eliminate_common_in(graph.top, {}, aliases, written)


def eliminate_common_in(
    block: Block, known: dict[Any, Node], aliases: Aliases, written: set[Any]
) -> None:
    mine = dict(known)
    for node in block.nodes():
        for inner in node._blocks:
            eliminate_common_in(inner, mine, aliases, written)
        if not may_be_shared(node, aliases, written):
            continue
        key = computation(node)
        same = mine.get(key)
        if same is None:
            mine[key] = node
            continue
        node.replaceAllUsesWith(same)
        node.destroy()


def may_be_shared(node: Node, aliases: Aliases, written: set[Any]) -> bool:
    """Whether nobody can tell one result from two: nothing is written, drawn, printed or asked."""
    if node._blocks or node.python is not None or node._kind in ("prim::Constant", "prim::Print"):
        return False
    if node.hasSideEffects() or node.isNondeterministic() or written_values(node):
        return False
    if node.matched() is None and not node._kind.startswith("prim::Tuple"):
        return False
    touched = [value for value in (*node._inputs, *node._outputs) if can_alias(value.type())]
    escaping = [value for value in node._outputs if aliases.is_outside(value)]
    return not escaping and all([aliases.root(value) not in written for value in touched])


def computation(node: Node) -> Any:
    attributes = tuple(
        [(name, entry.letter, repr(entry.value)) for name, entry in node._attributes.items()]
    )
    types = tuple([value.type().str() for value in node._outputs])
    return (node._kind, tuple(node._inputs), attributes, types)


def lower_tuples(graph: Graph) -> None:
    """`lower_all_tuples`: values instead of tuples of them, in inputs and outputs too."""
    flatten_inputs(graph)
    lower_block(graph.top)
    outputs = graph.top.exit
    for place in range(len(outputs._inputs) - 1, -1, -1):
        maker = outputs._inputs[place]._node
        if maker._kind == "prim::TupleConstruct":
            outputs.removeInput(place)
            for offset, value in enumerate(maker._inputs):
                outputs.insertInput(place + offset, value)
            if not maker.hasUses():
                maker.destroy()


def flatten_inputs(graph: Graph) -> None:
    place = 0
    while place < graph.top.entry.outputsSize():
        value = graph.top.entry._outputs[place]
        type_ = value.type()
        if not isinstance(type_, TupleType):
            place += 1
            continue
        made = graph.create("prim::TupleConstruct", ())
        made.output().setType(type_)
        graph.prependNode(made)
        for offset, item in enumerate(type_.items):
            part = graph.top.entry.insertOutput(place + 1 + offset)
            part.setType(item)
            made.addInput(part)
        value.replaceAllUsesWith(made.output())
        graph.eraseInput(place)


def lower_block(block: Block) -> None:
    for node in block.nodes():
        for inner in node._blocks:
            lower_block(inner)
        if node._kind not in ("prim::TupleUnpack", "prim::TupleIndex"):
            continue
        maker = node._inputs[0]._node
        if maker._kind != "prim::TupleConstruct":
            continue
        if node._kind == "prim::TupleUnpack":
            for output, value in zip(node._outputs, maker._inputs):
                output.replaceAllUsesWith(value)
        else:
            index = node._inputs[1].toIValue()
            if index is None:
                continue
            node._outputs[0].replaceAllUsesWith(maker._inputs[index])
        node.destroy()
        if not maker.hasUses():
            maker.destroy()


def erase_number_types(graph: Graph) -> None:
    """Numbers become tensors: constants are 0-d ones, and what computes them is left as it is."""
    from rushlight.core.construct import tensor

    for node in graph.all_nodes():
        for value in node._outputs:
            if value.type().kind() in ("IntType", "FloatType", "BoolType", "NumberType"):
                if node._kind == "prim::Constant":
                    node.write("t", "value", tensor(node.constant_value()))
                value.setType(TensorType.get())
