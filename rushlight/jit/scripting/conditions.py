"""Conditions of compiled code: `and`, `or`, `not`, `is None`, `isinstance`, `if` expressions."""

from __future__ import annotations

import ast
from collections.abc import Callable

from rushlight.jit.ir.binding import type_name
from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.relations import kind_order, unify, union
from rushlight.jit.ir.types import (
    BOOL,
    AnyListType,
    AnyTupleType,
    OptionalType,
    Type,
    UnionType,
)
from rushlight.jit.scripting.base import EmitterBase
from rushlight.jit.scripting.refinement import (
    Condition,
    Refined,
    Refinements,
    can_be_none,
    split_by_types,
    without_none,
)
from rushlight.jit.scripting.sources import fail_at
from rushlight.jit.scripting.values import Arg, CastValue, SpecialForm

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("aten::eq", "__eq__"),
    ast.NotEq: ("aten::ne", "__ne__"),
    ast.Lt: ("aten::lt", "__lt__"),
    ast.LtE: ("aten::le", "__le__"),
    ast.Gt: ("aten::gt", "__gt__"),
    ast.GtE: ("aten::ge", "__ge__"),
    ast.In: ("aten::__contains__", "__contains__"),
    ast.NotIn: ("aten::__contains__", "__contains__"),
}


