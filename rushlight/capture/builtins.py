"""Python's built-in functions as programs over variables. Each takes the tracer first; a result of
NotImplemented leaves the call to the general rules."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import itertools
import math
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

from rushlight.capture import iterators
from rushlight.capture.attributes import Iter
from rushlight.capture.containers import sorted_items, update_dict
from rushlight.capture.floats import computed
from rushlight.capture.outcomes import Break, UserRaise
from rushlight.capture.sources import const
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import (
    NULL,
    Bound,
    Bounded,
    Const,
    Dict,
    Float,
    Func,
    Made,
    Method,
    New,
    Number,
    Obj,
    Opaque,
    Partial,
    Seq,
    SetVar,
    Tensor,
    View,
)

__all__ = ["BUILTINS", "CALLS", "PURE"]

# Functions without effects, computed now where their arguments are known.
PURE: set[Any] = {
    abs, round, divmod, pow, repr, str, int, float, bool, complex, bytes, ord, chr, hash, format,
    issubclass, range, sys.intern, os.fspath, slice, bin, hex, oct, ascii, operator.index,
    *(f for f in vars(math).values() if isinstance(f, types.BuiltinFunctionType)),
}  # fmt: skip
# Functions of `operator` that are no operators on variables.
NO_OPERATION = (
    "attrgetter", "itemgetter", "methodcaller", "call", "index", "setitem", "delitem",
    "length_hint", "countOf", "indexOf", "concat", "iconcat",
)  # fmt: skip


def asks_classes(kinds: Any) -> bool:
    """Whether a class has an `__instancecheck__` of its own."""
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(
        asks_classes(kind)
        if isinstance(kind, tuple)
        else getattr(type(kind), "__instancecheck__", None) is not type.__instancecheck__
        for kind in kinds
    )


def builtin_isinstance(t: Any, v: Any, cls: Any) -> Any:
    kinds = t.python(cls)
    v = t.real(v)
    if isinstance(v, Obj):
        found = isinstance(v.value, kinds)
        if asks_classes(kinds):
            # Classes may be registered later.
            no = "not " if found else ""
            t.guard("text", v.source, lambda e, k: f"{no}isinstance({e}, {k.constant(kinds)})")
        return Const(found)
    if isinstance(v, Tensor):
        return Const(t.world.is_instance(v, kinds))
    if isinstance(v, Iter):
        answers = {issubclass(kind, kinds) for kind in v.kinds}
        if len(answers) > 1:
            raise Break("class of an iterator")
        return Const(answers.pop())
    return Const(issubclass(t.type_of(v), kinds))


def builtin_len(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Seq | Dict | SetVar):
        return Const(len(v.items))
    if isinstance(v, View):
        return Const(len(v.owner.items))
    if isinstance(v, Tensor):
        return t.world.length(t, v)
    if isinstance(v, Opaque):
        return t.call_bound(v, "__len__", [], {})
    if isinstance(v, Const):
        return t.fold(len, v.value)
    found = t.world.module_items(t, v) if isinstance(v, Obj) else None
    if found is not None:
        return Const(len(found))
    return t.call(t.type_attr(v, "__len__"), [], {})


def builtin_getattr(t: Any, v: Any, name: Any, *default: Any) -> Any:
    try:
        return t.present(t.getattr(v, t.python(name)))
    except UserRaise as error:
        is_missing = isinstance(error.var, New) and issubclass(error.var.cls, AttributeError)
        if default and is_missing:
            return default[0]
        raise


def builtin_hasattr(t: Any, v: Any, name: Any) -> Any:
    return Const(builtin_getattr(t, v, name, NULL) is not NULL)


def builtin_setattr(t: Any, v: Any, name: Any, value: Any) -> Any:
    t.setattr(v, t.python(name), value)
    return Const(None)


def builtin_next(t: Any, it: Any, *default: Any) -> Any:
    found = t.advance(it)
    if found is not NULL:
        return found
    if default:
        return default[0]
    raise raise_user(StopIteration)


def builtin_sum(t: Any, v: Any, start: Any = Const(0)) -> Any:
    for item in t.iterate(v):
        start = t.binary(operator.add, start, item)
    return start


def extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    def run(t: Any, *args: Any, key: Any = Const(None), default: Any = NULL) -> Any:
        items = t.iterate(args[0]) if len(args) == 1 else list(args)
        if not items:
            if default is NULL:
                raise raise_user(ValueError, f"{choose.__name__}() arg is an empty sequence")
            return default
        key = t.real(key)
        by_self = isinstance(key, Const) and key.value is None
        if by_self and any(isinstance(t.real(x), Float) for x in items):
            found = computed(t, choose, items) if len(items) > 1 else items[0]
            if found is not NULL:
                return found
        keys = [t.python(x if by_self else t.call(key, [x], {})) for x in items]
        return items[choose(range(len(items)), key=keys.__getitem__)]

    return run


def quantifier(stop: bool) -> Callable[..., Any]:
    def run(t: Any, v: Any) -> Any:
        it = t.iterator(v)
        while (item := t.advance(it)) is not NULL:
            if t.truth(item) is stop:
                return Const(stop)
        return Const(not stop)

    return run


def builtin_dict(t: Any, *args: Any, **kwargs: Any) -> Any:
    made = Dict({})
    update_dict(t, made, *args, **kwargs)
    return made


def builtin_ordered(t: Any, *args: Any, **kwargs: Any) -> Any:
    made = Dict({}, kind=collections.OrderedDict)
    update_dict(t, made, *args, **kwargs)
    return made


def builtin_defaultdict(t: Any, factory: Any = Const(None), *args: Any, **kwargs: Any) -> Any:
    made = Dict({}, kind=collections.defaultdict, factory=factory)
    update_dict(t, made, *args, **kwargs)
    return made


def builtin_set(kind: type) -> Callable[..., Any]:
    def run(t: Any, *args: Any) -> Any:
        return SetVar(kind, [t.key(x) for x in t.iterate(args[0])] if args else [])

    return run


def builtin_deque(t: Any, items: Any = NULL, maxlen: Any = Const(None)) -> Any:
    limit, found = t.python(maxlen), [] if items is NULL else t.iterate(items)
    if limit is None:
        return Seq(collections.deque, found)
    if type(limit) is not int or limit < 0:
        raise Break("deque of such a length")
    return Bounded(found[max(len(found) - limit, 0) :], limit)


def inner(t: Any, v: Any) -> Any:
    """An iterator that capture runs itself."""
    found = t.iterator(v)
    if isinstance(found, New | Obj):
        return iterators.Stepped(found)
    if not isinstance(found, Iter):
        raise Break("iterator of unknown state")
    return found


def builtin_zip(t: Any, *args: Any, strict: Any = Const(False)) -> Any:
    return iterators.Zip([inner(t, a) for a in args], t.truth(strict))


def builtin_enumerate(t: Any, v: Any, start: Any = Const(0)) -> Any:
    return iterators.Enumerate(inner(t, v), t.python(start))


def builtin_new(t: Any, cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`object.__new__`."""
    cls = t.python(cls)
    if cls.__new__ is not object.__new__ and not isinstance(cls.__new__, types.FunctionType):
        raise Break(f"object.__new__ of {cls.__name__}")
    if issubclass(cls, BaseException | tuple | dict | list | set | str | int | float):
        raise Break(f"object.__new__ of {cls.__name__}")
    return New(cls)


