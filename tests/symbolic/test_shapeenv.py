"""Symbols for sizes, what is concluded about them, and the guards that come of it."""

from __future__ import annotations

import itertools
import random

import pytest

pytest.importorskip("sympy")

import rushlight as torch
from rushlight.core.fake import FakeTensorMode
from rushlight.symbolic import (
    AttrSource,
    ConstraintViolationError,
    DimDynamic,
    GuardOnDataDependentSymNode,
    LocalSource,
    ShapeEnv,
    StatefulSymbolicContext,
    StatelessSymbolicContext,
    TensorPropertySource,
    ValueRanges,
    check,
    check_is_size,
    constrain_range,
    expect_true,
    free_symbols,
    free_unbacked_symbols,
    guard_or_false,
    guard_or_true,
    guard_size_oblivious,
    has_free_symbols,
    hint_int,
    int_oo,
    is_concrete_int,
    is_symbolic,
    statically_known_true,
)


class Shape:
    """Stands for a tensor: sizes, strides, offset."""

    def __init__(self, size, stride, offset=0):
        self.parts = (tuple(size), tuple(stride), offset)

    def size(self):
        return self.parts[0]

    def stride(self):
        return self.parts[1]

    def storage_offset(self):
        return self.parts[2]


def symbolic(env, name, *parts, **options):
    made = env.create_symbolic_sizes_strides_storage_offset(
        Shape(*parts), f"L['{name}']", **options
    )
    return Shape(*made)


def size(env, value, name="x"):
    return env.create_symintnode(env.create_symbol(value, name), hint=value)


EXAMPLES = {
    "x": ((3, 4, 5), (20, 5, 1)),
    "y": ((3, 5), (1, 3)),
    "z": ((4, 1, 3), (6, 6, 1), 1),
    "w": ((7, 2, 3), (0, 3, 1)),
    "c": ((2, 6, 8, 9), (432, 1, 54, 6)),
}


def test_sizes_and_strides():
    env = ShapeEnv()
    texts = [str(symbolic(env, name, *parts).parts) for name, parts in EXAMPLES.items()]
    assert texts == [
        "((s0, s1, s2), (s1*s2, s2, 1), 0)",
        "((s0, s2), (1, s0), 0)",
        "((s1, 1, s0), (s3, s3, 1), 1)",
        "((s4, s5, s0), (0, s0, 1), 0)",
        "((s5, s3, s6, s7), (s3*s6*s7, 1, s3*s7, s3), 0)",
    ]


def test_plain_sizes_are_contiguous():
    made = ShapeEnv().create_symbolic_sizes_strides_storage_offset((2, 3, 1), "x")
    assert str(made) == "((s0, s1, 1), (s1, 1, 1), 0)"


def test_zero_and_one_stay_plain():
    env = ShapeEnv()
    sizes, strides, offset = symbolic(env, "x", (0, 1), (1, 1)).parts
    assert (sizes, strides, offset) == ((0, 1), (1, 1), 0)
    free = ShapeEnv(specialize_zero_one=False)
    kept = size(free, 1)
    assert str(kept) == "s0"
    assert free.var_to_range[kept.node.expr] == ValueRanges(0, int_oo)


def test_duck_sizing_can_be_turned_off():
    sizes, _, _ = symbolic(ShapeEnv(duck_shape=False), "x", (3, 3), (3, 1)).parts
    assert str(sizes) == "(s0, s1)"


def test_contexts():
    env = ShapeEnv()
    context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC, DimDynamic.DYNAMIC])
    sizes, strides, _ = symbolic(env, "x", (3, 3, 3), (9, 3, 1), symbolic_context=context).parts
    assert str((sizes, strides)) == "((s0, 3, s1), (3*s1, s1, 1))"
    stateful = StatefulSymbolicContext([DimDynamic.DYNAMIC])
    first = symbolic(env, "y", (7,), (1,), symbolic_context=stateful).size()
    second = symbolic(env, "y", (7,), (1,), symbolic_context=stateful).size()
    assert str(first) == str(second) == "(s2,)"
    static = StatelessSymbolicContext([DimDynamic.STATIC] * 2)
    assert symbolic(env, "z", (3, 4), (4, 1), symbolic_context=static).parts == ((3, 4), (4, 1), 0)


def guarded():
    env = ShapeEnv()
    inputs = [symbolic(env, name, *parts) for name, parts in EXAMPLES.items()]
    x, c = inputs[0].size(), inputs[4].size()
    assert x[0] * 2 < x[1] + x[2]
    assert x[1] % 2 == 0
    assert c[1] > 5
    assert x[0] + 1 == 4
    assert c[2] // 2 == 4
    assert c[3] != 5
    return env, inputs


