"""Native loops that no op's text says, beside NumPy's kernels: the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.opset import large

pytest.importorskip("llvmlite")

REMAINDERS = ("fmod", "remainder", "floor_divide")


def operands(count: int, ends: bool) -> tuple[Any, Any]:
    """Numbers of many sizes, a quarter of them whole multiples of their divisors."""
    rng = np.random.default_rng(count)
    x, y = [rng.standard_normal(count) * 10.0 ** rng.integers(-5, 4, count) for _ in range(2)]
    # Quotients of more than 29 bits are NumPy's.
    y += np.copysign(1e-4, y)
    exact = rng.integers(0, count, count // 4)
    x[exact] = (y.astype(np.float32)[exact] * rng.integers(-50, 50, count // 4)).astype(np.float32)
    x[:50], x[50:100] = 0.0, -0.0
    if ends:
        x[100:106] = np.inf, np.nan, 1, 3e38, 2, 3
        y[102:107] = 0.0, 1e-40, np.inf, -np.inf, -0.0
    return tuple([rushlight.from_numpy(a.astype(np.float32)) for a in (x, y)])


def bits(tensor: Any) -> Any:
    """Bits of numbers; what is no number has many."""
    array = tensor.numpy()
    return np.where(np.isnan(array), 0, array.view(np.int32))


@pytest.mark.parametrize("ends", [False, True], ids=["numbers", "ends"])
@pytest.mark.parametrize("count", [2047, 16384, 70001])
def test_remainders(count: int, ends: bool) -> None:
    x, y = operands(count, ends)
    for name in REMAINDERS:
        call = getattr(rushlight, name)
        with config.patch(eager_native=False):
            expected = call(x, y)
        assert np.array_equal(bits(call(x, y)), bits(expected))
    taken = [large.remainders(name, x.numpy(), y.numpy()) is not None for name in REMAINDERS]
    assert taken == [count > 2047 and not ends] * 3
    quotient = rushlight.div(x, y, rounding_mode="floor")
    assert np.array_equal(bits(quotient), bits(rushlight.floor_divide(x, y)))


def test_remainders_of_other_operands() -> None:
    x, y = operands(16384, False)
    for a, b in (
        (x.double(), y.double()),
        (x.view(128, 128).T, y.view(128, 128)),
        (x, 2.5),
        (x.view(128, 128), y[:128]),
        (x.int(), y.int().abs() + 1),
        (x.bfloat16(), y.bfloat16()),
    ):
        for name in REMAINDERS:
            call = getattr(rushlight, name)
            with config.patch(eager_native=False):
                expected = call(a, b)
            assert rushlight.equal(call(a, b), expected)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int16", "float64", "bfloat16", "complex128"])
def test_flip(dtype: str) -> None:
    x = rushlight.arange(20160).reshape(3, 70, 96).to(getattr(rushlight, dtype))
    for given in (x, x.transpose(0, 1), x[:, 1:]):
        for dims in ((2,), (-1, 1), (0, 1, 2), (0,), (0, 2), ()):
            found = given.flip(dims)
            assert found.data_ptr() != given.data_ptr()
            assert np.array_equal(
                found.to(rushlight.complex128).numpy(),
                np.flip(given.to(rushlight.complex128).numpy(), dims),
            )


def test_quarter_turns() -> None:
    x = rushlight.arange(20160).reshape(3, 70, 96)
    strides = {(0, 1): (96, 6720, 1), (1, 2): (6720, 1, 96), (2, 0): (1, 96, 6720)}
    for given in (x, x.transpose(0, 1)):
        for dims, turned in strides.items():
            for turns in range(-1, 5):
                found = given.rot90(turns, dims)
                assert np.array_equal(found.numpy(), np.rot90(given.numpy(), turns, dims))
                assert given is not x or not turns % 2 or found.stride() == turned
                assert found.data_ptr() != given.data_ptr()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(4, 16, 16, 17), (2, 3, 60, 70), (16, 40, 40)])
def test_max_pool(shape: tuple[int, ...], dtype: str) -> None:
    functional = rushlight.nn.functional
    values = np.random.default_rng(0).standard_normal(shape).round(1)
    values.reshape(-1)[::37] = np.nan
    values.reshape(-1)[5:200] = -np.inf
    x = rushlight.from_numpy(values).to(getattr(rushlight, dtype))
    assert x.numel() >= large.LARGE

    def outcome(options: tuple[Any, ...]) -> list[Any]:
        leaf = x.clone().requires_grad_()
        found, places = functional.max_pool2d(leaf, *options, return_indices=True)
        weights = rushlight.arange(found.numel()).view(found.shape).to(found.dtype)
        (grad,) = rushlight.autograd.grad((found.nan_to_num(0, 1, -1) * weights).sum(), leaf)
        return [found.detach().numpy(), places.numpy(), grad.numpy()]

    for options in (
        (2,),
        (3, 2, 1),
        (3, 1, 1, 2),
        ((2, 3), (3, 2), 1, 1, True),
        (3, 5, 1, 1, True),
        (2, 2, 1, 3),
    ):
        with config.patch(eager_native=False):
            expected = outcome(options)
        found = outcome(options)
        for mine, theirs in zip(found[:2], expected[:2], strict=True):
            assert np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f"), options
        assert np.allclose(found[2], expected[2], 1e-5, equal_nan=True)
