"""Expressions of compiled code: literals, operators, attributes, comprehensions."""

from __future__ import annotations

import ast
from copy import deepcopy

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.relations import alternatives, unify_all
from rushlight.jit.ir.types import (
    ANY,
    STR,
    TENSOR,
    AnyListType,
    AnyType,
    DictType,
    ListType,
    TupleType,
    Type,
    UnionType,
    VarType,
)
from rushlight.jit.passes.folding import computed
from rushlight.jit.scripting.calls import Calls
from rushlight.jit.scripting.conditions import COMPARISONS
from rushlight.jit.scripting.sources import NotSupportedError, fail_at
from rushlight.jit.scripting.values import (
    Arg,
    BuiltinFunction,
    MagicMethod,
    SimpleValue,
    Sugared,
    unpack_tuple,
)

OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("aten::add", "__add__"),
    ast.Sub: ("aten::sub", "__sub__"),
    ast.Mult: ("aten::mul", "__mul__"),
    ast.Div: ("aten::div", "__truediv__"),
    ast.FloorDiv: ("aten::floordiv", "__floordiv__"),
    ast.Mod: ("aten::remainder", "__mod__"),
    ast.Pow: ("aten::pow", "__pow__"),
    ast.MatMult: ("aten::matmul", "__matmul__"),
    ast.BitAnd: ("aten::__and__", "__and__"),
    ast.BitOr: ("aten::__or__", "__or__"),
    ast.BitXor: ("aten::__xor__", "__xor__"),
    ast.LShift: ("aten::__lshift__", "__lshift__"),
    ast.RShift: ("aten::__rshift__", "__rshift__"),
}


