# mypy: ignore-errors
# ruff: noqa: C901
"""Attention modules as they are compiled."""

import math

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library.layers import forward_of, method_of

aten = torch.ops.aten


def float_mask(mask: Tensor | None, like: Tensor) -> Tensor | None:
    """A mask that is added: minus infinity where a truth says "not"."""
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        zeros = torch.zeros_like(mask, dtype=like.dtype)
        return zeros.masked_fill_(mask, float("-inf"))
    return mask


def longer(mask: Tensor | None) -> Tensor | None:
    """A mask with one more key, which is seen."""
    if mask is None:
        return None
    return aten.pad(mask, [0, 1])


@forward_of("MultiheadAttention")
def multihead_attention(
    self,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    is_batched = query.dim() == 3
    turns = self.batch_first and is_batched
    mask = float_mask(attn_mask, query)
    padding = float_mask(key_padding_mask, query)
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method `generate_square_subsequent_mask` to create this mask."  # noqa: E501
        )
    if turns:
        query, key, value = query.transpose(1, 0), key.transpose(1, 0), value.transpose(1, 0)
    if not is_batched:
        query, key, value = query.unsqueeze(1), key.unsqueeze(1), value.unsqueeze(1)
        if padding is not None:
            padding = padding.unsqueeze(0)
    heads = self.num_heads
    queries, batch, features = query.size(0), query.size(1), query.size(2)
    if self._qkv_same_embed_dim:
        weight = self.in_proj_weight
        q_weight, k_weight, v_weight = weight.chunk(3)
    else:
        q_weight, k_weight, v_weight = self.q_proj_weight, self.k_proj_weight, self.v_proj_weight
    if self.in_proj_bias is not None:
        q_bias, k_bias, v_bias = self.in_proj_bias.chunk(3)
        q = aten.linear(query, q_weight, q_bias)
        k = aten.linear(key, k_weight, k_bias)
        v = aten.linear(value, v_weight, v_bias)
    else:
        q = aten.linear(query, q_weight)
        k = aten.linear(key, k_weight)
        v = aten.linear(value, v_weight)
    if mask is not None:
        if mask.dim() == 2:
            mask = mask.unsqueeze(0)
    if self.bias_k is not None and self.bias_v is not None:
        k = torch.cat([k, self.bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, self.bias_v.repeat(1, batch, 1)])
        mask, padding = longer(mask), longer(padding)
    rows = batch * heads
    size = features // heads
    q = q.contiguous().view(queries, rows, size).transpose(0, 1)
    k = k.contiguous().view(k.size(0), rows, size).transpose(0, 1)
    v = v.contiguous().view(v.size(0), rows, size).transpose(0, 1)
    if self.add_zero_attn:
        zeros = torch.zeros([rows, 1, size], dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
        mask, padding = longer(mask), longer(padding)
    keys = k.size(1)
    if padding is not None:
        wide = padding.view(batch, 1, 1, keys).expand(-1, heads, -1, -1).reshape(rows, 1, keys)
        mask = wide if mask is None else mask + wide
    chance = 0.0
    if self.training:
        chance = self.dropout
    scaled = q * math.sqrt(1.0 / size)
    if mask is None:
        scores = torch.bmm(scaled, k.transpose(-2, -1))
    else:
        scores = torch.baddbmm(mask, scaled, k.transpose(-2, -1))
    weights = scores.softmax(-1)
    if chance > 0.0:
        weights = torch.dropout(weights, chance, True)
    output = torch.bmm(weights, v).transpose(0, 1).reshape(queries * batch, features)
    output = aten.linear(output, self.out_proj.weight, self.out_proj.bias)
    output = output.view(queries, batch, output.size(1))
    shown: Tensor | None = None
    if need_weights:
        weights = weights.view(batch, heads, queries, keys)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        shown = weights if is_batched else weights.squeeze(0)
    if not is_batched:
        return output.squeeze(1), shown
    return (output.transpose(1, 0) if turns else output), shown


@method_of("_sa_block", "TransformerEncoderLayer", "TransformerDecoderLayer")
def attend_to_itself(
    self,
    x: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool = False,
) -> Tensor:
    found = self.self_attn(
        x,
        x,
        x,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        is_causal=is_causal,
    )
    return self.dropout1(found[0])


@method_of("_ff_block", "TransformerEncoderLayer")
def feed_forward(self, x: Tensor) -> Tensor:
    return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@forward_of("TransformerEncoderLayer")
def encoder_layer(
    self,
    src: Tensor,
    src_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor:
    x = src
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
        x = x + self._ff_block(self.norm2(x))
    else:
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        x = self.norm2(x + self._ff_block(x))
    return x


@forward_of("TransformerEncoder")
def encoder(
    self,
    src: Tensor,
    mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    is_causal: bool | None = None,
) -> Tensor:
    causal = False
    if is_causal is not None:
        causal = is_causal
    output = src
    for layer in self.layers:
        output = layer(
            output, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal
        )
    if self.norm is not None:
        output = self.norm(output)
    return output


@method_of("_mha_block", "TransformerDecoderLayer")
def attend_to_memory(
    self,
    x: Tensor,
    mem: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool = False,
) -> Tensor:
    found = self.multihead_attn(
        x,
        mem,
        mem,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        is_causal=is_causal,
        need_weights=False,
    )
    return self.dropout2(found[0])


@method_of("_ff_block", "TransformerDecoderLayer")
def feed_forward_last(self, x: Tensor) -> Tensor:
    return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


@forward_of("TransformerDecoderLayer")
def decoder_layer(
    self,
    tgt: Tensor,
    memory: Tensor,
    tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None,
    tgt_is_causal: bool = False,
    memory_is_causal: bool = False,
) -> Tensor:
    x = tgt
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        x = x + self._mha_block(
            self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal
        )
        x = x + self._ff_block(self.norm3(x))
    else:
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(
            x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        x = self.norm3(x + self._ff_block(x))
    return x
