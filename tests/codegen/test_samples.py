"""Every op with a rule to lower it, and every reduction: compiled against eager."""

from __future__ import annotations

import math
import platform
import warnings
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.codegen import lower
from rushlight.codegen.loops import Kernel
from rushlight.core import dtype as dtypes
from rushlight.core.tensor import Tensor
from rushlight.opset import audit
from rushlight.opset.elementwise import POINTWISE
from rushlight.opset.kinds import REDUCTION, VIEW
from rushlight.opset.samples.maker import has_samples, samples_of
from tests.codegen.recording import Recording, flat

pytest.importorskip("llvmlite")

# Relative to eager's own kernels, whose last digits differ by function and order of summation.
TOLERANCE = {"float32": 3e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}
# How many samples of each op a quick run takes.
QUICK = {"float32": 3, "float64": 1, "int64": 1, "bool": 1, "bfloat16": 1}
FULL = ("float32", "float64", "int64", "bool", "float16", "bfloat16", "uint8", "int32")

OPS = [
    op
    for op in audit.records()
    if has_samples(op)
    and not op._schema.is_mutable
    and op.kind is not VIEW
    and (op.kind is REDUCTION or op.rule("lower") is not None)
]
VIEWS = [op for op in audit.records() if op.kind is VIEW and has_samples(op)]


def is_plain(value: Any) -> bool:
    unusual = value._unusual
    return unusual is None or not (unusual.conj or unusual.neg or unusual.parts is not None)


def difference(op: Any, case: Any) -> tuple[str | None, bool]:
    """How compiled and eager results differ, and whether native code ran."""
    if not all([is_plain(t) for t in flat([*case.args, *case.kwargs.values()])
                if isinstance(t, Tensor)]):  # fmt: skip
        return None, False
    r = Recording()

    def recorded(value: Any) -> Any:
        if isinstance(value, Tensor):
            return r.input(value)
        if isinstance(value, (list, tuple)):
            return type(value)([recorded(item) for item in value])
        return value

    args = [recorded(value) for value in case.args]
    kwargs = {name: recorded(value) for name, value in case.kwargs.items()}
    try:
        node = r.call(op, *args, **kwargs)
    except Exception:
        return None, False
    r.output(node)
    compiled = lower(r, r.inputs)
    got = compiled(*r.inputs)
    native = any([isinstance(item, Kernel) for item in compiled.schedule])
    for mine, theirs in zip(flat(got), flat(r.results), strict=True):
        if not isinstance(theirs, Tensor):
            continue
        facts = [(t.dtype, t.shape, t.stride()) for t in (mine, theirs)]
        if facts[0] != facts[1]:
            return f"{facts[0]}, expected {facts[1]}", native
        limit = TOLERANCE.get(mine.dtype.name, 0.0)
        one, two = [np.asarray(t._array) for t in (mine, theirs)]
        if one.dtype.names is not None:
            continue
        if one.dtype.itemsize == 2 and limit:
            one, two = one.astype(np.float32), two.astype(np.float32)
        if not np.allclose(one, two, limit, limit / 3, equal_nan=one.dtype.kind in "fc"):
            return f"{one.ravel()[:8]}, expected {two.ravel()[:8]}", native
    return None, native


def check(ops: list[Any], kind: Any, most: int | None) -> int:
    """Compare; the number of samples that native code computed."""
    lines: list[str] = []
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in ops:
            taken = 0
            for case in samples_of(op, kind):
                if most is not None and taken >= most:
                    break
                text, native = difference(op, case)
                taken += native
                count += native
                if text is not None:
                    lines.append(f"{op.name()} {kind.name} {case!r}: {text}")
    assert not lines, "\n".join(lines)
    return count


@pytest.mark.parametrize("name", QUICK)
def test_first_samples(name: str) -> None:
    kind = dtypes.bool_ if name == "bool" else dtypes.by_name(name)
    floor = {"float32": 450, "float64": 180, "int64": 110, "bool": 60, "bfloat16": 150}
    assert check(OPS, kind, QUICK[name]) >= floor[name]


def test_views() -> None:
    check(VIEWS, dtypes.float32, 3)


KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "float16",
         "bfloat16", "float32", "float64")  # fmt: skip
NUMBERS = [
    math.nan, math.inf, -math.inf, 1e20, -1e20, 300.7, -300.7, 3e9, -3e9, 0.5, -0.5, 0.0, -0.0,
    2147483648.0, -2147483648.0, -2147483649.0, 65504.0, 65520.0, 1e-8, 6e-8, 3.4e38, 1e39, 127.5,
    -128.9, 255.9, 256.0, 1.00390625, 1.01171875,
]  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_conversions(name: str) -> None:
    """Every pair of dtypes, with numbers that do not fit."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("what does not fit converts as the processor says")
    source = rushlight.tensor(NUMBERS, dtype=dtypes.float64).to(getattr(rushlight, name))
    r = Recording()
    x = r.input(source)
    op = rushlight.ops.aten._to_copy.default
    r.output(*[r.call(op, x, dtype=getattr(rushlight, other)) for other in KINDS])
    for mine, theirs in zip(lower(r, r.inputs)(*r.inputs), r.results, strict=True):
        assert mine.dtype is theirs.dtype
        one, two = [np.asarray(t._array) for t in (mine, theirs)]
        if one.dtype.kind not in "biu":
            one, two = one.astype(np.float64), two.astype(np.float64)
        np.testing.assert_array_equal(one, two)


def maps_floats(op: Any, x: Tensor) -> bool:
    """Whether it is a real function of one real variable."""
    if op.kind is not POINTWISE or len(op._schema.arguments) != 1:
        return False
    try:
        return not any([t.dtype.is_complex for t in flat(op(x))])
    except (RuntimeError, NotImplementedError):
        return False


def test_vectorised_loops() -> None:
    """Every function of one variable over lengths that fill vectors and leave a rest."""
    r = Recording()
    rng = np.random.default_rng(3)
    values = rng.uniform(0.05, 0.95, (13, 67)).astype(np.float32)
    x = r.input(rushlight.tensor(values))
    nodes = [r.call(op, x) for op in OPS if maps_floats(op, r.inputs[0])]
    r.output(*nodes)
    compiled = lower(r, r.inputs)
    got = compiled(*r.inputs)
    assert len(nodes) > 60
    for node, mine, theirs in zip(nodes, got, r.results, strict=True):
        for one, two in zip(flat(mine), flat(theirs), strict=True):
            assert np.allclose(one._array, two._array, 1e-5, 1e-6, equal_nan=True), node


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_all_samples(name: str) -> None:
    check(OPS + VIEWS, dtypes.bool_ if name == "bool" else dtypes.by_name(name), None)
