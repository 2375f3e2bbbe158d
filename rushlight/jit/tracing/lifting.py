"""From one flat recording to methods: every call of a submodule becomes a call of its method.

While a trace runs, a submodule's call is a `prim::TracedModuleForward` with a block, and what the
modules hold are `prim::TracedAttr` at the top, named by their paths. Afterwards attributes are read
from the module at hand, what a block uses from outside becomes an argument, what it makes for
others a result, and the block a graph: a method of the submodule's class.
"""

from __future__ import annotations

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.moving import graph_of
from rushlight.jit.ir.relations import without_facts
from rushlight.jit.ir.types import NONE, ClassType, TupleType
from rushlight.jit.passes.dce import eliminate_dead_code
from rushlight.jit.passes.simple import lower_block
from rushlight.jit.tracing.schemas import default_schema
from rushlight.jit.unit import CompilationUnit, Function

FORWARD = "prim::TracedModuleForward"
ATTRIBUTE = "prim::TracedAttr"


def lift_calls(graph: Graph, unit: CompilationUnit | None) -> None:
    """Makes methods of the regions of a trace; without modules (no `unit`) there are none."""
    if unit is not None:
        Attributes(graph).resolve()
    Lifting().lift_block(graph.top)
    join_results(graph.top)
    made: list[Graph] = []
    if unit is not None:
        make_graphs(graph.top, made)
        make_methods(graph, unit)
    else:
        dissolve(graph.top)
    for each in (*made, graph):
        lower_block(each.top)
        # The last node of anything dead has no uses: most bodies of layers have no such node.
        if not all([node.hasUses() for node in each.nodes()]):
            eliminate_dead_code(each)


