"""Every op gives what was recorded from the reference framework, for the inputs recorded with it.

One test per op; a failure names dtype and sample. Inputs come from the files, so a record outlives
a change of the op's samples; that the samples are the recorded ones is a test of its own, and
`make reference` records anew. Differences meant to stay are in tests/reference/exemptions.toml.
"""

from __future__ import annotations

import math
import warnings
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor, strides_of, values_of, wrap
from rushlight.opset import audit
from rushlight.opset.samples.from_schema import door
from rushlight.opset.samples.maker import DTYPES, Sample, errors_of, samples_of
from tests.reference import forms, manifest, store
from tests.reference.exemptions import ENTRIES, is_exempt

OPS = audit.records()
BY_OP = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name()[6:])
SHOWN = 12

# rtol, atol of values; gradients in float32 may differ in the order of sums.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex128": (1e-7, 1e-7),
}
# Half precision is computed in float32 and rounded once here; the reference rounds in between, so
# its error is relative to the largest value.
HALVES = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
GRADIENT_TOLERANCES = {**TOLERANCES, "float32": (1e-5, 1e-5), "complex64": (1e-5, 1e-5)}

# Families that only move values, and operations that IEEE 754 defines to the last bit.
MOVING = frozenset(
    (
        "view.axes",
        "creation.copy",
        "view.diagonal",
        "indexing.index",
        "moving.pad",
        "view.restride",
        "moving.shape",
        "reduction.sort",
        "view.split",
        "view.subscript",
        "view.view",
        "view.copies",
    )
)
IEEE_NAMES = """
    abs add ceil clamp clamp_max clamp_min copysign div fix floor fmax fmin frac maximum minimum
    mul neg positive relu round sign sub trunc where nextafter threshold hardtanh heaviside
    rsub sgn signbit square nan_to_num
"""
IEEE = frozenset(IEEE_NAMES.split())


def is_exact(op: Any, given: Any, kind: Any) -> bool:
    """Whether a result of dtype `kind`, from samples of dtype `given`, must agree in every bit."""
    if kind.category < dtypes.FLOAT:
        return True
    if op.family in MOVING or op.kind.name == "VIEW":
        return not op.base_name.startswith(("histogram", "kron"))
    return op.base_name in IEEE and not given.is_complex and not kind.is_complex


class Differences:
    """What differs for one op, less the exemptions."""

    def __init__(self, op: Any) -> None:
        self.name = op.name().removeprefix("aten::")
        self.lines: list[str] = []

    def add(self, kind: Any, what: str, case: Sample, text: str) -> None:
        if not is_exempt(self.name, kind.name, what, case):
            self.lines.append(f"{kind.name} {what} {case!r}: {text}")

    def check(self) -> None:
        if self.lines:
            more = len(self.lines) - SHOWN
            tail = [f"and {more} more"] if more > 0 else []
            pytest.fail("\n".join([self.name, *self.lines[:SHOWN], *tail]), pytrace=False)


def recorded_leaves(out: Any) -> list[Any]:
    if isinstance(out, dict) and "list" in out:
        return [leaf for item in out["list"] for leaf in recorded_leaves(item)]
    return [out]


def close(got: Any, wanted: Any, rtol: float, atol: float) -> bool:
    if got.dtype.kind == "c":
        return close(got.real, wanted.real, rtol, atol) and close(got.imag, wanted.imag, rtol, atol)
    with np.errstate(all="ignore"):
        return bool(
            np.allclose(
                got.astype(np.float64), wanted.astype(np.float64), rtol, atol, equal_nan=True
            )
        )


def identical(got: Any, wanted: Any) -> bool:
    """Same values; any NaN is like another, zeros must agree in sign."""
    if got.dtype.names is not None or "float8" in got.dtype.name:
        return np.array(got).tobytes() == np.array(wanted).tobytes()
    if got.dtype.kind == "c":
        return identical(got.real, wanted.real) and identical(got.imag, wanted.imag)
    if got.dtype.kind in "biu":
        return bool(np.array_equal(got, wanted))
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    return bool(np.array_equal(a, b, equal_nan=True)) and bool(
        np.array_equal(np.signbit(a) & (a == 0), np.signbit(b) & (b == 0))
    )


def brief(array: Any) -> str:
    text = np.array2string(np.asarray(array).reshape(-1)[:8], separator=", ", precision=9)
    return text.replace("\n", "")


