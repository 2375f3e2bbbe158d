"""Native convolution: float64's values, the same bits each time, NumPy's where it is off."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.base.errors import OldExtra
from rushlight.codegen import native
from rushlight.codegen.kernels import convolution, library
from rushlight.codegen.kernels.recipes import Recipe
from rushlight.core import ports
from rushlight.opset import heavy
from rushlight.opset.samples.maker import samples_of
from rushlight.opset.window import correlation

llvmlite = pytest.importorskip("llvmlite")

LEVELS = ["", "avx2", "baseline"]
# Largest error over the largest value; sums of up to 5,000 products in float32.
TOLERANCE = 1e-5


@pytest.fixture(params=LEVELS, ids=["host", "avx2", "baseline"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.patch(cpu_level=request.param):
        yield request.param


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of every size run as native kernels."""
    monkeypatch.setattr(heavy, "LEAST", 0)


def drawn(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def worst(found: Any, exact: Any) -> float:
    return float(abs(found - exact).max() / max(abs(exact).max(), 1e-30))


def random_case(rng: Any) -> tuple[Any, ...] | None:
    count = int(rng.integers(1, 4))
    kind = rng.choice(["any", "depthwise", "square"])
    groups = int(rng.choice([1, 1, 2, 3]))
    each, outputs = int(rng.integers(1, 9)), int(rng.integers(1, 40))
    sizes = tuple(int(n) for n in rng.integers(3, 22, count))
    kernel = tuple(int(n) for n in rng.integers(1, 4, count))
    stride = tuple(int(n) for n in rng.integers(1, 4, count))
    padding = tuple(int(n) for n in rng.integers(0, 4, count))
    dilation = tuple(int(n) for n in rng.integers(1, 3, count))
    if kind == "depthwise":
        groups, each, outputs = int(rng.integers(2, 24)), 1, int(rng.integers(1, 4))
    if kind == "square":
        count, groups, each, outputs = 2, 1, int(rng.integers(16, 70)), int(rng.integers(16, 90))
        sizes, kernel = sizes[:1] * 2, (3, 3)
        stride, padding, dilation = (1, 1), padding[:1] * 2, (1, 1)
    extent = convolution.result_sizes(sizes, kernel, stride, padding, dilation)
    if min(extent) < 1:
        return None
    shape = (int(rng.integers(1, 9)), groups * each, *sizes)
    return shape, (groups * outputs, each, *kernel), stride, padding, dilation, groups


def check_case(rng: Any, case: tuple[Any, ...]) -> None:
    shape, filters, stride, padding, dilation, groups = case
    x, w, bias = drawn(rng, *shape), drawn(rng, *filters), drawn(rng, filters[0])
    wide = x.astype(np.float64), w.astype(np.float64)
    options = stride, padding, dilation, groups
    source = correlation.padded(wide[0], [(p, p) for p in padding])
    exact = correlation.correlate(source, wide[1], stride, dilation, groups)
    exact = exact + bias.reshape(-1, *[1] * len(stride))
    found = convolution.forward(x, w, bias, *options)
    assert found.shape == exact.shape
    assert worst(found, exact) < TOLERANCE
    grad = drawn(rng, *exact.shape)
    exact = correlation.adjoint(grad.astype(np.float64), wide[1], shape[2:], *options)
    found = convolution.input_gradient(grad, w, None, shape[2:], *options)
    if found is None:
        assert len(stride) == 3 and stride[0] > 1
    else:
        assert worst(found, exact) < TOLERANCE
    exact = correlation.weight_adjoint(wide[0], grad.astype(np.float64), filters[2:], *options)
    found = convolution.weight_gradient(x, grad, filters[2:], *options)
    assert worst(found, exact) < TOLERANCE


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes_have_the_values_of_float64(level: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(8):
        case = random_case(rng)
        if case is not None:
            check_case(rng, case)


SHAPES = [
    ((4, 16, 32, 32), (16, 16, 3, 3), 1, 1),
    ((2, 64, 28, 28), (64, 64, 3, 3), 1, 1),
    ((2, 64, 28, 28), (128, 64, 3, 3), 2, 1),
    ((1, 3, 64, 64), (64, 3, 7, 7), 2, 3),
    ((2, 64, 14, 14), (256, 64, 1, 1), 1, 0),
    ((2, 64, 14, 14), (64, 64, 1, 1), 2, 0),
    ((8, 256, 7, 7), (256, 256, 3, 3), 1, 1),
]


@pytest.mark.parametrize(("shape", "filters", "stride", "padding"), SHAPES)
def test_shapes_of_networks(shape: Any, filters: Any, stride: int, padding: int) -> None:
    pair = (stride, stride), (padding, padding)
    check_case(np.random.default_rng(0), (shape, filters, *pair, (1, 1), 1))


def passes(x: Any, w: Any, grad: Any, options: Any) -> list[Any]:
    return [
        convolution.forward(x, w, None, *options),
        convolution.input_gradient(grad, w, None, x.shape[2:], *options),
        convolution.weight_gradient(x, grad, w.shape[2:], *options),
    ]


@pytest.mark.parametrize(("shape", "filters", "stride", "padding"), SHAPES)
def test_bits_are_the_same_whatever_ran_before(
    shape: Any, filters: Any, stride: int, padding: int
) -> None:
    rng = np.random.default_rng(1)
    options = (stride, stride), (padding, padding), (1, 1), 1
    x, w = drawn(rng, *shape), drawn(rng, *filters)
    places = convolution.result_sizes(shape[2:], filters[2:], *options[:3])
    grad = drawn(rng, shape[0], filters[0], *places)
    first = [found.copy() for found in passes(x, w, grad, options)]
    for number in range(3):
        # Memory that kernels use again holds other numbers, NaN among them.
        noise = convolution.fresh((1 << 20,))
        noise[:] = np.nan if number % 2 else number
        del noise
        # Other memory, strides and alignment; the same values.
        again = [np.asfortranarray(part) for part in (x, w, grad)]
        if number == 2:
            again = [np.concatenate([part.ravel()[:1], part.ravel()])[1:].reshape(part.shape)
                     for part in (x, w, grad)]  # fmt: skip
        for found, expected in zip(passes(*again, options), first, strict=True):
            assert found.tobytes() == expected.tobytes()


def test_each_sample_is_computed_by_itself() -> None:
    rng = np.random.default_rng(2)
    x, w = drawn(rng, 5, 20, 15, 14), drawn(rng, 24, 20, 5, 3)
    options = (1, 2), (2, 1), (1, 1), 1
    whole = convolution.forward(x, w, None, *options)
    for number in range(5):
        alone = convolution.forward(x[number : number + 1], w, None, *options)
        assert alone.tobytes() == whole[number].tobytes()


def test_small_integers_are_exact() -> None:
    rng = np.random.default_rng(3)
    for case in (((8, 32, 12, 12), (32, 32, 3, 3), 1), ((2, 9, 12, 11), (7, 9, 4, 3), 2)):
        shape, filters, stride = case
        x = rng.integers(-4, 5, shape).astype(np.float32)
        w = rng.integers(-4, 5, filters).astype(np.float32)
        options = (stride, stride), (1, 1), (1, 1), 1
        source = correlation.padded(x.astype(np.float64), [(1, 1)] * 2)
        exact = correlation.correlate(source, w.astype(np.float64), *options[:1], (1, 1), 1)
        assert (convolution.forward(x, w, None, *options) == exact).all()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_special_numbers_stay_near_their_place(number: float) -> None:
    rng = np.random.default_rng(4)
    x, w = drawn(rng, 4, 16, 16, 16), drawn(rng, 16, 16, 3, 3)
    options = (1, 1), (1, 1), (1, 1), 1
    before = convolution.forward(x, w, None, *options).copy()
    x[1, 5, 8, 6] = number
    after = convolution.forward(x, w, None, *options)
    window = (slice(1, 2), slice(None), slice(7, 10), slice(5, 8))
    assert not np.isfinite(after[window]).any()
    # Winograd's tiles of two rows and columns may carry it one place further.
    tiles = (slice(1, 2), slice(None), slice(6, 10), slice(4, 8))
    after[tiles] = before[tiles]
    assert after.tobytes() == before.tobytes()


@pytest.mark.parametrize("name", ["convolution", "convolution_backward"])
def test_samples_are_what_numpy_answers(name: str, level: str, always: None) -> None:
    op = getattr(rushlight.ops.aten, name).default
    for case in samples_of(op, rushlight.float32):
        with config.patch(eager_native=False):
            expected = op(*case.args)
        found = op(*case.args)
        pairs = [(found, expected)] if name == "convolution" else zip(found, expected, strict=True)
        for one, other in pairs:
            if other is None:
                assert one is None
                continue
            assert (one.shape, one.stride(), one.dtype) == (
                other.shape,
                other.stride(),
                other.dtype,
            )
            assert rushlight.allclose(one, other, rtol=1e-5, atol=1e-5)


def count_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    run = library.run

    def counted(name: str, *rest: Any) -> None:
        calls.append(name)
        run(name, *rest)

    monkeypatch.setattr(library, "run", counted)
    whole = Recipe.run

    def followed(recipe: Recipe, *arrays: Any) -> None:
        calls.extend([job.driver for job in recipe.jobs])
        whole(recipe, *arrays)

    monkeypatch.setattr(Recipe, "run", followed)
    return calls


def test_sizes_and_dtypes_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)
    large, small = rushlight.randn(2, 16, 30, 30), rushlight.randn(1, 2, 5, 5)
    rushlight.conv2d(small, rushlight.randn(2, 2, 3, 3))
    rushlight.conv2d(large.double(), rushlight.randn(16, 16, 3, 3).double())
    with config.patch(eager_native=False):
        rushlight.conv2d(large, rushlight.randn(16, 16, 3, 3))
    assert calls == []
    rushlight.conv2d(large, rushlight.randn(16, 16, 3, 3))
    assert calls


def test_numpy_computes_where_nothing_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)
    monkeypatch.setattr(native, "can_compile", lambda: False)
    assert ports.native_kernels() is None
    assert rushlight.conv2d(rushlight.randn(2, 16, 30, 30), rushlight.randn(16, 16, 3, 3)).shape
    assert calls == []


