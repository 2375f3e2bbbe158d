"""`constant_propagation`: what can be computed now is computed now.

Nodes whose inputs are all constants run once; an If whose condition is known becomes the arm that
is taken, and a loop that does not run becomes what goes into it.
"""

from __future__ import annotations

from typing import Any

from rushlight.core.device import device
from rushlight.core.tensor import Tensor
from rushlight.jit.ir.aliasing import Aliases, can_alias, written_values
from rushlight.jit.ir.graph import Block, Graph, Node, Value, create_constant
from rushlight.jit.passes.dce import eliminate_dead_code

# Larger tensors are not worth carrying in a graph.
MOST_ELEMENTS = 65536
BUILDING = ("prim::ListConstruct", "prim::TupleConstruct", "prim::DictConstruct")
# What must stay where it is though its inputs are known.
KEPT = frozenset(
    (
        *("prim::If", "prim::Loop", "prim::Constant", "prim::Uninitialized", "prim::AutogradZero"),
        *("prim::Print", "prim::RaiseException", "prim::SetAttr", "prim::GetAttr", "prim::Guard"),
        *("prim::CallFunction", "prim::CallMethod", "prim::PythonOp", "prim::CreateObject"),
        *("prim::fork", "aten::wait", "prim::unchecked_cast", "prim::Enter", "prim::Exit"),
        # The state of the process when the program runs, not now.
        *("aten::is_grad_enabled", "aten::is_autocast_enabled", "aten::is_autocast_cpu_enabled"),
    )
)


def propagate_constants(graph: Graph, keep_mutable: bool = False) -> bool:
    """Computes what is known; whether anything was.

    `keep_mutable`: nothing that can be written becomes a constant.
    """
    folding = Folding(graph, keep_mutable)
    folding.block(graph.top)
    eliminate_dead_code(graph)
    return folding.changed


class Folding:
    def __init__(self, graph: Graph, keep_mutable: bool) -> None:
        self.graph = graph
        self.keep_mutable = keep_mutable
        self.changed = False
        self.aliases = Aliases(graph)
        self.written = {
            self.aliases.root(value)
            for node in graph.all_nodes()
            for value in written_values(node)
            if can_alias(value.type())
        }

    def block(self, block: Block) -> None:
        for node in block.nodes():
            if node._kind == "prim::If":
                self.branch(node)
            elif node._kind == "prim::Loop":
                self.loop(node)
            elif self.is_known(node):
                self.fold(node)
            else:
                for inner in node._blocks:
                    self.block(inner)

    def branch(self, node: Node) -> None:
        condition = node._inputs[0]
        if condition._node._kind == "prim::Constant":
            arm = node._blocks[0 if condition.toIValue() else 1]
            self.block(arm)
            dissolve(node, arm, {})
            self.changed = True
            return
        for arm in node._blocks:
            self.block(arm)
        self.join_arms(node)

    def join_arms(self, node: Node) -> None:
        """What both arms give is taken from outside."""
        first, second = [arm.outputs() for arm in node._blocks]
        for place in range(len(node._outputs) - 1, -1, -1):
            if first[place] is second[place] and not is_inside(first[place], node):
                node._outputs[place].replaceAllUsesWith(first[place])
                node.eraseOutput(place)
                for arm in node._blocks:
                    arm.eraseOutput(place)
                self.changed = True

    def loop(self, node: Node) -> None:
        count, condition = [value.toIValue() for value in node._inputs[:2]]
        if count == 0 or condition is False:
            for output, start in zip(node._outputs, node._inputs[2:]):
                output.replaceAllUsesWith(start)
            node.destroy()
            self.changed = True
            return
        # The body first: what its branches agree on may turn out not to change.
        self.block(node._blocks[0])
        self.drop_unchanged(node)

    def drop_unchanged(self, node: Node) -> None:
        """What a loop carries and never changes is taken from outside."""
        body = node._blocks[0]
        for place in range(len(node._outputs) - 1, -1, -1):
            inner, start = body.inputs()[place + 1], node._inputs[place + 2]
            if body.outputs()[place + 1] is inner:
                inner.replaceAllUsesWith(start)
                node._outputs[place].replaceAllUsesWith(start)
                node.eraseOutput(place)
                node.removeInput(place + 2)
                body.eraseOutput(place + 1)
                body.eraseInput(place + 1)
                self.changed = True

    def is_known(self, node: Node) -> bool:
        if node._kind in KEPT or node._blocks or node.python is not None or not node._outputs:
            return False
        if not all([value._node._kind == "prim::Constant" for value in node._inputs]):
            return False
        if node._kind not in BUILDING and node.matched() is None:
            return node._kind in ("prim::TupleUnpack", "prim::TupleIndex", "prim::ListUnpack")
        if node.hasSideEffects() or node.isNondeterministic() or written_values(node):
            return False
        return not any([self.may_be_written(value) for value in node._outputs])

    def may_be_written(self, value: Value) -> bool:
        if not can_alias(value.type()):
            return False
        return self.keep_mutable or self.aliases.root(value) in self.written

    def fold(self, node: Node) -> None:
        results = computed(node)
        if results is None or not all([is_small(value) for value in results]):
            return
        for output, value in zip(node._outputs, results):
            constant = create_constant(self.graph, value)
            constant.insertBefore(node)
            if value is not None and not isinstance(value, Tensor):
                constant.output().setType(output.type())
            output.replaceAllUsesWith(constant.output())
        node.destroy()
        self.changed = True


def computed(node: Node) -> list[Any] | None:
    """What a node gives; None where it fails, which is then for the run to say."""
    from rushlight.autograd.grad_mode import no_grad
    from rushlight.jit.runtime.program import compile_graph

    graph = Graph()
    mapping: dict[Value, Value] = {}
    for value in node._inputs:
        if value not in mapping:
            mapping[value] = graph.addInput().setType(value.type())
    given = [value.toIValue() for value in mapping]
    graph.appendNode(graph.createClone(node, mapping))
    for value in node._outputs:
        graph.registerOutput(mapping[value])
    try:
        with no_grad():
            result = compile_graph(graph, "folded")(*given)
    except Exception:
        return None
    return [result] if len(node._outputs) == 1 else list(result)


def is_small(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.requires_grad and value.numel() <= MOST_ELEMENTS
    if isinstance(value, list | tuple):
        return all([is_small(item) for item in value])
    if isinstance(value, dict):
        return is_small(list(value.values()))
    return isinstance(value, int | float | complex | str | device) or value is None


def is_inside(value: Value, node: Node) -> bool:
    """Whether a value is made in one of the node's blocks."""
    block = value._node.block
    while block is not None:
        if block.owner is node:
            return True
        block = block.owner.block if block.owner is not None else None
    return False


def dissolve(node: Node, block: Block, mapping: dict[Value, Value]) -> None:
    """Puts the nodes of one of its blocks in the place of a node.

    `mapping` says what the parameters of the block are.
    """
    for parameter, value in mapping.items():
        parameter.replaceAllUsesWith(value)
    for inner in block.nodes():
        inner.moveBefore(node)
    for output, value in zip(node._outputs, block.outputs()):
        output.replaceAllUsesWith(value)
    node.destroy()
