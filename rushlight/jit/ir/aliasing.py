"""Which values of a graph may share memory.

A union of values, coarser than the truth: a view and its base, a container and what it holds, what
goes into a loop and what comes out of it. What comes from outside or leads there is one set, the
`OUTSIDE`. Numbers and strings are in no set.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.types import (
    AwaitType,
    ClassType,
    DictType,
    FutureType,
    InterfaceType,
    ListType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

# Nodes whose outputs hold or are what they take, without a schema that says so.
HOLDING = frozenset(
    (
        *("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex", "prim::TupleSlice"),
        *("prim::ListConstruct", "prim::ListUnpack", "prim::DictConstruct", "prim::GetAttr"),
        *("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::CreateObject"),
        *("prim::SetAttr", "prim::data", "prim::Uninitialized"),
    )
)
CALLS = frozenset(
    (
        *(
            "prim::CallFunction",
            "prim::CallMethod",
            "prim::PythonOp",
            "prim::fork",
            "prim::awaitable",
        ),
        *("aten::wait", "prim::awaitable_wait", "prim::Enter", "prim::Exit"),
    )
)


def can_alias(type_: Type) -> bool:
    """Whether a value of the type can be written, or holds what can."""
    if isinstance(
        type_, TensorType | ListType | DictType | ClassType | InterfaceType | FutureType | AwaitType
    ):
        return True
    if isinstance(type_, OptionalType | UnionType | TupleType):
        return any([can_alias(part) for part in type_.containedTypes()])
    return type_.kind() in ("AnyType", "AnyListType", "AnyTupleType", "AnyClassType", "VarType")


class Aliases:
    """The sets of a graph; made anew after every change to it."""

    def __init__(self, graph: Graph) -> None:
        self.parents: dict[Value | str, Value | str] = {}
        for value in graph.inputs():
            self.join(value, "OUTSIDE")
        self.read_block(graph.top)

    def root(self, value: Value | str) -> Value | str:
        path = []
        while (parent := self.parents.get(value, value)) is not value:
            path.append(value)
            value = parent
        for each in path:
            self.parents[each] = value
        return value

    def join(self, a: Value | str, b: Value | str) -> None:
        if all([isinstance(x, str) or can_alias(x.type()) for x in (a, b)]):
            self.parents[self.root(a)] = self.root(b)

    def join_all(self, values: Iterable[Value | str]) -> None:
        known = [v for v in values if isinstance(v, str) or can_alias(v.type())]
        for value in known[1:]:
            self.join(known[0], value)

    def may_alias(self, a: Value, b: Value) -> bool:
        both = can_alias(a.type()) and can_alias(b.type())
        return both and self.root(a) == self.root(b)

    def is_outside(self, value: Value) -> bool:
        """Whether somebody else may see a write to it."""
        return can_alias(value.type()) and self.root(value) == self.root("OUTSIDE")

    def read_block(self, block: Block) -> None:
        for node in block.nodes():
            self.read_node(node)

    def read_node(self, node: Node) -> None:
        for block in node._blocks:
            self.read_block(block)
        if node._kind == "prim::If":
            for arm in node._blocks:
                for inner, output in zip(arm.outputs(), node._outputs):
                    self.join(inner, output)
        elif node._kind == "prim::Loop":
            body = node._blocks[0]
            for group in zip(
                node._inputs[2:], body.inputs()[1:], body.outputs()[1:], node._outputs
            ):
                self.join_all(group)
        elif node._kind in HOLDING:
            self.join_all([*node._inputs, *node._outputs])
        elif node._kind == "prim::Constant":
            self.join(node._outputs[0], "OUTSIDE")
        elif node._kind in CALLS or node._blocks:
            self.join_all(["OUTSIDE", *node._inputs, *node._outputs])
        else:
            self.read_operator(node)

    def read_operator(self, node: Node) -> None:
        operator = node.matched()
        if operator is None:
            self.join_all(["OUTSIDE", *node._inputs, *node._outputs])
            return
        schema = operator.schema
        groups: dict[str, list[Value | str]] = {}
        for described, values in (
            (schema.arguments, node._inputs),
            (schema.returns, node._outputs),
        ):
            for entry, value in zip(described, values):
                if entry.alias_info is None:
                    continue
                for name in (*entry.alias_info.names, *entry.alias_info.after):
                    groups.setdefault(name, ["OUTSIDE"] if name == "*" else []).append(value)
        for group in groups.values():
            self.join_all(group)
        if any([can_alias(result.type()) and not isinstance(result.type(), TensorType)
                for result in node._outputs]):  # fmt: skip
            # A container that an operator gives may hold what it took.
            self.join_all([*node._inputs, *node._outputs])


def written_values(node: Node) -> list[Value]:
    """What a node writes to."""
    if node._kind == "prim::SetAttr":
        return node._inputs[:1]
    if node._kind in CALLS:
        return node.inputs()
    operator = node.matched()
    if operator is None:
        return [] if node._kind.startswith("prim::") else node.inputs()
    return [
        value
        for argument, value in zip(operator.schema.arguments, node._inputs)
        if argument.is_write
    ]
