"""Iterators, generators, sets and views of dicts: lazy as in Python, and rebuilt at a break."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from contextlib import contextmanager

import pytest

from tests.capture.programs import noisy_native
from tests.capture.toy import Toy, check

Pair = namedtuple("Pair", "a b", defaults=[7])


def squares(x, n):
    for i in range(n):
        yield x * i


def chained(x, n):
    got = yield from squares(x, n)
    yield got
    yield from [x, 1]


def logging(x, log):
    for i in range(3):
        log.append(i)
        yield x + i


@contextmanager
def scaled(x, log):
    log.append("in")
    yield x * 2
    log.append("out")


def zip_is_lazy(x, log):
    a = iter([1, 2, 3, 4])
    pairs = [(i, j) for i, j in zip(a, (5, 6))]
    return x, pairs, list(a), list(zip([1], [2, 3])), list(zip())


def enumerate_over_a_growing_list(x, items):
    for i, _ in enumerate(items, 5):
        if i < 8:
            items.append(x + i)
    return items


def map_is_lazy(x, log):
    it = map(lambda q: log.append(q) or x * q, [1, 2, 3])
    first = next(it)
    log.append("between")
    return first, list(it)


def filters(x, n):
    return list(filter(None, [0, 1, n])), [x * q for q in filter(lambda q: q > 1, [1, 2, 3])]


def generator_is_lazy(x, log):
    it = logging(x, log)
    log.append("made")
    first = next(it)
    log.append("one")
    return first, list(it), list(chained(x, 2)), sum(squares(x, 3), x)


def manager(x, log):
    with scaled(x, log) as y:
        x = x + y
    return x


def sets(x, names):
    seen = set()
    for name in names:
        if name in seen:
            continue
        seen.add(name)
        x = x + len(name)
    return x, seen, {1, 2} | {3}, len(seen), {n for n in (1, 2)} & {2}


def set_of_the_outside(x, names):
    names.add("new")
    names.discard("a")
    return x * len(names), "new" in names


def views(x, table):
    keys = table.keys()
    table["z"] = x
    return "z" in keys, len(keys), list(keys), list(table.values()), [k for k, _ in table.items()]


def other_dicts(x, names):
    d = defaultdict(list)
    for n in names:
        d[n].append(x)
    o = OrderedDict(b=1, a=2)
    o.move_to_end("b")
    return d, o, list(o), o.popitem(last=False)


def deques(x, items):
    q = deque(items)
    q.appendleft(x)
    q.append(1)
    return q.popleft(), q.pop(), list(q), len(q)


def named_tuples(x, p):
    q = Pair(x, b=2)
    return q.a * q.b, q, Pair(1), p.a, p[1], q._replace if False else q[0]


def match_it(x, v):
    match v:
        case [a, b]:
            return x * a + b
        case {"k": k}:
            return x + k
        case 3:
            return x
    return x * 100


CASES = [
    (zip_is_lazy, (Toy(1), [])),
    (enumerate_over_a_growing_list, (Toy(1), [1, 2])),
    (map_is_lazy, (Toy(2), [])),
    (filters, (Toy(2), 4)),
    (generator_is_lazy, (Toy(2), [])),
    (manager, (Toy(2), [])),
    (sets, (Toy(1), ["a", "bb", "a"])),
    (set_of_the_outside, (Toy(1), {"a", "b"})),
    (views, (Toy(1), {"a": 1})),
    (other_dicts, (Toy(1), ["a", "b", "a"])),
    (deques, (Toy(1), [4, 5])),
    (named_tuples, (Toy(3), Pair(1, 2))),
    (match_it, (Toy(3), [1, 2]), (Toy(3), {"k": 4}), (Toy(3), 3), (Toy(3), "q")),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_one_graph(case):
    fn, *calls = case
    check(fn, *calls, fullgraph=True)


def break_in_zip(x, items):
    for i, (a, b) in enumerate(zip(items, [1, 2, 3])):
        x = x + a * b + i
        noisy_native(x)
    return x


def break_in_map(x, items):
    for y in map(lambda q: q * 2, items):
        x = x + y
        noisy_native(x)
    return x


def break_in_generator_loop(x, n):
    for y in squares(x, n):
        x = x + y
        noisy_native(x)
    return x


def break_with_a_set(x, names):
    seen = {1}
    noisy_native(x)
    seen.add(2)
    return x + 1, seen


def break_with_views(x, table):
    keys = table.keys()
    noisy_native(x)
    table["q"] = 1
    return list(keys), x + 1


BREAKS = [
    (break_in_zip, (Toy(1), [4, 5, 6])),
    (break_in_map, (Toy(1), [4, 5, 6])),
    (break_in_generator_loop, (Toy(1), 3)),
    (break_with_a_set, (Toy(1), [])),
    (break_with_views, (Toy(1), {"a": 1})),
]


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case[0].__name__)
def test_breaks(case):
    fn, *calls = case
    capture = check(fn, *calls)
    assert capture.graphs
