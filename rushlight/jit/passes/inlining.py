"""`inline`: calls of compiled functions and methods become the nodes of their graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rushlight.jit.ir.graph import Block, Graph, Node
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import ClassType, FunctionType


def inline_calls(graph: Graph) -> None:
    """Replaces every call whose target is known by what it calls, to any depth."""
    inline_block(graph.top)


def inline_block(block: Block) -> None:
    for node in block.nodes():
        target = called(node)
        if target is not None:
            inline_call(node, target)
            continue
        for inner in node._blocks:
            inline_block(inner)


def called(node: Node) -> Any:
    """The function that a node calls, or None."""
    if node._kind == "prim::CallFunction":
        type_ = node._inputs[0].type()
        return type_.function if isinstance(type_, FunctionType) else None
    if node._kind == "prim::CallMethod":
        owner = node._inputs[0].type()
        if isinstance(owner, ClassType):
            return owner.methods.get(node.s("name"))  # type: ignore[attr-defined]
    return None


def inline_call(node: Node, function: Any) -> None:
    """Puts the nodes of a function in the place of its call."""
    callee = function.graph.copy()
    inline_calls(callee)
    inputs = node._inputs[1:] if node._kind == "prim::CallFunction" else node._inputs
    graph = node.graph
    with graph.insert_point_guard(node):
        start = node.previous
        results = graph.insertGraph(callee, inputs)
    for old, new in zip(node._outputs, results, strict=True):
        if old.has_name() and not new.has_name():
            new.setDebugName(old.debugName())
        elif not new.isCompleteTensor() and old.isCompleteTensor():
            new.setType(old.type())
        old.replaceAllUsesWith(new)
    taken_over(node, function.short_name, start)
    constant = node._inputs[0]._node
    node.destroy()
    if constant._kind == "prim::Constant" and not constant.hasUses():
        constant.destroy()


def taken_over(call: Node, name: str, before: Node | None) -> None:
    """Nodes that took the place of a call lie in its scope, and were called from there."""
    node = before.next if before is not None else None
    while node is not None and node is not call:
        if call.scope and not node.scope:
            node.scope = call.scope
        note_caller(node, name, call.source)
        node = node.next


def note_caller(node: Node, name: str, place: SourceRange) -> None:
    if place.text:
        node.source = replace(node.source, callers=(*node.source.callers, (name, place)))
    for block in node._blocks:
        for inner in block.nodes():
            note_caller(inner, name, place)
