"""`loop_unrolling`: bodies of loops written out several times."""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.types import INT
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.passes.folding import dissolve

# How often a body is written out, and how large it may be.
TIMES = 8
MOST_NODES = 32
MOST_COPIES = 640


def unroll_loops(graph: Graph) -> bool:
    """Writes every body of a counted loop out eight times, with a loop for the rest."""
    changed = unroll_in(graph.top, only_constant=False)
    eliminate_dead_code(graph)
    return changed


def unroll_constant_loops(graph: Graph) -> bool:
    """Writes loops of a known, small count out in full."""
    changed = unroll_in(graph.top, only_constant=True)
    eliminate_dead_code(graph)
    return changed


def unroll_in(block: Block, only_constant: bool) -> bool:
    changed = False
    for node in block.nodes():
        if node._kind == "prim::Loop" and is_for(node) and is_simple(node._blocks[0]):
            count = node._inputs[0].toIValue()
            size = len(list(node._blocks[0].nodes()))
            if count is not None and count <= TIMES and count * size <= MOST_COPIES:
                write_out(node, count)
                changed = True
                continue
            if not only_constant:
                unroll(node)
                changed = True
                continue
        for inner in node._blocks:
            changed = unroll_in(inner, only_constant) or changed
    return changed


def is_for(node: Node) -> bool:
    conditions = (node._inputs[1], node._blocks[0].outputs()[0])
    return all([value.toIValue() is True for value in conditions])


def is_simple(block: Block) -> bool:
    nodes = list(block.nodes())
    return len(nodes) <= MOST_NODES and not any([node._kind == "prim::Loop" for node in nodes])


def carry_index(node: Node) -> None:
    """The index becomes a value that the loop carries, so that it goes on from loop to loop."""
    graph, body = node.graph, node._blocks[0]
    with graph.insert_point_guard(node):
        start = graph.insertConstant(0)
    node.insertInput(2, start)
    node.insertOutput(0).setType(INT)
    index = body.entry.insertOutput(1).setType(INT)
    body.inputs()[0].replaceAllUsesWith(index)
    with graph.insert_point_guard(body):
        one = graph.insertConstant(1)
        following = graph.insertNode(graph.create("aten::add", [index, one])).output()
    following.setType(INT)
    body.exit.insertInput(1, following)


def repeat_body(body: Block, into: Block, times: int, start: list[Value]) -> list[Value]:
    """Appends the body to a block several times; what the last one gives."""
    graph = body.graph
    current = start
    for _ in range(times):
        mapping = dict(zip(body.inputs()[1:], current))
        for node in body.nodes():
            into.appendNode(graph.createClone(node, mapping))
        current = [mapping.get(value, value) for value in body.outputs()[1:]]
    return current


def write_out(node: Node, count: int) -> None:
    """A loop of a known count becomes its bodies, one after another."""
    carry_index(node)
    graph = node.graph
    holder = graph.create("prim::Holder", 0)
    holder.insertBefore(node)
    block = holder.addBlock()
    results = repeat_body(node._blocks[0], block, count, node._inputs[2:])
    for output, value in zip(node._outputs, results):
        output.replaceAllUsesWith(value)
    node.destroy()
    dissolve(holder, block, {})


def unroll(node: Node) -> None:
    """A loop becomes one whose body runs eight times, and one for what is left."""
    carry_index(node)
    graph, body = node.graph, node._blocks[0]
    count = node._inputs[0]
    with graph.insert_point_guard(node):
        factor = graph.insertConstant(TIMES)
        rounds = number(graph, "aten::__round_to_zero_floordiv", count, factor)
        again = graph.insertConstant(TIMES)
        done = number(graph, "aten::mul", rounds, again)
        rest = number(graph, "aten::sub", count, done)
    tail = graph.createClone(node, {})
    tail.insertAfter(node)
    for output, last in zip(node._outputs, tail._outputs):
        output.replaceAllUsesWith(last)
        last.setType(output.type())
    tail.replaceInput(0, rest)
    for place, output in enumerate(node._outputs):
        tail.replaceInput(place + 2, output)
    node.replaceInput(0, rounds)
    current = body.outputs()[1:]
    copy = graph.create("prim::Holder", 0)
    block = copy.addBlock()
    copy.insertBefore(body.exit)
    source = tail._blocks[0]
    results = repeat_body(source, block, TIMES - 1, current)
    dissolve(copy, block, {})
    for place, value in enumerate(results):
        body.exit.replaceInput(place + 1, value)


def number(graph: Graph, kind: str, *inputs: Value) -> Value:
    return graph.insertNode(graph.create(kind, inputs)).output().setType(INT)
