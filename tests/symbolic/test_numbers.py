"""Arithmetic of symbolic numbers: what it prints, what it evaluates to, what it refuses."""

from __future__ import annotations

import itertools
import math
import operator
import subprocess
import sys

import pytest

pytest.importorskip("sympy")

from rushlight.symbolic import ShapeEnv, build, numbers
from rushlight.symbolic.expressions import evaluate


def integers(*values: int, env: ShapeEnv | None = None) -> list[numbers.SymInt]:
    env = env or ShapeEnv(duck_shape=False)
    return [
        env.create_symintnode(env.create_symbol(value, f"x{position}"), hint=value)
        for position, value in enumerate(values)
    ]


def anything(*values: int) -> list[numbers.SymInt]:
    """Integers of any sign."""
    env = ShapeEnv(duck_shape=False)
    return [
        env.create_symintnode(env.create_unspecified_symbol(value, f"x{position}"), hint=value)
        for position, value in enumerate(values)
    ]


def test_importing_the_package_leaves_sympy_alone():
    code = (
        "import sys, rushlight, rushlight.symbolic as s; s.SymInt; s.sym_max(1, 2)\n"
        "assert s.is_concrete_int(3) and not s.is_symbolic(3)\n"
        "assert 'sympy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_sympy_names_the_command():
    code = (
        "import sys; sys.modules['sympy'] = None\n"
        "import rushlight.symbolic as s\n"
        "try: s.ShapeEnv\n"
        "except ImportError as error: assert 'rushlight[compile]' in str(error), error\n"
        "else: raise SystemExit('no error')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("s0 + s1", lambda a, b: a + b),
        ("s0 - s1", lambda a, b: a - b),
        ("-s0 + s1", lambda a, b: b - a),
        ("2*s0", lambda a, b: 2 * a),
        ("s0*s1", lambda a, b: b * a),
        ("(s0//2)", lambda a, b: a // 2),
        ("Mod(s0, 3)", lambda a, b: a % 3),
        ("IntTrueDiv(s0, 2)", lambda a, b: a / 2),
        ("s0**2", lambda a, b: a**2),
        ("2 - s0", lambda a, b: 2 - a),
        ("s0", lambda a, b: abs(a)),
        ("s0", lambda a, b: a * 2 // 2),
        ("s0", lambda a, b: a * b // b),
        ("s0 + 2", lambda a, b: (2 * a + 4) // 2),
        ("((s0 + 1)//2)", lambda a, b: (a + 1) // 2),
        ("s0", lambda a, b: a // 1),
        ("(s0//6)", lambda a, b: a // 2 // 3),
        ("s0*s1 + s0 + 3", lambda a, b: a * b + a + 3),
        ("Max(s0, s1)", numbers.sym_max),
        ("Min(3, s0)", lambda a, b: numbers.sym_min(a, 3)),
        ("ToFloat(s0)", lambda a, b: numbers.sym_float(a)),
        ("OpaqueUnaryFn_sqrt(ToFloat(s0))", lambda a, b: numbers.sym_sqrt(a)),
        ("FloorToInt(IntTrueDiv(s0, 2))", lambda a, b: math.floor(a / 2)),
        ("TruncToInt(IntTrueDiv(s0, 2))", lambda a, b: numbers.sym_int(a / 2)),
        ("ToFloat(s0) + 1.5", lambda a, b: a + 1.5),
        ("FloatTrueDiv(ToFloat(s0), 2.5)", lambda a, b: a / 2.5),
        ("s0 < s1", operator.lt),
        ("Eq(s0, s1)", operator.eq),
        ("Ne(s0, s1)", operator.ne),
        ("2*s0 < s1", lambda a, b: a * 2 < b),
        ("Eq(s0 + 1, s1 + 1)", lambda a, b: a + 1 == b + 1),
        ("s0 >= s1", lambda a, b: numbers.sym_not(a < b)),
    ],
)
def test_prints_like_torch(text, function):
    assert str(function(*integers(6, 10))) == text


@pytest.mark.parametrize(
    ("value", "function"),
    [
        (0, lambda a, b: a - a),
        (1, lambda a, b: a + 1 - a),
        (1, lambda a, b: a // a),
        (0, lambda a, b: a % a),
        (0, lambda a, b: 2 * a % 2),
        (1, lambda a, b: (2 * a + 1) % 2),
        (0, lambda a, b: a * b - b * a),
        (True, lambda a, b: a == a),
        (True, lambda a, b: a > 1),
        (False, lambda a, b: a == 0),
        (True, lambda a, b: a * b >= b),
        (True, lambda a, b: a * b + 1 > a),
        (False, lambda a, b: 2 * a + 1 == 2 * b),
        (True, lambda a, b: (a % 5) < 5),
        (True, lambda a, b: a // 2 >= 1),
    ],
)
def test_a_known_result_is_a_plain_number(value, function):
    a, b = integers(6, 10)
    result = function(a, b)
    assert result == value
    assert type(result) is type(value)
    assert a.node.shape_env.guards == []


INTEGER_FUNCTIONS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.truediv,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
    numbers.sym_max,
    numbers.sym_min,
    lambda a, b: a * 6 // 4 + a % (b * b + 1),
    lambda a, b: (a * b + b) // b,
    lambda a, b: (4 * a + 2 * b + 1) // 2 - (a - 7) // 3 // 2,
    lambda a, b: (6 * a + b) % 3 * 2 - -a % 4,
    lambda a, b: abs(a) - abs(-b) + a**2,
    lambda a, b: math.floor(a / b) + math.ceil(a / 2) - round(b / 2),
    lambda a, b: divmod(a, b)[0] - 7 // b + 7 % b - (a >> 1),
]


@pytest.mark.parametrize("function", INTEGER_FUNCTIONS)
def test_means_what_python_means(function):
    a, b = anything(4, 3)
    result = function(a, b)
    if not isinstance(result, numbers.SymNumber):
        pytest.fail("nothing symbolic came out")
    expr = result.node.expr
    symbols = (a.node.expr, b.node.expr)
    range_ = None if result.node.is_bool() else a.node.shape_env.bound_sympy(expr)
    for x, y in itertools.product(range(-7, 8), range(-7, 8)):
        if y == 0:
            continue
        expected = function(x, y)
        assert evaluate(expr, dict(zip(symbols, (x, y)))) == expected
        values = dict(zip(map(str, symbols), (x, y)))
        rebuilt = build(expr, lambda s, v=values: v[str(s)], lambda f, *args: f(*args))
        assert rebuilt == expected
        assert range_ is None or expected in range_
    assert result.node.hint == function(4, 3)


def test_number_protocols_specialise():
    env = ShapeEnv(duck_shape=False)
    a, b, c = integers(3, 5, 7, env=env)
    assert [10, 20, 30, 40][a] == 40
    assert float(b) == 5.0
    assert list(range(c)) == list(range(7))
    assert env.format_guards() == " - Eq(s0, 3)\n - Eq(s1, 5)\n - Eq(s2, 7)"
    assert a + 1 == 4
    assert type(a + 1) is int


def test_hashing_is_refused():
    (a,) = integers(3)
    with pytest.raises(TypeError, match="unhashable type: non-nested SymInt"):
        hash(a)
    with pytest.raises(TypeError, match="unhashable type: SymBool"):
        hash(a < 5)


def test_other_types_are_left_to_the_other_operand():
    (a,) = integers(3)

    class Other:
        def __radd__(self, left):
            return "taken"

    assert a + Other() == "taken"
    with pytest.raises(TypeError):
        a + "x"


def test_booleans_combine():
    a, b = integers(6, 10)
    both = (a < b) & (b < a + 3)
    assert isinstance(both, numbers.SymBool)
    assert not both
    assert (a < b) | (b < 3)
    assert str(a.node.shape_env.guards[0].expr) == "(s0 >= s1) | (s1 >= s0 + 3)"


def test_choosing():
    env = ShapeEnv()
    a, b = integers(6, 10, env=env)
    u = env.create_unbacked_symint()
    chosen = numbers.sym_ite(u < 3, a, b)
    assert str(chosen) == "Piecewise((s0, u0 < 3), (s1, True))"
    assert numbers.sym_ite(a > 1, a, b) is a
    assert numbers.sym_ite(False, 1, 2) == 2
    with pytest.raises(TypeError, match="int and float"):
        numbers.sym_ite(u < 3, 1, 2.0)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda a, b: a + b, "add(s0, s1)"),
        (lambda a, b: a - b, "sub(s0, s1)"),
        (lambda a, b: 2 * a, "mul(2, s0)"),
        (lambda a, b: a * b + 3, "add(mul(s0, s1), 3)"),
        (lambda a, b: 4 - a, "sub(4, s0)"),
        (lambda a, b: b - a, "add(neg(s0), s1)"),
        (lambda a, b: 2 * a - 3 * b, "sub(mul(2, s0), mul(3, s1))"),
        (lambda a, b: (a + b) // 2, "floordiv(add(s0, s1), 2)"),
        (lambda a, b: a * a * b, "mul(pow(s0, 2), s1)"),
        (numbers.sym_max, "sym_max(s0, s1)"),
        (lambda a, b: a + 1 <= b, "le(add(s0, 1), s1)"),
        (lambda a, b: numbers.sym_float(a) / 2, "truediv(sym_float(s0), 2.0)"),
    ],
)
def test_rebuilds_by_python_operations(function, text):
    def apply(operation, *operands):
        return f"{operation.__name__}({', '.join(map(str, operands))})"

    assert build(function(*integers(6, 10)).node.expr, str, apply) == text
