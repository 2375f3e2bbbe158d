"""Attention: blocks agree with the whole, masks, groups of heads, derivatives."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.nn import functional as F
from rushlight.opset import families

families.load_all()
from rushlight.opset.product import attention  # noqa: E402


def operands(*shapes, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in shapes]


def by_hand(query, key, value, mask=None, scale=None):
    scores = query @ key.transpose(-2, -1) * (scale or 1 / math.sqrt(query.shape[-1]))
    return (scores if mask is None else scores + mask).softmax(-1) @ value


@pytest.mark.parametrize("block", [1, 1 << 21])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [3, 40, 50])
def test_blocks(monkeypatch, block, causal, keys):
    monkeypatch.setattr(attention, "BLOCK", block)
    tensors = operands((2, 2, 40, 3), (2, 2, keys, 3), (2, 2, keys, 3))
    mask = None
    if causal:
        mask = torch.zeros(40, keys, dtype=torch.float64)
        mask = mask.masked_fill(torch.ones(40, keys, dtype=torch.bool).triu(1), -math.inf)
    found = F.scaled_dot_product_attention(*tensors, is_causal=causal)
    wanted = by_hand(*tensors, mask)
    assert torch.allclose(found, wanted)
    pairs = [torch.autograd.grad(each.sin().sum(), tensors) for each in (found, wanted)]
    assert all(torch.allclose(one, other) for one, other in zip(*pairs, strict=True))


def test_a_query_that_sees_nothing_gets_zeros():
    tensors = operands((1, 1, 3, 2), (1, 1, 4, 2), (1, 1, 4, 2))
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[1] = False
    for shape in ((3, 4), (1, 1, 3, 4), (1, 3, 4)):
        output = F.scaled_dot_product_attention(*tensors, attn_mask=mask.reshape(shape))
        assert output[0, 0, 1].tolist() == [0, 0] and torch.isfinite(output).all()
        grads = torch.autograd.grad(output.sum(), tensors)
        assert all(torch.isfinite(grad).all() for grad in grads)
        assert grads[0][0, 0, 1].tolist() == [0, 0]


def test_groups_of_heads():
    query, key, value = operands((2, 6, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2))
    found = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    assert found.grad_fn.name() == "ScaledDotProductFlashAttentionForCpuBackward0"
    wanted = by_hand(query, *[t.repeat_interleave(3, 1) for t in (key, value)])
    assert torch.allclose(found, wanted)
    pairs = [torch.autograd.grad(o.sin().sum(), (query, key, value)) for o in (found, wanted)]
    assert all(torch.allclose(one, other) for one, other in zip(*pairs, strict=True))
    with pytest.raises(RuntimeError, match="must divide the number of heads"):
        F.scaled_dot_product_attention(
            query, key[:, :, :3], value[:, [0, 1, 1, 0]], enable_gqa=True
        )


def test_masks_that_are_learned():
    tensors = operands((1, 2, 3, 2), (1, 2, 4, 2), (1, 2, 4, 2), (3, 4))
    assert gradcheck(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), tensors)


@pytest.mark.parametrize("causal", [False, True])
def test_derivatives(causal):
    tensors = operands((1, 2, 3, 2), (1, 1, 4, 2), (1, 1, 4, 2))

    def run(query, key, value):
        return F.scaled_dot_product_attention(
            query, key, value, is_causal=causal, scale=0.9, enable_gqa=True
        )

    assert gradcheck(run, tensors) and gradgradcheck(run, tensors)


def test_layouts_follow_the_query():
    query = torch.ones(2, 4, 3, 8).transpose(1, 2)
    output = F.scaled_dot_product_attention(query, query, query)
    assert output.stride() == query.stride() == (96, 8, 24, 1)
    level = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, query, query)[1]
    assert level.stride() == (12, 1, 3) and tuple(level.shape) == (2, 3, 4)


def test_dropout_scales_what_it_keeps():
    torch.manual_seed(0)
    key = torch.zeros(1, 1, 1000, 2)
    output = F.scaled_dot_product_attention(key[:, :, :1], key, key + 1, dropout_p=0.5)
    assert 0.8 < output[0, 0, 0, 0].item() < 1.2 and output[0, 0, 0, 0].item() != 1


def test_nothing_to_attend_to():
    query = torch.ones(2, 3, 4, requires_grad=True)
    output = F.scaled_dot_product_attention(query, query[:, :0], query[:, :0])
    assert tuple(output.shape) == (2, 3, 4) and output.sum().item() == 0
    output.sum().backward()
    assert query.grad.abs().sum().item() == 0


def test_samples_of_a_vmap_run_at_once():
    query, key = operands((5, 2, 2, 3, 4), (2, 2, 6, 4))
    masks = torch.randn(5, 3, 6, dtype=torch.float64)

    def run(query, mask=None):
        return F.scaled_dot_product_attention(query, key, key, attn_mask=mask)

    wanted = torch.stack([run(each) for each in query])
    found = torch.vmap(run)(query)
    assert torch.allclose(found, wanted)
    pairs = [torch.autograd.grad(o.sin().sum(), (query, key)) for o in (found, wanted)]
    assert all(torch.allclose(one, other) for one, other in zip(*pairs, strict=True))
    wanted = torch.stack([run(*pair) for pair in zip(query, masks, strict=True)])
    assert torch.allclose(torch.vmap(run)(query, masks), wanted)
    assert tuple(torch.vmap(run)(query[:0]).shape) == (0, 2, 2, 3, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("rank", [3, 4])
def test_masks_in_single_precision(dtype, rank):
    torch.manual_seed(0)
    x = torch.randn(1, 2, 3, 4).to(dtype)
    x = x if rank == 4 else x[0]
    mask = torch.randn(3, 3)
    found = F.scaled_dot_product_attention(x, x, x, mask)
    wide = x.double()
    assert found.dtype is dtype
    assert torch.allclose(found.double(), by_hand(wide, wide, wide, mask.double()), atol=2e-2)


def test_heads_without_features_weigh_all_keys_alike():
    empty, value = torch.ones(1, 3, 0), torch.tensor([[[1.0], [2.0], [6.0]]])
    assert F.scaled_dot_product_attention(empty, empty, value).tolist() == [[[3.0]] * 3]
