"""Variables become values: stores and loads by name turn into what blocks take and give.

First every If and Loop gets an output for each variable that it changes; then `break` and
`continue` learn what they hand over; then conditions of loops move to where they are computed; at
last each load is the value that was stored.
"""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.relations import unify
from rushlight.jit.ir.types import Type
from rushlight.jit.scripting.environment import insert_load
from rushlight.jit.scripting.exits import transform_exits
from rushlight.jit.scripting.names import is_meaningful


def convert_to_ssa(graph: Graph) -> None:
    Variables().visit(graph.block())
    pass_on_exits(graph)
    inline_conditions(graph.block())
    erase_loads(graph.block())
    transform_exits(graph)


class Scope(dict[str, Type]):
    """Types of the variables that a block sets."""

    def __init__(self, outer: Scope | None) -> None:
        super().__init__()
        self.outer = outer

    def find(self, name: str) -> Type | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope:
                return scope[name]
            scope = scope.outer
        return None


class Variables:
    """Gives Ifs and Loops an output for each variable that they change."""

    def __init__(self) -> None:
        self.scope: Scope | None = None

    def visit(self, block: Block) -> Scope:
        self.scope = scope = Scope(self.scope)
        for node in block.nodes():
            if node.kind() == "prim::If":
                self.visit_if(node)
            elif node.kind() == "prim::Loop":
                self.visit_loop(node)
            elif node.kind() == "prim::Store":
                scope[node.read("s", "name")] = node.input().type()
        self.scope = scope.outer
        return scope

    def visit_if(self, node: Node) -> None:
        assert self.scope is not None
        first, second = node.blocks()
        scopes = self.visit(first), self.visit(second)
        names = {
            name
            for one, other in (scopes, scopes[::-1])
            for name in one
            if other.find(name) is not None
        }
        stores: list[tuple[str, Value]] = []
        for name in sorted(names):
            types = [scope.find(name) for scope in scopes]
            assert types[0] is not None and types[1] is not None
            type_ = unify(types[0], types[1], make_union=True)
            for block, own in zip((first, second), types):
                assert own is not None
                add_output(block, own, name)
            assert type_ is not None
            stores.append((name, add_node_output(node, type_, name)))
            self.scope[name] = type_
        store_after(node, stores)

    def visit_loop(self, node: Node) -> None:
        assert self.scope is not None
        body = node.blocks()[0]
        inner = self.visit(body)
        graph = node.graph
        stores: list[tuple[str, Value]] = []
        for name in sorted(inner):
            outer = self.scope.find(name)
            if outer is None:
                continue
            type_ = unify(outer, inner[name], make_union=True)
            assert type_ is not None
            with graph.insert_point_guard(node):
                node.addInput(insert_load(graph, name, outer))
            taken = body.addInput()
            taken.setType(type_)
            if is_meaningful(name):
                taken.setDebugName(name)
            store = graph.create("prim::Store", [taken], 0).write("s", "name", name)
            body.prependNode(store)
            add_output(body, inner[name], name)
            stores.append((name, add_node_output(node, type_, name)))
            self.scope[name] = type_
        store_after(node, stores)


def add_output(block: Block, type_: Type, name: str) -> None:
    graph = block.graph
    with graph.insert_point_guard(block):
        block.registerOutput(insert_load(graph, name, type_))


def add_node_output(node: Node, type_: Type, name: str) -> Value:
    value = node.addOutput(type_)
    return value.setDebugName(name) if is_meaningful(name) else value


def store_after(node: Node, stores: list[tuple[str, Value]]) -> None:
    for name, value in stores:
        made = node.graph.create("prim::Store", [value], 0).write("s", "name", name)
        made.insertAfter(node)


# -- break and continue ----------------------------------------------------------------------------


def pass_on_exits(graph: Graph) -> None:
    """Breaks and continues become one kind of node: whether to go on, and the loop's variables."""
    first = next(graph.nodes(), graph.return_node())
    with graph.insert_point_guard(first):
        false = graph.insertConstant(False)
    visit_exits(graph.block(), None, false)


def visit_exits(block: Block, loop: Node | None, false: Value) -> None:
    graph = block.graph
    for node in block.nodes():
        if node.kind() == "prim::If":
            for inner in node.blocks():
                visit_exits(inner, loop, false)
        elif node.kind() == "prim::Loop":
            visit_exits(node.blocks()[0], node, false)
        elif node.kind() in ("prim::BreakStmt", "prim::ContinueStmt"):
            assert loop is not None
            goes_on = false
            if node.kind() == "prim::ContinueStmt":
                goes_on = copy_block_before(node, loop.blocks()[1])
            made = graph.create("prim::LoopContinuation", [goes_on], 0).insertBefore(node)
            with graph.insert_point_guard(made):
                for value in loop.blocks()[0].outputs():
                    name = value.node().read("s", "name")
                    made.addInput(insert_load(graph, name, value.type()))
            node.destroy()


def copy_block_before(node: Node, block: Block) -> Value:
    """The nodes of a block once more, before `node`; what its output has become."""
    mapping: dict[Value, Value] = {}
    for inner in block.nodes():
        node.graph.createClone(inner, mapping).insertBefore(node)
    output = block.outputs()[0]
    return mapping.get(output, output)


def inline_conditions(block: Block) -> None:
    """A loop's condition is computed before it, and again at the end of its body."""
    for node in block.nodes():
        for inner in node.blocks():
            inline_conditions(inner)
        if node.kind() != "prim::Loop":
            continue
        body, header = node.blocks()
        node.insertInput(1, copy_block_before(node, header))
        for moved in list(header.nodes()):
            moved.moveBefore(body.returnNode())
        body.returnNode().insertInput(0, header.outputs()[0])
        node.eraseBlock(1)


# -- loads -----------------------------------------------------------------------------------------


def erase_loads(block: Block, outer: dict[str, Value] | None = None) -> None:
    known = dict(outer or {})
    for node in list(block.nodes()):
        if node.kind() == "prim::Store":
            known[node.read("s", "name")] = node.input()
            node.destroy()
        elif node.kind() == "prim::Load":
            node.output().replaceAllUsesWith(known[node.read("s", "name")])
            node.destroy()
        else:
            for inner in node.blocks():
                erase_loads(inner, known)
