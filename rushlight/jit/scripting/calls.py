"""Calls in compiled code, and the names whose calls the compiler reads itself."""

from __future__ import annotations

import ast
from collections.abc import Callable

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import (
    NONE,
    STR,
    TENSOR,
    AwaitType,
    DictType,
    FutureType,
    ListType,
    OptionalType,
    StringType,
    Type,
    UnionType,
)
from rushlight.jit.scripting.base import MAX_INT
from rushlight.jit.scripting.closures import ClosureValue, take_out
from rushlight.jit.scripting.indexing import Indexing
from rushlight.jit.scripting.sources import current_call, fail_at, set_current_call
from rushlight.jit.scripting.values import (
    Arg,
    ClassNew,
    IterableTree,
    RangeValue,
    SimpleValue,
    SliceValue,
    SpecialForm,
    Sugared,
    ToList,
)

# Forms that would pass keywords over.
WITHOUT_KEYWORDS = ("range", "zip", "slice", "tuple", "list", "isinstance", "hasattr", "getattr")


class Calls(Indexing):
    """Emits calls."""

    def apply(self, node: ast.Call, binders: int, hint: Type | None) -> Sugared:
        callee = self.sugared(node.func)
        if isinstance(callee, SpecialForm):
            if node.keywords and callee.form in WITHOUT_KEYWORDS:
                fail_at(self.place(node), f"{callee.form} takes no keyword arguments")
            form = getattr(self, f"form_{callee.form}")
            result: Sugared = form(node, hint)
            return result
        if isinstance(callee, ToList):
            return self.to_list(node, callee, hint)
        if isinstance(callee, ClassNew):
            # The argument is the class again.
            return callee.call(self.place(node.func), self, [], {}, binders)
        noted = current_call()
        args = self.args_of(node.args)
        kwargs = self.kwargs_of(node.keywords)
        set_current_call(noted)
        return callee.call(self.place(node.func), self, args, kwargs, binders)

    def to_list(self, node: ast.Call, callee: ToList, hint: Type | None) -> Sugared:
        place = self.place(node.func)
        if hint is None:
            fail_at(place, "Expected type hint for result of tolist()")
        depth, element = 0, hint
        while isinstance(element, ListType):
            depth, element = depth + 1, element.element
        names = {"int": 0, "float": 1, "bool": 2, "complex": 3}
        if element.str() not in names:
            fail_at(place, f"{element.annotation_str} is not one of the supported element types for tolist: int, float, complex, bool")  # fmt: skip # noqa: E501
        inputs = [
            callee.value,
            self.constant(depth, place),
            self.constant(names[element.str()], place),
        ]
        made = self.graph.create("prim::tolist", inputs)
        made.output().setType(hint)
        return SimpleValue(self.insert(made, place).output())

    # -- forms

    def form_isinstance(self, node: ast.Call, hint: Type | None) -> Sugared:
        return SimpleValue(self.instance_check(node).value)

    def form_hasattr(self, node: ast.Call, hint: Type | None) -> Sugared:
        return SimpleValue(self.attribute_check(node).value)

    def form_getattr(self, node: ast.Call, hint: Type | None) -> Sugared:
        place = self.place(node)
        if len(node.args) not in (2, 3):
            fail_at(place, f"getattr expected 2 or 3 arguments but found {len(node.args)}")
        name = node.args[1]
        if not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
            fail_at(place, "getattr's second argument must be a string literal")
        owner = self.sugared(node.args[0])
        if len(node.args) == 3 and not owner.has_attr(place, self, name.value):
            return SimpleValue(self.expr(node.args[2]))
        return owner.attr(place, self, name.value)

    def form_annotate(self, node: ast.Call, hint: Type | None) -> Sugared:
        self.check_count(node, 2)
        place = self.place(node)
        type_ = self.type_from(node.args[0])
        value = self.convert(place, type_, self.expr(node.args[1], type_))
        if not value.type().isSubtypeOf(type_):
            fail_at(
                place,
                f"expected an expression of type {type_.annotation_str} but found "
                f"{value.type().annotation_str}",
            )
        if isinstance(type_, OptionalType) and value.type() is NONE:
            # The type is kept: the variable may hold something else later.
            value = self.none_of(type_)
        return SimpleValue(value)

    def form_range(self, node: ast.Call, hint: Type | None) -> Sugared:
        values = [arg.value for arg in self.args_of(node.args)]
        return RangeValue(self.place(node), self, values)

    def form_enumerate(self, node: ast.Call, hint: Type | None) -> Sugared:
        place = self.place(node)
        named = {each.arg: each.value for each in node.keywords}
        if named.keys() - {"start"}:
            fail_at(place, f"enumerate takes the keyword start, got {', '.join(map(str, named))}")
        count = len(node.args) + len(named)
        if not node.args:
            fail_at(place, "enumerate expected at least 1 arguments, got 0")
        if count > 2:
            fail_at(place, f"enumerate expected at most 2 arguments, got {count}")
        start = named.get("start", node.args[1] if len(node.args) == 2 else None)
        inputs = [] if start is None else [self.expr(start)]
        inputs.append(self.int_literal(MAX_INT, place))
        iterable = self.sugared(node.args[0]).iter(place, self)
        numbers = RangeValue(place, self, inputs, iterable.static_len())
        tree = IterableTree()
        tree.add(place, self, numbers)
        tree.add(place, self, iterable)
        return tree

    def form_zip(self, node: ast.Call, hint: Type | None) -> Sugared:
        place = self.place(node)
        if not node.args:
            fail_at(place, "zip expected at least 1 arguments, got 0")
        tree = IterableTree()
        for arg in node.args:
            tree.add(place, self, self.sugared(arg).iter(place, self))
        return tree

    def form_slice(self, node: ast.Call, hint: Type | None) -> Sugared:
        values = [arg.value for arg in self.args_of(node.args)]
        parts: list[Value | None] = [None if value.type() is NONE else value for value in values]
        if len(parts) == 1:
            return SliceValue(None, parts[0], None)
        start, stop, step = (*parts, None, None)[:3]
        return SliceValue(start, stop, step)

    def form_tuple(self, node: ast.Call, hint: Type | None) -> Sugared:
        self.check_count(node, 1)
        place = self.place(node)
        items = self.sugared(node.args[0]).as_tuple(place, self)
        return SimpleValue(self.make_tuple([item.as_value(place, self) for item in items], place))

    def form_list(self, node: ast.Call, hint: Type | None) -> Sugared:
        place = self.place(node)
        if not node.args:
            element = hint.element if isinstance(hint, ListType) else TENSOR
            return SimpleValue(self.make_list(element, [], place))
        self.check_count(node, 1)
        items = self.sugared(node.args[0])
        simple = items.simple()
        if simple is not None and isinstance(simple.type(), ListType | StringType):
            return SimpleValue(self.builtin(place, "aten::list", [simple]))
        name = self.temporary("$_elem")
        element_node = ast.copy_location(ast.Name(name, ast.Load()), node)
        return SimpleValue(self.collect_list(element_node, [element_node], items, place, hint))

    def collect_list(
        self,
        element: ast.expr,
        targets: list[ast.expr],
        iterable: ast.expr | Sugared,
        place: SourceRange,
        hint: Type | None,
    ) -> Value:
        raise NotImplementedError

    def form_dict(self, node: ast.Call, hint: Type | None) -> Sugared:
        place = self.place(node)
        given = node.args[0] if node.args else None
        if is_empty_display(given):
            given = None
        if given is None and not node.keywords:
            type_ = hint if isinstance(hint, DictType) else DictType(STR, TENSOR)
            return SimpleValue(self.empty_dict(type_))
        if isinstance(given, ast.Dict | ast.DictComp):
            made = self.expr(given, hint)
        elif given is not None:
            made = self.dict_of(given, hint, place)
        else:
            made = None
        values = self.kwargs_of(node.keywords)
        if made is None:
            first = next(iter(values.values())).value
            type_ = hint if isinstance(hint, DictType) else DictType(STR, first.type())
            made = self.empty_dict(type_)
        for name, arg in values.items():
            key = self.constant(name, place)
            self.builtin(place, "aten::_set_item", [made, key, arg.value])
        return SimpleValue(made)

    def dict_of(self, given: ast.expr, hint: Type | None, place: SourceRange) -> Value:
        """A dict of pairs: of a list of them, a dict, or whatever can be gone through."""
        pairs = SimpleValue(self.expr(given)) if makes_list(given) else self.sugared(given)
        simple = pairs.simple()
        if simple is not None:
            made = self.builtin(place, "aten::dict", [simple])
        else:
            names = [self.temporary(word) for word in ("$_key", "$_value")]
            key, value = [ast.copy_location(ast.Name(n, ast.Load()), given) for n in names]
            target = ast.copy_location(ast.Tuple([key, value], ast.Store()), given)
            made = self.collect_dict(key, value, target, pairs, place, hint)
        self.check_dict_type(made.type(), hint, place)
        return made

    def check_dict_type(self, type_: Type, hint: Type | None, place: SourceRange) -> None:
        """Refuses a dict of other keys or values than its annotation says."""
        if isinstance(type_, DictType) and isinstance(type_.key, UnionType):
            fail_at(
                place,
                "Dicts may only contain homogeneous keys, but the type of the first generated key "
                f"was {type_.key.annotation_str}",
            )
        if not isinstance(hint, DictType) or not isinstance(type_, DictType):
            return
        for word, own, wanted in (
            ("key", type_.key, hint.key),
            ("value", type_.value, hint.value),
        ):
            if not own.isSubtypeOf(wanted):
                fail_at(
                    place,
                    f"Dict type annotation `{hint.annotation_str}` did not match the type of an "
                    f"actual {word} type `{own.annotation_str}`",
                )

    def collect_dict(
        self,
        key_node: ast.expr,
        value_node: ast.expr,
        target: ast.expr,
        iterable: ast.expr | Sugared,
        place: SourceRange,
        hint: Type | None,
    ) -> Value:
        raise NotImplementedError

    def empty_dict(self, type_: DictType) -> Value:
        node = self.graph.insertNode(self.graph.create("prim::DictConstruct"))
        return node.output().setType(type_)

    def form_fork(self, node: ast.Call, hint: Type | None) -> Sugared:
        """The call becomes a graph of its own, which another thread runs."""
        return self.put_off(node, "prim::fork", FutureType)

    def form_awaitable(self, node: ast.Call, hint: Type | None) -> Sugared:
        """The call becomes a graph of its own, which runs when its result is asked for."""
        return self.put_off(node, "prim::awaitable", AwaitType)

    def put_off(self, node: ast.Call, kind: str, wrap: Callable[[Type], Type]) -> Sugared:
        place = self.place(node)
        if not node.args:
            fail_at(place, "Expected at least one argument to fork()")
        callee = self.sugared(node.args[0])
        if isinstance(callee, ClosureValue):
            made = self.insert(self.graph.create(kind, callee.captured(self)), place)
            subgraph, result = callee.graph(self, made.inputs())
        else:
            args = self.args_of(node.args[1:])
            kwargs = self.kwargs_of(node.keywords)
            self.note_call(node)
            made = self.insert(self.graph.create(kind), place)
            block = made.addBlock()
            with self.graph.insert_point_guard(block):
                found = callee.call(place, self, args, kwargs, 1).as_value(place, self)
                block.registerOutput(found)
            subgraph, result = take_out(made, block), found.type()
        made.write("g", "Subgraph", subgraph)
        made.output().setType(wrap(result))
        return SimpleValue(made.output())

    def form_wait(self, node: ast.Call, hint: Type | None) -> Sugared:
        args = [Arg(arg.place, arg.value) for arg in self.args_of(node.args)]
        return SimpleValue(self.builtin_call(self.place(node), "aten::wait", args, {}))

    def form_unwrap_optional(self, node: ast.Call, hint: Type | None) -> Sugared:
        self.check_count(node, 1)
        place = self.place(node)
        value = self.expr(node.args[0])
        if value.type() is NONE:
            fail_at(place, "Unwrapping null optional")
        return SimpleValue(self.builtin(place, "aten::_unwrap_optional", [value]))

    def form_uninitialized(self, node: ast.Call, hint: Type | None) -> Sugared:
        """Of saved code: a value that nobody reads."""
        self.check_count(node, 1)
        return SimpleValue(self.uninitialized(self.type_from(node.args[0])))

    def form_unchecked_cast(self, node: ast.Call, hint: Type | None) -> Sugared:
        """Of saved code: a value whose type is known from what was asked before."""
        self.check_count(node, 2)
        type_ = self.type_from(node.args[0])
        made = self.graph.create("prim::unchecked_cast", [self.expr(node.args[1])])
        made.output().setType(type_)
        return SimpleValue(self.insert(made, self.place(node)).output())

    def form_unchecked_unwrap_optional(self, node: ast.Call, hint: Type | None) -> Sugared:
        self.check_count(node, 1)
        value = self.expr(node.args[0])
        made = self.graph.create("prim::unchecked_unwrap_optional", [value])
        type_ = value.type()
        made.output().setType(type_.element if isinstance(type_, OptionalType) else type_)
        return SimpleValue(self.insert(made, self.place(node)).output())

    def form_is_tracing(self, node: ast.Call, hint: Type | None) -> Sugared:
        return SimpleValue(self.constant(False, self.place(node)))

    def form_is_scripting(self, node: ast.Call, hint: Type | None) -> Sugared:
        value = self.builtin_call(self.place(node.func), "aten::is_scripting", [], {})
        return SimpleValue(value)


def is_empty_display(node: ast.expr | None) -> bool:
    """Whether a node is `[]` or `{}`."""
    if isinstance(node, ast.List):
        return not node.elts
    return isinstance(node, ast.Dict) and not node.keys


def makes_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List | ast.ListComp | ast.GeneratorExp)
