"""Random relations of sizes: what is suggested exports, and holds for all sizes that it allows."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("sympy")

from tests.export.relations import Operations, check, check_exported

QUICK = range(40)
ALL = range(40, 2400)


def test_suggested_declarations_agree_with_brute_force() -> None:
    outcomes = Counter(check(seed, limit=16) for seed in QUICK)
    # The sample has both declarations that fit and such as do not, and neither is trivial.
    assert outcomes["fits dynamic"] >= 4 and outcomes["fixed dynamic"] >= 10


def test_a_root_leaves_what_follows_from_it_positive() -> None:
    # `da = 3*db - 3` would be negative for the least `db` that a dim may have.
    assert check(11448, limit=16).startswith("fixed")


def test_quotients_of_sizes_that_are_limited_to_a_remainder() -> None:
    # `2*a + 2*b + 1 == (b + 2)//3 + 28` where `b % 3` is not 0: one fix says all of it.
    assert check(12041, limit=16).startswith("fixed")


def test_exported_programs_agree_with_eager(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = Counter(check_exported(seed, tries=8) for seed in QUICK)
    assert outcomes["fits dynamic"] >= 4 and outcomes["fixed dynamic"] >= 10


def test_ops_relate_sizes(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = Counter(check_exported(seed, 6, Operations) for seed in range(16))
    assert outcomes["fits dynamic"] >= 2 and outcomes["fixed dynamic"] >= 4


@pytest.mark.slow
def test_ops_relate_sizes_in_many_ways(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = Counter(check_exported(seed, kind=Operations) for seed in range(16, 500))
    assert outcomes["fits dynamic"] > 50 and outcomes["fixed dynamic"] > 100


@pytest.mark.slow
def test_many_suggested_declarations_agree_with_brute_force() -> None:
    outcomes = Counter(check(seed) for seed in ALL)
    assert sum(outcomes.values()) == len(ALL) and outcomes["fixed dynamic"] > len(ALL) // 4


@pytest.mark.slow
def test_many_exported_programs_agree_with_eager(capfd: pytest.CaptureFixture[str]) -> None:
    outcomes = Counter(check_exported(seed) for seed in ALL)
    assert sum(outcomes.values()) == len(ALL) and outcomes["fixed dynamic"] > len(ALL) // 4