def compare_value(found: Differences, kind: Any, case: Sample, got: Any, wanted: Any) -> None:
    """A result that is not a tensor."""
    name, *rest = wanted
    if name == "complex":
        expected: Any = complex(*rest)
    elif name in ("bool", "int", "float", "NoneType"):
        expected = eval(rest[0], {"nan": math.nan, "inf": math.inf})
    else:
        expected = rest[0]
    if name != "str" and type(got).__name__ != name:
        found.add(kind, "dtype", case, f"{type(got).__name__} {got!r}, expected {name}")
        return
    if name == "float":
        both_nan = math.isnan(got) and math.isnan(expected)
        right = both_nan or math.isclose(got, expected, rel_tol=1e-6)
    else:
        right = got == expected or str(got) == str(expected)
    if not right:
        found.add(kind, "value", case, f"{got!r}, expected {expected!r}")


def compare_leaf(
    op: Any, found: Differences, kind: Any, case: Sample, got: Any, wanted: Any, reader: Any
) -> None:
    if isinstance(wanted, dict):
        compare_value(found, kind, case, got, wanted["value"])
        return
    if not isinstance(got, Tensor) or wanted[0] == "other":
        found.add(kind, "value", case, f"{type(got).__name__}, expected a tensor {wanted[:3]}")
        return
    if wanted[0] == "sparse":
        compare_sparse(op, found, kind, case, got, wanted, reader)
        return
    record = store.Recorded(reader, wanted)
    if got.dtype is not record.dtype:
        found.add(kind, "dtype", case, f"{got.dtype}, expected {record.dtype}")
        return
    if tuple(got.shape) != record.shape:
        found.add(kind, "shape", case, f"{list(got.shape)}, expected {list(record.shape)}")
        return
    plain = wrap(np.empty(record.shape, np.bool_), dtypes.bool_)
    strides = strides_of(plain) if record.strides is None else record.strides
    if tuple(strides_of(got)) != tuple(strides):
        found.add(kind, "strides", case, f"{strides_of(got)}, expected {tuple(strides)}")
    if record.offset is not None and got.storage_offset() != record.offset:
        found.add(kind, "offset", case, f"{got.storage_offset()}, expected {record.offset}")
    if record.values is not None and "invariants" not in op.options:
        compare_array(op, found, kind, case, values_of(got), record.values)


def compare_array(
    op: Any, found: Differences, kind: Any, case: Sample, values: Any, wanted: Any
) -> None:
    result = dtypes.from_numpy(wanted.dtype)
    if is_exact(op, kind, result) or result.name not in TOLERANCES:
        right = identical(values, wanted)
    else:
        rtol, atol = TOLERANCES[result.name]
        unit = HALVES.get(result.name)
        if unit is not None:
            finite = np.abs(wanted.astype(np.float64))
            finite = finite[np.isfinite(finite)]
            rtol, atol = 4 * unit, max(atol, 2 * unit * float(finite.max(initial=0.0)))
        right = close(values, wanted, rtol, atol)
    if not right:
        found.add(kind, "value", case, f"{brief(values)}, expected {brief(wanted)}")


def compare_invariants(
    op: Any, found: Differences, kind: Any, case: Sample, got: Any, leaves: Any, reader: Any
) -> None:
    """What two results that may differ in signs, phases or order must share."""
    records = [store.Recorded(reader, leaf) for leaf in leaves]
    if any(record.values is None for record in records):
        return
    wanted = [wrap(np.array(record.values), record.dtype) for record in records]
    mine, theirs = store.settle(op, tuple(got)), store.settle(op, tuple(wanted))
    for left, right in zip(store.flat(mine), store.flat(theirs), strict=True):
        compare_array(op, found, kind, case, values_of(left), values_of(right))


def compare_sparse(
    op: Any, found: Differences, kind: Any, case: Sample, got: Any, wanted: Any, reader: Any
) -> None:
    """Layout, sizes and parts of a sparse result; strides of parts are nobody's business."""
    _, layout, name, shape, coalesced, parts = wanted
    facts = (got.layout.name, got.dtype.name, list(got.shape))
    if facts != (layout, name, shape):
        found.add(kind, "shape", case, f"{facts}, expected {(layout, name, shape)}")
        return
    if coalesced is not None and got.is_coalesced() != coalesced:
        found.add(kind, "coalesced", case, f"{got.is_coalesced()}, expected {coalesced}")
    for mine, theirs in zip(forms.sparse_parts(got), parts, strict=True):
        plain = mine.detach().contiguous()
        compare_leaf(op, found, kind, case, plain, [*theirs[:2], None, *theirs[3:]], reader)


