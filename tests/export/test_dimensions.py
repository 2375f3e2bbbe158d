from __future__ import annotations

import math
from typing import Any

import pytest

import rushlight as torch
from rushlight.capture.exc import UserError
from rushlight.export import Dim, dims, dynamic_dim
from rushlight.export.dimensions import DerivedDim


def test_a_dim_has_a_name_and_bounds() -> None:
    free, bounded = Dim("n"), Dim("m", min=3, max=7)
    assert (free.__name__, free.min, free.max) == ("n", 0, math.inf)
    assert (bounded.min, bounded.max) == (3, 7)
    assert repr(bounded) == "Dim('m', min=3, max=7)"
    assert repr(Dim("m", min=2)) == "Dim('m')"
    assert [dim.max for dim in dims("a", "b", max=4)] == [4, 4]


@pytest.mark.parametrize("bounds", [{"min": 4, "max": 4}, {"min": 5, "max": 3}])
def test_bounds_must_leave_room(bounds: dict[str, int]) -> None:
    with pytest.raises(AssertionError, match="inconsistent min=., max=."):
        Dim("n", **bounds)


def test_a_name_is_an_identifier() -> None:
    with pytest.raises(AssertionError, match="valid identifier, got 2n"):
        Dim("2n")


@pytest.mark.parametrize(
    ("derive", "text", "least", "greatest"),
    [
        (lambda n: n + 1, "n + 1", 4, 7),
        (lambda n: 1 + n, "n + 1", 4, 7),
        (lambda n: n - 3, "n - 3", 0, 3),
        (lambda n: 2 * n, "2*n", 6, 12),
        (lambda n: n * 2 - 1, "2*n - 1", 5, 11),
        (lambda n: 3 * (n * 2 - 1) + 4, "6*n + 1", 19, 37),
    ],
)
def test_derived_dims_are_rising_lines(derive: Any, text: str, least: int, greatest: int) -> None:
    root = Dim("n", min=3, max=6)
    found = derive(root)
    assert isinstance(found, DerivedDim) and found.root is root
    assert (repr(found), found.min, found.max) == (text, least, greatest)
    assert found.fn(5) == found.factor * 5 + found.offset


def test_a_derived_dim_that_is_its_root_is_the_root() -> None:
    root = Dim("n")
    assert (root + 2) - 2 is root


@pytest.mark.parametrize(
    "derive",
    [
        lambda n: n + 1.5,
        lambda n: n - "1",
        lambda n: 4 - n,
        lambda n: n * 0,
        lambda n: -2 * n,
        lambda n: n * 1.5,
    ],
)
def test_other_arithmetic_is_refused(derive: Any) -> None:
    with pytest.raises(NotImplementedError, match="Only increasing linear operations"):
        derive(Dim("n"))


def test_bounds_of_derived_dims_are_sizes() -> None:
    with pytest.raises(AssertionError, match=r"min value of n - 1 to be >= 0.*currently 0"):
        _ = (Dim("n") - 1).min
    with pytest.raises(AssertionError, match="max value of 4\\*n to be <="):
        _ = (4 * Dim("n", max=1 << 62)).max


def test_hints_take_bounds_once() -> None:
    assert repr(Dim.AUTO) == "DimHint(AUTO)"
    bounded = Dim.DYNAMIC(min=3, max=8)
    assert repr(bounded) == "DimHint(DYNAMIC, min=3, max=8)"
    assert bounded == Dim.DYNAMIC(min=3, max=8) != Dim.DYNAMIC
    with pytest.raises(TypeError, match="not callable"):
        bounded(min=1)
    with pytest.raises(AssertionError, match="min must be <= max"):
        Dim.AUTO(min=4, max=3)
    with pytest.raises(AssertionError, match="max must be non-negative"):
        Dim.AUTO(max=-1)


def test_dynamic_dim_checks_its_arguments() -> None:
    x: Any = 4
    with pytest.raises(UserError, match="Expected tensor as input to dynamic_dim"):
        dynamic_dim(x, 0)
    with pytest.raises(UserError, match="Cannot mark 0-dimension tensors to be dynamic"):
        dynamic_dim(torch.tensor(5), 0)
    with pytest.raises(UserError, match=r"in the range \[0:1\]"):
        dynamic_dim(torch.ones(5, 5), 2)


def test_dynamic_dims_take_bounds_by_comparison() -> None:
    x = torch.ones(5, 5)
    found = (dynamic_dim(x, 0) > 2) <= 7
    assert (found.lower, found.upper) == (3, 7)
    found = (dynamic_dim(x, 0) >= 2) < 7
    assert (found.lower, found.upper) == (2, 6)
    both = found == dynamic_dim(x, 1)
    assert both.shared.dim == 1
    with pytest.raises(TypeError, match="truth value"):
        bool(found)
