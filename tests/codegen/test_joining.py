"""Joining arrays by native code: NumPy's answers, and everything that is left to it."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.codegen import native
from rushlight.opset import large

pytest.importorskip("llvmlite")

if native.this_host().array_maker is None:
    pytest.skip("arrays do not look as doors expect", allow_module_level=True)

CAT, STACK = rushlight.ops.aten.cat.default, rushlight.ops.aten.stack.default


def door_of(op: Any, kind: Any = np.float32) -> Any:
    op.native_kernels.clear()
    half = large.LARGE // 2
    op([rushlight.from_numpy(np.zeros(half, kind)) for _ in range(2)])
    (door,) = op.native_kernels.doors
    return door


def arrays(*shapes: tuple[int, ...], kind: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 100, shape).astype(kind) for shape in shapes]


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_, np.complex128, np.uint8])
def test_values(kind: Any) -> None:
    cat, stack = door_of(CAT, kind), door_of(STACK, kind)
    for shapes, dim in (
        ([(3, 4), (5, 4)], 0),
        ([(3, 4), (3, 1), (3, 7)], 1),
        ([(3, 4), (3, 1), (3, 7)], -1),
        ([(2, 3, 4), (2, 5, 4)], 1),
        ([(2, 3, 4), (2, 3, 4)], -3),
        ([(7,)], 0),
        ([(1,)] * 50, 0),
    ):
        given = arrays(*shapes, kind=kind)
        expected = np.concatenate(given, dim)
        found = cat(given, dim)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()
    for shapes, dim in (([(3, 4)] * 2, 0), ([(3, 4)] * 5, 1), ([(3, 4)] * 2, 2), ([(6,)] * 3, -1)):
        given = arrays(*shapes, kind=kind)
        expected = np.stack(given, dim)
        found = stack(given, dim)
        assert found.shape == expected.shape and found.tobytes() == expected.tobytes()


def test_what_is_left() -> None:
    cat, stack = door_of(CAT), door_of(STACK)
    x, y = arrays((3, 4), (3, 4))
    for given, dim in (
        ([], 0),
        ((x, y), 0),
        ([x, y], 2),
        ([x, y], -3),
        ([x, y], 1.0),
        ([x, y], True),
        ([x, y], 1 << 70),
        ([x, y], -(1 << 70)),
        ([x, y.astype(np.float64)], 0),
        ([x.astype(np.float64)] * 2, 0),
        ([x, y.astype(">f4")], 0),
        ([x, y.T], 1),
        ([x, y[:, ::2]], 1),
        ([x, y[:0]], 0),
        ([x, None], 0),
        ([x, 1.0], 0),
        ([x, y[0]], 0),
        ([x[:, :3], y], 0),
        ([np.zeros((1, 1, 1, 1), np.float32)] * 2, 0),
        ([np.zeros((), np.float32)] * 2, 0),
        ([np.zeros(1 << 20, np.float32)] * 2, 0),
    ):
        assert cat(given, dim) is None
    assert cat([x, y]) is None
    assert stack([x, y[:2]], 0) is None
    assert stack([x, y], 3) is None


def test_nothing_is_left_behind() -> None:
    cat = door_of(CAT)
    given = arrays((30, 4), (5, 4))
    watched = [*given, given[0].dtype, np.ndarray, given]
    gc.collect()
    before = [sys.getrefcount(one) for one in watched]
    for _ in range(2000):
        assert cat(given, 0) is not None
        assert cat(given, 1) is None
    after = [sys.getrefcount(one) for one in watched]
    assert max([abs(a - b) for a, b in zip(before, after, strict=True)]) < 50


def test_tensors_and_gradients() -> None:
    x, y = [rushlight.randn(100, 120).requires_grad_() for _ in range(2)]
    for _ in range(3):
        for call in (
            lambda: rushlight.cat([x, y * 2], 1),
            lambda: rushlight.stack((x, y * 2), 1),
        ):
            found = call()
            assert found.is_contiguous() and found.grad_fn is not None
            wanted = np.concatenate if found.dim() == 2 else np.stack
            assert np.array_equal(
                found.detach().numpy(), wanted([x._array, (y * 2).detach().numpy()], 1)
            )
            gx, gy = rushlight.autograd.grad(found.sum(), [x, y])
            assert gx.eq(1).all() and gy.eq(2).all()