def test_guards_print():
    env, _ = guarded()
    assert env.format_guards().splitlines() == [
        " - 2*s0 < s1 + s2",
        " - Eq(Mod(s1, 2), 0)",
        " - s3 > 5",
        " - Eq(s0 + 1, 4)",
        " - Eq((s6//2), 4)",
        " - Ne(s7, 5)",
    ]
    assert str(env.replacements) == "{s0: 3}"
    assert str(env.divisible) == "{Mod(s1, 2)}"
    assert list(map(str, env.get_nontrivial_guards())) == [
        "6 < s1 + s2",
        "Eq(Mod(s1, 2), 0)",
        "Eq((s6//2), 4)",
        "Ne(s7, 5)",
    ]
    assert "test_shapeenv.py" in env.format_guards(verbose=True)


def test_guards_as_python():
    env, inputs = guarded()
    sources = [f"L['{name}']" for name in EXAMPLES]
    produced = env.produce_guards(inputs, sources)
    assert produced == [
        "L['x'].stride()[0] == L['x'].size()[1]*L['x'].size()[2]",
        "L['x'].stride()[1] == L['x'].size()[2]",
        "L['y'].size()[1] == L['x'].size()[2]",
        "L['z'].size()[0] == L['x'].size()[1]",
        "L['z'].stride()[1] == L['z'].stride()[0]",
        "L['c'].size()[0] == L['w'].size()[1]",
        "L['c'].size()[1] == L['z'].stride()[0]",
        "L['c'].stride()[0] == L['z'].stride()[0]*L['c'].size()[2]*L['c'].size()[3]",
        "L['c'].stride()[2] == L['z'].stride()[0]*L['c'].size()[3]",
        "L['c'].stride()[3] == L['z'].stride()[0]",
        "6 < L['x'].size()[1] + L['x'].size()[2]",
        "(L['x'].size()[1] % 2) == 0",
        "(L['c'].size()[2] // 2) == 4",
        "L['c'].size()[3] != 5",
        "2 <= L['x'].size()[1]",
        "2 <= L['x'].size()[2]",
        "6 <= L['z'].stride()[0]",
        "2 <= L['w'].size()[0]",
        "2 <= L['w'].size()[1]",
        "2 <= L['c'].size()[2]",
        "2 <= L['c'].size()[3]",
    ]
    full = env.produce_guards(inputs, sources, ignore_static=False)
    assert "L['x'].size()[0] == 3" in full
    assert "L['z'].storage_offset() == 1" in full


def test_guards_for_other_arguments():
    env = ShapeEnv()
    x = symbolic(env, "x", (4, 6), (6, 1))
    assert x.size()[0] < x.size()[1]
    assert x.size()[0] % 2 == 0
    code = env.produce_guards_expression([x])
    assert env.evaluate_guards_expression(code, [Shape((4, 9), (9, 1))])
    assert env.evaluate_guards_for_args([x], [Shape((4, 6), (6, 1))])
    assert not env.evaluate_guards_for_args([x], [Shape((5, 6), (6, 1))])
    assert not env.evaluate_guards_for_args([x], [Shape((8, 6), (6, 1))])
    assert not env.evaluate_guards_for_args([x], [Shape((4, 6), (1, 4))])
    symbols = [number.node.expr for number in x.size()]
    assert env.bind_symbols([x], [Shape((8, 9), (9, 1))]) == dict(zip(symbols, (8, 9)))


def test_equal_symbols_become_one():
    env = ShapeEnv(duck_shape=False)
    a, b = size(env, 4, "a"), size(env, 4, "b")
    assert a == b
    assert str(b) == "s0"
    assert str(a + b) == "2*s0"
    assert str(env.replacements) == "{s1: s0}"


def test_equalities_are_solved():
    env = ShapeEnv(duck_shape=False)
    a, b, c = size(env, 4, "a"), size(env, 8, "b"), size(env, 3, "c")
    assert 2 * a == b
    assert str(b) == "2*s0"
    assert c * 2 == 6
    assert type(c + 0) is int
    assert b // 2 == a
    assert len(env.guards) == 2


def test_a_fact_decides_its_other_forms():
    env = ShapeEnv(duck_shape=False)
    a, b = size(env, 4, "a"), size(env, 9, "b")
    assert a + 2 < b
    count = len(env.guards)
    assert b > a
    assert not b <= a + 1
    assert a != b
    assert 3 * b - 3 * a >= 9
    assert len(env.guards) == count
    assert a + 3 < b
    assert len(env.guards) == count + 1


