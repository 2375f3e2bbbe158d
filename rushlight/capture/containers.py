"""Methods of lists, dicts and sets, as programs over variables. Tables by name."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from rushlight.capture.outcomes import Break
from rushlight.capture.tracer import raise_user
from rushlight.capture.values import NULL, Bounded, Const, Dict, New, Obj, Seq, SetVar, View

__all__ = ["methods_of", "update_dict"]

Method = Callable[..., Any]


def mutating(change: Method) -> Method:
    """A method that changes its container; without a result it gives None."""

    def run(t: Any, v: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            result = change(t, v, *args, **kwargs)
        except (IndexError, KeyError, ValueError) as error:
            raise raise_user(type(error), *error.args) from None
        t.mutated(v)
        return Const(None) if result is None else result

    return run


def index_of(t: Any, v: Seq, x: Any, *bounds: Any) -> Any:
    start, *stop = [t.python(bound) for bound in bounds] or [0]
    for i, item in enumerate(v.items[start : stop[0] if stop else None], start):
        if t.is_equal(t.real(item), t.real(x)):
            return Const(i)
    raise raise_user(ValueError, f"{t.python(x)!r} is not in list")


def remove_item(t: Any, v: Seq, x: Any) -> None:
    del v.items[index_of(t, v, x).value]


def count_item(t: Any, v: Seq, x: Any) -> Any:
    return Const(sum(t.is_equal(t.real(item), t.real(x)) for item in v.items))


def sort(t: Any, v: Seq, *, key: Any = Const(None), reverse: Any = Const(False)) -> None:
    v.items[:] = sorted_items(t, v.items, key, reverse)


def sorted_items(t: Any, items: list[Any], key: Any, reverse: Any) -> list[Any]:
    key = t.real(key)
    by_self = isinstance(key, Const) and key.value is None
    keys = [t.python(x if by_self else t.call(key, [x], {})) for x in items]
    order = sorted(range(len(items)), key=keys.__getitem__, reverse=t.truth(reverse))
    return [items[i] for i in order]


SEQUENCE: dict[str, Method] = {
    "index": index_of,
    "count": count_item,
    "__len__": lambda t, v: Const(len(v.items)),
    "__getitem__": lambda t, v, key: t.subscript(v, key),
    "__iter__": lambda t, v: t.iterator(v),
    "__contains__": lambda t, v, x: Const(t.contains(v, x)),
    "copy": lambda t, v: v.like(list(v.items)),
}
NAMED: dict[str, Method] = {
    **SEQUENCE,
    "_asdict": lambda t, v: Dict(dict(zip(v.kind._fields, v.items))),
    "_replace": lambda t, v, **new: Seq(
        v.kind, [new.pop(name, item) for name, item in zip(v.kind._fields, list(v.items))]
    ),
}
LIST: dict[str, Method] = {
    **SEQUENCE,
    "append": mutating(lambda t, v, x: v.items.append(x)),
    "extend": mutating(lambda t, v, x: v.items.extend(t.iterate(x))),
    "insert": mutating(lambda t, v, i, x: v.items.insert(t.python(i), x)),
    "pop": mutating(lambda t, v, i=Const(-1): v.items.pop(t.python(i))),
    "clear": mutating(lambda t, v: v.items.clear()),
    "reverse": mutating(lambda t, v: v.items.reverse()),
    "remove": mutating(remove_item),
    "sort": mutating(sort),
    "__setitem__": lambda t, v, k, x: t.store_subscript(v, k, x) or Const(None),
}


def extend_left(v: Seq, items: list[Any]) -> None:
    v.items[:0] = items[::-1]
    if isinstance(v, Bounded):
        del v.items[v.limit :]


def rotate(v: Seq, count: int) -> None:
    found = deque(v.items)
    found.rotate(count)
    v.items[:] = found


DEQUE: dict[str, Method] = {
    **SEQUENCE,
    **{name: LIST[name] for name in ("append", "extend", "clear", "reverse", "remove", "insert")},
    "appendleft": mutating(lambda t, v, x: v.items.insert(0, x)),
    "pop": mutating(lambda t, v: v.items.pop()),
    "popleft": mutating(lambda t, v: v.items.pop(0)),
    "extendleft": mutating(lambda t, v, x: extend_left(v, t.iterate(x))),
    "rotate": mutating(lambda t, v, n=Const(1): rotate(v, t.python(n))),
}


def bounded(change: Method, drops: int) -> Method:
    """A method that adds items one by one; where there are too many, those at `drops` go."""

    def run(t: Any, v: Any, x: Any) -> None:
        change(t, v, x)
        while len(v.items) > v.limit:
            v.items.pop(drops)

    return mutating(run)


def insert_bounded(t: Any, v: Any, i: Any, x: Any) -> None:
    if len(v.items) >= v.limit:
        raise IndexError("deque already at its maximum size")
    v.items.insert(t.python(i), x)


BOUNDED: dict[str, Method] = {
    **DEQUE,
    "append": bounded(lambda t, v, x: v.items.append(x), 0),
    "appendleft": bounded(lambda t, v, x: v.items.insert(0, x), -1),
    "extend": bounded(lambda t, v, x: v.items.extend(t.iterate(x)), 0),
    "insert": mutating(insert_bounded),
}


def update_dict(t: Any, v: Dict, *others: Any, **kwargs: Any) -> None:
    for other in map(t.real, others):
        if isinstance(other, Dict):
            v.items.update(other.items)
            continue
        if isinstance(other, New | Obj) and hasattr(t.type_of(other), "keys"):
            for key in t.iterate(t.call(t.getattr(other, "keys"), [], {})):
                v.items[t.key(key)] = t.subscript(other, key)
            continue
        for number, pair in enumerate(t.iterate(other)):
            found = t.iterate(pair)
            if len(found) != 2:
                message = (
                    f"dictionary update sequence element #{number} has length {len(found)}; "
                    "2 is required"
                )
                raise raise_user(ValueError, message)
            key, item = found
            v.items[t.key(key)] = item
    v.items.update(kwargs)


def get_item(t: Any, v: Dict, key: Any, default: Any = Const(None)) -> Any:
    found = t.item_of(v, t.key(key))
    return default if found is None else found


def pop_key(t: Any, v: Dict, key: Any, *default: Any) -> Any:
    return v.items.pop(t.key(key), *default)


def pop_item(t: Any, v: Dict, last: Any = Const(True)) -> Any:
    if not v.items:
        raise raise_user(KeyError, "popitem(): dictionary is empty")
    key = list(v.items)[-1 if t.truth(last) else 0]
    return Seq(tuple, [t.lift(key), v.items.pop(key)])


def move_to_end(t: Any, v: Dict, key: Any, last: Any = Const(True)) -> None:
    value = t.key(key)
    item = v.items.pop(value)
    others = dict(v.items)
    v.items.clear()
    v.items.update({**others, value: item} if t.truth(last) else {value: item, **others})


DICT: dict[str, Method] = {
    "get": get_item,
    "update": mutating(update_dict),
    "pop": mutating(pop_key),
    "popitem": mutating(pop_item),
    "setdefault": mutating(lambda t, v, k, d=Const(None): v.items.setdefault(t.key(k), d)),
    "clear": mutating(lambda t, v: v.items.clear()),
    "copy": lambda t, v: Dict(dict(v.items), kind=v.kind, factory=v.factory),
    "keys": lambda t, v: View(v, "keys"),
    "values": lambda t, v: View(v, "values"),
    "items": lambda t, v: View(v, "items"),
    "__len__": lambda t, v: Const(len(v.items)),
    "__getitem__": lambda t, v, key: t.subscript(v, key),
    "__setitem__": lambda t, v, k, x: t.store_subscript(v, k, x) or Const(None),
    "__iter__": lambda t, v: t.iterator(v),
    "__contains__": lambda t, v, x: Const(t.contains(v, x)),
}
ORDERED: dict[str, Method] = {**DICT, "move_to_end": mutating(move_to_end)}
VIEW: dict[str, Method] = {
    "__len__": lambda t, v: Const(len(v.owner.items)),
    "__iter__": lambda t, v: t.iterator(v),
    "__contains__": lambda t, v, x: Const(t.contains(v, x)),
}


def changing_set(name: str, count: int | None) -> Method:
    """A method of `set` that changes it; `count` of its arguments are items, None: iterables."""

    def run(t: Any, v: SetVar, *args: Any) -> Any:
        if count is None:
            values: tuple[Any, ...] = tuple([t.key(x) for x in t.iterate(a)] for a in args)
        else:
            values = tuple(map(t.key, args))
        if isinstance(v.items, list):
            v.items = set(v.items)
        if name == "pop" and v.source is not None:
            raise Break("pop of a set of the outside")
        try:
            result = getattr(v.items, name)(*values)
        except KeyError as error:
            raise raise_user(KeyError, *error.args) from None
        v.log.append((name, values))
        if v.source is not None:
            t.effect(id(v), "set", v)
        return t.lift(result)

    return run


def plain_set_method(name: str) -> Method:
    def run(t: Any, v: SetVar, *args: Any) -> Any:
        values = [{t.key(x) for x in t.iterate(a)} for a in args]
        return t.lift(getattr(t.plain_set(v), name)(*values))

    return run


SET: dict[str, Method] = {
    "add": changing_set("add", 1),
    "discard": changing_set("discard", 1),
    "remove": changing_set("remove", 1),
    "clear": changing_set("clear", 0),
    "pop": changing_set("pop", 0),
    "update": changing_set("update", None),
    "difference_update": changing_set("difference_update", None),
    "intersection_update": changing_set("intersection_update", None),
    "symmetric_difference_update": changing_set("symmetric_difference_update", None),
    **{
        name: plain_set_method(name)
        for name in [
            "union",
            "intersection",
            "difference",
            "symmetric_difference",
            "issubset",
            "issuperset",
            "isdisjoint",
            "copy",
        ]
    },
    "__len__": lambda t, v: Const(len(v.items)),
    "__iter__": lambda t, v: t.iterator(v),
    "__contains__": lambda t, v, x: Const(t.contains(v, x)),
}
FROZEN = {name: f for name, f in SET.items() if name not in ("add", "discard", "remove", "pop")}


def next_item(t: Any, it: Any) -> Any:
    found = it.next(t)
    if found is NULL:
        raise raise_user(StopIteration)
    return found


ITERATOR: dict[str, Method] = {"__next__": next_item, "__iter__": lambda t, v: v}


def methods_of(v: Any) -> dict[str, Method]:
    """The methods that capture has for a container or iterator."""
    if isinstance(v, Seq) and hasattr(v.kind, "_fields"):
        return NAMED
    if isinstance(v, Bounded):
        return BOUNDED
    if isinstance(v, Seq):
        return LIST if v.kind is list else DEQUE if v.kind is deque else SEQUENCE
    if isinstance(v, Dict):
        return ORDERED if v.kind is OrderedDict else DICT
    if isinstance(v, SetVar):
        return SET if v.kind is set else FROZEN
    return VIEW if isinstance(v, View) else ITERATOR
