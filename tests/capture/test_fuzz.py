"""Random programs: compiled equals native in results, exceptions and effects, call after call."""

from __future__ import annotations

import random

import pytest

from tests.capture import programs
from tests.capture.programs import Cfg, Ctx, blind, noisy_native
from tests.capture.toy import Toy, op_neg, toy_capture

EXPR = [
    "x",
    "x * 2",
    "x + a",
    "y + b",
    "y * x",
    "x.relu()",
    "y - a",
    "op_neg(x)",
    "helper2(y, a)",
    "L[0] * x",
    "x + len(L)",
    "D['k'] + y",
    "box.a + x",
    "box.apply(y, k=a)",
    "(lambda q, w=a: q * w)(x)",
    "x + len({a, b})",
    "next(iter([x, y]))",
]
INT = [
    "a + 1",
    "b * 2",
    "a - b",
    "len(L)",
    "box.a",
    "len(D)",
    "sum(i for i in range(a % 4))",
    "max(a, b)",
    "a % 3",
]
COND = [
    "a > b",
    "a % 2",
    "not b",
    "len(L) > 2",
    "'k' in D",
    "a == 2 or b",
    "a and b",
    "box is None",
    "x is y",
    "isinstance(a, int)",
]


def block(r, depth, indent, loop):
    lines = []
    for _ in range(r.randint(1, 3)):
        lines += statement(r, depth, indent, loop)
    return lines


def statement(r, depth, indent, loop):  # noqa: C901
    p = "    " * indent
    kind = r.choice(
        ["t", "t", "t", "i", "app", "dict", "attr", "native", "comp", "fstr", "unpack", "closure"]
        + (
            ["if", "tif", "for", "forl", "while", "try", "with", "fin", "enum", "gen", "mapl"] * 2
            if depth
            else []
        )
        + (["break", "continue"] if loop else [])
        + ["ret"] * (r.random() < 0.2)
    )

    def sub(inner=loop):
        return block(r, depth - 1, indent + 1, inner)

    v = r.choice("xy")
    match kind:
        case "t":
            return [p + f"{v} = {r.choice(EXPR)}"]
        case "i":
            return [p + f"{r.choice('ab')} = {r.choice(INT)}"]
        case "app":
            return [
                p
                + r.choice(
                    [
                        f"L.append({r.choice(EXPR)})",
                        f"L[0] = {r.choice(EXPR)}",
                        "L += [x]",
                        "L.insert(0, y)",
                    ]
                )
            ]
        case "dict":
            return [
                p
                + r.choice(
                    [f"D['k'] = {r.choice(EXPR)}", "D[a] = x", "D.update(z=y)", "D.pop('z', None)"]
                )
            ]
        case "attr":
            return [p + r.choice([f"box.last = {r.choice(EXPR)}", "box.a += 1", "box.a = b"])]
        case "native":
            return [
                p
                + r.choice(
                    [
                        f"{v} = native({v})",
                        "native(a)",
                        f"{v} = {v} + native(x * 2)",
                        "maybe(a)",
                        f"{v} = [native(x), y][a % 2]",
                    ]
                )
            ]
        case "comp":
            return [
                p
                + r.choice(
                    [
                        f"{v} = sum([q * a for q in (x, y)], {v})",
                        f"D['c'] = {{i: {v} for i in range(2)}}",
                        "M = [native(x * i) for i in range(2)]",
                    ]
                )
            ]
        case "fstr":
            return [p + "D['s'] = f'{a}-{b:03d}-{a!r:>4}'"]
        case "unpack":
            return [
                p
                + r.choice(
                    ["x, y = y, x", "a, b = b, a", "x, *_ = [y, x, 1]", "(a, b), x = (b, a), y"]
                )
            ]
        case "closure":
            return [
                p + "def inner(q, s=a):",
                p + "    nonlocal x",
                p + f"    x = {r.choice(['x + q', 'native(x)', 'x * s'])}",
                p + "    return x * s",
                p + "y = inner(y)",
            ]
        case "if":
            return [p + f"if {r.choice(COND)}:", *sub(), p + "else:", *sub()]
        case "tif":
            return [
                p + f"if {r.choice(EXPR)} > {r.randint(0, 9)}:",
                *sub(),
                *([p + "else:", *sub()] if r.random() < 0.5 else []),
            ]
        case "for":
            return [
                p + f"for i{depth} in range({r.choice(['a % 4', '2', '3'])}):",
                p + f"    x = x + i{depth}",
                *sub(True),
            ]
        case "forl":
            return [p + f"for e{depth} in list(L)[:3]:", p + f"    y = y + e{depth}", *sub(True)]
        case "enum":
            return [
                p + f"for i{depth}, e{depth} in enumerate(zip((x, y), (a, b))):",
                p + f"    y = e{depth}[0] * i{depth} + e{depth}[1]",
                *sub(True),
            ]
        case "gen":
            return [
                p + f"for q{depth}, i{depth} in pairs({v}, {r.choice(['2', 'a % 3'])}):",
                p + f"    y = q{depth} + i{depth}",
                *sub(True),
            ]
        case "mapl":
            factor = r.choice(["a", "x", "native(y)"])
            return [
                p + f"for q{depth} in map(lambda q: q * {factor}, (x, y)):",
                p + f"    x = x + q{depth}",
                *sub(True),
            ]
        case "while":
            return [
                p + f"n{depth} = 0",
                p + f"while n{depth} < 2:",
                p + f"    n{depth} += 1",
                *sub(True),
            ]
        case "try":
            return [
                p + "try:",
                *sub(),
                p + f"    {r.choice(['maybe(a)', 'a // b', 'D[7]', 'check(b)', 'pass'])}",
                *sub(),
                p
                + f"except {r.choice(['KeyError', '(ValueError, KeyError)', 'Exception'])}"
                + r.choice(["", " as err"])
                + ":",
                *sub(),
            ]
        case "fin":
            return [
                p + "try:",
                *sub(),
                p + "finally:",
                p + "    log.append('f')",
                p + f"    {v} = {r.choice(EXPR)}",
            ]
        case "with":
            return [p + f"with Ctx(log) as w{depth}:", p + f"    x = x * w{depth}", *sub()]
        case "break" | "continue":
            return [p + f"if {r.choice(COND)}: {kind}"]
        case "ret":
            return [p + f"if {r.choice(COND)}: return {v}, L, D"]


