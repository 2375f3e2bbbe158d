"""Indexing in compiled code: of tensors by ints, slices, None and tensors; of lists and tuples."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from rushlight.jit.ir.graph import Value
from rushlight.jit.ir.parts import SourceRange
from rushlight.jit.ir.types import (
    INT,
    NONE,
    TENSOR,
    BoolType,
    ClassType,
    ComplexType,
    DictType,
    FloatType,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    TensorType,
    TupleType,
    Type,
)
from rushlight.jit.scripting.conditions import Conditions
from rushlight.jit.scripting.sources import fail_at
from rushlight.jit.scripting.values import (
    Arg,
    BuiltinFunction,
    MagicMethod,
    SimpleValue,
    SliceValue,
    Sugared,
    is_tensor,
)

LONG = 4
Slice = tuple[Value | None, Value | None, Value | None]


@dataclass(slots=True)
class Step:
    """One index of several: the dim it is for, and what it is."""

    dim: int
    node: ast.expr
    value: Value | None = None
    slice: SliceValue | None = None


class Indexing(Conditions):
    """Emits what square brackets mean."""

    def subscript(self, node: ast.Subscript, hint: Type | None) -> Sugared:
        owner = self.sugared(node.value)
        place, value_place = self.place(node), self.place(node.value)
        indices = indices_of(node)
        if len(indices) != 1:
            value = owner.as_value(value_place, self)
            return SimpleValue(self.index_many(place, value, indices))
        index = indices[0]
        if isinstance(index, ast.Slice):
            if owner.kind() == "module":
                value = owner.as_tuple_value(value_place, self)
                return SimpleValue(self.slice_tuple(place, value, self.slice_parts(index)))
            value = owner.as_value(value_place, self)
            return SimpleValue(self.basic_slice(place, value, index))
        found = None if isinstance(index, ast.Constant) else self.sugared(index)
        if isinstance(found, SliceValue):
            value = owner.as_value(value_place, self)
            parts = (found.start, found.stop, found.step)
            return SimpleValue(self.slice_value(place, value, 0, parts))
        simple = owner.simple()
        if simple is not None and isinstance(simple.type(), TupleType):
            return self.index_tuple(place, simple, self.expr(index))
        if simple is not None and is_tensor(simple.type()):
            return SimpleValue(self.index_many(place, simple, indices))
        return owner.getitem(place, self, self.expr(index), hint)

    # -- slices

    def slice_parts(self, node: ast.Slice) -> Slice:
        parts = (node.lower, node.upper, node.step)
        first, second, third = [None if part is None else self.expr(part) for part in parts]
        return first, second, third

    def basic_slice(self, place: SourceRange, value: Value, node: ast.Slice) -> Value:
        if isinstance(value.type(), TupleType):
            return self.slice_tuple(place, value, self.slice_parts(node))
        dim = self.constant(0, place) if is_tensor(value.type()) else None
        return self.emit_slice(place, value, dim, self.slice_parts(node))

    def slice_value(self, place: SourceRange, value: Value, dim: int, parts: Slice) -> Value:
        if isinstance(value.type(), TupleType):
            return self.slice_tuple(place, value, parts)
        at = self.constant(dim, place) if is_tensor(value.type()) else None
        return self.emit_slice(place, value, at, parts)

    def emit_slice(
        self, place: SourceRange, value: Value, dim: Value | None, parts: Slice
    ) -> Value:
        start, stop, step = parts
        # The order of the constants is torch's: the step comes first.
        by = self.constant(1, place) if step is None else step
        bounds = [self.constant(None, place) if each is None else each for each in (start, stop)]
        args = [value, *bounds, by] if dim is None else [value, dim, *bounds, by]
        return self.builtin(place, "aten::slice", args)

    def slice_tuple(self, place: SourceRange, value: Value, parts: Slice) -> Value:
        type_ = value.type()
        assert isinstance(type_, TupleType)
        numbers: list[int | None] = []
        for part in parts:
            number = None if part is None else part.toIValue()
            if part is not None and part.type() is not NONE and not isinstance(number, int):
                fail_at(place, "tuple slice indices must be integer constants")
            numbers.append(number)
        chosen = list(range(len(type_.items)))[slice(*numbers)]
        return self.make_tuple([self.tuple_item(value, number, place) for number in chosen], place)

    # -- tuples

    def index_tuple(self, place: SourceRange, value: Value, index: Value) -> Sugared:
        type_ = value.type()
        assert isinstance(type_, TupleType)
        number = index.toIValue()
        if index.type() is not INT:
            fail_at(place, "tuple index must be an integer")
        if not isinstance(number, int) or isinstance(number, bool):
            return self.index_tuple_by_value(place, value, type_, index)
        if not -len(type_.items) <= number < len(type_.items):
            fail_at(
                place,
                f"Tuple index out of range. Tuple is length {len(type_.items)} and index is "
                f"{number}",
            )
        return SimpleValue(self.tuple_node(value, index, type_.items[number]))

    def tuple_node(self, value: Value, index: Value, type_: Type) -> Value:
        node = self.graph.create("prim::TupleIndex", [value, index])
        node.output().setType(type_)
        return self.graph.insertNode(node).output()

    def index_tuple_by_value(
        self, place: SourceRange, value: Value, type_: TupleType, index: Value
    ) -> Sugared:
        """A tuple of one type may be indexed by a number that is not known."""
        if len(set(type_.items)) != 1:
            fail_at(
                place,
                "Cannot index into a tuple with a non-integer literal because we cannot resolve "
                "the output type",
            )
        return SimpleValue(self.tuple_node(value, index, type_.items[0]))

    # -- tensors

    def index_many(self, place: SourceRange, value: Value, indices: Sequence[ast.expr]) -> Value:
        if not is_tensor(value.type()):
            fail_at(
                place,
                "Unsupported operation: attempted to use multidimensional indexing on a non-tensor "
                "type",
            )
        value, tensors = self.index_basic(place, value, indices)
        if not tensors:
            return value
        index = self.make_list(OptionalType(TENSOR), tensors, place)
        return self.builtin(place, "aten::index", [value, index])

    def index_basic(
        self, place: SourceRange, value: Value, indices: Sequence[ast.expr]
    ) -> tuple[Value, list[Value]]:
        """Ints, slices and None are applied; tensors are given back, each at its dim."""
        steps: list[Step | None] = [None] * len(indices)
        dim, number = 0, 0
        while number < len(indices) and not is_ellipsis(indices[number]):
            dim = self.read_index(place, indices, number, dim, steps, False)
            number += 1
        after = -1
        for later in range(len(indices) - 1, number, -1):
            if is_ellipsis(indices[later]):
                fail_at(place, "An index can only have a single ellipsis ('...')")
            after = self.read_index(place, indices, later, after, steps, True)
        tensors: dict[int, Value] = {}
        for step in steps:
            if step is not None:
                value = self.apply_step(place, value, step, tensors)
        found = [tensors.get(at) for at in range(max(tensors, default=-1) + 1)]
        return value, [self.none_of(NONE) if each is None else each for each in found]

    def read_index(
        self,
        place: SourceRange,
        indices: Sequence[ast.expr],
        number: int,
        dim: int,
        steps: list[Step | None],
        is_reverse: bool,
    ) -> int:
        """Evaluates one index; the dim that the next one is for."""
        node = indices[number]
        step = steps[number] = Step(dim, node)
        beyond = dim - 1 if is_reverse else dim + 1
        if isinstance(node, ast.Slice):
            return beyond
        found = self.sugared(node)
        if isinstance(found, SliceValue):
            step.slice = found
            return beyond
        index = found.as_value(place, self)
        type_ = index.type()
        if isinstance(type_, ListType):
            code = Arg(place, self.constant(LONG, place))
            index = self.builtin_call(place, "aten::tensor", [Arg(place, index)], {"dtype": code})
            type_ = index.type()
        step.value = index
        if type_ is NONE:
            return dim if is_reverse else dim + 1
        if type_ is INT:
            return dim - 1 if is_reverse else dim
        if type_.isSubtypeOf(OptionalType(TENSOR)):
            if is_reverse:
                fail_at(place, "Ellipses followed by tensor indexing is currently not supported")
            return dim + 1
        fail_at(
            place,
            "Unsupported operation: indexing tensor with unsupported index type "
            f"'{type_.annotation_str}'. Only ints, slices, lists and tensors are supported",
        )

    def apply_step(
        self, place: SourceRange, value: Value, step: Step, tensors: dict[int, Value]
    ) -> Value:
        index = step.value
        if step.slice is not None:
            parts = (step.slice.start, step.slice.stop, step.slice.step)
            return self.emit_slice(place, value, self.constant(step.dim, place), parts)
        if isinstance(step.node, ast.Slice):
            dim = self.constant(step.dim, place)
            return self.emit_slice(place, value, dim, self.slice_parts(step.node))
        assert index is not None
        if index.type() is NONE:
            dim = self.constant(step.dim, place)
            return self.builtin(place, "aten::unsqueeze", [value, dim])
        if index.type() is INT:
            dim = self.constant(step.dim, place)
            return self.builtin(place, "aten::select", [value, dim, index])
        tensors[step.dim] = index
        return value

    # -- writing

    def assign_subscript(self, place: SourceRange, node: ast.Subscript, value: Arg) -> None:
        owner = self.expr(node.value)
        indices = indices_of(node)
        if is_tensor(owner.type()):
            target, tensors = self.index_basic(self.place(node), owner, indices)
            filled = self.as_tensor_like(value.value, target)
            if not tensors:
                self.builtin(place, "aten::copy_", [target, filled])
                return
            index = self.make_list(OptionalType(TENSOR), tensors, place)
            self.builtin(place, "aten::index_put_", [target, index, filled])
            return
        if isinstance(owner.type(), TupleType):
            # A call would turn it into a list, and change that one.
            fail_at(
                self.place(node),
                f"{owner.type().annotation_str} does not support subscripted assignment",
            )
        if len(indices) != 1:
            fail_at(place, "Sliced expression not yet supported for subscripted assignment. ")
        if isinstance(indices[0], ast.Slice):
            fail_at(place, "Sliced expression not yet supported for subscripted assignment. ")
        args = [Arg(place, owner), Arg(place, self.expr(indices[0])), value]
        called = MagicMethod("__setitem__", BuiltinFunction("aten::_set_item"))
        called.call(place, self, args, {}, 0)

    def as_tensor_like(self, value: Value, target: Value) -> Value:
        """A number as a tensor of the dtype and device of what it is written to."""
        number = (IntType, FloatType, BoolType, ComplexType, NumberType)
        if not isinstance(value.type(), number):
            return value
        place = value.node().source
        dtype = self.builtin(place, "prim::dtype", [target])
        device = self.builtin(place, "prim::device", [target])
        kwargs = {"dtype": Arg(place, dtype), "device": Arg(place, device)}
        return self.builtin_call(place, "aten::tensor", [Arg(place, value)], kwargs)

    def augment_subscript(
        self, node: ast.AugAssign, target: ast.Subscript, kinds: tuple[str, str]
    ) -> None:
        """`x[i] += y`; `kinds` are the operators that write, and that do not."""
        place = self.place(node)
        owner = self.expr(target.value)
        indices = indices_of(target)
        type_ = owner.type()
        if isinstance(type_, TensorType):
            sliced, tensors = self.index_basic(self.place(target), owner, indices)
            added = self.expr(node.value)
            if not tensors:
                self.builtin(place, kinds[0], [sliced, added])
                return
            index = self.make_list(OptionalType(TENSOR), tensors, place)
            picked = self.builtin(place, "aten::index", [sliced, index])
            result = self.builtin(place, kinds[0], [picked, added])
            self.builtin(place, "aten::index_put_", [sliced, index, result])
            return
        if len(indices) != 1 or isinstance(indices[0], ast.Slice):
            fail_at(
                place,
                "Sliced expression not yet supported for "
                f"'{type_.annotation_str}' augmented assignment.",
            )
        if isinstance(type_, ListType):
            element = type_.element
        elif isinstance(type_, DictType):
            element = type_.value
        else:
            fail_at(place, f"'{type_.annotation_str}' does not support augmented assignment.")
        at = self.expr(indices[0])
        added = self.expr(node.value)
        item = self.builtin(place, "aten::__getitem__", [owner, at])
        writes = isinstance(element, TensorType | ListType)
        result = self.builtin(place, kinds[0 if writes else 1], [item, added])
        self.builtin(place, "aten::_set_item", [owner, at, result])

    def delete_subscript(self, node: ast.Subscript) -> None:
        place = self.place(node)
        owner = self.expr(node.value)
        indices = indices_of(node)
        if len(indices) != 1 or isinstance(indices[0], ast.Slice):
            fail_at(place, "del statements only support deletion at a single index, slicing is not supported")  # fmt: skip # noqa: E501
        index = self.expr(indices[0])
        type_ = owner.type()
        if not isinstance(type_, ClassType):
            self.builtin(place, "aten::Delete", [owner, index])
        elif "__delitem__" not in type_.methods:
            fail_at(place, "Class does not define __delitem__")
        else:
            delete = SimpleValue(owner).attr(place, self, "__delitem__")
            delete.call(place, self, [Arg(place, index)], {}, 1)


def indices_of(node: ast.Subscript) -> list[ast.expr]:
    if isinstance(node.slice, ast.Tuple):
        return list(node.slice.elts)
    return [node.slice]


def is_ellipsis(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return node.id == "Ellipsis"
    return isinstance(node, ast.Constant) and node.value is Ellipsis
