"""Conditions on one integer, against trying all of them."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("sympy")

from rushlight.symbolic import expressions as ex
from rushlight.symbolic.integersets import IntegerSet, Progression, period_of, sign_runs
from rushlight.symbolic.ranges import ValueRanges, int_oo

X = ex.Symbol("x", integer=True, nonnegative=True)
KINDS = (ex.Eq, ex.Ne, ex.Lt, ex.Le, ex.Gt, ex.Ge)


def term(source: random.Random, depth: int = 2) -> Any:
    pick = source.randrange(6) if depth else 0
    if pick == 0:
        return X * source.randint(1, 3) + source.randint(-5, 5)
    if pick == 1:
        return ex.FloorDiv(term(source, depth - 1), ex.Integer(source.choice([2, 3, 4])))
    if pick == 2:
        return ex.Mod(term(source, depth - 1), ex.Integer(source.choice([2, 3, 4])))
    if pick == 3:
        return term(source, depth - 1) + term(source, depth - 1)
    if pick == 4:
        return term(source, 0) * term(source, 0)
    return term(source, depth - 1) - source.randint(0, 20)


def condition(source: random.Random, value: int) -> Any:
    """A condition that holds for `value`."""
    while True:
        kind = source.choice(KINDS)
        found = ex.relation(kind, term(source), ex.constant(source.randint(0, 60)))
        if found.free_symbols:
            return found if ex.evaluate(found, {X: value}) else ex.negate(found)


@pytest.mark.parametrize("seed", range(60))
def test_sets_agree_with_trying(seed: int) -> None:
    source = random.Random(seed)
    value = source.randint(2, 40)
    conditions = [condition(source, value) for _ in range(source.randint(1, 3))]
    lower = source.randint(0, value)
    upper = source.choice([int_oo, source.randint(value, 80)])
    found = IntegerSet.of(conditions, X, ValueRanges(lower, upper))
    assert found is not None
    numbers = range(lower, int(min(upper, 300)) + 1)
    true = {n for n in numbers if all(ex.evaluate(one, {X: n}) for one in conditions)}
    period = found.period
    told = {n for n in numbers if any(a <= n // period <= b for a, b in found.classes[n % period])}
    assert told == true
    if found.is_whole():
        assert len(true) == len(numbers)
    values = found.around(value)
    members = {
        n
        for n in numbers
        if values.lower <= n <= values.upper and n % values.modulus == values.remainder
    }
    assert value in members and members <= true
    for beyond in (values.lower - values.modulus, values.upper + values.modulus):
        assert beyond not in numbers or beyond not in true


def test_unions_and_opposites() -> None:
    either = ex.Or(ex.relation(ex.Lt, X, ex.Integer(3)), ex.relation(ex.Gt, X, ex.Integer(7)))
    found = IntegerSet.of([either], X, ValueRanges(0, int_oo))
    assert found is not None and found.classes == [[(0, 2), (8, int_oo)]]
    assert found.around(9) == Progression(1, 0, 8, int_oo)


def test_the_densest_of_the_endless_progressions_is_taken() -> None:
    divisible = ex.relation(ex.Eq, ex.Mod(X, ex.Integer(3)), ex.Zero)
    found = IntegerSet.of([divisible], X, ValueRanges(2, int_oo))
    assert found is not None and found.around(6) == Progression(3, 0, 3, int_oo)


def test_what_has_no_exact_answer() -> None:
    by_itself = ex.relation(ex.Eq, ex.Mod(ex.Integer(12), X), ex.Zero)
    assert period_of(by_itself) is None
    assert IntegerSet.of([by_itself], X, ValueRanges(2, 20)) is None
    long = ex.relation(ex.Eq, ex.Mod(X, ex.Integer(5000)), ex.Zero)
    assert IntegerSet.of([long], X, ValueRanges(2, int_oo)) is None


def test_signs_of_a_cubic() -> None:
    # (k - 1)(k - 4)(k + 2), and far roots of a parabola
    assert sign_runs((8, -6, -3, 1), -int_oo, int_oo) == [
        (-int_oo, -3, -1),
        (-2, -2, 0),
        (-1, 0, 1),
        (1, 1, 0),
        (2, 3, -1),
        (4, 4, 0),
        (5, int_oo, 1),
    ]
    assert sign_runs((-1000003, 0, 1), 0, int_oo) == [(0, 1000, -1), (1001, int_oo, 1)]
