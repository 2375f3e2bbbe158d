"""`with` blocks while exits are taken out: what stands between Enter and Exit is one block.

An early return inside must not jump over the Exit.
"""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node


def gather_withs(graph: Graph) -> None:
    """What stands between `prim::Enter` and its `prim::Exit` moves into a `prim::With`."""
    gather_block(graph.block())


def gather_block(block: Block) -> None:
    node = block.exit.next
    while node is not None and node is not block.exit:
        for inner in node.blocks():
            gather_block(inner)
        if node.kind() == "prim::Enter":
            wrap_with(node)
        node = node.next


def wrap_with(enter: Node) -> None:
    graph = enter.graph
    made = graph.create("prim::With", [], 0).insertAfter(enter)
    body, leaving = made.addBlock(), made.addBlock()
    node = made.next
    manager = enter.inputs()[0]
    assert made.block is not None
    while node is not None and node is not made.block.exit:
        following = node.next
        if node.kind() == "prim::Exit" and node.inputs()[0] is manager:
            node.moveBefore(leaving.exit)
            break
        node.moveBefore(body.exit)
        node = following
    give_out(made, body)
    gather_block(body)


def give_out(node: Node, body: Block) -> None:
    """What the body makes and code after it uses becomes an output."""
    for inner in list(body.nodes()):
        for value in inner.outputs():
            outside = [use for use in value.uses() if not is_within(use.user, body)]
            if outside:
                body.registerOutput(value)
                given = node.addOutput(value.type())
                for use in outside:
                    use.user.replaceInput(use.offset, given)


def is_within(node: Node, block: Block) -> bool:
    place = node.owningBlock()
    while place is not None:
        if place is block:
            return True
        place = place.owner.owningBlock() if place.owner is not None else None
    return False


def spread_withs(graph: Graph) -> None:
    spread_block(graph.block())


def spread_block(block: Block) -> None:
    for node in list(block.nodes()):
        for inner in node.blocks():
            spread_block(inner)
        if node.kind() != "prim::With":
            continue
        for inner in node.blocks():
            for moved in list(inner.nodes()):
                moved.moveBefore(node)
        for offset in range(node.outputsSize()):
            node.outputs()[offset].replaceAllUsesWith(node.blocks()[0].outputs()[offset])
        for inner in node.blocks():
            inner.exit.removeAllInputs()
        node.destroy()