def test_an_old_compiler_is_named_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = count_calls(monkeypatch)
    monkeypatch.setattr(llvmlite, "__version__", "0.44.0")
    monkeypatch.setattr(native, "host", None)
    native.can_compile.cache_clear()
    try:
        with pytest.warns(UserWarning, match="llvmlite 0.44.0 is installed, and 0.45 or newer"):
            assert ports.native_kernels() is None
        assert rushlight.conv2d(rushlight.randn(2, 16, 30, 30), rushlight.randn(16, 16, 3, 3)).shape
        with pytest.raises(OldExtra, match="RL0008"):
            native.this_host()
    finally:
        native.can_compile.cache_clear()
    assert calls == []


def test_gradients_of_a_layer_are_those_of_numpy(always: None) -> None:
    rushlight.manual_seed(0)
    layer = rushlight.nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
    x = rushlight.randn(3, 6, 7, 8, requires_grad=True)

    def gradients() -> list[Any]:
        result = layer(x)
        return [result, *rushlight.autograd.grad(result.square().sum(), [x, *layer.parameters()])]

    found = gradients()
    with config.patch(eager_native=False):
        expected = gradients()
    for one, other in zip(found, expected, strict=True):
        assert rushlight.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_empty_batches_and_channels_last(always: None) -> None:
    layer = rushlight.nn.Conv2d(3, 5, 3, padding=1)
    assert layer(rushlight.randn(0, 3, 8, 8)).shape == (0, 5, 8, 8)
    x = rushlight.randn(2, 3, 8, 9).to(memory_format=rushlight.channels_last)
    found = layer(x)
    assert found.is_contiguous(memory_format=rushlight.channels_last)
    assert rushlight.allclose(found, layer(x.contiguous()), atol=1e-6)


def test_levels_are_checked() -> None:
    with config.patch(cpu_level="sse9"), pytest.raises(ValueError, match="RL0840"):
        library.target()


def test_threads_may_call_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(5)
    options = (1, 1), (1, 1), (1, 1), 1
    operands = [(drawn(rng, 3, 20, 17, 18), drawn(rng, 20, 20, 3, 3)) for _ in range(6)]
    expected = [convolution.forward(x, w, None, *options).copy() for x, w in operands]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            found = list(
                pool.map(lambda pair: convolution.forward(*pair, None, *options), operands)
            )
            for one, other in zip(found, expected, strict=True):
                assert one.tobytes() == other.tobytes()
