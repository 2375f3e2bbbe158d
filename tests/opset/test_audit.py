"""Every op has every rule, or says why not."""

from __future__ import annotations

from typing import Any

import pytest

from rushlight.core.op import OpOverload, refuse
from rushlight.opset import audit
from rushlight.opset.elementwise import POINTWISE
from rushlight.opset.kinds import OPAQUE
from rushlight.opset.samples.maker import has_samples, samples_of


@pytest.fixture(scope="module")
def whole() -> audit.Audit:
    return audit.collect()


def test_no_blanks(whole: audit.Audit) -> None:
    blanks = whole.blank_cells()
    by_family: dict[str, list[str]] = {}
    for cell in blanks:
        family, _, place = cell.partition(" ")
        by_family.setdefault(family, []).append(place)
    lines = [f"{family}: {', '.join(places)}" for family, places in by_family.items()]
    assert not blanks, "\n".join(lines)


def test_figures_agree(whole: audit.Audit) -> None:
    assert whole.entries == len(whole.rows) == len(audit.records())
    assert 0 < whole.names <= whole.entries
    assert whole.pairs <= 12 * whole.entries
    assert whole.pairs == sum(len(taken) for taken in whole.table.values())
    assert whole.errors > 2 * whole.entries


def test_every_op_runs_for_some_dtype(whole: audit.Audit) -> None:
    refused = {op.name() for op in audit.records() if not has_samples(op)}
    idle = [name for name, taken in whole.table.items() if not taken and name not in refused]
    assert idle == []


def test_every_op_has_a_family() -> None:
    assert [op.name() for op in audit.records() if not op.family] == []


def made(schema: str, kind: Any, **options: Any) -> OpOverload:
    rules = {name: options.pop(name) for name in audit.RULES if name in options}
    op = OpOverload(schema, kind, "test", **options)
    op.rules.update(rules)
    return op


def test_a_float_result_without_gradient_is_a_blank() -> None:
    op = made("half(Tensor self) -> Tensor", POINTWISE, scalar=lambda m, x: m.multiply(x, 0.5))
    assert audit.rules_of(op) == {
        "shape": "derived",
        "kernel": "given",
        "vjp": "",
        "jvp": "",
        "batch": "derived: elementwise",
        "lower": "derived: text",
        "samples": "derived",
        "errors": "derived",
    }


def test_refusals_carry_their_reason() -> None:
    op = made(
        "half(Tensor self) -> Tensor",
        POINTWISE,
        scalar=lambda m, x: m.multiply(x, 0.5),
        vjp=refuse("no"),
    )
    assert audit.rules_of(op)["vjp"] == audit.rules_of(op)["jvp"] == "refused: no"


def test_wrong_calls_are_refused_with_a_reason_or_counted() -> None:
    schema = "odd(Tensor self) -> Tensor"
    assert audit.rules_of(made(schema, OPAQUE, errors=refuse("none")))["errors"] == "refused: none"
    given = made(schema, OPAQUE, errors=lambda make: [(ValueError, (make(2),))])
    assert audit.rules_of(given)["errors"] == "given"
    # A Python function of the same name takes what it likes: nothing follows from the schema.
    assert audit.rules_of(made(schema, OPAQUE, function=None))["errors"] == ""


def test_kinds_name_what_they_derive() -> None:
    states = {
        "sum.dim_IntList": ("derived: reduction", "derived: folded"),
        "cumsum": ("derived: along", "derived: a call of the op"),
        "gather": ("given", "derived: a call of the op"),
        "scatter_add": ("derived: along", "derived: a call of the op"),
        "mm": ("derived: multiplied", "derived: multiplied"),
        "avg_pool2d": ("derived: folded", "derived: a call of the op"),
        "topk": ("derived: along", "derived: a call of the op"),
        "linalg_qr": ("derived: over_matrices", "derived: a call of the op"),
        "ones_like": ("derived: straight", "derived: filled"),
        "transpose.int": ("derived: along", "derived: view"),
        "index_select": ("given", "derived: a call of the op"),
        "_conj": ("given", "refused: a lazy bit is no geometry"),
    }
    for name, (batch, lower) in states.items():
        base, _, overload = name.partition(".")
        cells = audit.rules_of(audit.registry.find(base, overload or "default"))
        assert (cells["batch"], cells["lower"]) == (batch, lower), name


def test_missing_rules_are_blanks() -> None:
    op = made("odd(Tensor self, int dim) -> Tensor", OPAQUE)
    cells = audit.rules_of(op)
    assert [name for name, state in cells.items() if not state] == [
        "shape",
        "kernel",
        "vjp",
        "jvp",
        "samples",
    ]


def test_samples_are_the_same_every_time() -> None:
    import numpy as np

    from rushlight.core.dtype import float32

    op = audit.registry.find("add", "Tensor")
    first, second = samples_of(op, float32), samples_of(op, float32)
    assert len(first) == len(second) > 10
    for one, other in zip(first, second, strict=True):
        assert repr(one) == repr(other)
        assert np.array_equal(one.args[0]._array, other.args[0]._array, equal_nan=True)


def test_describe_shows_schemas_rules_and_sources() -> None:
    facts = audit.describe("add.Tensor")
    assert facts["schemas"].startswith("aten::add.Tensor(Tensor self, Tensor other")
    assert facts["Tensor, rules"]["vjp"] == "given"
    assert "def stub(self" in facts["stub"]
    assert "def apply(self, grads, needs)" in facts["AddBackward0, generated for Tensor"]
    with pytest.raises(KeyError):
        audit.describe("no_such_op")
