"""Texts worked out in pieces, and selection by bits: the same answers as the plain way."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.arrays.numpy_ import BLOCK, MATH, in_blocks


@pytest.fixture
def sizes():
    seen = []

    @in_blocks
    def text(m, x, y, number):
        seen.append(x.size)
        return m.add(m.multiply(x, y), number)

    return text, seen


def test_large_arrays_are_taken_in_pieces(sizes):
    text, seen = sizes
    x = np.arange(2 * BLOCK + 10, dtype=np.float32).reshape(2, -1)
    result = text(MATH, x, x, 1)
    assert seen == [BLOCK, BLOCK, 10]
    assert result.shape == x.shape
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, x * x + 1)


def test_small_strided_and_broadcast_arrays_are_taken_whole(sizes):
    text, seen = sizes
    x = np.ones((2, 2 * BLOCK), np.float32)
    text(MATH, x[:, ::2], x[:, ::2], 1)
    text(MATH, x, x[:1], 1)
    text(MATH, x[:1, :4], x[:1, :4], 1)
    assert seen == [2 * BLOCK, 4 * BLOCK, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("count", [4, 5000])
def test_zero_where_keeps_every_value(dtype, count):
    special = [np.nan, np.inf, -np.inf, -0.0, 1.5]
    x = np.resize(np.array(special, dtype), count)
    mask = np.arange(count) % 3 == 0
    result = MATH.zero_where(mask, x)
    assert result.dtype == x.dtype
    np.testing.assert_array_equal(result, np.where(mask, 0, x))
    np.testing.assert_array_equal(np.signbit(result), np.signbit(np.where(mask, 0, x)))


def test_zero_where_broadcasts_and_takes_strides():
    x = np.random.default_rng(0).standard_normal((100, 80)).astype(np.float32)[:, ::2]
    mask = np.arange(40) % 2 == 0
    np.testing.assert_array_equal(MATH.zero_where(mask, x), np.where(mask, 0, x))


@pytest.mark.parametrize(("outputs", "groups"), [(2, 1), (4, 2), (64, 1)])
def test_convolution_by_sample_and_by_batch(outputs, groups):
    """Few output channels take one product per sample, many take one in all."""
    random = np.random.default_rng(0)
    x = random.standard_normal((3, 4, 6, 5))
    w = random.standard_normal((outputs, 4 // groups, 3, 2))
    found = torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), groups=groups).numpy()
    each, inputs = outputs // groups, 4 // groups
    for o in range(outputs):
        first = o // each * inputs
        windows = np.lib.stride_tricks.sliding_window_view(
            x[:, first : first + inputs], (3, 2), axis=(2, 3)
        )
        wanted = np.einsum("nchwij,cij->nhw", windows, w[o])
        np.testing.assert_allclose(found[:, o], wanted, rtol=1e-12, atol=1e-12)


def test_causal_attention_in_several_blocks():
    """Blocks after the first hide later keys, and only those."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 8, 700, 4) for _ in range(3))
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    seen = torch.ones(700, 700, dtype=torch.bool).tril()
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
    torch.testing.assert_close(found, wanted)


def test_convolution_in_blocks_of_samples(monkeypatch):
    """However many samples are taken at a time, values and gradients are the same."""
    from rushlight.opset.window import correlation

    def run():
        torch.manual_seed(0)
        x = torch.randn(5, 2, 6, 6, dtype=torch.float64, requires_grad=True)
        w = torch.randn(3, 2, 3, 3, dtype=torch.float64, requires_grad=True)
        y = torch.conv2d(x, w, stride=2, padding=1)
        return y, *torch.autograd.grad(y.square().sum(), (x, w))

    whole = run()
    monkeypatch.setattr(correlation, "BLOCK", 2 * 2 * 9 * 9)
    assert len(correlation.blocks(5, 2 * 9 * 9)) == 3
    for found, wanted in zip(run(), whole, strict=True):
        torch.testing.assert_close(found, wanted)