class Conditions(EmitterBase):
    """Emits conditions, with what they say about the types of variables."""

    def condition(self, node: ast.expr) -> Condition:
        if isinstance(node, ast.BoolOp):
            return self.chained(node, node.values, isinstance(node.op, ast.Or))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.condition(node.operand)
            value = self.builtin(self.place(node), "aten::__not__", [inner.value])
            known = None if inner.known is None else not inner.known
            return Condition(value, inner.refinements.negated(), known)
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                return self.chained(node, split_comparison(node), False)
            if isinstance(node.ops[0], ast.Is | ast.IsNot):
                return self.identity(node)
        if isinstance(node, ast.Call):
            special = self.special_condition(node)
            if special is not None:
                return special
        value = self.to_bool(self.place(node), self.expr(node))
        kind = value.node().kind()
        if kind == "aten::is_scripting":
            return Condition(value, known=True)
        constant = value.toIValue()
        return Condition(value, known=constant if isinstance(constant, bool) else None)

    def special_condition(self, node: ast.Call) -> Condition | None:
        """`isinstance` and `hasattr`, however they are spelled."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "isinstance":
            return self.instance_check(node)
        if name == "hasattr":
            return self.attribute_check(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "isinstance":
            callee = self.sugared(node.func)
            if isinstance(callee, SpecialForm) and callee.form == "isinstance":
                return self.instance_check(node)
        return None

    def to_bool(self, place: SourceRange, value: Value) -> Value:
        if value.type() is BOOL:
            return value
        cast = CastValue(BOOL, "aten::Bool", "__bool__")
        try:
            made = cast.call(place, self, [Arg(place, value)], {}, 1).as_value(place, self)
        except RuntimeError:
            fail_at(
                place,
                f"Could not cast value of type {value.type().annotation_str} to bool",
            )
        if not made.type().isSubtypeOf(BOOL):
            fail_at(
                place,
                f"expected a bool expression for condition but found {made.type().annotation_str}",
            )
        return made

    def chained(self, node: ast.expr, parts: list[ast.expr], is_or: bool) -> Condition:
        """`a or b`, `a and b`: the second is looked at only where the first does not decide."""
        if len(parts) > 2:
            # Python groups from the left.
            head = ast.BoolOp(ast.Or() if is_or else ast.And(), parts[:-1])
            ast.copy_location(head, node)
            head.end_lineno, head.end_col_offset = parts[-2].end_lineno, parts[-2].end_col_offset
            parts = [head, parts[-1]]
        place = self.place(node)
        first = self.condition(parts[0])
        second: list[Condition] = []

        def decided() -> Value:
            return self.constant(is_or, place)

        def undecided() -> Value:
            second.append(self.condition(parts[1]))
            return second[0].value

        arms = (decided, undecided) if is_or else (undecided, decided)
        value = self.choose(place, first, *arms)
        last = second[0]
        known: bool | None = None
        if is_or in (first.known, last.known):
            known = is_or
        elif first.known is not None and last.known is not None:
            known = not is_or
        if is_or:
            return Condition(value, first.refinements.either(last.refinements), known)
        return Condition(value, first.refinements.both(last.refinements), known)

    def choose(
        self,
        place: SourceRange,
        condition: Condition,
        if_true: Callable[[], Value],
        if_false: Callable[[], Value],
    ) -> Value:
        """An If with one result: the value of one of two expressions."""
        node = self.insert(self.graph.create("prim::If", [condition.value], 0), place)
        results: list[Value] = []
        facts = condition.refinements
        for emit, refined in ((if_true, facts.true), (if_false, facts.false)):
            block = node.addBlock()
            self.push_frame(block)
            with self.graph.insert_point_guard(block):
                self.refine(place, refined)
                value = emit()
                block.registerOutput(value)
            self.pop_frame()
            results.append(value)
        first, second = [value.type() for value in results]
        type_ = unify(first, second)
        if type_ is None:
            fail_at(
                place,
                f"if-expression's true branch has type {type_name(first)} but false branch has "
                f"type {type_name(second)}",
            )
        return node.addOutput(type_)

    def refine(self, place: SourceRange, refined: Refined) -> None:
        """Gives variables the types that are known of them here."""
        from rushlight.jit.scripting.values import SimpleValue

        for name, type_ in refined.items():
            found = self.frame.find(name)
            value = None if found is None else found.simple()
            if value is not None:
                self.frame.set(place, name, SimpleValue(self.unchecked_cast(value, type_)))

    def ternary(self, node: ast.IfExp, hint: Type | None) -> Value:
        condition = self.condition(node.test)
        if condition.known is not None:
            place = self.place(node)
            facts = condition.refinements
            self.refine(place, facts.true if condition.known else facts.false)
            return self.expr(node.body if condition.known else node.orelse, hint)
        return self.choose(
            self.place(node),
            condition,
            lambda: self.expr(node.body, hint),
            lambda: self.expr(node.orelse, hint),
        )

    def identity(self, node: ast.Compare) -> Condition:
        """`a is b` and `a is not b`; about None, it says more of the type."""
        left, right = node.left, node.comparators[0]
        values = self.expr(left), self.expr(right)
        place = self.place(node)
        is_is = isinstance(node.ops[0], ast.Is)
        nones = {can_be_none(value) for value in values}
        if nones == {"always"} or nones == {"always", "never"}:
            known = is_is == (nones == {"always"})
            return Condition(self.constant(known, place), known=known)
        kind = "aten::__is__" if is_is else "aten::__isnot__"
        value = self.builtin(place, kind, list(values))
        facts = none_facts(left, values[0], right) or none_facts(right, values[1], left) or {}
        return Condition(value, Refinements({}, facts) if is_is else Refinements(facts, {}))

    # -- isinstance, hasattr

    def instance_check(self, node: ast.Call) -> Condition:
        place = self.place(node)
        self.check_count(node, 2)
        value = self.expr(node.args[0])
        wanted = self.types_of_check(node.args[1])
        inside, outside = split_by_types(value.type(), wanted)
        if not inside or not outside:
            known = bool(inside)
            return Condition(self.constant(known, place), known=known)
        made = self.graph.create("prim::isinstance", [value])
        made.output().setType(BOOL)
        flat = sorted(flatten(wanted), key=kind_order)
        made.write("tys", "types", flat)
        result = self.insert(made, place).output()
        facts = Refinements()
        if isinstance(node.args[0], ast.Name):
            name = node.args[0].id
            facts = Refinements({name: union(inside)}, {name: union(outside)})
        return Condition(result, facts)

    def types_of_check(self, node: ast.expr) -> list[Type]:
        if isinstance(node, ast.Tuple):
            return [type_ for item in node.elts for type_ in self.types_of_check(item)]
        name = node.id if isinstance(node, ast.Name) else ""
        if name in ("list", "tuple") and name not in self.resolver.names():
            return [AnyListType.get() if name == "list" else AnyTupleType.get()]
        return self.resolver.checked_types(node, self.source)

    def attribute_check(self, node: ast.Call) -> Condition:
        self.check_count(node, 2)
        place = self.place(node.args[0])
        name = node.args[1]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            fail_at(self.place(name), "hasattr's second argument must be a string literal")
        known = self.sugared(node.args[0]).has_attr(place, self, name.value)
        return Condition(self.constant(known, place), known=known)

    def check_count(self, node: ast.Call, count: int) -> None:
        """Forms of the compiler take a fixed number of positional arguments."""
        callee = ast.unparse(node.func)
        if len(node.args) != count:
            fail_at(
                self.place(node),
                f"{callee} expected exactly {count} arguments but found {len(node.args)}",
            )
        if node.keywords:
            fail_at(self.place(node), f"{callee} takes no keyword arguments")


def flatten(types: list[Type]) -> list[Type]:
    """Types without Unions and Optionals, each once."""
    from rushlight.jit.ir.relations import alternatives

    found: list[Type] = []
    for type_ in types:
        for part in alternatives(type_):
            if part not in found:
                found.append(part)
    return found


def none_facts(name: ast.expr, value: Value, other: ast.expr) -> Refined | None:
    """The type of the variable `name` where it is not None."""
    if not (isinstance(other, ast.Constant) and other.value is None):
        return None
    type_ = value.type()
    if not isinstance(name, ast.Name) or not isinstance(type_, OptionalType | UnionType):
        return None
    return {name.id: without_none(type_)}


def split_comparison(node: ast.Compare) -> list[ast.expr]:
    """`a < b < c` as `a < b` and `b < c`."""
    parts: list[ast.expr] = []
    left = node.left
    for op, right in zip(node.ops, node.comparators):
        part = ast.Compare(left, [op], [right])
        ast.copy_location(part, left)
        part.end_lineno, part.end_col_offset = right.end_lineno, right.end_col_offset
        parts.append(part)
        left = right
    return parts
