"""The generated elementary functions: accuracy in units of the last place, and special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.codegen import lower, native
from tests.codegen.recording import Recording, aten

pytest.importorskip("llvmlite")

L = np.longdouble
EXTENDED = np.finfo(L).eps < 1e-17

# name: (reference in extended precision, least and greatest argument)
REFERENCES: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "exp": (np.exp, -104, 89),
    "exp2": (np.exp2, -149, 128),
    "expm1": (np.expm1, -20, 88),
    "log": (np.log, 1e-3, 1e3),
    "log2": (np.log2, 1e-3, 1e3),
    "log10": (np.log10, 1e-3, 1e3),
    "log1p": (np.log1p, -0.999, 100),
    "sin": (np.sin, -1000, 1000),
    "cos": (np.cos, -1000, 1000),
    "tan": (np.tan, -1000, 1000),
    "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1),
    "atan": (np.arctan, -10, 10),
    "sinh": (np.sinh, -80, 80),
    "cosh": (np.cosh, -80, 80),
    "tanh": (np.tanh, -10, 10),
    "asinh": (np.arcsinh, -10, 10),
    "acosh": (np.arccosh, 1, 100),
    "atanh": (np.arctanh, -1, 1),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -80, 80),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-3, 1e3),
}
SPECIAL = [
    0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-40, -1e-40, 1e-45, 3e38, -3e38, 1e30,
    88.7, 88.8, -103.0, -104.5, -87.5, 1e10, 2.0**41, 2.0**100, 127.9, 128.0, -149.5, 1e-8, 1e-20,
    -1e-20, 0.5, 2.0, 22.0, 33.0, 1e5,
]  # fmt: skip


def compiled(name: str, *arrays: Any) -> Any:
    op = getattr(aten, name)
    r = Recording()
    nodes = [r.input(rushlight.tensor(array)) for array in arrays]
    r.output(r.call(op.Tensor_Tensor if name == "pow" else op.default, *nodes))
    function = lower(r, r.inputs)
    assert not [item for item in function.schedule if not hasattr(item, "loops")]
    return function(*r.inputs)[0]._array


def errors(got: Any, exact: Any) -> Any:
    """Distances in units of the last place of the rounded exact value; 0 where both are the
    same infinity or NaN, and inf where only one is."""
    kind = got.dtype
    rounded = exact.astype(kind)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    finite = np.isfinite(got) & np.isfinite(rounded)
    unit = np.spacing(np.abs(np.where(finite, rounded, 1))).astype(L)
    distance = np.abs(np.where(finite, got, 0).astype(L) - np.where(finite, exact, 0)) / unit
    return np.where(finite, distance, np.where(same, 0, np.inf))


@pytest.mark.parametrize("kind", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", REFERENCES)
def test_accuracy(name: str, kind: Any) -> None:
    if kind is np.float64 and not EXTENDED:
        pytest.skip("no extended precision to compare with")
    reference, low, high = REFERENCES[name]
    rng = np.random.default_rng(5)
    x = np.concatenate([
        rng.uniform(low, high, 20000), rng.uniform(-1e-3, 1e-3, 5000),
        np.exp(rng.uniform(-85, 85, 5000)), SPECIAL,
    ]).astype(kind)  # fmt: skip
    found = errors(compiled(name, x), reference(x.astype(L)))
    worst = int(np.argmax(found))
    assert found[worst] <= (2.0 if kind is np.float32 else 4.0), (x[worst], found[worst])


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions(name: str) -> None:
    x = np.concatenate([np.linspace(-6, 9, 5001), SPECIAL]).astype(np.float32)
    exact = np.array([getattr(math, name)(float(value)) for value in x])
    assert errors(compiled(name, x), exact).max() <= 2.0
    wide = x.astype(np.float64)
    assert errors(compiled(name, wide), exact).max() <= 4.0


def test_power() -> None:
    values = np.array([*SPECIAL, 3.0, -3.0, -2.5, 0.1, -0.5], np.float32)
    x, y = [grid.ravel() for grid in np.meshgrid(values, values)]
    rng = np.random.default_rng(7)
    x = np.concatenate([x, rng.uniform(0, 20, 20000).astype(np.float32)])
    y = np.concatenate([y, rng.uniform(-20, 20, 20000).astype(np.float32)])
    exact = np.power(x.astype(L), y.astype(L))
    found = errors(compiled("pow", x, y), exact)
    worst = int(np.argmax(found))
    assert found[worst] <= 2.0, (x[worst], y[worst])


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sin", "gelu"])
def test_loops_are_vectorised(name: str) -> None:
    here = native.this_host()
    if "x86" not in here.triple or "+avx2" not in here.features:
        pytest.skip("looks for x86 instructions")
    r = Recording()
    r.output(r.call(getattr(aten, name).default, r.input(rushlight.randn(4096))))
    text = native.assembly(lower(r, r.inputs).ir)
    wide = "zmm" if "+avx512f" in here.features else "ymm"
    assert f"%{wide}" in text
    assert any([wide in line for line in text.splitlines() if "vfmadd" in line])


def test_extremes_let_nan_win() -> None:
    x = np.random.default_rng(1).standard_normal((3, 400)).astype(np.float32)
    x[1, 250] = np.nan
    x[2, :] = -np.inf
    r = Recording()
    node = r.input(rushlight.tensor(x))
    top, low = r.call(aten.amax.default, node, [1]), r.call(aten.amin.default, node, [1])
    r.output(top, low, r.call(aten.amax.default, node, [0]))
    for mine, theirs in zip(lower(r, r.inputs)(*r.inputs), r.results, strict=True):
        np.testing.assert_array_equal(mine._array, theirs._array)