def compare_gradients(
    op: Any, found: Differences, kind: Any, case: Sample, record: Any, reader: Any
) -> None:
    leaves: list[Tensor] = []
    written = {id(case.args[i]) for i in op.mutated_positions if i < len(case.args)}

    def ready(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.category >= dtypes.FLOAT:
            leaves.append(value.requires_grad_())
            return value.clone() if id(value) in written else value
        return value

    prepared = store.mapped(case, ready)
    result = store.settle(op, op(*prepared.args, **prepared.kwargs))
    outs = [t for t in store.flat(result) if isinstance(t, Tensor)]
    used = [i for i, t in enumerate(outs) if t.requires_grad]
    if used != record["needs"]:
        found.add(kind, "needs", case, f"outputs {used} need grad, expected {record['needs']}")
        return
    if not used:
        return
    second = "second" in record
    cots = [cotangent(i, outs[i]) for i in used]
    try:
        first = rushlight.autograd.grad(
            [outs[i] for i in used], leaves, cots, allow_unused=True, create_graph=second
        )
    except (NotImplementedError, RuntimeError) as error:
        found.add(kind, "grad", case, f"{type(error).__name__}: {str(error)[:200]}")
        return
    for i, (got, wanted) in enumerate(zip(first, record["grad"], strict=True)):
        if (got is None) != (wanted is None):
            text = "None, expected a tensor" if got is None else "a tensor, expected None"
            found.add(kind, "grad", case, f"gradient {i} is {text}")
        elif got is not None:
            got = got.detach()
            got = got if got.layout.name == "strided" else got.to_dense()
            expected = reader.array(wanted[1], got.dtype, wanted[0])
            if tuple(got.shape) != tuple(wanted[0]) or not close(
                values_of(got), expected, *GRADIENT_TOLERANCES[got.dtype.name]
            ):
                found.add(
                    kind,
                    "grad",
                    case,
                    f"gradient {i} {brief(values_of(got))}, expected {brief(expected)}",
                )
    if second:
        compare_second(found, kind, case, first, leaves, record["second"])


def compare_second(
    found: Differences, kind: Any, case: Sample, first: Any, leaves: Any, wanted: Any
) -> None:
    total: Any = None
    for i, gradient in enumerate(first):
        if gradient is None or not gradient.requires_grad:
            continue
        term = (gradient * cotangent(100 + i, gradient)).sum()
        total = term if total is None else total + term
    got: Any = [None] * len(leaves)
    if total is not None:
        try:
            got = rushlight.autograd.grad(total, leaves, allow_unused=True)
        except (NotImplementedError, RuntimeError) as error:
            if not isinstance(wanted, str):
                text = f"{type(error).__name__}: {str(error)[:200]}"
                found.add(kind, "second", case, text)
            return
    if isinstance(wanted, str):
        return
    zero = [0.0, 0.0, 0.0]
    wanted = [None] * len(leaves) if wanted is None else wanted
    for i, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        a = zero if mine is None else store.projection(values_of(mine))
        b = zero if theirs is None else theirs
        scale = max(abs(b[2]), 1.0)
        if not np.allclose(a, b, rtol=1e-6, atol=1e-7 * scale, equal_nan=True):
            found.add(kind, "second", case, f"gradient {i} (projected) {a}, expected {b}")


def cotangent(position: int, out: Tensor) -> Tensor:
    return wrap(store.cotangent(position, tuple(out.shape), out.dtype), out.dtype)


def compare_sample(op: Any, found: Differences, kind: Any, record: Any, reader: Any) -> None:
    if "unreadable" in record:
        return
    case = sample_of(op, kind, record, reader)
    try:
        result = op(*case.args, **case.kwargs)
    except Exception as error:
        name = type(error).__name__
        if record.get("error") != name:
            text = f"{name}: {str(error)[:200]}, expected {record.get('error', 'a result')}"
            found.add(kind, "error", case, text)
        return
    if "error" in record:
        found.add(kind, "error", case, f"a result, expected {record['error']}")
        return
    got, wanted = store.flat(result), recorded_leaves(record["out"])
    if len(got) != len(wanted):
        found.add(kind, "value", case, f"{len(got)} results, expected {len(wanted)}")
        return
    for mine, theirs in zip(got, wanted, strict=True):
        compare_leaf(op, found, kind, case, mine, theirs, reader)
    if "invariants" in op.options:
        compare_invariants(op, found, kind, case, got, wanted, reader)
    # Where the reference has no derivative, having one is no difference.
    if "needs" in record and "grad_error" not in record:
        try:
            fresh = sample_of(op, kind, record, reader)
            compare_gradients(op, found, kind, fresh, record, reader)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:200]}"
            found.add(kind, "grad", case, text)


