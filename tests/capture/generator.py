"""Random programs: control flow, containers, classes, closures, exceptions, effects, identities.

A program is text of a function of (x, y, a, b, L, D, box, log). `Tensors` says what x and y are,
and what operators beyond + - * they have.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import random
from typing import Any

from tests.capture import vocabulary
from tests.capture.programs import Cfg, Ctx, blind, noisy_native

__all__ = ["NAMES", "Tensors", "program_of"]


@dataclasses.dataclass
class Tensors:
    """Expressions that give tensors, and a test of one."""

    more: tuple[str, ...]
    test: str  # a condition on the tensor {e}


EXPR = [
    "x", "y", "x * 2", "x + a", "y + b", "y * x", "y - a", "helper2(y, a)", "L[0] * x",
    "x + len(L)", "D['k'] + y", "box.a + x", "box.apply(y, k=a)", "(lambda q, w=a: q * w)(x)",
    "x + len({a, b})", "next(iter([x, y]))", "Sub(a).go(x)", "Sub(b).scaled * y", "pick(x, y, k=a)",
    "pick(*[y, x])", "pick(**{'p': x, 'q': y})", "sum([x, y], x)", "Pair(x, y).p + 1",
    "Pair(x, y)._replace(p=y).p", "Rec(x, a).total()", "max([x, y], key=lambda v: a)",
    "[*(x, y)][b % 2]", "{**D}['k'] * 1", "(x if a else y) * 2", "(y or x) if False else x + 0",
    "outer(2)(x)", "Sub.made(a).go(y)", "box[a] + x", "collections.deque([x, y])[0] + 1",
    "functools_reduce(lambda p, q: p + q, [x, y, x])", "list(itertools.chain([x], [y]))[1] + 1",
    "dict(zip('pq', (x, y)))['q'] + 1", "(z := x + 1) * 2",
    "[q for q in (x, y) if a][:1][0] if a else y",
]  # fmt: skip
INT = [
    "a + 1", "b * 2", "a - b", "len(L)", "box.a", "len(D)", "sum(i for i in range(a % 4))",
    "max(a, b)", "a % 3", "min([a, b, 3])", "len(f'{a}{b}')", "int(f'{a:02d}')", "abs(a - 7)",
    "sorted([b, a, 2])[1]", "divmod(a + 5, 3)[0]", "[1, 2, 3].index(a % 3 + 1)", "box.count()",
    "len({k: 1 for k in range(b)})", "'abc'.find('c') + a", "sum(map(int, [a, b]))", "Sub(a).k",
    "len(set([a, b, a]))", "a if a < b else b", "any([a, b]) + 0", "-a + 10", "a ** 2 % 7",
]  # fmt: skip
COND = [
    "a > b", "a % 2", "not b", "len(L) > 2", "'k' in D", "a == 2 or b", "a and b", "box is None",
    "x is y", "isinstance(a, int)", "L[0] is x", "0 < a < 3", "box.a != b", "hasattr(box, 'extra')",
    "D.get('z') is None", "callable(box)", "type(box) is Cfg", "a in (1, 2)", "x is L[-1]",
    "isinstance(box, Base)", "D.get('k') is y", "all(i < 3 for i in (a, b))", "bool(L) and b",
]  # fmt: skip
RAISING = [
    "maybe(a)", "a // b", "D[7]", "check(b)", "pass", "L[99]", "box.missing", "Fail.when(a)",
    "int('q' if a else '1')", "raise_from(a)", "(lambda: missing_name)() if a == 2 else None",
]  # fmt: skip
ERRORS = [
    "KeyError",
    "(ValueError, KeyError)",
    "Exception",
    "LookupError",
    "Fail",
    "AttributeError",
]


class Writer:
    """Writes one program."""

    def __init__(self, seed: int, tensors: Tensors) -> None:
        self.r = random.Random(seed)
        self.tensors = tensors
        self.expressions = [*EXPR, *vocabulary.EXPRESSIONS, *tensors.more]

    def e(self) -> str:
        return self.r.choice(self.expressions)

    def block(self, depth: int, indent: int, loop: bool) -> list[str]:
        lines = []
        for _ in range(self.r.randint(1, 3)):
            lines += self.statement(depth, indent, loop)
        return lines

    def statement(self, depth: int, indent: int, loop: bool) -> list[str]:
        r, p = self.r, "    " * indent
        kinds = [*SIMPLE] + ([*NESTED] * 2 if depth else [])
        kinds += ["jump"] * (2 * loop) + ["ret"] * (r.random() < 0.2)
        kind = r.choice(kinds)

        def sub(inner: bool = loop) -> list[str]:
            return self.block(depth - 1, indent + 1, inner)

        if kind == "jump":
            return [p + f"if {r.choice(COND)}: {r.choice(['break', 'continue'])}"]
        if kind == "ret":
            return [p + f"if {r.choice(COND)}: return {r.choice('xy')}, L, D"]
        if kind in SIMPLE:
            lines = SIMPLE[kind](self, r.choice("xy"))
            return [p + line for line in lines]
        return self.nested(kind, p, depth, sub)

    def nested(self, kind: str, p: str, depth: int, sub: Any) -> list[str]:
        r, v = self.r, self.r.choice("xy")
        match kind:
            case "if":
                tail = [p + "else:", *sub()] if r.random() < 0.7 else []
                return [p + f"if {r.choice(COND)}:", *sub(), *tail]
            case "tif":
                test = self.tensors.test.format(e=self.e(), n=r.randint(0, 9))
                tail = [p + "else:", *sub()] if r.random() < 0.5 else []
                return [p + f"if {test}:", *sub(), *tail]
            case "for":
                head = self.loop_head(depth)
                tail = [p + "else:", *sub()] if r.random() < 0.3 else []
                return [p + head[0], p + "    " + head[1], *sub(True), *tail]
            case "while":
                return [
                    p + f"n{depth} = 0",
                    p + f"while n{depth} < {r.choice(['2', 'a % 3'])}:",
                    p + f"    n{depth} += 1",
                    *sub(True),
                ]
            case "try":
                name = r.choice(["", " as err"])
                lines = [p + "try:", *sub(), p + f"    {r.choice(RAISING)}", *sub()]
                lines += [p + f"except {r.choice(ERRORS)}{name}:"]
                if name:
                    lines.append(p + "    log.append((type(err).__name__, str(err)))")
                lines += sub()
                if r.random() < 0.2:
                    lines.append(p + "    raise")
                if r.random() < 0.3:
                    lines += [p + "else:", *sub()]
                if r.random() < 0.3:
                    lines += [
                        p + "finally:",
                        p + "    log.append('f')",
                        p + f"    {v} = {self.e()}",
                    ]
                return lines
            case "fin":
                last = f"{v} = {self.e()}" if r.random() < 0.9 else f"return {v}, L"
                return [
                    p + "try:",
                    *sub(),
                    p + "finally:",
                    p + "    log.append('f')",
                    p + f"    {last}",
                ]
            case "with":
                head = r.choice(
                    [f"with Ctx(log) as w{depth}:", f"with managed(log, 2) as w{depth}:",
                     f"with Ctx(log) as w{depth}, Ctx(log):", f"with Swallow(log) as w{depth}:"]
                )  # fmt: skip
                lines = [p + head, p + f"    x = x * w{depth}", *sub()]
                if "Swallow" in head:
                    lines.append(p + f"    {r.choice(RAISING)}")
                return lines
            case "match":
                return [
                    p + f"match {r.choice(['a', '(a, b)', 'D', 'Rec(x, a)', 'L[:2]'])}:",
                    p + "    case 1 | 2:", *self.block(0, self.level(p) + 2, False),
                    p + "    case (0, q) | [_, q]:", *self.block(0, self.level(p) + 2, False),
                    p + "    case {'k': q}:", *self.block(0, self.level(p) + 2, False),
                    p + "    case Rec(u=q, n=0):", *self.block(0, self.level(p) + 2, False),
                    p + "    case _:", *self.block(0, self.level(p) + 2, False),
                ]  # fmt: skip
        raise AssertionError(kind)

    def level(self, p: str) -> int:
        return len(p) // 4

    def loop_head(self, depth: int) -> tuple[str, str]:
        r, i, e = self.r, f"i{depth}", f"e{depth}"
        v = r.choice("xy")
        return r.choice(
            [
                (f"for {i} in range({r.choice(['a % 4', '2', '3'])}):", f"x = x + {i}"),
                (f"for {e} in list(L)[:3]:", f"y = y + {e}"),
                (f"for {i}, {e} in enumerate(zip((x, y), (a, b))):", f"y = {e}[0] * {i} + {e}[1]"),
                (f"for {e}, {i} in pairs({v}, {r.choice(['2', 'a % 3'])}):", f"y = {e} + {i}"),
                (f"for {e} in map(lambda q: q * {r.choice(['a', 'x', 'native(y)'])}, (x, y)):",
                 f"x = x + {e}"),
                (f"for {i} in D.copy():", f"x = x + len(str({i}))"),
                (f"for {i}, {e} in list(D.items())[:2]:", f"log.append({i})"),
                (f"for {i} in Counting(2):", f"x = x + {i}"),
                (f"for {i} in itertools.islice(itertools.count(a), 2):", f"y = y * {i}"),
                (f"for {e} in reversed([x, y]):", f"x = {e} + 1"),
                (f"for {i}, _ in itertools.product((1, 2), 'p'):", f"y = y + {i}"),
                (f"for {i} in sorted({{b, a}}):", f"x = x - {i}"),
            ]
        )  # fmt: skip


SIMPLE: dict[str, Any] = {
    "t": lambda w, v: [f"{v} = {w.e()}"],
    "t2": lambda w, v: [f"{v} {w.r.choice(['+', '*', '-'])}= {w.e()}"],
    "t3": lambda w, v: [f"{v} = {w.e()} + {w.e()}"],
    "i": lambda w, v: [f"{w.r.choice('ab')} = {w.r.choice(INT)}"],
    "app": lambda w, v: [
        w.r.choice([
            f"L.append({w.e()})", f"L[0] = {w.e()}", "L += [x]", "L.insert(0, y)", "L.reverse()",
            "L[1:] = [y, x]", "del L[-1:]", "L.extend((x, y))", "L.append(L[0])", "L = [*L, x]",
            "L.pop() if len(L) > 2 else None", "L = L[:]", "log.append(L.index(L[-1]) >= 0)",
        ])
    ],
    "dict": lambda w, v: [
        w.r.choice([
            f"D['k'] = {w.e()}", "D[a] = x", "D.update(z=y)", "D.pop('z', None)",
            "D.setdefault('s', []).append(x)", "D = {**D, 'n': a}", "D['l'] = L", "D |= {'u': y}",
            "D['k'], D[b] = x, y", "D.get('q')",
        ])
    ],
    "attr": lambda w, v: [
        w.r.choice([
            f"box.last = {w.e()}", "box.a += 1", "box.a = b", "setattr(box, 'extra', a)",
            "box.items = [x]", "box.__dict__.get('a')", "box.last = box", "box.last = L",
        ])
    ],
    "native": lambda w, v: [
        w.r.choice([
            f"{v} = native({v})", "native(a)", f"{v} = {v} + native(x * 2)", "maybe(a)",
            f"{v} = [native(x), y][a % 2]", "log.append(native(len(L)))", "native(L)",
            f"{v} = native_pair({v})[0]", "native(box)",
        ])
    ],
    "comp": lambda w, v: [
        w.r.choice([
            f"{v} = sum([q * a for q in (x, y)], {v})", f"D['c'] = {{i: {v} for i in range(2)}}",
            "M = [native(x * i) for i in range(2)]",
            f"{v} = [i * {v} for i in (1, 2) if i > a % 2][-1]",
            "D['n'] = [[i, j] for i in range(2) for j in range(i)]",
            f"{v} = sum(({v} * i for i in range(3)), x)", "log.append({i % 2 for i in range(b)})",
        ])
    ],
    "words": lambda w, v: [*w.r.choice(vocabulary.STATEMENTS)],
    "fstr": lambda w, v: ["D['s'] = f'{a}-{b:03d}-{a!r:>4}'"],
    "unpack": lambda w, v: [
        w.r.choice([
            "x, y = y, x", "a, b = b, a", "x, *_ = [y, x, 1]", "(a, b), x = (b, a), y",
            "x, y = Pair(y, x)", "[x, y] = (i for i in (y, x))",
        ])
    ],
    "closure": lambda w, v: [
        "def inner(q, s=a):",
        "    nonlocal x",
        f"    x = {w.r.choice(['x + q', 'native(x)', 'x * s'])}",
        "    return x * s",
        "y = inner(y)",
    ],
    "keeper": lambda w, v: [
        "def keep(q, seen=[]):",
        "    seen.append(q)",
        "    return len(seen)",
        "log.append(keep(a) + keep(b))",
        "D['keep'] = keep(1)",
    ],
    "generator": lambda w, v: [
        "def steps(q):",
        f"    got = yield q + {w.r.choice(['1', 'a'])}",
        "    log.append(got)",
        "    yield q * 2",
        "it = steps(x)",
        w.r.choice(["y = next(it)", "y = next(it) + it.send(a)", "y = sum(it, y)", "it.close()"]),
    ],
    "object": lambda w, v: [
        w.r.choice([
            f"o = Sub(a); o.last = {w.e()}; {v} = o.last + o.k",
            f"{v} = Chain({v}).add(x).mul(a).v", "D['o'] = Rec(x, b)",
            "log.append(Rec(1, a) == Rec(1, b))", f"{v} = (Sub(1) + Sub(a)).k * {v}",
            "o = Base(a); o.scaled = 6; x = x + o.k", "log.append(repr(Pair(a, b)))",
        ])
    ],
    "global": lambda w, v: ["x = x + LIMIT"],
    "delete": lambda w, v: ["tmp = x + 1", "del tmp"],
    "assert": lambda w, v: [f"assert {w.r.choice(COND)} or True, 'never'"],
    "identity": lambda w, v: ["log.append((x is y, L is D.get('l'), box is box.last))"],
}  # fmt: skip
NESTED = ["if", "tif", "for", "for", "while", "try", "try", "with", "fin", "match"]


# -- names that programs use -----------------------------------------------------------------------


class Base:
    def __init__(self, k: Any) -> None:
        self.k = k

    @property
    def scaled(self) -> Any:
        return self.k * 2

    @scaled.setter
    def scaled(self, v: Any) -> None:
        self.k = v // 2

    def go(self, x: Any) -> Any:
        return x * self.k

    @classmethod
    def made(cls, k: Any) -> Any:
        return cls(k + 1)

    def __add__(self, other: Any) -> Any:
        return type(self)(self.k + other.k)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__dict__})"


class Sub(Base):
    def __init__(self, k: Any) -> None:
        super().__init__(k)
        self.last = None

    def go(self, x: Any) -> Any:
        return super().go(x) + 1


class Chain:
    def __init__(self, v: Any) -> None:
        self.v = v

    def add(self, w: Any) -> Any:
        self.v = self.v + w
        return self

    def mul(self, w: Any) -> Any:
        self.v = self.v * w
        return self


class Box(Cfg):
    def __getitem__(self, i: Any) -> Any:
        return self.a + i

    def count(self) -> int:
        return len(self.__dict__)

    def __repr__(self) -> str:
        return f"Box({self.a}, {sorted(self.__dict__)})"


class Fail(ValueError):
    def __init__(self, text: str, k: int) -> None:
        super().__init__(text)
        self.k = k

    @staticmethod
    def when(a: Any) -> None:
        if a % 2:
            raise Fail("failed", a)


class Swallow(Ctx):
    def __exit__(self, *e: Any) -> bool:
        super().__exit__(*e)
        return e[0] is not None and issubclass(e[0], (LookupError, ValueError))


class Counting:
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


Pair = collections.namedtuple("Pair", "p q")


@dataclasses.dataclass
class Rec:
    u: Any
    n: int = 0

    def total(self) -> Any:
        return self.u * self.n + self.u


@contextlib.contextmanager
def managed(log: list[Any], k: Any) -> Any:
    log.append("enter")
    try:
        yield k
    finally:
        log.append("leave")


def helper2(y: Any, a: Any) -> Any:
    if a > 2:
        return y * a
    return noisy_native(y) if a == 1 else y + a


def pick(p: Any, q: Any, *, k: int = 1) -> Any:
    return (p, q)[k % 2] + k


def outer(k: Any) -> Any:
    def inner(x: Any) -> Any:
        return x * k

    return inner


def _maybe(a: Any) -> None:
    if a % 3 == 1:
        raise KeyError(a)


def check(b: Any) -> Any:
    if b % 2:
        raise ValueError(b)
    return b


def raise_from(a: Any) -> None:
    try:
        check(a)
    except ValueError as error:
        raise KeyError("from") from error


def pairs(x: Any, n: int) -> Any:
    for i in range(n):
        yield x * i, i


def _pair(x: Any) -> Any:
    return [x, x]


def reduce(f: Any, items: Any) -> Any:
    import functools

    return functools.reduce(f, items)


NAMES: dict[str, Any] = {
    "Base": Base, "Cfg": Cfg, "Chain": Chain, "Counting": Counting, "Ctx": Ctx, "Fail": Fail,
    "LIMIT": 3, "Pair": Pair, "Rec": Rec, "Sub": Sub, "Swallow": Swallow, "check": check,
    "collections": collections, "functools_reduce": reduce, "helper2": helper2,
    "itertools": itertools, "managed": managed, "maybe": blind(_maybe), "native": noisy_native,
    "native_pair": blind(_pair), "outer": outer, "pairs": pairs, "pick": pick,
    "raise_from": raise_from, "__name__": "fuzzed", **vocabulary.NAMES,
}  # fmt: skip


def program_of(seed: int, tensors: Tensors) -> str:
    """The text of a program."""
    writer = Writer(seed, tensors)
    lines = ["def f(x, y, a, b, L, D, box, log):", *writer.block(3, 1, False)]
    return "\n".join([*lines, "    return x, y, a, b, L, D"])
