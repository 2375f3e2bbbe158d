"""Early exits become data: whether one was taken, and what it gives.

After a statement that may have left the function or loop, the rest of the block stands in an If.
Invariant: no `prim::ReturnStmt` and no `prim::LoopContinuation` is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.relations import unify
from rushlight.jit.ir.types import BOOL, Type
from rushlight.jit.scripting.withs import gather_withs, spread_withs


def transform_exits(graph: Graph) -> None:
    gather_withs(graph)
    for kind in ("prim::LoopContinuation", "prim::ReturnStmt"):
        Exits(graph, kind).visit(graph.block())
    join_ifs(graph.block())
    spread_withs(graph)


@dataclass(slots=True)
class Exit:
    """Whether a block was left early, and the values it was left with."""

    taken: Value
    values: list[Value]


class Exits:
    """Takes one kind of exit out of a graph."""

    def __init__(self, graph: Graph, kind: str) -> None:
        self.graph = graph
        self.kind = kind
        first = next(graph.nodes(), graph.return_node())
        with graph.insert_point_guard(first):
            self.true = graph.insertConstant(True)
            self.false = graph.insertConstant(False)
        self.absent: dict[Type, Value] = {}
        # Stands for "an error was raised": never read.
        self.throws = self.absent_value(BOOL)
        self.target: Block | None = None

    def absent_value(self, type_: Type) -> Value:
        """A value that nobody reads."""
        found = self.absent.get(type_)
        if found is None:
            node = self.graph.create("prim::Uninitialized")
            self.graph.prependNode(node)
            found = self.absent[type_] = node.output().setType(type_)
        return found

    def status(self, exit_: Exit) -> str:
        known = {self.true: "will", self.false: "wont", self.throws: "throws"}
        return known.get(exit_.taken, "might")

    def no_exit(self) -> Exit:
        return Exit(self.false, [])

    def visit(self, block: Block) -> Exit:
        before = self.target
        owner = block.owner
        if self.kind == "prim::ReturnStmt" and owner is None:
            self.target = block
        is_loop = owner is not None and owner.kind() == "prim::Loop"
        if self.kind == "prim::LoopContinuation" and is_loop:
            self.target = block
        exit_ = self.visit_nodes(block)
        if self.target is block:
            self.arrive(block, exit_)
            exit_ = self.no_exit()
        self.target = before
        return exit_

    def visit_nodes(self, block: Block) -> Exit:
        exit_ = self.no_exit()
        node = block.exit.next
        while node is not None and node is not block.exit:
            following = node.next
            kind = node.kind()
            if kind == "prim::RaiseException":
                exit_ = Exit(self.throws, [])
            elif kind == self.kind:
                exit_ = Exit(self.true, node.inputs())
                node.destroy()
            elif kind == "prim::If":
                exit_ = self.visit_if(node)
            elif kind == "prim::With":
                exit_ = self.visit(node.blocks()[0])
            elif kind == "prim::Loop":
                exit_ = self.visit_loop(node)
            assert following is not None
            status = self.status(exit_)
            if status in ("will", "throws"):
                self.delete_from(block, following)
                return exit_
            if status == "might":
                if following is not block.exit:
                    exit_ = self.guard_from(block, exit_, following)
                return exit_
            node = following
        return exit_

    def arrive(self, block: Block, exit_: Exit) -> None:
        """At the block that exits lead to: its outputs are the values they bring."""
        status = self.status(exit_)
        if status == "will":
            replace_outputs(block, exit_.values)
        elif status == "might":
            node = self.graph.create("prim::If", [exit_.taken], 0).insertBefore(block.exit)
            node.addBlock()
            node.addBlock()
            add_if_outputs(node, exit_.values, block.outputs())
            replace_outputs(block, node.outputs())

    def visit_if(self, node: Node) -> Exit:
        first, second = [self.visit(block) for block in node.blocks()]
        statuses = self.status(first), self.status(second)
        status = joined_status(*statuses)
        if status == "throws":
            return Exit(self.throws, [])
        if status == "wont":
            return self.no_exit()
        if statuses[0] in ("wont", "throws"):
            first = Exit(first.taken, [self.absent_value(v.type()) for v in second.values])
        elif statuses[1] in ("wont", "throws"):
            second = Exit(second.taken, [self.absent_value(v.type()) for v in first.values])
        if status == "will":
            taken = self.true
        else:
            add_if_outputs(node, [first.taken], [second.taken])
            taken = node.outputs()[-1]
        count = len(first.values)
        add_if_outputs(node, first.values, second.values)
        return Exit(taken, node.outputs()[node.outputsSize() - count :])

    def visit_loop(self, node: Node) -> Exit:
        body = node.blocks()[0]
        exit_ = self.visit(body)
        if self.status(exit_) in ("wont", "throws"):
            return self.no_exit()
        # The loop goes on only where nothing was left.
        made = self.graph.create("prim::If", [exit_.taken], 0).insertBefore(body.exit)
        made.addBlock().registerOutput(self.false)
        made.addBlock().registerOutput(body.outputs()[0])
        body.replaceOutput(0, made.addOutput(BOOL))
        node.addInput(self.false)
        body.addInput().setType(BOOL)
        body.registerOutput(exit_.taken)
        taken = node.addOutput(BOOL)
        for value in exit_.values:
            type_ = value.type()
            node.addInput(self.absent_value(type_))
            node.addOutput(type_)
            body.addInput().setType(type_)
            body.registerOutput(value)
        return Exit(taken, node.outputs()[node.outputsSize() - len(exit_.values) :])

    def guard_from(self, block: Block, exit_: Exit, first: Node) -> Exit:
        """The rest of the block runs only where no exit was taken."""
        node = self.graph.create("prim::If", [exit_.taken], 0).insertBefore(first)
        left, guarded = node.addBlock(), node.addBlock()
        moved: Node | None = first
        while moved is not None and moved is not block.exit:
            following = moved.next
            moved.moveBefore(guarded.exit)
            moved = following
        for value in block.outputs():
            left.registerOutput(self.absent_value(value.type()))
            guarded.registerOutput(value)
            node.addOutput(value.type())
        replace_outputs(block, node.outputs())
        self.graph.create(self.kind, exit_.values, 0).insertBefore(left.exit)
        return self.visit_if(node)

    def delete_from(self, block: Block, first: Node) -> None:
        """What follows an exit never runs."""
        for node in list(block.reversed_nodes()):
            is_last = node is first
            if first is block.exit:
                return
            for value in node.outputs():
                if value.hasUses():
                    value.replaceAllUsesWith(self.absent_value(value.type()))
            node.destroy()
            if is_last:
                return


def joined_status(first: str, second: str) -> str:
    if first == "throws":
        return second
    if second == "throws" or first == second:
        return first
    return "might"


def replace_outputs(block: Block, values: Sequence[Value]) -> None:
    values = list(values)
    block.exit.removeAllInputs()
    for value in values:
        block.registerOutput(value)


def add_if_outputs(node: Node, first: Sequence[Value], second: Sequence[Value]) -> None:
    for one, other in zip(list(first), list(second), strict=True):
        blocks = node.blocks()
        blocks[0].registerOutput(one)
        blocks[1].registerOutput(other)
        type_ = unify(one.type(), other.type(), make_union=True)
        assert type_ is not None
        node.addOutput(type_)


# -- two Ifs in a row ------------------------------------------------------------------------------


def join_ifs(block: Block) -> None:
    """An If on what the If before it has just decided becomes part of it."""
    node = block.exit.next
    while node is not None and node is not block.exit:
        for inner in node.blocks():
            join_ifs(inner)
        if not join_with_next(node):
            node = node.next


def join_with_next(node: Node) -> bool:
    following = node.next
    if node.kind() != "prim::If" or following is None or following.kind() != "prim::If":
        return False
    condition = following.inputs()[0]
    if condition.node() is not node:
        return False
    decided = [block.outputs()[condition.offset()] for block in node.blocks()]
    known = [value.toIValue() for value in decided]
    if not all([isinstance(each, bool) for each in known]) or known[0] == known[1]:
        return False
    for block, chosen in zip(node.blocks(), known):
        source = following.blocks()[0 if chosen else 1]
        mapping = dict(zip(node.outputs(), block.outputs()))
        for inner in source.nodes():
            block.appendNode(block.graph.createClone(inner, mapping))
        for value in source.outputs():
            block.registerOutput(mapping.get(value, value))
    for output in following.outputs():
        output.replaceAllUsesWith(node.addOutput().copyMetadata(output))
    following.destroy()
    return True
