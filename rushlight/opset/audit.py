"""The op audit: which rules every op has, and where they come from.

A cell is "given" (written with the op), "derived" (follows from its kind, body or another rule),
"refused: why" or "" (blank). Blanks are mistakes: an op without a gradient must either answer
nothing that could have one, or say `vjp=refuse("why")`; an op that no call can be wrong about
says `errors=refuse("why")`.
"""

from __future__ import annotations

import warnings
from typing import Any

from rushlight.base import pytree
from rushlight.core.dtype import FLOAT, dtype, float32
from rushlight.core.op import OpOverload, Refused
from rushlight.core.tensor import Tensor
from rushlight.opset import families, registry
from rushlight.opset.kinds import CREATION, RANDOM, Kind
from rushlight.opset.samples.maker import (
    DTYPES,
    Sample,
    errors_of,
    given_errors,
    has_samples,
    samples_of,
)

__all__ = ["RULES", "Audit", "collect", "describe", "records", "rules_of", "supported"]

RULES = ("shape", "kernel", "vjp", "jvp", "batch", "lower", "samples", "errors")
# An op may refuse a dtype in any words; the recorded results say which are right.
UNSUPPORTED = Exception


def records(namespace: str = "aten") -> list[OpOverload]:
    """Every op that is written down, in order of registration; derived forms are left out, and
    those that refuse every call."""
    families.load_all()
    return [op for op in registry.registered(namespace) if not op.options.get("unavailable")]


