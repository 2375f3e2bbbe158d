"""`where` of the math namespace has the bits of NumPy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rushlight.arrays.numpy_ import FEW, MATH

SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e-42]


def values(seed: int, dtype: Any = np.float32) -> Any:
    found = np.random.default_rng(seed).standard_normal(2 * FEW + 3).astype(dtype)
    found[: len(SPECIAL)] = np.roll(SPECIAL, seed)
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_bits(dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x, y = values(1, dtype), values(2, dtype)
    mask = values(3) > 0
    numbers = [-0.0, math.nan, 1, np.array(2, dtype)] if dtype != np.int64 else [1, np.array(2)]
    for pair in ((x, y), *((x, n) for n in numbers), *((n, y) for n in numbers)):
        found, expected = MATH.where(mask, *pair), np.where(mask, *pair)
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


def test_other_layouts() -> None:
    x = values(4)[: 60 * 60].reshape(60, 60)
    mask = x > 0
    for given in ((mask.T, x, -x), (mask, x.T, -x), (mask[:, :1], x, -x), (mask[::2], x[::2], 0.5)):
        np.testing.assert_array_equal(MATH.where(*given), np.where(*given))