def builtin_reversed(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, New | Obj) and hasattr(t.type_of(v), "__reversed__"):
        return t.iterator(t.call(t.type_attr(v, "__reversed__"), [], {}))
    if isinstance(v, Const) and isinstance(v.value, range):
        return iterators.OverRange(v.value[::-1])
    if not isinstance(v, Seq | Dict | Const):
        return NotImplemented
    return iterators.Items(t.iterate(v)[::-1])


def builtin_sorted(t: Any, v: Any, *, key: Any = Const(None), reverse: Any = Const(False)) -> Any:
    return Seq(list, sorted_items(t, t.iterate(v), key, reverse))


def builtin_type(t: Any, *args: Any) -> Any:
    if len(args) != 1:
        raise Break("class made by type()")
    kind = t.type_of(args[0])
    return Obj(kind, const(kind))


def builtin_callable(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Func | Method | Bound | Partial):
        return Const(True)
    if isinstance(v, New):
        return Const(inspect.getattr_static(v.cls, "__call__", None) is not None)
    return Const(isinstance(v, Obj) and callable(v.value))


def is_error_with(t: Any, v: Any, method: str) -> bool:
    """Whether it is an exception made during capture whose method is Python's own."""
    if not isinstance(v, New) or not issubclass(v.cls, BaseException):
        return False
    return not isinstance(getattr(v.cls, method), types.FunctionType)


