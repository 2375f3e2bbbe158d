"""The simulator of steps on many processes, on times that are made up."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "tools" / "scaling.py"
spec = importlib.util.spec_from_file_location("scaling", PATH)
assert spec is not None and spec.loader is not None
scaling = importlib.util.module_from_spec(spec)
spec.loader.exec_module(scaling)

LATENCY, RATE = 1e-4, 1e-9
PASSED = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1}


def facts(size):
    """As messages of this latency and rate would be measured."""
    found = {"processes": size, "parameters": 4000.0, "data compute": 0.1, "sharded compute": 0.2,
             "tensor compute": 0.4}  # fmt: skip
    for name, ways in PASSED.items():
        for count in scaling.SIZES:
            passes = ways * count * (size - 1) / size
            found[f"{name} {count}"] = LATENCY * (size - 1) + RATE * passes
    found["messages"] = {
        "data": [("all_reduce", 4e6)], "tensor": [("all_reduce", 1e6)] * 3,
        "sharded": [("all_gather_into_tensor", 1e6)] * 2 + [("reduce_scatter_tensor", 1e6)],
    }  # fmt: skip
    return found


def test_costs_are_found_again():
    costs = scaling.Costs(facts(4))
    for name in PASSED:
        assert costs.fits[name] == pytest.approx((3 * LATENCY, RATE))
    assert costs.cost("all_reduce", 1e6, 1) == 0.0
    assert costs.cost("all_gather_into_tensor", 1e6, 101) == pytest.approx(
        100 * LATENCY + RATE * 1e6 * 100 / 101
    )


def test_steps_are_compute_and_messages():
    found = scaling.predict(facts(4), scaling.Costs(facts(4)), 4)
    assert found["data"] == pytest.approx(0.1 + 3 * LATENCY + RATE * 2 * 4e6 * 3 / 4)
    assert found["sharded"] == pytest.approx(0.2 + 3 * (3 * LATENCY + RATE * 1e6 * 3 / 4))
    measured = {1: facts(1), 4: facts(4)}
    found = scaling.extrapolate(measured, scaling.Costs(facts(4)), 16)
    assert found["data"] == pytest.approx(0.1 + 15 * LATENCY + RATE * 2 * 4e6 * 15 / 16)
    inside = 3 * (3 * LATENCY + RATE * 2 * 1e6 * 3 / 4)
    among = 3 * LATENCY + RATE * 2 * 1e3 * 3 / 4
    assert found["tensor"] == pytest.approx(0.1 + inside + among)


def test_all_wait_for_the_slowest():
    silence = scaling.Silence()
    silence.turns = [[0.0, 9.0], [0.0, 9.0], [0.0, 1.0, 4.0], [0.0, 2.0, 3.0]]
    other = [[3.0, 1.0], [1.0, 1.0]]
    assert silence.seconds(lambda own: [own, other]) == pytest.approx((3 + 3 + 2 + 1) / 2)
