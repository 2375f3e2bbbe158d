"""What every part of the emitter uses: the graph, the variables, and nodes that are often made."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.jit.ir.graph import Block, Graph, Node, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.schemas import FunctionSchema
from rushlight.jit.ir.types import INT, EnumType, ListType, TupleType, Type
from rushlight.jit.scripting import matching
from rushlight.jit.scripting.environment import Frame
from rushlight.jit.scripting.resolving import Resolver
from rushlight.jit.scripting.sources import SourceText, fail_at, set_current_call
from rushlight.jit.scripting.values import Arg, Args, Kwargs, Sugared

MAX_INT = 2**63 - 1


class EmitterBase:
    """State of compiling one function."""

    def __init__(self, source: SourceText, resolver: Resolver) -> None:
        self.graph = Graph()
        self.source = source
        self.resolver = resolver
        self.frame = Frame(self.graph.block(), None)
        # Number literals, each once: a constant at the start of the graph.
        self.literals: dict[tuple[type, str], Value] = {}
        # Blocks that end in a return, break, continue or raise.
        self.exits: set[int] = set()
        # "" outside of loops, then "loop" or "unrolled".
        self.loop_kind = ""
        self.declared: Type | None = None
        self.returned: Type | None = None
        # The class whose `__init__` this is: assignments make its attributes.
        self.makes_attributes_of: Any = None
        self.is_method = False
        self.temporaries = 0
        # Ranges of nodes by their identity; the nodes are kept, so that no other takes their place.
        self.places: dict[int, tuple[ast.AST, SourceRange]] = {}

    # -- places and nodes

    def place(self, node: ast.AST) -> SourceRange:
        found = self.places.get(id(node))
        if found is None:
            found = self.places[id(node)] = (node, self.source.range_of(node))
        return found[1]

    def insert(self, node: Node, place: SourceRange) -> Node:
        node.source = place
        return self.graph.insertNode(node)

    def constant(self, value: Any, place: SourceRange) -> Value:
        return self.graph.insertConstant(value, place)

    def literal(self, value: Any, place: SourceRange) -> Value:
        """A number as a constant at the start of the graph, made once."""
        key = (type(value), repr(value))
        found = self.literals.get(key)
        if found is None:
            first = next(self.graph.nodes(), self.graph.return_node())
            with self.graph.insert_point_guard(first):
                found = self.literals[key] = self.graph.insertConstant(value, place)
        return found

    def none_of(self, type_: Type) -> Value:
        """None as a value of an Optional type."""
        node = self.graph.insertNode(self.graph.create("prim::Constant"))
        return node.output().setType(type_)

    def make_tuple(self, values: Sequence[Value], place: SourceRange) -> Value:
        node = self.graph.create("prim::TupleConstruct", values)
        node.output().setType(TupleType([value.type() for value in values]))
        return self.graph.insertNode(node).output()

    def make_list(self, element: Type, values: Sequence[Value], place: SourceRange) -> Value:
        node = self.graph.create("prim::ListConstruct", values)
        node.output().setType(ListType(element))
        return self.graph.insertNode(node).output()

    def tuple_item(self, value: Value, number: int, place: SourceRange) -> Value:
        type_ = value.type()
        assert isinstance(type_, TupleType)
        index = self.graph.insertConstant(number)
        node = self.graph.create("prim::TupleIndex", [value, index])
        node.output().setType(type_.items[number])
        return self.graph.insertNode(node).output()

    def unchecked_cast(self, value: Value, type_: Type) -> Value:
        node = self.graph.create("prim::unchecked_cast", [value])
        return self.graph.insertNode(node).output().setType(type_)

    def uninitialized(self, type_: Type) -> Value:
        node = self.graph.create("prim::Uninitialized")
        return self.graph.insertNode(node).output().setType(type_)

    def enum_member(self, type_: EnumType, member: Any, place: SourceRange) -> Value:
        node = self.graph.create("prim::Constant").write("ival", "value", member)
        return self.insert(node, place).output().setType(type_)

    # -- calls

    def builtin(self, place: SourceRange, kind: str, values: Sequence[Value]) -> Value:
        return self.builtin_call(place, kind, [Arg(place, value) for value in values], {})

    def builtin_call(
        self,
        place: SourceRange,
        kind: str,
        args: Args,
        kwargs: Kwargs,
        owner: Value | None = None,
    ) -> Value:
        return matching.emit_builtin(self.graph, place, kind, args, kwargs, owner)

    def match(
        self, place: SourceRange, schemas: Sequence[FunctionSchema], args: Args, kwargs: Kwargs
    ) -> tuple[int, list[Value]]:
        """Which schema takes the arguments, and the inputs as it wants them."""
        return matching.match_any(self.graph, place, schemas, args, kwargs)

    def convert(self, place: SourceRange, type_: Type, value: Value) -> Value:
        return matching.convert_value(self.graph, place, type_, value)

    def schema_of(self, function: Any, place: SourceRange) -> FunctionSchema:
        """The schema of a function that is called here; it is compiled now if need be."""
        if function.is_being_defined:
            fail_at(
                place,
                f" function '{function.short_name}' is called recursively. Recursive calls are not "
                "supported",
            )
        function.ensure_defined()
        found: FunctionSchema = function.schema
        return found

    # -- variables

    def push_frame(self, block: Block) -> None:
        self.frame = Frame(block, self.frame)

    def pop_frame(self) -> Frame:
        frame = self.frame
        assert frame.outer is not None
        self.frame = frame.outer
        return frame

    def variable(self, node: ast.AST, name: str) -> Sugared:
        """What a name means here: a variable, a builtin, or what Python code has by that name."""
        found = self.frame.find(name)
        if found is None:
            place = self.place(node)
            reason = self.frame.find_error(name)
            if reason is not None:
                fail_at(place, reason)
            found = self.resolver.find(name, place, self)
            if found is None:
                fail_at(place, f"undefined value {name}")
        return found

    def temporary(self, prefix: str) -> str:
        self.temporaries += 1
        return f"{prefix}{self.temporaries - 1}"

    def module_item(self, place: SourceRange, owner: Value, index: Value, type_: Type) -> Value:
        """A module of a container, as an interface that all of them offer."""
        node = self.graph.create("prim::ModuleContainerIndex", [owner, index])
        node.output().setType(type_)
        return self.insert(node, place).output()

    # -- what the parts of the emitter call of one another

    def expr(self, node: ast.expr, hint: Type | None = None) -> Value:
        raise NotImplementedError

    def sugared(self, node: ast.expr, binders: int = 1, hint: Type | None = None) -> Sugared:
        raise NotImplementedError

    def assign(
        self, targets: Sequence[ast.expr], values: list[Sugared], place: SourceRange, binders: int
    ) -> None:
        raise NotImplementedError

    def type_from(self, node: ast.expr) -> Type:
        """The type that an annotation names."""
        return self.resolver.annotation(node, self.source)

    def args_of(self, nodes: Sequence[ast.expr]) -> list[Arg]:
        """Positional arguments; `*x` is written out."""
        args: list[Arg] = []
        for node in nodes:
            place = self.place(node)
            if isinstance(node, ast.Starred):
                items = self.sugared(node.value).as_tuple(place, self)
                args += [Arg(place, item.as_value(place, self)) for item in items]
            else:
                args.append(Arg(place, self.expr(node)))
        return args

    def kwargs_of(self, keywords: Sequence[ast.keyword]) -> Kwargs:
        return {
            str(keyword.arg): Arg(self.place(keyword.value), self.expr(keyword.value))
            for keyword in keywords
        }

    def note_call(self, node: ast.AST) -> None:
        set_current_call(lambda: self.place(node))

    def for_each(
        self,
        targets: list[ast.expr],
        iterable: ast.expr | Sugared,
        place: SourceRange,
        body: Callable[[], None],
    ) -> None:
        raise NotImplementedError

    def int_literal(self, value: int, place: SourceRange) -> Value:
        found = self.literal(value, place)
        assert found.type() is INT
        return found
