"""Native kernels that take calls as they are: which they take, and what they leave behind."""

from __future__ import annotations

import gc
import math
import sys
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.codegen import native
from rushlight.opset import large

pytest.importorskip("llvmlite")

F = rushlight.nn.functional
COUNT = large.LARGE

if native.this_host().array_maker is None:
    pytest.skip("arrays do not look as doors expect", allow_module_level=True)


def fresh_door(op: Any, call: Any, *args: Any) -> Any:
    """The door that a call opens, what its kernel was given, and the answer."""
    op.native_kernels.clear()
    given: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fused", "lowered"):
            general = getattr(large, name)

            def spy(op: Any, *rest: Any, general: Any = general) -> Any:
                given.append(next(part for part in rest if type(part) is tuple))
                return general(op, *rest)

            patch.setattr(large, name, spy)
        found = call(*args)
    (door,) = op.native_kernels.doors
    return door, given[0], found


def values(*shape: int) -> Any:
    return rushlight.randn(*shape)


def test_a_call_of_the_same_kind_goes_through() -> None:
    x = values(COUNT)
    door, _, found = fresh_door(rushlight.ops.aten.relu.default, rushlight.relu, x)
    assert door(x._array).tobytes() == found._array.tobytes()
    other = values(4, COUNT // 4)._array
    assert door(other).tobytes() == np.maximum(other, 0).tobytes()
    assert door(other).shape == other.shape


def test_other_calls_are_left() -> None:
    x = values(COUNT)
    array = x._array
    door, _, _ = fresh_door(rushlight.ops.aten.relu.default, rushlight.relu, x)
    misfits = [
        array.astype(np.float64),
        array.astype(">f4"),
        array[::2],
        array.reshape(128, -1).T,
        np.float32(1.0),
        np.array(1.0, np.float32),
        values(1 << 20)._array,
        array.view(np.recarray),
        1.0,
        None,
        x,
    ]
    assert [door(misfit) for misfit in misfits] == [None] * len(misfits)
    assert door() is None
    assert door(array, array) is None


def test_numbers_of_calls() -> None:
    x = values(COUNT)

    def call(value: float) -> Any:
        return F.threshold(x, value, 0.25)

    door, _, _ = fresh_door(rushlight.ops.aten.threshold.default, call, 0.3)
    for value in (0.3, 0.7, 0.1 + 1e-9, math.nan, math.inf, 1e300):
        expected = np.where(x._array <= np.float32(value), np.float32(0.25), x._array)
        assert door(x._array, value, 0.25).tobytes() == expected.tobytes()
    assert door(x._array, 1, 0.25) is None
    assert door(x._array, 0.3) is None


@pytest.mark.parametrize("other", [2, True, 1.0, "1", None, 1 << 70, -1 << 70, -2])
def test_arguments_in_the_code(other: Any) -> None:
    x = values(128, COUNT // 128)
    op = rushlight.ops.aten.sum.dim_IntList
    door, given, found = fresh_door(op, lambda a: rushlight.sum(a, 1), x)
    array, dims, *rest = given
    assert door(array, tuple(dims), *rest).tobytes() == found._array.tobytes()
    for misfit in ((other,), (1, 1), (), list(dims), 1, None):
        assert door(array, misfit, *rest) is None
    assert door(array, dims, True, *rest[1:]) is None


def test_sizes_of_calls() -> None:
    x = values(128, 256)
    op = rushlight.ops.aten._softmax.default
    door, given, _ = fresh_door(op, lambda a: rushlight.softmax(a, 1), x)
    for rows, columns in ((64, 512), (100, 301), (17, 1000)):
        other = values(rows, columns)
        expected = rushlight.softmax(other, 1)._array
        assert door(other._array, *given[1:]).tobytes() == expected.tobytes()
    # Small and large sizes have code of their own, and so have equal ones.
    assert door(values(8, 4096)._array, *given[1:]) is None
    assert door(values(200, 200)._array, *given[1:]) is None


def test_nothing_is_left_behind() -> None:
    x = values(128, COUNT // 128)
    doors = [
        fresh_door(rushlight.ops.aten.relu.default, rushlight.relu, x),
        fresh_door(rushlight.ops.aten.var_mean.correction, lambda a: rushlight.var_mean(a, 1), x),
    ]
    for door, given, _ in doors:
        wrong = given[0].astype(np.float64)
        watched = [given[0], given[0].dtype, np.ndarray, wrong]
        gc.collect()
        before = [sys.getrefcount(one) for one in watched]
        for _ in range(2000):
            door(*given)
            assert door(wrong, *given[1:]) is None
        after = [sys.getrefcount(one) for one in watched]
        assert max([abs(a - b) for a, b in zip(before, after, strict=True)]) < 50


def test_many_kinds_of_calls_in_turns() -> None:
    x = values(COUNT)
    op = rushlight.ops.aten.clamp.default
    op.native_kernels.clear()
    for turn in range(200):
        low = -0.1 * (turn % 7)
        assert rushlight.clamp(x, low, 1.0)._array.tobytes() == (
            np.clip(x._array, np.float32(low), np.float32(1.0)).tobytes()
        )
    assert len(op.native_kernels.doors) <= large.MOST_DOORS