class Expressions(Calls):
    """Emits expressions."""

    def expr(self, node: ast.expr, hint: Type | None = None) -> Value:
        self.note_call(node)
        value = self.sugared(node, 1, hint).as_value(self.place(node), self)
        if hint is ANY and value.type() is not ANY:
            value = self.unchecked_cast(value, ANY)
        return value

    def sugared(self, node: ast.expr, binders: int = 1, hint: Type | None = None) -> Sugared:
        if isinstance(node, ast.Name):
            return self.variable(node, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.sugared(node.value)
            return owner.attr(self.place(node), self, node.attr)
        if isinstance(node, ast.Call):
            return self.apply(node, binders, hint)
        if isinstance(node, ast.Subscript):
            return self.subscript(node, hint)
        return SimpleValue(self.simple(node, hint))

    def simple(self, node: ast.expr, hint: Type | None) -> Value:
        if isinstance(node, ast.Constant):
            return self.constant_expr(node)
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self.unary(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            op = node.ops[0]
            if not isinstance(op, ast.Is | ast.IsNot):
                return self.compare(node, op)
        if isinstance(node, ast.BoolOp | ast.UnaryOp | ast.Compare):
            return self.condition(node).value
        if isinstance(node, ast.IfExp):
            return self.ternary(node, hint)
        if isinstance(node, ast.Tuple):
            return self.make_tuple([arg.value for arg in self.args_of(node.elts)], self.place(node))
        if isinstance(node, ast.List):
            return self.list_literal(node, hint)
        if isinstance(node, ast.Dict):
            return self.dict_literal(node, hint)
        if isinstance(node, ast.ListComp | ast.GeneratorExp):
            return self.list_comprehension(node, hint)
        if isinstance(node, ast.DictComp):
            return self.dict_comprehension(node, hint)
        if isinstance(node, ast.JoinedStr):
            return self.joined_string(node)
        raise NotSupportedError(self.place(node), f"{type(node).__name__} aren't supported")

    def constant_expr(self, node: ast.Constant) -> Value:
        value, place = node.value, self.place(node)
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return self.constant(value, place)
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            fail_at(place, "Integral constant doesn't fit in 64 bits")
        return self.literal(value, place)

    # -- operators

    def operator(self, place: SourceRange, kind: str, method: str, args: list[Arg]) -> Value:
        called = MagicMethod(method, BuiltinFunction(kind)).call(place, self, args, {}, 0)
        return called.as_value(place, self)

    def binary(self, node: ast.BinOp) -> Value:
        kind, method = OPERATORS[type(node.op)]
        args = self.args_of([node.left, node.right])
        return self.binary_of(self.place(node), kind, method, args)

    def binary_of(self, place: SourceRange, kind: str, method: str, args: list[Arg]) -> Value:
        first, second = args[0].value, args[1].value
        if kind == "aten::add" and all([isinstance(a.value.type(), TupleType) for a in args]):
            return self.make_tuple([*unpack_tuple(self, first), *unpack_tuple(self, second)], place)
        if kind == "aten::remainder" and first.type() is STR:
            return self.builtin(place, "aten::percentFormat", [first, second])
        return self.operator(place, kind, method, args)

    def unary(self, node: ast.UnaryOp) -> Value:
        place = self.place(node)
        negates = isinstance(node.op, ast.USub)
        kind, method = ("aten::neg", "__neg__") if negates else ("aten::bitwise_not", "__invert__")
        value = self.operator(place, kind, method, self.args_of([node.operand]))
        made = value.node()
        known = [each.node().kind() == "prim::Constant" for each in made.inputs()]
        folded = computed(made) if made.kind() == kind and all(known) else None
        return value if folded is None else self.constant(folded[0], place)

    def compare(self, node: ast.Compare, op: ast.cmpop) -> Value:
        kind, method = COMPARISONS[type(op)]
        args = self.args_of([node.left, node.comparators[0]])
        place = self.place(node)
        if isinstance(op, ast.In | ast.NotIn):
            args.reverse()
        value = self.operator(place, kind, method, args)
        if isinstance(op, ast.NotIn):
            return self.builtin(place, "aten::__not__", [value])
        return value

    # -- literals

    def list_literal(self, node: ast.List, hint: Type | None) -> Value:
        values = [arg.value for arg in self.args_of(node.elts)]
        place = self.place(node)
        wanted = hinted(hint, ListType, place)
        element: Type = TENSOR
        if values:
            element = unify_all([value.type() for value in values], make_union=True)
        if isinstance(wanted, ListType):
            values = [self.convert(place, wanted.element, value) for value in values]
            for value in values:
                check_element(value, wanted, element, place)
            element = wanted.element
        return self.make_list(element, values, place)

    def dict_literal(self, node: ast.Dict, hint: Type | None) -> Value:
        place = self.place(node)
        wanted = hinted(hint, DictType, place)
        keys = [self.expr(key) for key in node.keys if key is not None]
        values = [self.expr(value) for value in node.values]
        key_type: Type = STR
        value_type: Type = TENSOR
        if isinstance(wanted, DictType):
            key_type, value_type = wanted.key, wanted.value
        elif keys:
            key_type = keys[0].type()
            value_type = unify_all([value.type() for value in values], make_union=True)
        values = [self.convert(place, value_type, value) for value in values]
        for key, key_node in zip(keys, node.keys):
            if key.type().isSubtypeOf(key_type):
                continue
            if wanted is not None:
                found = key.type().annotation_str
                fail_at(
                    place,
                    f"Type annotation was inferred to be {wanted.annotation_str}but the type of "
                    f"keys given by the dict literal is {found}",
                )
            if key_node is not None:
                fail_at(
                    self.place(key_node),
                    "Dict keys must contain only a single type. Expected: "
                    f"{key_type.annotation_str} but found {key.type().annotation_str} instead",
                )
        for value in values:
            if not value.type().isSubtypeOf(value_type):
                fail_at(
                    place,
                    f"Type annotation was inferred to be `Dict[{key_type.annotation_str}, "
                    f"{value_type.annotation_str}]`, but the type of values given by the dict "
                    f"literal is {value.type().annotation_str}",
                )
        pairs = [part for pair in zip(keys, values) for part in pair]
        made = self.graph.create("prim::DictConstruct", pairs)
        made.output().setType(DictType(key_type, value_type))
        return self.graph.insertNode(made).output()

    def joined_string(self, node: ast.JoinedStr) -> Value:
        place = self.place(node)
        text = ""
        args: list[ast.expr] = []
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                text += "{}"
                args.append(part.value)
            else:
                assert isinstance(part, ast.Constant)
                text += str(part.value)
        pattern = self.constant(text, place)
        return self.builtin_call(
            place, "aten::format", [Arg(place, pattern), *self.args_of(args)], {}
        )

    # -- comprehensions

    def list_comprehension(self, node: ast.ListComp | ast.GeneratorExp, hint: Type | None) -> Value:
        (generator,) = node.generators
        element, target = self.own_names(generator.target, node.elt, generator.target)
        return self.collect_list(element, [target], generator.iter, self.place(node), hint)

    def collect_list(
        self,
        element: ast.expr,
        targets: list[ast.expr],
        iterable: ast.expr | Sugared,
        place: SourceRange,
        hint: Type | None,
    ) -> Value:
        made = self.graph.insertNode(self.graph.create("prim::ListConstruct"))
        result = made.output().setType(ListType(TENSOR))
        wanted = hinted(hint, ListType, place)
        if isinstance(wanted, ListType):
            result.setType(wanted)
        is_typed = isinstance(wanted, ListType)

        def body() -> None:
            nonlocal is_typed
            value = self.expr(element)
            if not is_typed:
                result.setType(ListType(value.type()))
                is_typed = True
            type_ = result.type()
            assert isinstance(type_, ListType)
            check_element(value, type_, value.type(), place)
            self.builtin(place, "aten::append", [result, value])

        self.for_each(targets, iterable, place, body)
        return result

    def dict_comprehension(self, node: ast.DictComp, hint: Type | None) -> Value:
        (generator,) = node.generators
        key, value, target = self.own_names(
            generator.target, node.key, node.value, generator.target
        )
        return self.collect_dict(key, value, target, generator.iter, self.place(node), hint)

    def own_names(self, target: ast.expr, *nodes: ast.expr) -> list[ast.expr]:
        """Parts of a comprehension, whose variables are not those around it of the same names."""
        names = {part.id for part in ast.walk(target) if isinstance(part, ast.Name)}
        taken = {name: self.temporary(f"${name}_") for name in names if self.frame.knows(name)}
        if not taken:
            return list(nodes)
        copies = [deepcopy(node) for node in nodes]
        for copied in copies:
            for part in ast.walk(copied):
                if isinstance(part, ast.Name) and part.id in taken:
                    part.id = taken[part.id]
        return copies

    def collect_dict(
        self,
        key_node: ast.expr,
        value_node: ast.expr,
        target: ast.expr,
        iterable: ast.expr | Sugared,
        place: SourceRange,
        hint: Type | None,
    ) -> Value:
        made = self.graph.insertNode(self.graph.create("prim::DictConstruct"))
        result = made.output().setType(DictType(STR, TENSOR))
        wanted = hinted(hint, DictType, place)
        if isinstance(wanted, DictType):
            result.setType(wanted)
        is_typed = isinstance(wanted, DictType)

        def body() -> None:
            nonlocal is_typed
            key, value = self.expr(key_node), self.expr(value_node)
            if not is_typed:
                result.setType(DictType(key.type(), value.type()))
                is_typed = True
            self.check_dict_type(DictType(key.type(), value.type()), result.type(), place)
            self.builtin(place, "aten::_set_item", [result, key, value])

        self.for_each([target], iterable, place, body)
        return result


def hinted(hint: Type | None, wanted: type[Type], place: SourceRange) -> Type | None:
    """The part of a type asked for that is a list, or a dict; None where that may be anything."""
    if hint is None or isinstance(hint, AnyType | AnyListType | VarType):
        return None
    found = [part for part in alternatives(hint) if isinstance(part, wanted)]
    if not found:
        word = "List" if wanted is ListType else "Dict"
        asked = f"annotation of type {word} but"
        if isinstance(hint, UnionType):
            asked = f"Union type annotation with an inner {word} type, but"
        fail_at(place, f"Expected an {asked} got {hint.annotation_str}")
    return found[0] if len(found) == 1 else None


def check_element(value: Value, wanted: ListType, unified: Type, place: SourceRange) -> None:
    """Refuses an item that an annotation of its list does not allow."""
    if not value.type().isSubtypeOf(wanted.element):
        fail_at(
            place,
            f"List type annotation `{wanted.annotation_str}` did not match the types of the given "
            f"list elements, which were unified to {unified.annotation_str}",
        )
