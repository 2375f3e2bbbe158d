"""Native kernels of images whose channels lie last: float64's values, the same bits each time."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.codegen.kernels import channelslast, convolution, normalization
from rushlight.opset.window import correlation

pytest.importorskip("llvmlite")

TOLERANCE = 1e-5
# Batch, channels, rows, columns, outputs, window, stride, padding, dilation.
CASES = [
    (2, 3, 9, 7, 16, 3, 1, 1, 1),
    (2, 16, 12, 12, 16, 3, 1, 1, 1),
    (9, 16, 13, 11, 48, 3, 1, 0, 1),
    (32, 32, 7, 8, 80, 3, 1, 2, 1),
    (2, 16, 9, 11, 32, 3, 2, 1, 1),
    (3, 5, 8, 8, 7, 3, 2, 1, 1),
    (2, 16, 9, 9, 48, 1, 2, 0, 1),
    (2, 20, 9, 9, 33, 5, 1, 2, 1),
    (2, 16, 13, 12, 80, 3, 3, 0, 1),
    (2, 16, 12, 12, 16, 3, 1, 2, 2),
    (1, 4, 40, 300, 20, 3, 1, 1, 1),
    (2, 8, 7, 9, 8, 2, 3, 3, 2),
    (2, 8, 7, 7, 3, 2, 2, 0, 1),
    (2, 70, 5, 6, 130, 1, 1, 0, 1),
]


@pytest.fixture(params=["", "avx2", "baseline"], ids=["host", "avx2", "baseline"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.patch(cpu_level=request.param):
        yield request.param


def drawn(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def last(array: Any) -> Any:
    found = channelslast.fresh_last(array.shape)
    found[...] = array
    return found


def worst(found: Any, exact: Any) -> float:
    return float(abs(found - exact).max() / max(abs(exact).max(), 1e-30))


class Case:
    def __init__(self, case: tuple[int, ...]) -> None:
        batch, channels, height, width, outputs, size, stride, padding, dilation = case
        rng = np.random.default_rng(sum(case))
        self.x = drawn(rng, batch, channels, height, width)
        self.w, self.bias = drawn(rng, outputs, channels, size, size), drawn(rng, outputs)
        self.options = (stride,) * 2, (padding,) * 2, (dilation,) * 2, 1
        extent = convolution.result_sizes((height, width), (size, size), *self.options[:3])
        self.grad = drawn(rng, batch, outputs, *extent)

    def found(self) -> list[Any]:
        """Results, and gradients of input and weights, from memory that holds no zeros."""
        x, grad = last(self.x), last(self.grad)
        made = [last(np.full_like(a, np.nan)) for a in (self.grad, self.x)]
        for_weight = np.full_like(self.w, np.nan)
        channelslast.results_last(x, self.w, self.bias, made[0], *self.options)
        channelslast.input_gradient_last(grad, self.w, made[1], *self.options)
        channelslast.weight_gradient_last(x, grad, for_weight, *self.options)
        return [*made, for_weight]

    def exact(self) -> list[Any]:
        stride, padding, dilation, _ = self.options
        x, w, grad = [a.astype(np.float64) for a in (self.x, self.w, self.grad)]
        source = correlation.padded(x, [(p, p) for p in padding])
        y = correlation.correlate(source, w, stride, dilation, 1) + self.bias.reshape(-1, 1, 1)
        return [
            y,
            correlation.adjoint(grad, w, x.shape[2:], *self.options),
            correlation.weight_adjoint(x, grad, w.shape[2:], *self.options),
        ]


@pytest.mark.parametrize("numbers", CASES, ids=str)
def test_values(numbers: tuple[int, ...], level: str) -> None:
    case = Case(numbers)
    for found, exact in zip(case.found(), case.exact(), strict=True):
        assert found.shape == exact.shape
        assert worst(found, exact) < TOLERANCE


def test_groups_and_other_layouts() -> None:
    rng = np.random.default_rng(0)
    x, w, grad = drawn(rng, 2, 8, 9, 9), drawn(rng, 6, 4, 3, 3), drawn(rng, 2, 6, 9, 9)
    options = (1, 1), (1, 1), (1, 1), 2
    y, for_input = [channelslast.fresh_last(a.shape) for a in (grad, x)]
    for_weight = np.empty_like(w)
    channelslast.results_last(last(x), w, None, y, *options)
    channelslast.input_gradient_last(last(grad), w, for_input, *options)
    channelslast.weight_gradient_last(last(x), last(grad), for_weight, *options)
    assert worst(y, convolution.forward(x, w, None, *options)) < TOLERANCE
    expected = convolution.input_gradient(grad, w, None, (9, 9), *options)
    assert worst(for_input, expected) < TOLERANCE
    expected = convolution.weight_gradient(x, grad, (3, 3), *options)
    assert worst(for_weight, expected) < TOLERANCE
    # Operands may lie in any way.
    plain = (1, 1), (1, 1), (1, 1), 1
    w = drawn(rng, 6, 8, 3, 3)
    exact = convolution.forward(x, w, None, *plain)
    for operand in (x, last(x), np.repeat(x, 2, 3)[..., ::2]):
        channelslast.results_last(operand, w, None, y, *plain)
        assert worst(y, exact) < TOLERANCE


def test_threads_give_the_same_bits() -> None:
    cases = [Case(numbers) for numbers in ((32, 16, 24, 24, 32, 3, 2, 1, 1), CASES[3])]
    x = last(cases[0].x)
    before = rushlight.get_num_threads()
    answers = []
    try:
        for threads in (1, 2, 5):
            rushlight.set_num_threads(threads)
            found = [array for case in cases for array in case.found()]
            vectors = [np.empty(16, np.float32) for _ in range(5)]
            normalization.statistics_last(1e-5, x, *vectors[:3])
            normalization.gradients_last(last(x * 2), x, vectors[0], vectors[2], *vectors[3:])
            answers.append([array.tobytes() for array in (*found, *vectors)])
    finally:
        rushlight.set_num_threads(before)
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("shape", [(2, 5, 7, 7), (8, 16, 32, 32), (1, 3, 1, 1), (4, 70, 50, 9)])
def test_statistics(shape: tuple[int, ...], level: str) -> None:
    rng = np.random.default_rng(sum(shape))
    # Far from zero: squares of what is not centred would lose all digits.
    x, grad = drawn(rng, *shape) * 3 + 1000, drawn(rng, *shape)
    mean, variance, rstd, for_weight, for_bias = np.full((5, shape[1]), np.nan, np.float32)
    normalization.statistics_last(1e-3, last(x), mean, variance, rstd)
    normalization.gradients_last(last(grad), last(x), mean, rstd, for_weight, for_bias)
    wide, axes = x.astype(np.float64), (0, 2, 3)
    assert worst(mean, wide.mean(axes)) < TOLERANCE
    assert abs(variance - wide.var(axes)).max() < 1e-4 * max(wide.var(), 1)
    assert worst(rstd, 1 / np.sqrt(wide.var(axes) + 1e-3)) < 1e-4
    assert abs(for_bias - grad.sum(axes, dtype=np.float64)).max() < 1e-3
    apart = wide - mean.reshape(-1, 1, 1).astype(np.float64)
    exact = (grad * apart * rstd.reshape(-1, 1, 1)).sum(axes)
    assert abs(for_weight - exact).max() < 1e-4 * max(abs(exact).max(), 1)


def test_calls_at_the_same_time() -> None:
    case = Case((32, 16, 24, 24, 32, 3, 1, 1, 1))
    expected = [array.tobytes() for array in case.found()]
    with ThreadPoolExecutor(3) as pool:
        for found in pool.map(lambda _: case.found(), range(6)):
            assert [array.tobytes() for array in found] == expected