def helper2(y, a):
    if a > 2:
        return y * a
    return noisy_native(y) if a == 1 else y + a


def _maybe(a):
    if a % 3 == 1:
        raise KeyError(a)


def check(b):
    if b % 2:
        raise ValueError(b)
    return b


def pairs(x, n):
    for i in range(n):
        yield x * i, i


NAMES = {
    "Ctx": Ctx,
    "op_neg": op_neg,
    "helper2": helper2,
    "native": noisy_native,
    "maybe": blind(_maybe),
    "check": check,
    "pairs": pairs,
    "__name__": "fuzzed",
}


def run(f, seed):
    r = random.Random(seed)
    x, y = Toy(r.randint(-3, 3)), Toy(r.randint(-3, 3))
    items, table, box, log = [Toy(1), x], {"k": y}, Cfg(r.randint(0, 3)), []
    programs.LOG.clear()
    try:
        out = f(x, y, r.randint(0, 4), r.randint(0, 3), items, table, box, log)
    except Exception as error:
        out = type(error), str(error)
    same = [out is items, isinstance(out, tuple) and len(out) > 1 and out[1] is items]
    return repr((out, items, table, box, log, x, y, programs.LOG, same))


def differs(seed):
    """The text of a random program whose compiled form differs, or None."""
    r = random.Random(seed)
    lines = ["def f(x, y, a, b, L, D, box, log):", *block(r, 3, 1, False)]
    text = "\n".join([*lines, "    return x, y, a, b, L, D"])
    namespace = dict(NAMES)
    exec(compile(text, f"<program {seed}>", "exec"), namespace)
    f = namespace["f"]
    compiled = toy_capture(limit=30).function(f)
    for k in (1, 2, 3, 1, 2, 3):
        want, got = run(f, k), run(compiled, k)
        if want != got:
            return f"{text}\nwant {want}\ngot  {got}"
    return None


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        found = differs(seed)
        assert found is None, f"program {seed}\n{found}"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2100, 100))
def test_more_random_programs(first):
    for seed in range(first, first + 100):
        found = differs(seed)
        assert found is None, f"program {seed}\n{found}"