def builtin_str(t: Any, *args: Any) -> Any:
    """The text of an exception made during capture; else as any pure function."""
    v: Any = t.real(args[0]) if args else None
    if is_error_with(t, v, "__str__"):
        return Const(str(v.cls.__new__(v.cls, *map(t.python, v.args))))
    if isinstance(v, New | Obj) and isinstance(
        getattr(t.type_of(v), "__str__", None), types.FunctionType
    ):
        return t.call(t.type_attr(v, "__str__"), [], {})
    return NotImplemented


def builtin_repr(t: Any, *args: Any) -> Any:
    v = t.real(args[0])
    if is_error_with(t, v, "__repr__"):
        return Const(repr(v.cls.__new__(v.cls, *map(t.python, v.args))))
    if isinstance(v, New | Obj) and isinstance(
        getattr(t.type_of(v), "__repr__", None), types.FunctionType
    ):
        return t.call(t.type_attr(v, "__repr__"), [], {})
    return NotImplemented


def builtin_number(kind: type) -> Callable[..., Any]:
    def run(t: Any, *args: Any) -> Any:
        v = t.real(args[0]) if len(args) == 1 else None
        if isinstance(v, Number) and t.type_of(v) is kind:
            return v
        if isinstance(v, Tensor):
            return t.world.number_of(t, v, kind)
        if isinstance(v, New | Obj) and kind is bool:
            return Const(t.truth(v))
        return NotImplemented

    return run