def sample_of(op: Any, kind: Any, record: Any, reader: Any) -> Sample:
    """A record's call in fresh memory; from the op's samples where the file has only its text."""
    if forms.is_kept(record["in"]):
        return reader.sample(record)
    key = forms.digest_of(record["in"], reader.chunks(record))
    cases = [case for _, case in errors_of(op)] if kind is None else samples_of(op, kind)
    for case in cases:
        if forms.digest(case) == key:
            return case
    raise forms.NotKept(f"{op.name()} {record['in']}: samples changed; run `make reference`")


def reader_of(op: Any) -> Any:
    reader = store.family(op.family)
    assert reader is not None and reader.op(op.name()) is not None, (
        f"{op.name()} is not in the recorded files; record it with `make reference`"
    )
    return reader


@BY_OP
def test_recorded(op: Any) -> None:
    reader = reader_of(op)
    found = Differences(op)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in DTYPES:
            for record in reader.op(op.name()).get(kind.name, ()):
                compare_sample(op, found, kind, record, reader)
    found.check()


def changes(what: str, now: list[Sample], then: dict[str, Any]) -> list[str]:
    """Where an op's samples are not the recorded ones."""
    keys = {forms.digest(case): case for case in now}
    lines = [f"{what} {case!r} is not recorded" for key, case in keys.items() if key not in then]
    gone = len(then.keys() - keys.keys())
    return [*lines, f"{what}: {gone} recorded samples are gone"] if gone else lines


@BY_OP
def test_samples_are_the_recorded_ones(op: Any) -> None:
    reader, name = reader_of(op), op.name()
    lines = []
    for kind in DTYPES:
        lines += changes(kind.name, samples_of(op, kind), reader.table(name, kind.name))
    errors = reader.table(name, "errors")
    lines += changes("errors", [case for _, case in errors_of(op)], errors)
    for wanted, case in errors_of(op):
        record = errors.get(forms.digest(case))
        if record is not None and record["error"] != wanted.__name__:
            lines.append(f"{case!r}: states {wanted.__name__}, recorded {record['error']}")
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    assert not lines, "\n".join([f"{name}: run `make reference`", *lines[:SHOWN], *more])


def expected_errors(op: Any) -> list[tuple[str, Sample]]:
    """(class, call) as recorded; as the op states them where the reference does not have it."""
    reader = store.family(op.family)
    entry = None if reader is None else reader.op(op.name())
    if entry is None:
        return [(wanted.__name__, case) for wanted, case in errors_of(op)]
    records = entry.get("errors", ())
    return [(record["error"], sample_of(op, None, record, reader)) for record in records]


def has_errors(op: Any) -> bool:
    reader = store.family(op.family)
    recorded = None if reader is None else reader.op(op.name())
    return bool(errors_of(op)) if recorded is None else "errors" in recorded


@pytest.mark.parametrize("op", [op for op in OPS if has_errors(op)], ids=lambda op: op.name()[6:])
def test_errors(op: Any) -> None:
    call = door(op)
    problems = []
    for wanted, case in expected_errors(op):
        shown = repr(case)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(*case.args, **case.kwargs)
        except Exception as error:
            if type(error).__name__ != wanted:
                problems.append(f"{shown}: {type(error).__name__}: {error}, expected {wanted}")
        else:
            problems.append(f"{shown}: no error, expected {wanted}")
    assert not problems, "\n".join([op.name(), *problems])


def test_files_name_ops() -> None:
    known = {(op.family, op.name()) for op in OPS}
    for path in sorted(store.FOLDER.rglob("*.xz")):
        family = ".".join(path.relative_to(store.FOLDER).with_suffix("").parts)
        reader = store.family(family)
        assert reader is not None
        assert not {(family, name) for name in reader.index["ops"]} - known, path


def test_manifest_tells_what_is_recorded() -> None:
    assert manifest.manifest() == manifest.PATH.read_text(), "run `make reference`"


def test_exemptions_name_ops() -> None:
    names = [op.name().removeprefix("aten::") for op in OPS]
    for entry in ENTRIES:
        assert entry.get("reason"), entry
        assert any(fnmatchcase(name, entry["op"]) for name in names), entry["op"]
