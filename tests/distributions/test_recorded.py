"""Densities, moments, divergences, transforms, constraints and error texts beside PyTorch's."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rushlight as torch
from tests.distributions import cases

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded.json").read_text())

# PyTorch's log I0 is a polynomial of seven digits, its trigamma has nine digits.
LOOSE = {"VonMises": 1e-6, "d/d": 1e-8}
# What differs from PyTorch, and why.
BETTER = {
    "Kumaraswamy.mode": "PyTorch's logarithm of 1 - concentration0 is NaN",
    "Kumaraswamy.mode d/dconcentration1": "as above",
    "Kumaraswamy.mode d/dconcentration0": "as above",
    "Wishart.factor.log_prob d/dscale_tril": "zero above the diagonal, which is never read",
}


@pytest.fixture(scope="module")
def found() -> Iterator[dict[str, Any]]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield cases.numbers(torch)
    torch.set_default_dtype(before)


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for entry in value:
            yield from leaves(entry)
    else:
        yield value


def shape(value: Any) -> tuple[int, ...]:
    return (len(value), *shape(value[0])) if isinstance(value, list) and value else ()


def differs(name: str, wanted: Any, found: Any) -> bool:
    if isinstance(wanted, str) or isinstance(found, str):
        return not isinstance(found, str) or " ".join(wanted.split()) != " ".join(found.split())
    if shape(wanted) != shape(found):
        return True
    tolerance = max([1e-10, *(loose for part, loose in LOOSE.items() if part in name)])
    for w, f in zip(leaves(wanted), leaves(found), strict=True):
        if w == f or (math.isnan(w) and math.isnan(f)):
            continue
        if not abs(w - f) <= tolerance * max(1.0, abs(w)):
            return True
    return False


GROUPS = sorted({name.split(".")[0].split("(")[0].split(" ")[0] for name in RECORDED})


@pytest.mark.parametrize("group", GROUPS)
def test_as_recorded(group: str, found: dict[str, Any]) -> None:
    names = [n for n in RECORDED if n.split(".")[0].split("(")[0].split(" ")[0] == group]
    wrong = {
        name: (RECORDED[name], found.get(name, "nothing"))
        for name in names
        if name not in BETTER and differs(name, RECORDED[name], found.get(name, "nothing"))
    }
    assert not wrong


def test_nothing_more_is_found(found: dict[str, Any]) -> None:
    assert set(found) - set(BETTER) == set(RECORDED) - set(BETTER)


def test_what_is_better_than_recorded(found: dict[str, Any]) -> None:
    # a = 2, b = 2.5: ((a - 1) / (a b - 1)) ** (1 / a)
    assert found["Kumaraswamy.mode"][2] == pytest.approx(0.5)
    slope = found["Wishart.factor.log_prob d/dscale_tril"]
    wanted = RECORDED["Wishart.factor.log_prob d/dscale_tril"]
    for i, row in enumerate(slope):
        assert row[: i + 1] == pytest.approx(wanted[i][: i + 1])
        assert not any(row[i + 1 :])
