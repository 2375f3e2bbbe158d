"""Kernels that float32 arrays have of their own: the bits of NumPy's functions, or their digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from rushlight.arrays import numpy_, special

ENDS = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 1, -1, 2, -2, 3, 0.5, -0.5,
     1e-38, 7, 1e10, 1.5],
    np.float32,
)  # fmt: skip


def operands() -> tuple[np.ndarray, np.ndarray]:
    """Pairs of ends, of numbers of all sizes, of any bits and of whole numbers."""
    rng = np.random.default_rng(0)
    pairs = np.array(np.meshgrid(ENDS, ENDS)).reshape(2, -1)
    sizes = 10.0 ** rng.integers(-3, 4, (2, 20000))
    spread = (rng.uniform(-3, 3, (2, 20000)) * sizes).astype(np.float32)
    any_bits = rng.integers(0, 1 << 32, (2, 20000), dtype=np.uint64).astype(np.uint32)
    whole = rng.integers(-9, 9, (2, 20000)).astype(np.float32)
    found = np.concatenate([pairs, spread, any_bits.view(np.float32), whole], 1)
    return np.ascontiguousarray(found[0]), np.ascontiguousarray(found[1])


def remainder(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    rest = np.remainder(x, y)
    return np.where(rest == 0, np.copysign(rest, x), rest)


EXACT = {
    "fmod": np.fmod,
    "remainder": remainder,
    "floor_divide": np.floor_divide,
    "nextafter": np.nextafter,
}
CLOSE = {"hypot": np.hypot, "power": np.power, "logaddexp2": np.logaddexp2}


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_of_two_operands(name: str) -> None:
    x, y = operands()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(numpy_, name)(x, y)
        expected = (EXACT.get(name) or CLOSE[name])(x, y)
    assert found.dtype == np.float32
    kept = ~np.isnan(expected)
    assert np.array_equal(kept, ~np.isnan(found))
    if name in EXACT:
        assert found[kept].tobytes() == expected[kept].tobytes()
    elif name == "logaddexp2":
        # A sum of two numbers that may cancel.
        assert np.allclose(found[kept], expected[kept], 3e-7, 5e-7)
    else:
        assert np.array_equal(np.signbit(found[kept]), np.signbit(expected[kept]))
        assert np.allclose(found[kept], expected[kept], 3e-7, 0)


NAMES = ("digamma", "erfcx", "i0e", "i1e", "log_ndtr", "lgamma")


@pytest.mark.parametrize("name", NAMES)
def test_short_formulas_have_the_digits_of_long_ones(name: str) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(-30, 30, 5000), rng.uniform(-1, 1, 5000), ENDS])
    x = x.astype(np.float32)
    function = getattr(special, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, expected = function(x), function(x.astype(np.float64)).astype(np.float32)
    assert np.allclose(found, expected, 2e-7, 1e-7, equal_nan=True)


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gammas_end_one_by_one(upper: bool) -> None:
    rng = np.random.default_rng(2)
    a, x = rng.uniform(0.01, 40, (2, 3000))
    function = special.igammac if upper else special.igamma
    whole = function(a, x)
    alone = np.array([function(a[i : i + 1], x[i : i + 1])[0] for i in range(0, 3000, 30)])
    assert np.allclose(whole[::30], alone, 1e-14, 1e-300)
    short = function(a.astype(np.float32), x.astype(np.float32))
    wide = function(a.astype(np.float32).astype(np.float64), x.astype(np.float32).astype(float))
    assert np.allclose(short, wide, 2e-7, 1e-30)
