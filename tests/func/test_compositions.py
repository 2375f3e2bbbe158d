"""Random compositions of transforms equal the oracle.

Some are run here, ten thousand by `make fuzz-transforms`: RUSHLIGHT_COMPOSITIONS says how many,
RUSHLIGHT_COMPOSITIONS_SEED which ones.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest

import rushlight as torch
import rushlight.utils.checkpoint
from tests.func import jets, steps
from tests.func.compositions import (
    Case,
    Program,
    Step,
    draw_case,
    judge,
)
from tests.func.jets import Jet, jet
from tests.func.shrinking import shrink

COUNT = int(os.environ.get("RUSHLIGHT_COMPOSITIONS", "300"))
SEED = int(os.environ.get("RUSHLIGHT_COMPOSITIONS_SEED", "0"))
PARTS = 10
# A refusal is right where torch refuses too; more of them than this would hide what is untested.
MOST_REFUSED = 0.1


@pytest.fixture(autouse=True, scope="module")
def modules_are_made_outside_of_transforms():
    steps.modules(torch)


@pytest.mark.parametrize("part", range(PARTS))
def test_compositions(part):
    found: Counter[str] = Counter()
    failures = []
    for number in range(part * COUNT // PARTS, (part + 1) * COUNT // PARTS):
        case = draw_case(number, SEED)
        verdict = judge(case, torch)
        found[verdict.state] += 1
        if verdict.state == "refused":
            found[verdict.words] += 1
        if verdict.state in ("wrong", "raised"):
            small = shrink(case, torch)
            failures.append(f"{small}\n{judge(small, torch).words}")
    print(dict(found))
    assert not failures, "\n\n".join(failures[:5])
    assert found["refused"] <= MOST_REFUSED * COUNT / PARTS + 2


def test_a_wrong_gradient_is_found_and_shrunk(monkeypatch):
    """The comparison has teeth: with a wrong step, it reports that step and little else."""
    wrong = steps.Op("sin", lambda T, x: x.sin() + 0.0 * x, lambda x: jets.sin(x) + x * 1e-5)
    monkeypatch.setitem(steps.OPS, "sin", wrong)
    inputs = (np.array([0.3, 0.4]),)
    body = Program(1, 0, (Step("cos", (0,), {}), Step("sin", (1,), {})), 2)
    step = Step("jvp", (1,), {"tangents": [None], "form": 0}, body)
    program = Program(1, 0, (Step("neg", (0,), {}), step, Step("exp", (2,), {})), 3)
    case = Case(0, program, inputs, "no_grad")
    assert judge(case, torch).state == "wrong"
    small = shrink(case, torch)
    assert small.outside == "plain" and small.program.names() == {"sin"}


# -- the oracle against formulas -------------------------------------------------------------------


def derivatives(function, x: float, order: int) -> list[float]:
    """The derivatives of a function of one number, by that many tags."""
    value = jet(x)
    for tag in range(order):
        value = value.varied(tag, jet(np.ones(1)))
    result = function(value)
    found = []
    for _ in range(order + 1):
        found.append(float(result.value))
        result = result.derivative(len(found) - 1, 1).sum(0)
    return found


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (jets.sin, lambda x: [np.sin(x), np.cos(x), -np.sin(x), -np.cos(x)]),
        (jets.exp, lambda x: [np.exp(x)] * 4),
        (jets.log, lambda x: [np.log(x), 1 / x, -1 / x**2, 2 / x**3]),
        (jets.reciprocal, lambda x: [1 / x, -1 / x**2, 2 / x**3, -6 / x**4]),
        (lambda x: x * x * x, lambda x: [x**3, 3 * x**2, 6 * x, 6]),
        (lambda x: jets.power(x, 2.0), lambda x: [x**2, 2 * x, 2, 0]),
        (
            lambda x: jets.inverse(x.reshape(1, 1)).sum(),
            lambda x: [1 / x, -1 / x**2, 2 / x**3, -6 / x**4],
        ),
        (
            lambda x: jets.logdet(x.reshape(1, 1)),
            lambda x: [np.log(x), 1 / x, -1 / x**2, 2 / x**3],
        ),
    ],
)
def test_jets_have_the_derivatives_of_calculus(function, expected):
    np.testing.assert_allclose(derivatives(function, 0.7, 3), expected(0.7), rtol=1e-12)


def test_tanh_by_its_equation():
    y, dy, ddy = derivatives(jets.tanh, 0.4, 2)
    np.testing.assert_allclose([dy, ddy], [1 - y**2, -2 * y * (1 - y**2)], rtol=1e-12)


def test_a_jet_agrees_with_differences():
    rng = np.random.default_rng(0)
    a, direction = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))

    def function(x: Jet) -> Jet:
        scores = jets.softmax(jets.layer_norm(x, 0.01), 0)
        return jets.logdet(jet(np.eye(3)) * 2.0 + scores) + jets.variance(x, 1, 1).sum()

    varied = jet(a).varied(0, jet(direction[None]))
    found = function(varied).derivative(0, 1).value.item()
    steps = [1e-3, 5e-4]
    rough = [
        float((function(jet(a + h * direction)) - function(jet(a - h * direction))).value) / (2 * h)
        for h in steps
    ]
    np.testing.assert_allclose(found, (4 * rough[1] - rough[0]) / 3, rtol=1e-9)
