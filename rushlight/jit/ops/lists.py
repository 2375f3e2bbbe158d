"""Operators on lists. A list of a graph is a Python list, so that who holds it sees changes."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.jit.ir.operators import graph_op, graph_text
from rushlight.jit.ir.types import BOOL, ClassType
from rushlight.jit.ops.comparison import same_tensor
from rushlight.jit.ops.texts import value_text

NUMBERS = ("int", "float", "bool")
ELEMENTS = (*NUMBERS, "str", "Tensor")

graph_text("len({0})", "aten::len.t(t[] a) -> int", "aten::len.any(Any[] a) -> int")
graph_text("[*{0}]", "aten::list.t(t[] l) -> t[]", "aten::copy.t(t[](a) self) -> t[]")
graph_text("[*{0}]", "aten::list(str t) -> str[]")
graph_text("[*{0}, *{1}]", "aten::add.t(t[] a, t[] b) -> t[]")
graph_text("{0} * {1}", "aten::mul.left_t(t[] l, int n) -> t[]",
           "aten::mul.right_(int n, t[] l) -> t[]")  # fmt: skip


@graph_op("aten::__getitem__.t(t[](a) list, int idx) -> t(*)",
          "aten::select.t(t[](a) list, int idx) -> t(*)")  # fmt: skip
def get_item(values: list[Any], idx: int) -> Any:
    try:
        return values[idx]
    except IndexError:
        raise IndexError("list index out of range") from None


@graph_op("aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)")
def set_item(l: list[Any], idx: int, el: Any) -> list[Any]:
    try:
        l[idx] = el
    except IndexError:
        raise IndexError("list index out of range") from None
    return l


@graph_op("aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)")
def append(self: list[Any], el: Any) -> list[Any]:
    self.append(el)
    return self


@graph_op("aten::add_.t(t[](a!) self, t[] b) -> t[]")
def add_to(self: list[Any], b: list[Any]) -> list[Any]:
    self += b
    return self


@graph_op("aten::mul_.t(t[](a!) l, int n) -> t[](a!)")
def multiply(l: list[Any], n: int) -> list[Any]:
    l *= n
    return l


graph_text("{0}.extend({1})", "aten::extend.t(t[](a!) self, t[] other) -> ()")
graph_text("{0}.insert({1}, {2})", "aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()")
graph_text("{0}.clear()", "aten::clear.t(t[](a!) self) -> ()")
graph_text("{0}.reverse()", "aten::reverse.t(t[](a!) self) -> ()")


@graph_op("aten::pop.t(t[](a!) self, int idx=-1) -> t(*)")
def pop(self: list[Any], idx: int) -> Any:
    if not self:
        raise IndexError("pop from empty list")
    try:
        return self.pop(idx)
    except IndexError:
        raise IndexError("list index out of range") from None


@graph_op("aten::Delete.t(t[](a!) self, int idx) -> ()")
def delete(self: list[Any], idx: int) -> None:
    try:
        del self[idx]
    except IndexError:
        raise IndexError("list index out of range") from None


@graph_op("aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]")
def slice_list(l: Any, start: int | None, end: int | None, step: int) -> Any:
    if step == 0:
        raise RuntimeError("List slice should have non-zero step")
    return l[start:end:step]


graph_text("{1} in {0}", *[f"aten::__contains__.{x}_list({x}[] l, {x} item) -> bool"
                           for x in ("int", "float", "str")])  # fmt: skip


def find(values: list[Any], element: Any) -> int:
    """The place of an element, -1 where it is not there; tensors as Python compares them."""
    if isinstance(element, Tensor):
        return next((i for i, value in enumerate(values) if same_tensor(value, element)), -1)
    return values.index(element) if element in values else -1


@graph_op(*[f"aten::index.list_{x}({x}[] self, {x} el) -> int" for x in ELEMENTS])
def index(self: list[Any], el: Any) -> int:
    place = find(self, el)
    if place < 0:
        shown = f"{el:g}" if isinstance(el, float) else value_text(el)
        raise RuntimeError(f"'{shown}' is not in list")
    return place


@graph_op(*[f"aten::remove.{x}({x}[](a!) self, {x} el) -> ()" for x in ELEMENTS])
def remove(self: list[Any], el: Any) -> None:
    place = find(self, el)
    if place < 0:
        raise RuntimeError("list.remove(x): x not in list")
    del self[place]


@graph_op(*[f"aten::count.{x}({x}[] self, {x} el) -> int" for x in ELEMENTS])
def count(self: list[Any], el: Any) -> int:
    if isinstance(el, Tensor):
        return sum([same_tensor(value, el) for value in self])
    return self.count(el)


def sort_key(values: list[Any]) -> Any:
    """Objects are compared by their `__lt__`, also in tuples; tensors by their one element."""
    classes = classes_within(values[0]) if values else []
    for cls in classes:
        check_ordered(cls)
    if not classes:
        return None
    from functools import cmp_to_key

    return cmp_to_key(lambda a, b: -1 if is_less(a, b) else int(is_less(b, a)))


def classes_within(value: Any) -> list[ClassType]:
    """The classes of the objects that a value is or consists of."""
    from rushlight.jit.unit import Instance

    if isinstance(value, tuple | list):
        return [cls for item in value for cls in classes_within(item)]
    return [value.type] if isinstance(value, Instance) else []


def check_ordered(cls: ClassType) -> None:
    """Refuses to sort objects of a class that does not compare them."""
    less = cls.methods.get("__lt__")
    if less is not None:
        others = [argument.type for argument in less.schema.arguments[1:]]
        if others == [cls] and [each.type for each in less.schema.returns] == [BOOL]:
            return
    raise RuntimeError(
        f"To sort a list of {cls.dotted} it must define a __lt__ method with two inputs of type "
        f"{cls.dotted} that returns a bool"
    )


def is_less(a: Any, b: Any) -> bool:
    from rushlight.jit.unit import Instance

    if isinstance(a, Instance):
        return bool(a.call("__lt__", b))
    if isinstance(a, tuple | list):
        for x, y in zip(a, b):
            if is_less(x, y):
                return True
            if is_less(y, x):
                return False
        return len(a) < len(b)
    return bool(a < b)


@graph_op(
    *[f"aten::sort.{x}({x}[](a!) self, bool reverse=False) -> ()" for x in ELEMENTS],
    "aten::sort.any(t[](a!) self, bool reverse=False) -> ()",
)
def sort(self: list[Any], reverse: bool) -> None:
    # torch: a sort downwards keeps equal elements in order, as Python's does.
    self.sort(key=sort_key(self), reverse=reverse)


@graph_op(
    *[f"aten::sorted.{x}({x}[](a) input) -> {x}[]" for x in ELEMENTS],
    "aten::sorted.any(t[](a) self) -> t[]",
)
def sort_copy(self: list[Any]) -> list[Any]:
    return sorted(self, key=sort_key(self))


def of_list(name: str) -> list[str]:
    return [f"prim::{name}.self_{x}({x}[] self) -> {x}" for x in NUMBERS]


def of_two_lists(name: str) -> list[str]:
    return [f"prim::{name}.{x}_list({x}[] l, {x}[] r) -> {x}[]" for x in NUMBERS]


@graph_op(*of_list("min"))
def smallest(self: list[Any]) -> Any:
    if not self:
        raise RuntimeError("min() arg is an empty sequence")
    return min(self)


@graph_op(*of_list("max"))
def largest(self: list[Any]) -> Any:
    if not self:
        raise RuntimeError("max() arg is an empty sequence")
    return max(self)


graph_op(*of_two_lists("min"))(min)
graph_op(*of_two_lists("max"))(max)
graph_text("sum({0})", "aten::sum.int(int[] self) -> int", "aten::sum.bool(bool[] self) -> int")
graph_text("sum({0}, 0.0)", "aten::sum.float(float[] self) -> float")
graph_text("sum({0}, 0j)", "aten::sum.complex(complex[] self) -> complex")
graph_op(*[f"aten::any.{x}({x}[] self) -> bool" for x in ("str", *NUMBERS)])(any)
graph_op(*[f"aten::all.{x}({x}[] self) -> bool" for x in NUMBERS])(all)
