"""Statements of compiled code, and whole functions: from a syntax tree to a typed graph.

Variables are stored and loaded by name, exits are statements; `ssa` and `exits` bring the graph
into its final form.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from rushlight.jit.ir.graph import Block, Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.relations import unify
from rushlight.jit.ir.schemas import Argument, FunctionSchema, Return
from rushlight.jit.ir.types import (
    ANY,
    INT,
    NONE,
    STR,
    TENSOR,
    AnyType,
    ClassType,
    ListType,
    TensorType,
    Type,
    UnionType,
)
from rushlight.jit.scripting.base import MAX_INT
from rushlight.jit.scripting.closures import ClosureValue
from rushlight.jit.scripting.environment import Frame, insert_store
from rushlight.jit.scripting.expressions import OPERATORS, Expressions
from rushlight.jit.scripting.names import is_meaningful
from rushlight.jit.scripting.refinement import Condition, Refined
from rushlight.jit.scripting.sources import SourceText, fail_at
from rushlight.jit.scripting.values import (
    Arg,
    ExceptionMessage,
    ExceptionValue,
    MethodValue,
    SimpleValue,
    Sugared,
    type_text,
)

# Operators of augmented assignments: that write to a tensor or list, and that do not.
AUGMENTED: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("aten::add_", "aten::add"),
    ast.Sub: ("aten::sub_", "aten::sub"),
    ast.Mult: ("aten::mul_", "aten::mul"),
    ast.Div: ("aten::div_", "aten::div"),
    ast.Mod: ("aten::fmod_", "aten::fmod"),
    ast.BitAnd: ("aten::__iand__", "aten::__and__"),
    ast.BitOr: ("aten::__ior__", "aten::__or__"),
    ast.BitXor: ("aten::__ixor__", "aten::__xor__"),
    ast.LShift: ("aten::__ilshift__", "aten::__lshift__"),
    ast.RShift: ("aten::__irshift__", "aten::__rshift__"),
    ast.Pow: ("aten::pow_", "aten::pow"),
}


class Emitter(Expressions):
    """Compiles one function."""

    def function(
        self,
        node: ast.FunctionDef,
        name: str,
        arguments: Sequence[Argument],
        declared: Type | None,
        owner: Sugared | Callable[[Value], Sugared] | None = None,
    ) -> FunctionSchema:
        """Emits the body. `owner` makes what `self` means from the first input."""
        self.declared = declared
        block = self.graph.block()
        self.push_frame(block)
        for place, (argument, argument_node) in enumerate(zip(arguments, all_arguments(node))):
            value = block.addInput()
            value.setType(argument.type)
            if is_meaningful(argument.name):
                value.setDebugName(argument.name)
            where = self.place(argument_node)
            if place == 0 and callable(owner):
                self.frame.set(where, argument.name, owner(value))
            else:
                self.frame.set(where, argument.name, SimpleValue(value))
        self.statements(node.body)
        if id(block) not in self.exits:
            self.emit_return(self.source.short_range(node, 3), None)
        elif self.returned is None:
            self.returned = declared or NONE
        self.pop_frame()
        returned = self.returned
        assert returned is not None
        block.registerOutput(self.uninitialized(returned))
        return FunctionSchema(name, tuple(arguments), (Return(returned),))

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        for node in nodes:
            emit = getattr(self, f"stmt_{type(node).__name__}")
            self.note_call(node)
            emit(node)
            if id(self.frame.block) in self.exits:
                return

    def mark_exit(self) -> None:
        self.exits.add(id(self.frame.block))

    # -- simple statements

    def stmt_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return
        self.sugared(node.value, 0)

    def stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.frame.set(self.place(node), node.name, ClosureValue(node))

    def stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def stmt_Return(self, node: ast.Return) -> None:
        self.emit_return(self.place(node), node.value)

    def emit_return(self, place: SourceRange, node: ast.expr | None) -> None:
        declared = self.declared
        value = self.constant(None, place) if node is None else self.expr(node, declared)
        if declared is not None:
            if value.type() is not NONE or not isinstance(declared, TensorType):
                value = self.convert(place, declared, value)
            if not value.type().isSubtypeOf(declared):
                fail_at(
                    place,
                    f"Return value was annotated as having type {declared.annotation_str} but is "
                    f"actually of type {type_text(value.type())}",
                )
            self.returned = declared
        elif self.returned is None:
            self.returned = value.type()
        else:
            merged = unify(self.returned, value.type())
            if merged is None:
                fail_at(
                    place,
                    "Previous return statement returned a value of type "
                    f"{self.returned.annotation_str} but this return statement returns a value of "
                    f"type {type_text(value.type())}",
                )
            self.returned = merged
        self.graph.insertNode(self.graph.create("prim::ReturnStmt", [value], 0))
        self.mark_exit()

    def stmt_Break(self, node: ast.Break) -> None:
        self.leave_loop(node, "break", "prim::BreakStmt")

    def stmt_Continue(self, node: ast.Continue) -> None:
        self.leave_loop(node, "continue", "prim::ContinueStmt")

    def leave_loop(self, node: ast.stmt, word: str, kind: str) -> None:
        place = self.source.short_range(node, len(word))
        if self.loop_kind == "unrolled":
            fail_at(
                place,
                "Because we emit iteration over modulelists or tuples as unrolled loops, we do not "
                "support break or continue inside the body of these loops",
            )
        if not self.loop_kind:
            fail_at(place, "'continue' not properly in loop" if word == "continue" else "SyntaxError: 'break' outside loop")  # fmt: skip # noqa: E501
        self.graph.insertNode(self.graph.create(kind, [], 0))
        self.mark_exit()

    def stmt_Raise(self, node: ast.Raise) -> None:
        place = self.place(node)
        if node.exc is None:
            fail_at(place, "raise without an exception is not supported")
        self.emit_raise(place, self.sugared(node.exc))

    def emit_raise(self, place: SourceRange, raised: Sugared) -> None:
        if isinstance(raised, ExceptionValue):
            raised = raised.call(place, self, [], {}, 1)
        if not isinstance(raised, ExceptionMessage):
            fail_at(place, "exceptions must derive from BaseException")
        message = raised.message
        if not message.type().isSubtypeOf(STR):
            message = self.builtin(place, "aten::str", [message])
        name = raised.class_name
        if name is None:
            name = self.graph.insertConstant(None)
        self.insert(self.graph.create("prim::RaiseException", [message, name], 0), place)
        self.mark_exit()

    def stmt_Assert(self, node: ast.Assert) -> None:
        place = self.place(node)
        condition = self.condition(node.test)

        def complain() -> None:
            message = self.constant("", place) if node.msg is None else self.expr(node.msg)
            error = ExceptionValue("", "AssertionError: ")
            raised = error.call(place, self, [Arg(place, message)], {}, 1)
            self.emit_raise(place, raised)

        self.branch(place, condition, lambda: None, complain)

    def stmt_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                if not self.frame.remove(target.id):
                    fail_at(self.place(target), f"undefined value {target.id}")
            elif isinstance(target, ast.Subscript):
                self.delete_subscript(target)
            else:
                fail_at(
                    self.place(target),
                    "del statements are only supported for deleting list and dict items and "
                    "variables",
                )

    # -- assignment

    def stmt_Assign(self, node: ast.Assign) -> None:
        place = self.place(node)
        if len(node.targets) == 1:
            self.assign_expr(place, node.targets[0], node.value)
            return
        # The value is computed once; targets take it from left to right.
        name = self.temporary("$tmp_assign_")
        self.frame.set(self.place(node.value), name, self.sugared(node.value))
        shared = ast.copy_location(ast.Name(name, ast.Load()), node.value)
        for target in node.targets:
            self.assign_expr(place, target, shared)

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            fail_at(self.place(node), "Declaring a variable without a value is not supported")
        self.assign_expr(self.place(node), node.target, node.value, self.type_from(node.annotation))

    def assign_expr(
        self, place: SourceRange, target: ast.expr, node: ast.expr, type_: Type | None = None
    ) -> None:
        if isinstance(target, ast.Name):
            value = self.sugared(node, 1, type_)
            self.frame.set(self.place(target), target.id, value, type_)
        elif isinstance(target, ast.Tuple | ast.List):
            binders, starred = count_binders(target, self)
            value = self.sugared(node, binders)
            self.assign_tuple(target, value, self.place(node), binders, starred)
        elif isinstance(target, ast.Attribute):
            owner = self.sugared(target.value)
            value = self.sugared(node, 1, type_)
            made = value.as_value(self.place(node), self)
            self.set_attribute(place, owner, target.attr, made, type_)
        elif isinstance(target, ast.Subscript):
            arg = Arg(self.place(node), self.expr(node))
            self.assign_subscript(place, target, arg)
        else:
            fail_at(self.place(target), "unexpected expression on left-hand side of assignment")

    def set_attribute(
        self, place: SourceRange, owner: Sugared, name: str, value: Value, type_: Type | None
    ) -> None:
        made = self.makes_attributes_of
        if type_ is not None and made is not None and name not in made.attributes:
            made.attributes[name] = type_
        owner.set_attr(place, self, name, value)

    def assign_tuple(
        self,
        target: ast.Tuple | ast.List,
        value: Sugared,
        place: SourceRange,
        binders: int,
        starred: bool,
    ) -> None:
        outputs = value.as_tuple(place, self, None if starred else binders)
        if len(outputs) < binders:
            least = "at least " if starred else ""
            fail_at(
                self.place(target),
                f"need {least}{binders} values to unpack but found only {len(outputs)}",
            )
        if len(outputs) > binders and not starred:
            fail_at(
                self.place(target),
                f"too many values to unpack: need {binders} but found {len(outputs)}",
            )
        self.assign(target.elts, outputs, place, binders)

    def assign(
        self, targets: Sequence[ast.expr], values: list[Sugared], place: SourceRange, binders: int
    ) -> None:
        number = 0
        for target in targets:
            if isinstance(target, ast.Starred):
                count = len(values) - binders
                taken = [v.as_value(place, self) for v in values[number : number + count]]
                assert isinstance(target.value, ast.Name)
                made = SimpleValue(self.make_tuple(taken, place))
                self.frame.set(self.place(target.value), target.value.id, made)
                number += count
                continue
            value = values[number]
            number += 1
            if isinstance(target, ast.Name):
                self.frame.set(self.place(target), target.id, value)
            elif isinstance(target, ast.Subscript):
                self.assign_subscript(place, target, Arg(place, value.as_value(place, self)))
            elif isinstance(target, ast.Tuple | ast.List):
                inner, starred = count_binders(target, self)
                self.assign_tuple(target, value, place, inner, starred)
            elif isinstance(target, ast.Attribute):
                owner = self.sugared(target.value)
                owner.set_attr(place, self, target.attr, value.as_value(place, self))
            else:
                fail_at(self.place(target), "unexpected expression on left-hand side of assignment")

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        kinds = AUGMENTED[type(node.op)]
        if isinstance(target, ast.Subscript):
            self.augment_subscript(node, target, kinds)
        elif isinstance(target, ast.Attribute):
            owner = self.sugared(target.value)
            place = self.place(target)
            value = owner.attr(place, self, target.attr).as_value(place, self)
            result = self.augmented(node, value)
            owner.set_attr(self.place(node), self, target.attr, result)
        else:
            value = self.expr(target)
            result = self.augmented(node, value)
            self.frame.set(self.place(target), target.id, SimpleValue(result))

    def augmented(self, node: ast.AugAssign, value: Value) -> Value:
        place, type_ = self.place(node), value.type()
        _, method = OPERATORS[type(node.op)]
        writing, plain = AUGMENTED[type(node.op)]
        added = self.expr(node.value)
        if isinstance(type_, ClassType):
            names = [method.replace("__", "__i", 1), method]
            found = [name for name in names if name in type_.methods]
            if not found:
                fail_at(
                    place,
                    f"Cannot emit inplace op on {type_.annotation_str} since it does not define an "
                    f"{names[0]} or {names[1]} method",
                )
            called = MethodValue(value, found[:1]).call(place, self, [Arg(place, added)], {}, 1)
            return called.as_value(place, self)
        if isinstance(type_, TensorType | ListType):
            return self.builtin(place, writing, [value, added])
        if type_ is STR or not plain.endswith("fmod"):
            return self.binary_of(place, plain, method, [Arg(place, value), Arg(place, added)])
        return self.builtin(place, plain, [value, added])

    # -- branches

    def stmt_If(self, node: ast.If) -> None:
        condition = self.condition(node.test)
        self.branch(
            self.place(node),
            condition,
            lambda: self.statements(node.body),
            lambda: self.statements(node.orelse),
        )

    def branch(
        self,
        place: SourceRange,
        condition: Condition,
        if_true: Callable[[], None],
        if_false: Callable[[], None],
    ) -> None:
        facts = condition.refinements
        if condition.known is not None:
            # Only one of the two exists: the other may be code that does not compile.
            self.refine(place, facts.true if condition.known else facts.false)
            (if_true if condition.known else if_false)()
            return
        node = self.insert(self.graph.create("prim::If", [condition.value], 0), place)
        blocks = node.addBlock(), node.addBlock()
        frames = (
            self.one_branch(place, blocks[0], facts.true, if_true),
            self.one_branch(place, blocks[1], facts.false, if_false),
        )
        ends = [id(block) in self.exits for block in blocks]
        if all(ends):
            self.mark_exit()
            return
        for name in self.mutated(place, frames, ends):
            self.merge(place, name, blocks, frames, ends)

    def one_branch(
        self, place: SourceRange, block: Block, refined: Refined, emit: Callable[[], None]
    ) -> Frame:
        self.push_frame(block)
        with self.graph.insert_point_guard(block):
            self.refine(place, refined)
            emit()
        return self.pop_frame()

    def mutated(
        self, place: SourceRange, frames: tuple[Frame, Frame], ends: list[bool]
    ) -> list[str]:
        """Variables that one branch sets and both have afterwards."""
        found: set[str] = set()
        for frame, other, other_ends, word in (
            (frames[0], frames[1], ends[1], "false"),
            (frames[1], frames[0], ends[0], "true"),
        ):
            for name in frame.defined():
                if other_ends or self.is_defined(other, name):
                    found.add(name)
                else:
                    self.frame.errors[name] = missing_reason(name, word, place)
        return sorted(found)

    def is_defined(self, frame: Frame, name: str) -> bool:
        with self.graph.insert_point_guard(frame.block):
            return frame.find(name) is not None

    def merge(
        self,
        place: SourceRange,
        name: str,
        blocks: tuple[Block, Block],
        frames: tuple[Frame, Frame],
        ends: list[bool],
    ) -> None:
        """One variable after an If: the type that both branches leave it with."""
        values: list[Value | None] = []
        for block, frame, is_end in zip(blocks, frames, ends):
            found = None
            if not is_end:
                with self.graph.insert_point_guard(block):
                    sugared = frame.find(name)
                    found = None if sugared is None else sugared.simple()
                    if sugared is not None and found is None:
                        # A module or function: it is the same on both sides, or is not known.
                        self.frame.sugared[name] = sugared
                        return
            values.append(found)
        for number, is_end in enumerate(ends):
            if is_end:
                other = values[1 - number]
                assert other is not None
                with self.graph.insert_point_guard(blocks[number]):
                    values[number] = self.uninitialized(other.type())
                    insert_store(self.graph, name, self.graph_value(values[number]))
        first, second = [self.graph_value(value).type() for value in values]
        outer = self.frame.find(name)
        simple = None if outer is None else outer.simple()
        full = None if simple is None else simple.type()
        wants_union = isinstance(full, UnionType | AnyType)
        type_ = unify(first, second, make_union=wants_union)
        if type_ is None:
            self.frame.errors[name] = mismatch_reason(name, first, second, place)
            self.frame.types.pop(name, None)
            return
        self.frame.errors.pop(name, None)
        self.frame.set_type(name, type_)

    def graph_value(self, value: Value | None) -> Value:
        assert value is not None
        return value

    # -- loops

    def stmt_While(self, node: ast.While) -> None:
        self.loop(self.place(node), lambda: self.statements(node.body), test=node.test)

    def stmt_For(self, node: ast.For) -> None:
        self.for_each(
            [node.target], node.iter, self.place(node), lambda: self.statements(node.body)
        )

    def for_each(
        self,
        targets: list[ast.expr],
        iterable: ast.expr | Sugared,
        place: SourceRange,
        body: Callable[[], None],
    ) -> None:
        items = self.sugared(iterable) if isinstance(iterable, ast.expr) else iterable
        items = items.iter(place, self)
        if items.unrolls():
            self.unrolled_loop(place, items, targets, body)
        else:
            self.loop(place, body, items, targets)

    def unrolled_loop(
        self,
        place: SourceRange,
        items: Sugared,
        targets: list[ast.expr],
        body: Callable[[], None],
    ) -> None:
        """A body for each item: they may be of different types."""
        count = items.static_len()
        assert count is not None
        before, self.loop_kind = self.loop_kind, "unrolled"
        for number in range(count):
            index = self.int_literal(number, place)
            self.assign(targets, [items.getitem(place, self, index)], place, 1)
            body()
            if id(self.frame.block) in self.exits:
                break
        self.loop_kind = before

    def loop(
        self,
        place: SourceRange,
        body: Callable[[], None],
        items: Sugared | None = None,
        targets: Sequence[ast.expr] = (),
        test: ast.expr | None = None,
    ) -> None:
        if items is not None:
            count = items.len(place, self)
        else:
            count = self.int_literal(MAX_INT, place)
        node = self.insert(self.graph.create("prim::Loop", [], 0), place)
        block, header = node.addBlock(), node.addBlock()
        self.push_frame(header)
        if test is not None:
            with self.graph.insert_point_guard(header):
                condition = self.condition(test).value
        else:
            with self.graph.insert_point_guard(node):
                condition = self.constant(True, place)
        header.registerOutput(condition)
        self.pop_frame()
        node.addInput(count)
        before, self.loop_kind = self.loop_kind, "loop"
        number = block.addInput().setType(INT)
        self.push_frame(block)
        with self.graph.insert_point_guard(block):
            if items is not None:
                item = items.getitem(place, self, number)
                self.assign(targets, [SimpleValue(item.as_value(place, self))], place, 1)
            body()
        self.pop_frame()
        self.loop_kind = before

    # -- with

    def stmt_With(self, node: ast.With) -> None:
        entered: list[Value] = []
        for item in node.items:
            place = self.place(item.context_expr)
            manager = self.expr(item.context_expr)
            enter = self.graph.insertNode(self.graph.create("prim::Enter", [manager]))
            type_ = manager.type()
            if not isinstance(type_, ClassType):
                fail_at(place, "With item expression must return an object")
            methods = type_.methods
            if "__enter__" not in methods or "__exit__" not in methods:
                fail_at(
                    place,
                    "Object returned by with item expression does not define __enter__ and "
                    "__exit__ methods",
                )
            schema = self.schema_of(methods["__enter__"], place)
            if len(schema.arguments) != 1:
                fail_at(place, "__enter__ must have only one argument and one return value")
            leave = self.schema_of(methods["__exit__"], place)
            if len(leave.arguments) != 4:
                fail_at(place, "__exit__ must have four arguments")
            for number, argument in enumerate(leave.arguments[1:], 1):
                if argument.type is not ANY:
                    fail_at(place, f"argument {number} of __exit__ must have Any type")
            enter.output().setType(schema.returns[0].type)
            entered.append(manager)
            if isinstance(item.optional_vars, ast.Name):
                name = item.optional_vars
                self.frame.set(self.place(name), name.id, SimpleValue(enter.output()))
        self.statements(node.body)
        for manager in reversed(entered):
            leave_node = self.graph.create("prim::Exit", [manager])
            self.graph.insertNode(leave_node).output().setType(TENSOR)


def all_arguments(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def count_binders(target: ast.Tuple | ast.List, em: Emitter) -> tuple[int, bool]:
    """How many values the targets take at least, and whether one takes the rest."""
    starred = [each for each in target.elts if isinstance(each, ast.Starred)]
    if len(starred) > 1:
        fail_at(em.place(target), "Only one starred expression is allowed on the lhs")
    return len(target.elts) - len(starred), bool(starred)


def missing_reason(name: str, word: str, place: SourceRange) -> Callable[[], str]:
    from rushlight.jit.ir.highlight import highlighted

    return lambda: (
        f"\n{name} is not defined in the {word} branch:\n{highlighted(place)}and was used here"
    )


def mismatch_reason(name: str, first: Type, second: Type, place: SourceRange) -> Callable[[], str]:
    from rushlight.jit.ir.highlight import highlighted

    return lambda: (
        f"\nType mismatch: {name} is set to type {type_text(first)} in the true branch and type "
        f"{type_text(second)} in the false branch:\n{highlighted(place)}and was used here"
    )


__all__ = ["Emitter", "SourceText"]