def test_ranges_narrow():
    env = ShapeEnv()
    a = size(env, 6)
    assert a <= 10
    assert a > 3
    assert env.var_to_range[a.node.expr] == ValueRanges(4, 10)
    assert repr(env.var_to_range[a.node.expr]) == "VR[4, 10]"
    assert type(a < 11) is bool
    assert env.produce_guards([a], ["a"]) == ["4 <= a <= 10"]


def test_suppressed_and_frozen():
    env = ShapeEnv()
    a = size(env, 6)
    with env.suppress_guards():
        assert a < 7
    assert env.guards == []
    assert a < 9
    env.freeze()
    assert a < 7
    assert len(env.guards) == 1


def test_data_dependent_questions_are_refused():
    env = ShapeEnv()
    u, f, flag = (
        env.create_unbacked_symint(),
        env.create_unbacked_symfloat(),
        env.create_unbacked_symbool(),
    )
    assert [str(u), str(f), str(flag)] == ["u0", "zuf0", "Eq(u1, 1)"]
    with pytest.raises(GuardOnDataDependentSymNode) as caught:
        bool(u > 3)
    assert str(caught.value).startswith(
        "Could not guard on data-dependent expression u0 > 3 (unhinted: u0 > 3).  "
        "(Size-like symbols: none)"
    )
    with pytest.raises(GuardOnDataDependentSymNode, match="Could not extract specialized integer"):
        int(u)
    for question in (lambda: bool(flag), lambda: float(f), lambda: bool(f > 1.0)):
        with pytest.raises(GuardOnDataDependentSymNode, match="Could not guard on data-dependent"):
            question()
    assert not statically_known_true(u > 3)
    assert not guard_or_false(u > 3)
    assert guard_or_true(u > 3)
    assert env.is_unbacked_symint(u.node.expr)
    assert env.size_hint(u.node.expr, allow_none=True) is None
    assert hint_int(u, fallback=7) == 7


def test_checks_become_runtime_assertions():
    env = ShapeEnv(duck_shape=False)
    a = size(env, 6)
    u = env.create_unbacked_symint()
    check(u >= 0)
    check(u < 20)
    check(u < 20)
    check(u != 3)
    check(u * 2 < 3 * a + 4)
    assert [str(one.expr) for one in env.deferred_runtime_asserts[u.node.expr]] == [
        "0 <= u0",
        "u0 < 20",
        "Ne(u0, 3)",
        "2*u0 < 3*s0 + 4",
    ]
    assert env.var_to_range[u.node.expr] == ValueRanges(0, 19)
    assert u < 30
    assert u != 3
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        check(u < 0)
    assert env.guards == []


def test_commuted_facts_about_data():
    env = ShapeEnv()
    x, y, z = (env.create_unbacked_symint() for _ in range(3))
    check(x == y + z)
    assert y + z == x
    assert z == x - y
    assert statically_known_true(z + y == x)
    check(y != z)
    assert z != y
    assert str(env.deferred_runtime_asserts) == (
        "{u2: [RuntimeAssert(expr=Eq(u0, u1 + u2)), RuntimeAssert(expr=Ne(u1, u2))]}"
    )
    assert env.replacements == {}


def test_sizes_that_depend_on_data():
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    check_is_size(u)
    assert u >= 0
    assert not guard_size_oblivious(u == 0)
    assert guard_size_oblivious(u != 1)
    with pytest.raises(GuardOnDataDependentSymNode, match="Size-like symbols: u0"):
        bool(u == 0)
    constrain_range(u, min=3, max=9)
    assert env.var_to_range[u.node.expr] == ValueRanges(3, 9)


def test_check_on_plain_values():
    check(True)
    with pytest.raises(TypeError, match="cond must be a bool, but got <class 'int'>"):
        check(1)
    with pytest.raises(RuntimeError, match="because"):
        check(False, lambda: "because")
    with pytest.raises(RuntimeError):
        check_is_size(-1)
    assert expect_true(True)


def test_fresh_symbols_are_noted():
    env = ShapeEnv()
    u = env.create_unbacked_symint()
    with env.ignore_fresh_unbacked_symbols():
        env.create_unbacked_symint()
    assert env.pending_fresh_unbacked_symbols == [u.node.expr]