class Attributes:
    """Reads of what modules hold, each from the module at hand."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.known = {
            node.s("scope"): node.output()  # type: ignore[attr-defined]
            for node in graph.nodes()
            if node.kind() == ATTRIBUTE
        }

    def resolve(self) -> None:
        self.pass_modules(self.graph.top)
        self.read_in(self.graph.top, ["__module"], self.graph.inputs()[0])
        for value in reversed(list(self.known.values())):
            value.node().destroy()

    def pass_modules(self, block: Block) -> None:
        """Every call of a submodule gets the module as its first input."""
        for node in block.nodes():
            if node._kind == FORWARD:
                module = self.known[node.s("scope")]  # type: ignore[attr-defined]
                node.addInput(module)
                inner = node.blocks()[0]
                inner.addInput("self").setType(module.type())
            for each in node._blocks:
                self.pass_modules(each)

    def read_in(self, block: Block, prefix: list[str], self_value: Value) -> list[Value]:
        """Reads attributes at the top of a block; those of modules further out are inputs."""
        outer: list[Value] = []
        local: dict[Value, Value] = {}
        for node in block.nodes():
            if node._kind == FORWARD:
                path = node.s("scope").split(".")  # type: ignore[attr-defined]
                inner = node.blocks()[0]
                shared = self.read_in(inner, path, inner.inputs()[0])
                node.addInputs(shared)
                self.replace_inputs(node, block, prefix, self_value, local, outer, shared)
        for node in block.nodes():
            self.replace_inputs(node, block, prefix, self_value, local, outer)
        self.replace_inputs(block.exit, block, prefix, self_value, local, outer)
        return outer

    def replace_inputs(
        self,
        node: Node,
        block: Block,
        prefix: list[str],
        self_value: Value,
        local: dict[Value, Value],
        outer: list[Value],
        chosen: list[Value] | None = None,
    ) -> None:
        """`chosen`: these inputs only."""
        for place, value in enumerate(node._inputs):
            if value._node._kind != ATTRIBUTE or (chosen is not None and value not in chosen):
                continue
            if value not in local:
                path = value.node().s("scope").split(".")  # type: ignore[attr-defined]
                if path[: len(prefix)] == prefix:
                    local[value] = self.read(block, self_value, path, len(prefix), prefix)
                else:
                    local[value] = block.addInput().copyMetadata(value)
                    outer.append(value)
            node.replaceInput(place, local[value])

    def read(
        self, block: Block, owner: Value, path: list[str], depth: int, prefix: list[str]
    ) -> Value:
        """A chain of reads at the very top of a block."""
        first = block.exit.next
        assert first is not None
        for name in path[depth:]:
            type_ = owner.type()
            assert isinstance(type_, ClassType)
            node = self.graph.create("prim::GetAttr", [owner])
            node.s_("name", name)  # type: ignore[attr-defined]
            node.scope = ""
            node.insertBefore(first)
            owner = node.output().setType(type_.attributes[name])
            owner.setDebugName(f"_{name}" if name.isdigit() else name)
        return owner


class Lifting:
    """Values that are made in a block and used outside of it become outputs of the block."""

    def __init__(self) -> None:
        self.lifted: dict[Value, Value] = {}

    def lift_block(self, block: Block) -> None:
        for node in block.nodes():
            self.lift_inputs(node, block)
        self.lift_inputs(block.exit, block)

    def lift_inputs(self, node: Node, block: Block) -> None:
        for place, value in enumerate(node._inputs):
            current = self.lifted.get(value, value)
            if current is not value:
                node.replaceInput(place, current)
            home = current._node.block
            if home is block or encloses(home, block):
                continue
            while home is not None and not (home is block or encloses(home, block)):
                home.registerOutput(current)
                owner = home.owner
                assert owner is not None
                current = owner.addOutput(current.type())
                home = owner.block
            self.lifted[value] = current
            node.replaceInput(place, current)
        if node._kind == FORWARD:
            self.lift_block(node._blocks[0])


def encloses(outer: Block | None, inner: Block) -> bool:
    """Whether a block is, or lies around, another one."""
    block: Block | None = inner
    while block is not None:
        if block is outer:
            return True
        block = None if block.owner is None else block.owner.block
    return False


def join_results(block: Block) -> None:
    """A region has one result: a tuple for several, None for none."""
    graph = block.graph
    for node in block.nodes():
        if node._kind != FORWARD:
            continue
        inner = node.blocks()[0]
        join_results(inner)
        results = inner.outputs()
        if len(results) == 1:
            continue
        inner.exit.removeAllInputs()
        with graph.insert_point_guard(inner):
            if not results:
                inner.registerOutput(graph.insertConstant(None))
                node.addOutput(NONE)
                continue
            joined = graph.insertNode(graph.create("prim::TupleConstruct", results))
        type_ = TupleType([value.type() for value in results])
        inner.registerOutput(joined.output().setType(type_))
        unpack = graph.create("prim::TupleUnpack", (), len(results)).insertAfter(node)
        for old, new in zip(node.outputs(), unpack.outputs()):
            new.copyMetadata(old)
            old.replaceAllUsesWith(new)
        for place in range(len(results) - 1, -1, -1):
            node.eraseOutput(place)
        unpack.addInput(node.addOutput(type_))


def make_graphs(block: Block, made: list[Graph]) -> None:
    """Blocks become graphs of their own, innermost first; what they use is given to them."""
    for node in block.nodes():
        if node._kind != FORWARD:
            continue
        inner = node.give_block(0)
        make_graphs(inner, made)
        graph, outside = graph_of(inner)
        node.addInputs(outside)
        node.g_("Subgraph", graph)  # type: ignore[attr-defined]
        made.append(graph)


def make_methods(graph: Graph, unit: CompilationUnit) -> None:
    """Regions become calls of methods of their modules' classes."""
    for node in graph.nodes():
        if node._kind != FORWARD:
            continue
        owner = node.inputsAt(0).type()
        assert isinstance(owner, ClassType)
        body: Graph = node.g("Subgraph")  # type: ignore[attr-defined]
        make_methods(body, unit)
        name = free_method_name("forward", owner)
        method = Function(f"{owner.dotted}.{name}", body, default_schema(name, body))
        owner.methods[name] = method
        unit.add_function(method)
        call = graph.create("prim::CallMethod", node.inputs()).insertBefore(node)
        call.s_("name", name)  # type: ignore[attr-defined]
        call.scope = ""
        call.source = node.source
        call.output().setType(without_facts(body.outputs()[0].type()))
        node.output().replaceAllUsesWith(call.output())
        node.destroy()


def free_method_name(name: str, owner: ClassType) -> str:
    number = 0
    while f"{name}{number or ''}" in owner.methods:
        number += 1
    return f"{name}{number or ''}"


def dissolve(block: Block) -> None:
    """Regions of a trace without modules: their nodes stand in the block around them."""
    for node in block.nodes():
        if node._kind != FORWARD:
            continue
        inner = node.blocks()[0]
        dissolve(inner)
        results = inner.outputs()
        inner.exit.removeAllInputs()
        for each in list(inner.nodes()):
            each.moveBefore(node)
        for old, new in zip(node.outputs(), results):
            old.replaceAllUsesWith(new)
        node.destroy()
