"""Reading by index with native code: NumPy's answers, and refusals of places that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config

pytest.importorskip("llvmlite")

F = rushlight.nn.functional
DTYPES = ["float32", "float64", "int64", "uint8", "bool", "bfloat16", "complex64", "complex128"]


def table(name: str) -> Any:
    return rushlight.arange(128 * 256).reshape(128, 256).remainder(251).to(getattr(rushlight, name))


CALLS: dict[str, tuple[tuple[int, ...], int, Any]] = {
    "rows": ((77,), 128, lambda x, i: x.index_select(0, i)),
    "columns": ((77,), 256, lambda x, i: x.index_select(1, i)),
    "middle": ((300,), 16, lambda x, i: x.view(8, 16, 256).index_select(1, i)),
    "elements of rows": ((128, 77), 256, lambda x, i: x.gather(1, i)),
    "elements of columns": ((500, 256), 128, lambda x, i: x.gather(0, i)),
    "elements of a part": ((100, 20), 128, lambda x, i: x.gather(0, i)),
    "words": ((10, 7), 128, lambda x, i: F.embedding(i, x)),
    "a text": ((3000,), 128, lambda x, i: F.embedding(i, x)),
    "a word": ((), 128, lambda x, i: F.embedding(i, x)),
    "nothing": ((0,), 128, lambda x, i: x.index_select(0, i)),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: str, name: str) -> None:
    shape, below, call = CALLS[name]
    x = table(dtype)
    for turn in range(4):
        index = rushlight.from_numpy(np.random.default_rng(turn).integers(0, below, shape))
        for given in (index, index.int(), index.t() if shape == (128, 128) else index):
            with config.patch(eager_native=False):
                expected = call(x, given)
            found = call(x, given)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert found.stride() == expected.stride()
            assert found._array.tobytes() == expected._array.tobytes()


@pytest.mark.parametrize("wrong", [-1, 256, 1 << 40, -(1 << 62)])
@pytest.mark.parametrize("name", [name for name, (shape, *_) in CALLS.items() if 0 not in shape])
def test_wrong_places(name: str, wrong: int) -> None:
    shape, below, call = CALLS[name]
    x = table("float32")
    right = rushlight.from_numpy(np.random.default_rng(0).integers(0, below, shape))
    for _ in range(3):
        # The kernel and its door are there by now.
        call(x, right)
        index = right.clone()
        index.view(-1)[-1] = wrong
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            call(x, index)
