"""Native batch norm against NumPy's in double precision, and itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.codegen.kernels import normalization
from rushlight.opset import heavy
from rushlight.opset.network import norm

pytest.importorskip("llvmlite")

SHAPES = [(5, 3, 7, 9), (2, 6, 4, 4), (32, 5, 32, 32), (1, 4, 300), (3, 2, 3, 4, 5), (4, 3, 1, 65)]


@pytest.fixture(params=["", "avx2", "baseline"], ids=["host", "avx2", "baseline"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    with config.patch(cpu_level=request.param):
        yield


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "LEAST", 0)
    monkeypatch.setattr(norm, "LEAST_PLACES", 1)


def close(found: Any, exact: Any) -> bool:
    return bool(abs(found - exact).max() <= 2e-6 * max(abs(exact).max(), 1.0))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_values_are_those_of_double_precision(shape: Any, offset: float) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) + offset).astype(np.float32)
    weight, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    axes = (0, *range(2, len(shape)))
    sizes = (1, shape[1], *[1] * (len(shape) - 2))
    wide = x.astype(np.float64)
    mean = wide.mean(axes)
    variance = wide.var(axes)
    rstd = 1 / np.sqrt(variance + 1e-5)
    y, *saved = normalization.batch_norm(x, weight, bias, None, 1e-5)
    for found, exact in zip(saved, (mean, variance, rstd), strict=True):
        assert np.allclose(found, exact, rtol=1e-4 if offset else 2e-6)
    # From the statistics that were found, which float32 rounds.
    mean, rstd = (part.astype(np.float64).reshape(sizes) for part in (saved[0], saved[2]))
    normal = (wide - mean) * rstd
    assert close(y, normal * weight.reshape(sizes) + bias.reshape(sizes))
    grad = rng.standard_normal(shape).astype(np.float32)
    scale = weight.reshape(sizes).astype(np.float64)
    for trains in (True, False):
        h = grad * scale
        exact = h * rstd
        if trains:
            share = (h * normal).mean(axes, keepdims=True)
            exact = rstd * (h - h.mean(axes, keepdims=True) - normal * share)
        answers = normalization.batch_norm_backward(
            grad, x, weight, saved[0], saved[2], trains, True
        )
        wanted = exact, (grad * normal).sum(axes), grad.sum(axes, dtype=np.float64)
        for found, right in zip(answers, wanted, strict=True):
            assert np.allclose(found, right, rtol=1e-5, atol=1e-5 * max(abs(right).max(), 1))


@pytest.mark.parametrize(
    "name",
    ["native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit_functional"],
)
def test_ops_answer_what_numpy_answers(name: str, always: None) -> None:
    op = getattr(rushlight.ops.aten, name).default
    rushlight.manual_seed(0)
    x, grad = rushlight.randn(3, 4, 5, 6), rushlight.randn(3, 4, 5, 6)
    weight, bias, mean = (rushlight.randn(4) for _ in range(3))
    variance = rushlight.rand(4) + 0.5
    for trains in (True, False):
        for scale, shift in ((weight, bias), (None, None)):
            if name == "native_batch_norm_backward":
                mask = [True, scale is not None, False]
                args = (grad, x, scale, mean, variance, mean, variance, trains, 1e-5, mask)
            else:
                args = (x, scale, shift, mean.clone(), variance.clone(), trains, 0.1, 1e-5)
            copies = [v.clone() if isinstance(v, rushlight.Tensor) else v for v in args]
            with config.patch(eager_native=False):
                expected = op(*copies)
            found = op(*args)
            pairs = [*zip(found, expected, strict=True), *zip(args, copies, strict=True)]
            for one, other in pairs:
                if not isinstance(other, rushlight.Tensor):
                    assert isinstance(one, rushlight.Tensor) is False
                    continue
                assert (one.shape, one.dtype) == (other.shape, other.dtype)
                assert rushlight.allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_channel_with_a_special_number_keeps_it_to_itself() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 3, 5, 7)).astype(np.float32)
    before = normalization.batch_norm(x, None, None, None, 1e-5)[0].copy()
    for number in (math.nan, math.inf):
        x[1, 2, 3, 4] = number
        after = normalization.batch_norm(x, None, None, None, 1e-5)[0]
        assert after[:, :2].tobytes() == before[:, :2].tobytes()
        assert np.isnan(after[:, 2]).any()


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(2)
    x, grad = (rng.standard_normal((16, 9, 33, 31)).astype(np.float32) for _ in range(2))
    before, found = rushlight.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            rushlight.set_num_threads(count)
            y, mean, variance, rstd = normalization.batch_norm(x, None, None, None, 1e-5)
            parts = normalization.batch_norm_backward(grad, x, None, mean, rstd, True, True)
            found.append([part.tobytes() for part in (y, mean, variance, rstd, *parts)])
    finally:
        rushlight.set_num_threads(before)
    assert found[0] == found[1] == found[2]