def rounding(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one number: of a symbol, another."""

    def run(t: Any, *args: Any) -> Any:
        v = t.real(args[0]) if len(args) == 1 else None
        if isinstance(v, Float) or not isinstance(v, Number):
            return NotImplemented
        if t.world.may_raise_later(v.example):
            return NotImplemented
        return t.record("call_function", f, [v], {})

    return run


def builtin_bool(t: Any, *args: Any) -> Any:
    return Const(t.truth(args[0])) if args else Const(False)


def builtin_abs(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Tensor | Opaque):
        return t.unary(operator.abs, v)
    return NotImplemented


def builtin_reduce(t: Any, f: Any, items: Any, *start: Any) -> Any:
    found = [*start, *t.iterate(items)]
    if not found:
        raise raise_user(TypeError, "reduce() of empty iterable with no initial value")
    return functools.reduce(lambda a, b: t.call(f, [a, b], {}), found)


def builtin_chain(t: Any, *args: Any) -> Any:
    return iterators.Chain([inner(t, a) for a in args])


def builtin_repeat(t: Any, item: Any, *times: Any) -> Any:
    if not times:
        return iterators.Repeat(item)
    return iterators.Items([item] * max(t.python(times[0]), 0))


def builtin_count(t: Any, start: Any = Const(0), step: Any = Const(1)) -> Any:
    return iterators.Count(t.python(start), t.python(step))


def arranged(arrange: Callable[..., Any]) -> Callable[..., Any]:
    """An iterator over tuples of items, in an order that depends on their number only."""

    def run(t: Any, v: Any, *rest: Any) -> Any:
        found = arrange(t.iterate(v), *map(t.python, rest))
        return iterators.Items([Seq(tuple, list(x)) for x in found])

    return run


def builtin_starmap(t: Any, f: Any, v: Any) -> Any:
    return iterators.Items([t.call(f, t.iterate(args), {}) for args in t.iterate(v)])


def builtin_zip_longest(t: Any, *args: Any, fillvalue: Any = Const(None)) -> Any:
    found = itertools.zip_longest(*map(t.iterate, args), fillvalue=fillvalue)
    return iterators.Items([Seq(tuple, list(x)) for x in found])


def builtin_accumulate(
    t: Any, iterable: Any, func: Any = None, *, initial: Any = Const(None)
) -> Any:
    items = t.iterate(iterable)
    f = t.real(func)
    f = None if isinstance(f, Const) and f.value is None else f
    if not (isinstance(t.real(initial), Const) and t.python(initial) is None):
        items = [initial, *items]

    def add(a: Any, b: Any) -> Any:
        return t.binary(operator.add, a, b) if f is None else t.call(f, [a, b], {})

    return iterators.Items(list(itertools.accumulate(items, add)))


def builtin_compress(t: Any, data: Any, selectors: Any) -> Any:
    pairs = zip(t.iterate(data), t.iterate(selectors))
    return iterators.Items([item for item, selector in pairs if t.truth(selector)])


def builtin_tee(t: Any, iterable: Any, n: Any = Const(2)) -> Any:
    items = t.iterate(iterable)
    return Seq(tuple, [iterators.Items(list(items)) for _ in range(t.python(n))])


def builtin_groupby(t: Any, iterable: Any, key: Any = Const(None)) -> Any:
    groups: list[tuple[Any, list[Any]]] = []
    key = t.real(key)
    by_self = isinstance(key, Const) and key.value is None
    for item in t.iterate(iterable):
        value = t.real(item if by_self else t.call(key, [item], {}))
        if not groups or not t.is_equal(groups[-1][0], value):
            groups.append((value, []))
        groups[-1][1].append(item)
    return iterators.Items([Seq(tuple, [k, iterators.Items(found)]) for k, found in groups])


def from_keys(kind: type) -> Callable[..., Any]:
    def run(t: Any, keys: Any, value: Any = Const(None)) -> Any:
        return Dict({t.key(key): value for key in t.iterate(keys)}, kind=kind, factory=Const(None))

    return run


def builtin_id(t: Any, v: Any) -> Any:
    """The number of an object of the outside; a guard asks for it."""
    v = t.real(v)
    if isinstance(v, Tensor) and v.source is not None:
        found = t.original(v)
    elif isinstance(v, Obj):
        found = v.value
    else:
        raise Break("builtin: id")
    number = id(found)
    t.guard("text", v.source, lambda e, names: f"id({e}) != {number}")
    return Const(number)


def builtin_weak(t: Any, v: Any, callback: Any = Const(None)) -> Any:
    """A weak reference to what lives as long as the call."""
    if not isinstance(t.real(callback), Const):
        raise Break("a weak reference with a callback")
    return Made(weakref.ref, [v], {})


def builtin_recursion_limit(t: Any) -> Any:
    limit = sys.getrecursionlimit()
    source = const(sys.getrecursionlimit)
    t.guards.append(("text", source, lambda e, names: f"{e}() != {limit}"))
    return Const(limit)


def builtin_index_of(t: Any, v: Any, x: Any) -> Any:
    for number, item in enumerate(t.iterate(v)):
        if t.is_equal(t.real(item), t.real(x)):
            return Const(number)
    raise raise_user(ValueError, "sequence.index(x): x not in sequence")


def builtin_count_of(t: Any, v: Any, x: Any) -> Any:
    return Const(sum(t.is_equal(t.real(item), t.real(x)) for item in t.iterate(v)))


def builtin_length_hint(t: Any, v: Any, default: Any = Const(0)) -> Any:
    v = t.real(v)
    is_sized = isinstance(v, Seq | Dict | SetVar | View | Const)
    return builtin_len(t, v) if is_sized else NotImplemented


def while_true(choose: Callable[..., Any]) -> Callable[..., Any]:
    def run(t: Any, f: Any, v: Any) -> Any:
        return iterators.Items(list(choose(lambda x: t.truth(t.call(f, [x], {})), t.iterate(v))))

    return run


def call_itemgetter(t: Any, made: list[Any], v: Any) -> Any:
    found = [t.subscript(v, key) for key in made]
    return found[0] if len(found) == 1 else Seq(tuple, found)


def call_attrgetter(t: Any, made: list[Any], v: Any) -> Any:
    def read(path: str) -> Any:
        return functools.reduce(t.getattr, path.split("."), v)

    found = [read(t.python(path)) for path in made]
    return found[0] if len(found) == 1 else Seq(tuple, found)


def call_methodcaller(t: Any, made: list[Any], v: Any, *, kwargs: Any = None) -> Any:
    return t.call(t.getattr(v, t.python(made[0])), made[1:], kwargs or {})


def builtin_copy(t: Any, v: Any) -> Any:
    v = t.real(v)
    if isinstance(v, Seq):
        return v.like(list(v.items)) if v.kind is not tuple else v
    if isinstance(v, Dict):
        return Dict(dict(v.items), kind=v.kind, factory=v.factory)
    if isinstance(v, Const | SetVar):
        return v if isinstance(v, Const) else SetVar(v.kind, v.items)
    if isinstance(v, New) and is_copied_plainly(v.cls, "__copy__"):
        return New(v.cls, dict(v.attrs))
    raise Break("copy of an object")


def is_copied_plainly(cls: Any, method: str) -> bool:
    """Whether a copy of an instance has a copy of its attributes, and nothing else is known."""
    names = (method, "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__slots__")
    if issubclass(cls, BaseException) or cls.__new__ is not object.__new__:
        return False
    return all(getattr(cls, name, None) is getattr(object, name, None) for name in names)


def builtin_deepcopy(t: Any, v: Any) -> Any:
    """A copy of containers of plain values, and of objects made of such."""
    return deep_copy(t, v, {})


def deep_copy(t: Any, v: Any, memo: dict[int, Any]) -> Any:
    v = t.real(v)
    if id(v) not in memo:
        memo[id(v)] = copied_deeply(t, v, memo)
    return memo[id(v)]


def copied_deeply(t: Any, v: Any, memo: dict[int, Any]) -> Any:
    if isinstance(v, New) and is_copied_plainly(v.cls, "__deepcopy__"):
        made = memo[id(v)] = New(v.cls)
        made.attrs.update({name: deep_copy(t, item, memo) for name, item in v.attrs.items()})
        return made
    if isinstance(v, Seq):
        return v.like([deep_copy(t, item, memo) for item in v.items])
    if isinstance(v, Dict) and v.factory is None:
        return Dict({key: deep_copy(t, item, memo) for key, item in v.items.items()}, kind=v.kind)
    if isinstance(v, Const):
        return v
    raise Break(f"deepcopy of a {t.type_of(v).__name__}")


# What calling an instance of a built-in class does.
CALLS: dict[Any, Callable[..., Any]] = {
    operator.itemgetter: call_itemgetter,
    operator.attrgetter: call_attrgetter,
    operator.methodcaller: call_methodcaller,
    weakref.ref: lambda t, made: made[0],
}


def builtin_product(t: Any, *args: Any, repeat: Any = Const(1)) -> Any:
    pools = [t.iterate(a) for a in args] * t.python(repeat)
    return iterators.Items([Seq(tuple, list(x)) for x in itertools.product(*pools)])


def builtin_islice(t: Any, v: Any, *bounds: Any) -> Any:
    part = slice(*map(t.python, bounds))
    if part.stop is None:
        return iterators.Items(t.iterate(v)[part])
    it, items = inner(t, v), []
    for _ in range(part.stop):
        if (item := it.next(t)) is NULL:
            break
        items.append(item)
    return iterators.Items(items[part])


def operation(f: Any) -> Callable[..., Any]:
    """A function of `operator`, as the operator itself."""

    def run(t: Any, *args: Any) -> Any:
        if f is operator.getitem:
            return t.subscript(*args)
        if f is operator.contains:
            return Const(t.contains(*args))
        if f in (operator.is_, operator.is_not):
            same = t.is_same(*map(t.real, args))
            return Const(same is (f is operator.is_))
        if f in (operator.truth, operator.not_):
            return Const(t.truth(args[0]) is (f is operator.truth))
        return t.unary(f, *args) if len(args) == 1 else t.binary(f, *args)

    return run


BUILTINS: dict[Any, Callable[..., Any]] = {
    **{
        f: operation(f)
        for name, f in vars(operator).items()
        if not name.startswith("_") and name not in NO_OPERATION
    },
    **{f: rounding(f) for f in (math.ceil, math.floor, math.trunc)},
    isinstance: builtin_isinstance,
    object.__new__: builtin_new,
    len: builtin_len,
    getattr: builtin_getattr,
    hasattr: builtin_hasattr,
    setattr: builtin_setattr,
    next: builtin_next,
    sum: builtin_sum,
    min: extreme(min),
    max: extreme(max),
    any: quantifier(True),
    all: quantifier(False),
    dict: builtin_dict,
    collections.OrderedDict: builtin_ordered,
    collections.defaultdict: builtin_defaultdict,
    collections.deque: builtin_deque,
    set: builtin_set(set),
    frozenset: builtin_set(frozenset),
    list: lambda t, *a: Seq(list, t.iterate(a[0]) if a else []),
    tuple: lambda t, *a: Seq(tuple, t.iterate(a[0]) if a else []),
    zip: builtin_zip,
    enumerate: builtin_enumerate,
    reversed: builtin_reversed,
    sorted: builtin_sorted,
    map: lambda t, f, *a: iterators.MapIter(f, [inner(t, x) for x in a]),
    filter: lambda t, f, v: iterators.Filter(f, inner(t, v)),
    iter: lambda t, v, *rest: NotImplemented if rest else t.iterator(v),
    type: builtin_type,
    callable: builtin_callable,
    str: builtin_str,
    repr: builtin_repr,
    int: builtin_number(int),
    float: builtin_number(float),
    bool: builtin_bool,
    abs: builtin_abs,
    functools.partial: lambda t, f, *a, **k: Partial(f, list(a), k),
    functools.reduce: builtin_reduce,
    copy.copy: builtin_copy,
    copy.deepcopy: builtin_deepcopy,
    itertools.chain: builtin_chain,
    itertools.product: builtin_product,
    itertools.repeat: builtin_repeat,
    itertools.count: builtin_count,
    itertools.cycle: lambda t, v: iterators.Cycle(t.iterate(v)),
    itertools.combinations: arranged(itertools.combinations),
    itertools.combinations_with_replacement: arranged(itertools.combinations_with_replacement),
    itertools.permutations: arranged(itertools.permutations),
    itertools.pairwise: arranged(itertools.pairwise),
    itertools.starmap: builtin_starmap,
    itertools.zip_longest: builtin_zip_longest,
    itertools.accumulate: builtin_accumulate,
    itertools.takewhile: while_true(itertools.takewhile),
    itertools.dropwhile: while_true(itertools.dropwhile),
    itertools.filterfalse: while_true(itertools.filterfalse),
    itertools.chain.from_iterable: lambda t, v: builtin_chain(t, *t.iterate(v)),
    **{
        cls: lambda t, *a, __cls=cls, **k: Made(__cls, list(a), k)
        for cls in (operator.methodcaller, operator.itemgetter, operator.attrgetter)
    },
    itertools.compress: builtin_compress,
    itertools.tee: builtin_tee,
    itertools.groupby: builtin_groupby,
    dict.fromkeys: from_keys(dict),
    collections.OrderedDict.fromkeys: from_keys(collections.OrderedDict),
    collections.defaultdict.fromkeys: from_keys(collections.defaultdict),
    id: builtin_id,
    weakref.ref: builtin_weak,
    sys.getrecursionlimit: builtin_recursion_limit,
    operator.setitem: lambda t, v, k, x: t.store_subscript(v, k, x) or Const(None),
    operator.delitem: lambda t, v, k: t.delete_subscript(v, k) or Const(None),
    operator.indexOf: builtin_index_of,
    operator.countOf: builtin_count_of,
    operator.length_hint: builtin_length_hint,
    itertools.islice: builtin_islice,
}