def tensors_in(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def run(op: OpOverload, case: Sample) -> Any:
    """One sample without the noise of warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op(*case.args, **case.kwargs)


def supported(op: OpOverload, dtype: dtype, cases: list[Sample]) -> bool:
    """Whether any sample of this dtype runs."""
    for case in cases:
        try:
            run(op, case)
        except UNSUPPORTED:
            continue
        return True
    return False


def answers_floats(op: OpOverload) -> bool:
    """Whether an op makes floating point tensors from floating point tensors."""
    if not any(entry.type.is_tensor_like for entry in op._schema.returns):
        return False
    for case in samples_of(op, float32):
        if all(t.dtype.category < FLOAT for t in tensors_in((case.args, case.kwargs))):
            continue
        try:
            result = run(op, case)
        except UNSUPPORTED:
            continue
        if any(t.dtype.category >= FLOAT for t in tensors_in(result)):
            return True
    # Without samples nothing is known.
    return not has_samples(op)


def state_of(rule: Any, derived: bool) -> str:
    if isinstance(rule, Refused):
        return f"refused: {rule.reason}"
    if derived:
        return "derived"
    return "" if rule is None else "given"


def gradient_state(op: OpOverload) -> str:
    rule = op.rules.get("vjp")
    if rule is not None:
        return state_of(rule, False)
    if op.body is not None:
        return "derived"
    if not any(a.type.is_tensor_like for a in op._schema.arguments):
        return "derived: no tensor goes in"
    if op.kind in (CREATION, RANDOM):
        return "derived: the result does not depend on values"
    return "" if answers_floats(op) else "derived: nothing differentiable comes out"


def forward_state(op: OpOverload, gradient: str) -> str:
    rule = op.rules.get("jvp")
    # Kinds leave the name of a general method where they derive one.
    if rule is not None and not isinstance(rule, str):
        return state_of(rule, False)
    return "derived" if gradient == "given" else gradient


def error_state(op: OpOverload) -> str:
    rule = op.rules.get("errors")
    if isinstance(rule, Refused):
        return state_of(rule, False)
    if given_errors(op):
        return "given"
    return "derived" if errors_of(op) else ""


def method_state(op: OpOverload, name: str, otherwise: str) -> str:
    """Of a rule that there always is: a method that the kind names, or what is done without."""
    rule = op.rules.get(name)
    if rule is not None:
        return state_of(rule, False)
    if op.body is not None:
        return "derived"
    found = op.rule(name)
    return f"derived: {found}" if isinstance(found, str) else f"derived: {otherwise}"


def kind_runs(op: OpOverload, name: str) -> bool:
    """Whether a kind has its own way to run an op, with or without values."""
    method = {"kernel": "make_backend", "shape": "run_shape"}[name]
    return getattr(type(op.kind), method) is not getattr(Kind, method)


def rules_of(op: OpOverload) -> dict[str, str]:
    """Rule name -> where it comes from."""
    cells: dict[str, str] = {}
    for name in ("shape", "kernel"):
        rule = op.rules.get(name)
        if name == "kernel" and op.options.get("scalar") is not None:
            cells[name] = "given"
        elif rule is None:
            follows = op.body is not None or op.kind.derive(op, name) is not None
            cells[name] = state_of(None, follows or kind_runs(op, name))
        else:
            cells[name] = state_of(rule, False)
    cells["vjp"] = gradient_state(op)
    cells["jvp"] = forward_state(op, cells["vjp"])
    cells["batch"] = method_state(op, "batch", "sample by sample")
    cells["lower"] = method_state(op, "lower", "a call of the op")
    cases = op.rules.get("samples")
    cells["samples"] = state_of(cases, cases is None and has_samples(op))
    cells["errors"] = error_state(op)
    return cells


class Audit:
    """The figures of all ops, and one row of rules for each."""

    __slots__ = (
        "blanks", "entries", "errors", "names", "pairs", "refused", "rows", "samples", "table"
    )  # fmt: skip

    def __init__(self) -> None:
        self.entries = self.names = self.pairs = self.samples = self.errors = 0
        self.blanks = self.refused = 0
        self.rows: list[tuple[str, dict[str, str]]] = []
        # op name -> names of the dtypes it takes
        self.table: dict[str, list[str]] = {}

    def blank_cells(self) -> list[str]:
        """`family op.rule` of every blank."""
        found = []
        for op, (name, cells) in zip(records(), self.rows, strict=True):
            family = op.family
            found += [f"{family} {name}.{rule}" for rule, state in cells.items() if not state]
        return found


def collect(dtypes: tuple[dtype, ...] = DTYPES) -> Audit:
    """Audit every op. Runs samples: a few seconds for all dtypes."""
    audit = Audit()
    every = records()
    audit.entries = len(every)
    audit.names = len({op.base_name for op in every})
    for op in every:
        cells = rules_of(op)
        audit.rows.append((op.name().removeprefix("aten::"), cells))
        audit.blanks += sum(not state for state in cells.values())
        audit.refused += sum(state.startswith("refused") for state in cells.values())
        audit.errors += len(errors_of(op))
        taken = audit.table.setdefault(op.name(), [])
        for tried in dtypes:
            try:
                cases = samples_of(op, tried)
            except UNSUPPORTED:
                continue
            if supported(op, tried, cases):
                audit.pairs += 1
                audit.samples += len(cases)
                taken.append(tried.name)
    return audit


def describe(name: str) -> dict[str, Any]:
    """One op for `rushlight doctor --op`: schemas, rules and generated sources."""
    from rushlight.core.stubs import stub_source

    base, _, overload = name.removeprefix("aten::").partition(".")
    packet = registry.packet(base)
    chosen = [getattr(packet, overload)] if overload else list(packet.candidates)
    facts: dict[str, Any] = {
        "name": base,
        "schemas": "\n".join([str(op._schema) for op in chosen]),
    }
    for op in chosen:
        own = op if op.functional is None else op.functional
        label = op._overloadname
        facts[f"{label}, kind"] = "composite" if own.body is not None else own.kind.name
        if own.family:
            facts[f"{label}, family"] = own.family
        if op is not own:
            facts[f"{label}, derived from"] = own.name()
        facts[f"{label}, rules"] = rules_of(own)
    facts["stub"] = stub_source(packet)
    for op in chosen:
        rule = op.grad_rule
        if rule is not None:
            facts[f"{op.node_name}, generated for {op._overloadname}"] = rule.source
    return facts
