"""Code that runs later: a call or a closure becomes a graph whose inputs are what it captures."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.schemas import Argument
from rushlight.jit.ir.types import Type
from rushlight.jit.scripting.values import Sugared

if TYPE_CHECKING:
    from rushlight.jit.scripting.base import EmitterBase as Emitter


class ClosureValue(Sugared):
    """A function without arguments inside another: only saved code has them."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.node = node
        self.names: list[str] = []

    def kind(self) -> str:
        return "closure"

    def captured(self, em: Emitter) -> list[Value]:
        """The variables of the outer function that the body reads."""
        found: dict[str, Value] = {}
        for part in ast.walk(self.node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                known = em.frame.find(part.id) if part.id not in found else None
                if known is not None and known.simple() is not None:
                    found[part.id] = known.as_value(em.place(part), em)
        self.names = list(found)
        return list(found.values())

    def graph(self, em: Emitter, values: Sequence[Value]) -> tuple[Graph, Type]:
        """The body as a graph of the captured values, and the type of its result."""
        from rushlight.jit.scripting.emitter import Emitter as FunctionEmitter
        from rushlight.jit.scripting.functions import finish

        arguments = [Argument(name, v.type()) for name, v in zip(self.names, values)]
        inner = FunctionEmitter(em.source, em.resolver)
        given = [ast.copy_location(ast.arg(name), self.node) for name in self.names]
        node = ast.FunctionDef(
            self.node.name, ast.arguments([], given, None, [], [], None, []), self.node.body, []
        )
        schema = inner.function(ast.copy_location(node, self.node), node.name, arguments, None)
        finish(inner.graph)
        return inner.graph, schema.returns[0].type


def take_out(node: Node, block: Block) -> Graph:
    """The only block of a node as a graph: what it uses of outside becomes an input of both."""
    graph = Graph()
    mapping: dict[Value, Value] = {}
    for inner in block.nodes():
        for value in inner.inputs():
            if value not in mapping and value.node().owningBlock() is not block:
                mapping[value] = graph.addInput().copyMetadata(value)
                node.addInput(value)
    for inner in block.nodes():
        graph.appendNode(graph.createClone(inner, mapping))
    graph.registerOutput(mapping[block.outputs()[0]])
    node.eraseBlock(0)
    return graph