def test_queries():
    env = ShapeEnv()
    a, u = size(env, 6), env.create_unbacked_symint()
    assert is_symbolic(a)
    assert not is_concrete_int(a)
    assert is_concrete_int(3)
    assert free_symbols([a * 2, 3]) == {a.node.expr}
    assert free_unbacked_symbols([a, u]) == {u.node.expr}
    assert has_free_symbols(a)
    assert not has_free_symbols((3, 4))
    assert hint_int(a * 2) == 12
    assert env.size_hint(a.node.expr * 2) == 12
    assert env.guards == []


def test_negative_numbers_and_floats():
    env = ShapeEnv()
    j = env.create_symintnode(env.create_unspecified_symbol(-3, "j"), hint=-3)
    assert env.var_to_range[j.node.expr] == ValueRanges(-int_oo, int_oo)
    assert j // 2 == -2
    assert j % 2 == 1
    f = env.create_symfloatnode(env.create_unspecified_symbol(2.5, "f"), hint=2.5)
    assert str(f) == "zf0"
    assert f > 1
    assert f * 2 == 5.0
    assert float(f) == 2.5


def test_an_example_outside_its_range_is_refused():
    class Bounds:
        vr = ValueRanges(6, int_oo)

    with pytest.raises(ConstraintViolationError, match="3 not in range"):
        ShapeEnv().create_symbol(3, "x", constraint_dim=Bounds())


def test_guards_hold_exactly_where_the_answers_do():
    """Random questions: another input that passes the guards gets the same answers."""
    chance = random.Random(7)

    def term(numbers):
        kind = chance.randrange(6)
        a, b = chance.choice(numbers), chance.choice(numbers)
        k = chance.randrange(1, 5)
        return (a + b, a * b, a - k, a // k, a % k, k * a - b)[kind]

    for _ in range(150):
        values = [chance.randrange(2, 9) for _ in range(3)]
        env = ShapeEnv(duck_shape=chance.random() < 0.5)
        inputs = [size(env, value, f"x{i}") for i, value in enumerate(values)]
        state = chance.getstate()

        def ask(numbers, state=state):
            chance.setstate(state)
            answers = []
            for _ in range(4):
                left, right = term(numbers), term(numbers)
                kind = chance.randrange(4)
                answers.append(
                    bool((left == right, left < right, left != right, left >= right)[kind])
                )
            return answers

        expected = ask(values)
        assert ask(inputs) == expected
        sources = ["a", "b", "c"]
        code = " and ".join(env.produce_guards(inputs, sources, ignore_static=False)) or "True"
        check_code = compile(code, "guards", "eval")
        assert eval(check_code, dict(zip(sources, values)))
        for other in itertools.product(range(2, 9), repeat=3):
            if eval(check_code, dict(zip(sources, other))):
                assert ask(list(other)) == expected, (values, other, code)


# -- sources ---------------------------------------------------------------------------------------


def test_guards_of_a_view_are_conditions_on_the_view():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    source = LocalSource("x")
    view = torch.randn(10, 6)[2:9].t()
    fake = mode.from_tensor(view, source=source)
    assert env.guards == []
    assert env.produce_guards([fake], [source]) == [
        "L['x'].stride()[1] == L['x'].size()[0]",
        "2 <= L['x'].size()[0]",
        "2 <= L['x'].size()[1]",
        "2 <= L['x'].storage_offset()",
    ]
    base = AttrSource(source, "_base")
    rows = fake._base.shape[0].node.expr
    assert env.var_to_sources[rows] == [TensorPropertySource(base, "size", 0)]


def test_guards_that_read_a_base_can_be_evaluated():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    fake = mode.from_tensor(torch.randn(10, 6)[2:9], source="L['x']")
    assert bool(fake._base.shape[0] > 8)
    (text,) = [t for t in env.produce_guards([fake], ["L['x']"]) if "_base" in t]
    assert text == "9 <= L['x']._base.size()[0]"
    assert eval(text, {}, {"L": {"x": torch.randn(9, 6)[1:3]}})
    assert not eval(text, {}, {"L": {"x": torch.randn(8, 6)[1:3]}})


def test_tensors_without_a_source_have_names_of_their_own():
    env = ShapeEnv()
    mode = FakeTensorMode(shape_env=env)
    first, second = mode.from_tensor(torch.ones(4)), mode.from_tensor(torch.ones(5))
    names = [env.var_to_sources[fake.shape[0].node.expr][0].name for fake in (first, second)]
    assert names == ["__unknown_tensor0.size()[0]", "__unknown_tensor1.size()[0]"]
