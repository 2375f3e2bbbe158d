"""Native attention against the NumPy kernels in double precision, and itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.base.config import config
from rushlight.codegen.kernels import attending
from rushlight.opset import heavy
from rushlight.opset.samples.maker import samples_of

pytest.importorskip("llvmlite")

FORWARD = rushlight.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = rushlight.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@pytest.fixture(params=["", "avx2", "baseline"], ids=["host", "avx2", "baseline"], autouse=True)
def level(request: pytest.FixtureRequest) -> Iterator[None]:
    with config.patch(cpu_level=request.param):
        yield


def drawn(rng: Any, *shape: int) -> Any:
    return rushlight.from_numpy(rng.standard_normal(shape).astype(np.float32))


# batch, heads, heads of keys, queries, keys, size of a head
SIZES = [
    (2, 4, 4, 70, 70, 32), (1, 6, 2, 50, 33, 20), (2, 2, 2, 128, 128, 64), (1, 2, 1, 9, 130, 65),
    (1, 1, 1, 49, 48, 1), (1, 2, 2, 24, 200, 100),
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "both"])
def test_values_are_those_of_double_precision(
    sizes: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heavy, "LEAST", 0)
    batch, heads, key_heads, rows, columns, dim = sizes
    rng = np.random.default_rng(0)
    # Rows of heads beside one another, as a projection leaves them.
    query = drawn(rng, batch, rows, heads, dim).transpose(1, 2)
    key, value = (drawn(rng, batch, columns, key_heads, dim).transpose(1, 2) for _ in range(2))
    mask = None
    if kind in ("mask", "both"):
        mask = drawn(rng, rows, columns)
        mask[mask > 1] = -math.inf
        mask[3] = -math.inf
        if kind == "mask":
            mask = mask.expand(batch, heads, rows, columns)
    causal = kind in ("causal", "both")
    options: Any = {"attn_mask": mask, "scale": 0.3 if kind == "mask" else None}
    wide = {**options, "attn_mask": None if mask is None else mask.double()}
    exact = FORWARD(query.double(), key.double(), value.double(), 0.0, causal, **wide)
    found = FORWARD(query, key, value, 0.0, causal, **options)
    for one, other in zip(found, exact, strict=True):
        assert one.stride() == other.stride()
        assert rushlight.allclose(one.double(), other, rtol=1e-5, atol=3e-6)
    grad = drawn(rng, batch, heads, rows, dim)
    doubled = [part.double() for part in (grad, query, key, value)]
    exact = BACKWARD(*doubled, *exact, 0.0, causal, **wide)
    found = BACKWARD(grad, query, key, value, *found, 0.0, causal, **options)
    for one, other in zip(found, exact, strict=True):
        assert one.stride() == other.stride()
        scale = float(other.abs().max())
        assert rushlight.allclose(one.double(), other, rtol=1e-4, atol=1e-5 * max(scale, 1))


@pytest.mark.parametrize("op", [FORWARD, BACKWARD], ids=["forward", "backward"])
def test_samples_are_what_numpy_answers(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "LEAST", 0)
    for case in samples_of(op, rushlight.float32):
        with config.patch(eager_native=False):
            expected = op(*case.args, **case.kwargs)
        found = op(*case.args, **case.kwargs)
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.stride()) == (other.shape, other.stride())
            assert rushlight.allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_query_with_nan_keeps_it_to_itself() -> None:
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((2, 2, 40, 16)).astype(np.float32) for _ in range(3)]
    before, _ = attending.attention(*parts, None, 0.25, True)
    parts[0][1, 0, 7, 3] = math.nan
    after, _ = attending.attention(*parts, None, 0.25, True)
    assert np.isnan(after[1, 0, 7]).all()
    after[1, 0, 7] = before[1, 0, 7]
    assert after.tobytes() == before.tobytes()


def test_bits_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(2)
    query, key, value, grad = (
        rng.standard_normal((3, 4, 90, 32)).astype(np.float32) for _ in range(4)
    )
    given, found = rushlight.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            rushlight.set_num_threads(count)
            output, level = attending.attention(query, key, value, None, 0.2, True)
            operands = grad, query, key, value, output, level
            parts = attending.attention_backward(*operands, None, 0.2, True)
            found.append([part.tobytes() for part in (output, level, *parts)])
    finally:
        rushlight.set_num_threads(given)
    assert found[0] == found[1] == found[2]
