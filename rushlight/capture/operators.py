"""Operators, subscripts and iteration on variables."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable
from typing import Any

from rushlight.capture.attributes import Attributes, Iter
from rushlight.capture.bytecode import BINARY
from rushlight.capture.floats import computed
from rushlight.capture.iterators import Items, Over, OverRange
from rushlight.capture.outcomes import Break, Specialize, UserRaise
from rushlight.capture.sources import const
from rushlight.capture.tracer import CONSTANTS, IDENTITY, INPLACE, raise_user
from rushlight.capture.values import (
    NULL,
    Bounded,
    Const,
    Dict,
    Fields,
    Float,
    Lazy,
    Method,
    New,
    Number,
    Obj,
    Opaque,
    Proxy,
    Seq,
    SetVar,
    Slice,
    Tensor,
    View,
)

__all__ = ["Operators"]

# Arithmetic on plain numbers that may raise.
RAISING = {
    operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.lshift,
    operator.rshift, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
    operator.ilshift, operator.irshift,
}  # fmt: skip
BITWISE = {operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift}
DIVISIONS = {operator.truediv, operator.floordiv, operator.mod}
ORDERINGS = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
EQUALITIES = {tuple.__eq__, list.__eq__, collections.deque.__eq__}
SET_OPERATORS = {operator.and_, operator.or_, operator.sub, operator.xor}
SET_CHANGES = {
    operator.ior: "update", operator.iand: "intersection_update",
    operator.isub: "difference_update", operator.ixor: "symmetric_difference_update",
}  # fmt: skip
REFLECTED = {
    operator.lt: "__gt__", operator.gt: "__lt__", operator.le: "__ge__", operator.ge: "__le__",
    operator.eq: "__eq__", operator.ne: "__ne__",
}  # fmt: skip
Binary = Callable[[Any, Any], Any]
# Numbers do not change in place.
OUT_OF_PLACE = {f: BINARY[symbol[:-1]] for symbol, f in BINARY.items() if symbol.endswith("=")}


def limited(v: Seq, items: list[Any]) -> list[Any]:
    """The items that a sequence of this kind keeps."""
    return items[max(len(items) - v.limit, 0) :] if isinstance(v, Bounded) else items


def is_in(key: Any, expected: bool) -> Callable[[str, Any], str]:
    """The test whether a key is, or is not, in a table."""
    return lambda text, names: f"{names.constant(key)} {'in' if expected else 'not in'} {text}"


def has_equal_items(v: Any) -> bool:
    """Whether a sequence is equal to others of its kind with equal items."""
    return isinstance(v, Seq) and v.kind.__eq__ in EQUALITIES


class Operators(Attributes):
    # -- operators ---------------------------------------------------------------------------------

    def binary(self, f: Binary, a: Any, b: Any) -> Any:
        a, b = self.real(a), self.real(b)
        if isinstance(a, Opaque) or isinstance(b, Opaque):
            return self.binary_of_opaque(f, a, b)
        if isinstance(a, Float) or isinstance(b, Float):
            found = computed(self, OUT_OF_PLACE.get(f, f), [a, b])
            if found is not NULL:
                return found
            if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
                a, b = self.decided(a), self.decided(b)
        if isinstance(a, Proxy) or isinstance(b, Proxy):
            found = self.binary_of_proxies(f, a, b)
        elif self.are_constants(f, a, b):
            found = self.fold(f, a.value, b.value)
        else:
            found = self.binary_of_containers(f, a, b)
        if found is NULL:
            found = self.binary_of_objects(f, a, b)
        if found is NULL:
            raise Break(f"{f.__name__} of {type(a).__name__} and {type(b).__name__}")
        return found

    def binary_of_opaque(self, f: Binary, a: Any, b: Any) -> Any:
        if all(isinstance(x, Proxy | Const | Seq | Slice) for x in (a, b)):
            return self.world.opaque_binary(self, f, a, b)
        raise Break(f"{f.__name__} of {type(a).__name__} and {type(b).__name__}")

    def are_constants(self, f: Binary, a: Any, b: Any) -> bool:
        """Whether what an operator gives is known: of two constants, or where a constant of the
        library's is compared with an object that a guard names."""
        if isinstance(a, Const) and isinstance(b, Const):
            return True
        if f not in (operator.eq, operator.ne) or not (
            isinstance(a, Const) or isinstance(b, Const)
        ):
            return False
        return all(
            type(x.value) not in CONSTANTS
            if isinstance(x, Const)
            else isinstance(x, Obj) and isinstance(x.value, IDENTITY)
            for x in (a, b)
        )

    def fold(self, f: Callable[..., Any], *values: Any) -> Any:
        """Compute now; what it raises, the program raises."""
        try:
            return self.lift(f(*values))
        except Exception as error:
            raise UserRaise(New(type(error), args=tuple(map(self.lift, error.args)))) from None

    def binary_of_proxies(self, f: Binary, a: Any, b: Any) -> Any:
        if not all(isinstance(x, Proxy | Const | Seq | Slice) for x in (a, b)):
            return NULL
        if not (isinstance(a, Tensor) or isinstance(b, Tensor)):
            if isinstance(a, Seq) or isinstance(b, Seq):
                return self.binary_of_containers(f, self.decided(a), self.decided(b))
            f = OUT_OF_PLACE.get(f, f)
            if f in BITWISE and not all(isinstance(x, Const) or self.is_bool(x) for x in (a, b)):
                # Symbols have no bits.
                return self.fold(f, self.python(a), self.python(b))
            numbers = [x for x in (a, b) if isinstance(x, Number)]
            if f in RAISING and any(self.world.may_raise_later(x.example) for x in numbers):
                raise Specialize  # the user's handler must see it
            if f in RAISING and self.divides_by_zero(f, a, b):
                return self.fold(f, self.python(a), self.python(b))
        elif not (isinstance(a, Tensor) and hasattr(type(a.example), f"__{f.__name__}__")):
            # Nothing is there to be changed in place.
            f = OUT_OF_PLACE.get(f, f)
        return self.record("call_function", f, [a, b], {})

    def divides_by_zero(self, f: Binary, a: Any, b: Any) -> bool:
        """Whether the zero of a number makes an operator raise, by an answer that is guarded. What
        data tell is left to the graph."""
        if f is operator.pow:
            zero = a
            may_divide = self.is_known(b) and self.truth(self.binary(operator.lt, b, Const(0)))
        else:
            zero, may_divide = b, f in DIVISIONS
        return may_divide and self.is_known(zero) and not self.truth(zero)

    def is_bool(self, v: Any) -> bool:
        return self.type_of(v) is bool

    def is_known(self, v: Any) -> bool:
        return isinstance(v, Const) or self.world.is_known(v.example)

    def decided(self, v: Any) -> Any:
        return Const(self.python(v)) if isinstance(v, Number) else v

    def binary_of_containers(self, f: Binary, a: Any, b: Any) -> Any:
        is_list = isinstance(a, Seq) and a.kind is list
        if f is operator.iadd and is_list and isinstance(b, Seq | Iter | View):
            a.items.extend(self.iterate(b))
            self.mutated(a)
            return a
        if f is operator.iadd and isinstance(a, Seq) and a.kind is collections.deque:
            self.call(self.getattr(a, "extend"), [b], {})
            return a
        is_equality = f in (operator.eq, operator.ne)
        if is_equality and has_equal_items(a) and has_equal_items(b):
            return Const(self.are_equal(a, b) is (f is operator.eq))
        found = self.joined(f, a, b)
        if found is not NULL:
            return found
        is_compared = f in (operator.eq, operator.ne) and isinstance(a, View | SetVar)
        if is_compared and isinstance(b, View | SetVar) and isinstance(a, View | type(b)):
            same = self.plain_set(a) == self.plain_set(b)
            return Const(same is (f is operator.eq))
        if isinstance(a, SetVar) and a.kind is set and f in SET_CHANGES:
            self.call(self.getattr(a, SET_CHANGES[f]), [b], {})
            return a
        if isinstance(a, SetVar | View) and isinstance(b, SetVar | View) and f in SET_OPERATORS:
            return self.lift(f(self.plain_set(a), self.plain_set(b)))
        plain = Const | Seq | Dict | SetVar | Slice
        is_plain = isinstance(a, plain) and isinstance(b, plain)
        if is_plain and (f in ORDERINGS or (f is operator.mod and isinstance(a, Const))):
            return self.fold(f, self.python(a), self.python(b))
        return NULL

    def joined(self, f: Binary, a: Any, b: Any) -> Any:
        """Sequences and dicts one after the other, and repeated sequences."""
        are_alike = isinstance(a, Seq) and isinstance(b, Seq) and a.kind is b.kind
        if are_alike and f in (operator.add, operator.iadd):
            return a.like(limited(a, a.items + b.items))
        if isinstance(a, Seq) and f in (operator.mul, operator.imul) and isinstance(b, Const):
            if f is operator.imul and a.kind in (list, collections.deque):
                raise Break(f"{a.kind.__name__} repeated in place")
            return a.like(limited(a, a.items * b.value))
        if isinstance(b, Seq) and f is operator.mul and isinstance(a, Const):
            return b.like(limited(b, b.items * a.value))
        if isinstance(a, Dict) and isinstance(b, Dict) and f is operator.or_:
            return Dict({**a.items, **b.items}, kind=a.kind, factory=a.factory)
        if isinstance(a, Seq) and isinstance(b, Const) and isinstance(b.value, a.kind):
            b = Seq(type(b.value), list(map(self.lift, b.value)))  # type: ignore[call-overload]
        elif isinstance(b, Seq) and isinstance(a, Const) and isinstance(a.value, tuple):
            a = Seq(type(a.value), [self.lift(x) for x in a.value])
        both_tuples = isinstance(a, Seq) and isinstance(b, Seq) and f is operator.add
        if both_tuples and issubclass(a.kind, tuple) and issubclass(b.kind, tuple):
            kind = self.world.kind_of_sum(a.kind, b.kind)
            return Seq(kind, a.items + b.items)
        return NULL

    def are_equal(self, a: Seq, b: Seq) -> bool:
        """Whether two sequences are equal: item by item, as Python compares them."""
        if a.kind.__eq__ is not b.kind.__eq__ or len(a.items) != len(b.items):
            return False
        for x, y in zip(map(self.real, a.items), map(self.real, b.items), strict=True):
            both = isinstance(x, Const) and isinstance(y, Const)
            is_one = x is y or (both and x.value is y.value)
            if not is_one and not self.truth(self.binary(operator.eq, x, y)):
                return False
        return True

    def plain_set(self, v: Any) -> Any:
        if isinstance(v, View):
            if v.name != "keys":
                raise Break(f"set operation on dict_{v.name}")
            return set(v.owner.items)
        if isinstance(v.items, list):
            return v.kind(v.items)
        return v.items

    def binary_of_objects(self, f: Binary, a: Any, b: Any) -> Any:
        name = f.__name__.strip("_")
        tries = [(a, b, f"__{name}__"), (b, a, REFLECTED.get(f, f"__r{name}__"))]
        if f.__name__ in INPLACE:
            plain = name[1:]
            tries = [(a, b, f"__{name}__"), (a, b, f"__{plain}__"), (b, a, f"__r{plain}__")]
        for x, y, method in tries:
            if not isinstance(x, New | Obj):
                continue
            cls = self.type_of(x)
            if method == "__ne__" and cls.__ne__ is object.__ne__:
                # Python's own: the opposite of `==`.
                self.guard("is", const(cls).attr("__ne__"), cls.__ne__)
                found = self.binary_of_objects(operator.eq, x, y)
                return NULL if found is NULL else Const(not self.truth(found))
            if not hasattr(cls, method):
                self.guard("lacks", const(cls), method)
            elif isinstance(getattr(cls, method), types.FunctionType):
                found = self.real(self.call(self.type_attr(x, method), [y], {}))
                if not (isinstance(found, Const) and found.value is NotImplemented):
                    return found
        if f in (operator.eq, operator.ne):
            return self.compare_identities(f, a, b)
        return NULL

    def compare_identities(self, f: Binary, a: Any, b: Any) -> Any:
        """`==` of objects that compare as they are: by identity."""
        if any(isinstance(x, Const) and type(x.value) not in CONSTANTS for x in (a, b)):
            # A constant of the library's, with a rule of its own.
            return NULL
        for x in (a, b):
            cls = self.type_of(x)
            if isinstance(x, New | Obj):
                if cls.__eq__ not in (object.__eq__, type.__eq__):
                    return NULL
                self.guard("is", const(cls).attr("__eq__"), cls.__eq__)
        if not isinstance(a, New | Obj | Const) or not isinstance(b, New | Obj | Const):
            return NULL
        return Const(self.is_same(a, b) is (f is operator.eq))

    def is_same(self, a: Any, b: Any) -> bool:
        """Whether two variables are one object; guards keep the answer."""
        if isinstance(a, Const) and isinstance(b, Const):
            return a.value is b.value
        if a is b or (isinstance(a, Obj) and isinstance(b, Obj) and a.value is b.value):
            return True
        if isinstance(a, Method) or isinstance(b, Method):
            return False
        if a.source is not None and b.source is not None:
            self.guard("distinct", a.source, b.source)
        return False

    def unary(self, f: Callable[[Any], Any], v: Any) -> Any:
        v = self.real(v)
        if isinstance(v, Opaque):
            return self.world.opaque_unary(self, f, v)
        if isinstance(v, Float):
            found = computed(self, f, [v])
            return self.fold(f, self.python(v)) if found is NULL else found
        if isinstance(v, Number) and f is operator.invert and not self.is_bool(v):
            return self.fold(f, self.python(v))
        if isinstance(v, Proxy):
            return self.record("call_function", f, [v], {})
        if isinstance(v, New | Obj):
            return self.call(self.type_attr(v, f"__{f.__name__}__"), [], {})
        return self.fold(f, self.python(v))

    def contains(self, container: Any, item: Any) -> bool:
        container = self.real(container)
        if isinstance(container, View) and container.name == "keys":
            container = container.owner
        if isinstance(container, Dict):
            return self.item_of(container, self.key(item)) is not None
        if isinstance(container, SetVar):
            return self.key(item) in container.items
        if isinstance(container, Const):
            return self.python(item) in container.value
        if isinstance(container, Obj) and type(container.value) is types.MappingProxyType:
            key = self.python(item)
            found = key in container.value
            self.guard("text", container.source, is_in(key, not found))
            return found
        if isinstance(container, New | Obj) and hasattr(self.type_of(container), "__contains__"):
            return self.truth(self.call(self.type_attr(container, "__contains__"), [item], {}))
        return any(self.is_equal(self.real(item), self.real(x)) for x in self.iterate(container))

    def is_equal(self, a: Any, b: Any) -> bool:
        if a is b:
            return True
        if isinstance(a, New | Obj) or isinstance(b, New | Obj):
            return self.is_same(a, b) or self.truth(self.binary(operator.eq, a, b))
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            raise Break("comparison of a tensor with an item")
        return bool(self.python(a) == self.python(b))

    # -- subscripts --------------------------------------------------------------------------------

    def subscript(self, v: Any, key: Any) -> Any:
        v, key = self.real(v), self.real(key)
        match v:
            case Tensor():
                return self.record("call_function", operator.getitem, [v, key], {})
            case Opaque():
                return self.world.opaque_binary(self, operator.getitem, v, key)
            case Seq():
                return self.item_of_sequence(v, self.python(key))
            case Dict():
                return self.item_of_dict(v, key)
            case Const():
                return self.fold(operator.getitem, v.value, self.python(key))
            case Obj() if isinstance(v.value, type):
                return self.fold(operator.getitem, v.value, self.python(key))
            case Obj() | New():
                return self.item_of_object(v, key)
        raise Break(f"subscript of {self.type_of(v).__name__}")

    def item_of_sequence(self, v: Seq, index: Any) -> Any:
        try:
            found = v.items[index]
        except (IndexError, TypeError) as error:
            raise raise_user(type(error), *error.args) from None
        if not isinstance(index, slice):
            return found
        return Seq(tuple if hasattr(v.kind, "_fields") else v.kind, found)

    def item_of_dict(self, v: Dict, key: Any) -> Any:
        value = self.key(key)
        found = self.item_of(v, value)
        if found is not None:
            return found
        factory = self.real(v.factory)
        if factory is None or isinstance(factory, Const):
            raise raise_user(KeyError, value)
        made = v.items[value] = self.call(factory, [], {})
        self.mutated(v)
        return made

    def item_of_object(self, v: Any, key: Any) -> Any:
        if isinstance(v, Obj):
            found = self.world.module_items(self, v)
            if isinstance(key, Slice):
                kept = self.world.module_slice(self, v, self.python(key))
                if kept is not None:
                    return kept
            if found is not None and isinstance(key, Const) and type(key.value) is int:
                try:
                    return found[key.value]
                except IndexError:
                    raise Break("module index out of range") from None
        if isinstance(v, Obj) and type(v.value) is types.MappingProxyType:
            name = self.python(key)
            if name not in v.value:
                self.guard("text", v.source, is_in(name, True))
                raise raise_user(KeyError, name)
            return self.present(Lazy(v.value[name], v.source.item(name)))
        if isinstance(getattr(self.type_of(v), "__getitem__", None), types.FunctionType):
            return self.call(self.type_attr(v, "__getitem__"), [key], {})
        table = self.table_of(v)
        if table is not None and not hasattr(self.type_of(v), "__missing__"):
            return self.item_of_dict(table, key)
        raise Break(f"subscript of {self.type_of(v).__name__}")

    def store_subscript(self, v: Any, key: Any, value: Any) -> None:
        v, key = self.real(v), self.real(key)
        if isinstance(v, Tensor):
            self.record("call_function", operator.setitem, [v, key, value], {})
        elif isinstance(v, Opaque):
            self.world.opaque_store(self, v, key, value)
        elif isinstance(v, Seq) and v.kind in (list, collections.deque):
            index = self.python(key)
            try:
                v.items[index] = self.iterate(value) if isinstance(index, slice) else value
            except (IndexError, ValueError) as error:
                raise raise_user(type(error), *error.args) from None
            self.mutated(v)
        elif isinstance(v, Dict):
            # Of a `__dict__` nothing else is asked.
            items = v.held if isinstance(v, Fields) else v.items
            items[self.key(key)] = value
            self.mutated(v)
        elif isinstance(getattr(self.type_of(v), "__setitem__", None), types.FunctionType):
            self.call(self.type_attr(v, "__setitem__"), [key, value], {})
        elif isinstance(v, New | Obj) and (table := self.table_of(v)) is not None:
            table.items[self.key(key)] = value
            self.mutated(table)
        else:
            raise Break(f"store into {type(v).__name__}")

    def delete_subscript(self, v: Any, key: Any) -> None:
        v = self.real(v)
        if isinstance(getattr(self.type_of(v), "__delitem__", None), types.FunctionType):
            self.call(self.type_attr(v, "__delitem__"), [key], {})
            return
        if isinstance(v, Dict):
            index = self.key(key)
        elif isinstance(v, Seq) and v.kind is list:
            index = self.python(key)
        else:
            raise Break("del of an item")
        try:
            del v.items[index]
        except (KeyError, IndexError) as error:
            raise raise_user(type(error), *error.args) from None
        self.mutated(v)

    # -- iteration ---------------------------------------------------------------------------------

    def iterate(self, v: Any) -> list[Any]:
        """All items, now."""
        v = self.real(v)
        if isinstance(v, Seq):
            return list(v.items)
        it = self.iterator(v)
        if not isinstance(it, Iter | New | Obj):
            raise Break(f"iterate over {self.type_of(v).__name__}")
        items = []
        while (item := self.advance(it)) is not NULL:
            items.append(item)
            if len(items) > 100_000:
                raise Break("too many items")
        return items

    def iterator(self, v: Any) -> Any:
        """`iter(v)`."""
        v = self.real(v)
        match v:
            case Iter():
                return v
            case Seq():
                return Items(list(v.items)) if v.kind is collections.deque else Over(v)
            case Dict() | View() | SetVar():
                owner = v.owner if isinstance(v, View) else v if isinstance(v, Dict) else None
                return Items(self.snapshot(v), owner)
            case Const() if isinstance(v.value, range):
                return OverRange(v.value)
            case Const() if isinstance(v.value, str | bytes | tuple):
                return Items([self.lift(x) for x in v.value])
            case Tensor():
                return Items(self.world.unbind(self, v))
            case Opaque():
                return Items(self.world.opaque_items(self, v))
            case New() | Obj():
                return self.iterator_of_object(v)
        raise Break(f"iterate over {self.type_of(v).__name__}")

    def snapshot(self, v: Any) -> list[Any]:
        if isinstance(v, SetVar):
            if v.log and v.source is not None:
                raise Break("iterate over a set of the outside after a change")
            return [self.lift(x) for x in v.items]
        owner, name = (v.owner, v.name) if isinstance(v, View) else (v, "keys")
        if name == "values":
            return list(owner.items.values())
        if name == "keys":
            return [self.lift(key) for key in owner.items]
        return [Seq(tuple, [self.lift(key), item]) for key, item in owner.items.items()]

    def iterator_of_object(self, v: Any) -> Any:
        if isinstance(v, Obj):
            found = self.world.module_items(self, v)
            if found is not None:
                return Items(found)
        cls = self.type_of(v)
        if isinstance(getattr(cls, "__iter__", None), types.FunctionType):
            return self.real(self.call(self.type_attr(v, "__iter__"), [], {}))
        if isinstance(v, Obj) and hasattr(cls, "__next__"):
            return v
        table = self.table_of(v)
        if table is not None:
            return self.iterator(table)
        raise Break(f"iterate over {cls.__name__}")

    def advance(self, it: Any) -> Any:
        """The next item of an iterator, or NULL at the end."""
        it = self.real(it)
        if isinstance(it, Iter):
            return it.next(self)
        if not isinstance(it, New | Obj):
            raise Break(f"next of {type(it).__name__}")
        if not isinstance(getattr(self.type_of(it), "__next__", None), types.FunctionType):
            raise Break("iterator of unknown state")
        try:
            return self.call(self.getattr(it, "__next__"), [], {})
        except UserRaise as error:
            if isinstance(error.var, New) and error.var.cls is StopIteration:
                return NULL
            raise
