# mypy: ignore-errors
# ruff: noqa: B028, C901
"""Attention and transformer layers as they are compiled."""

import math
import warnings

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.jit.scripting.library.layers import forward_of, method_of

aten = torch.ops.aten

# -- masks -----------------------------------------------------------------------------------------


def canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other: Tensor | None,
    other_name: str,
    like: Tensor,
) -> Tensor | None:
    """A mask that is added: minus infinity where a truth says "not"."""
    if mask is None:
        return None
    if mask.dtype != torch.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if other is not None:
        if mask.dtype != other.dtype:
            warnings.warn(
                f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead."  # noqa: E501
            )
    if mask.is_floating_point():
        return mask
    zeros = torch.zeros_like(mask, dtype=like.dtype)
    return zeros.masked_fill_(mask, float("-inf"))


def is_batched_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether the operands have a batch dim, once their ranks are known to agree."""
    if query.dim() != 2 and query.dim() != 3:
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"  # noqa: E501
        )
    batched = query.dim() == 3
    rank = 3 if batched else 2
    word = "batched (3-D)" if batched else "unbatched (2-D)"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"For {word} `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"  # noqa: E501
        )
    if key_padding_mask is not None:
        if key_padding_mask.dim() != rank - 1:
            raise AssertionError(
                f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor instead"  # noqa: E501
            )
    if attn_mask is not None:
        if attn_mask.dim() != 2 and attn_mask.dim() != 3:
            raise AssertionError(
                f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"  # noqa: E501
            )
        if not batched and attn_mask.dim() == 3:
            expected = [num_heads, query.size(0), key.size(0)]
            if attn_mask.size() != expected:
                raise AssertionError(
                    f"Expected `attn_mask` shape to be {expected} but got {attn_mask.size()}"
                )
    return batched


def longer(mask: Tensor | None) -> Tensor | None:
    """A mask with one more key, which is seen."""
    if mask is None:
        return None
    return aten.pad(mask, [0, 1])


def three_dims(mask: Tensor, batch: int, num_heads: int, queries: int, keys: int) -> Tensor:
    """An attention mask with a dim for samples and heads."""
    wanted = [queries, keys] if mask.dim() == 2 else [batch * num_heads, queries, keys]
    if mask.size() != wanted:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.size()}, but should be {wanted}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def with_padding(
    mask: Tensor | None, padding: Tensor, batch: int, num_heads: int, keys: int
) -> Tensor:
    """The attention mask merged with that of the keys."""
    if padding.size() != [batch, keys]:
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.size()}"
        )
    by_key = padding.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1)
    by_key = by_key.reshape(batch * num_heads, 1, keys)
    return by_key if mask is None else mask + by_key


# -- projections -----------------------------------------------------------------------------------


def part_of(bias: Tensor | None, start: int, end: int) -> Tensor | None:
    if bias is None:
        return None
    return bias[start:end]


def project_together(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The operands by one weight; those that are the same tensor in one product."""
    size = query.size(-1)
    if key is value and query is key:
        parts = aten.linear(query, weight, bias).unflatten(-1, [3, size])
        parts = parts.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return parts[0], parts[1], parts[2]
    if key is value:
        own_weight, weights = weight.split([size, size * 2])
        own = aten.linear(query, own_weight, part_of(bias, 0, size))
        parts = aten.linear(key, weights, part_of(bias, size, size * 3)).unflatten(-1, [2, size])
        parts = parts.unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
        return own, parts[0], parts[1]
    q_weight, k_weight, v_weight = weight.chunk(3)
    return (
        aten.linear(query, q_weight, part_of(bias, 0, size)),
        aten.linear(key, k_weight, part_of(bias, size, size * 2)),
        aten.linear(value, v_weight, part_of(bias, size * 2, size * 3)),
    )


def project_one(
    name: str, tensor: Tensor, weight: Tensor | None, bias: Tensor | None, place: int, size: int
) -> Tensor:
    if weight is None:
        raise AssertionError(f"use_separate_proj_weight is True but {name[0]}_proj_weight is None")
    if weight.size() != [size, tensor.size(-1)]:
        raise AssertionError(
            f"expecting {name} weights shape of {(size, tensor.size(-1))}, but got {weight.size()}"
        )
    return aten.linear(tensor, weight, part_of(bias, place * size, (place + 1) * size))


def by_head(tensor: Tensor, given: Tensor | None, name: str, rows: int, size: int) -> Tensor:
    """Keys or values as (sample and head, step, feature), or those that the caller gave."""
    if given is None:
        return tensor.view(tensor.size(0), rows, size).transpose(0, 1)
    if given.size(0) != rows:
        raise AssertionError(f"expecting {name}.size(0) of {rows}, but got {given.size(0)}")
    if given.size(2) != size:
        raise AssertionError(f"expecting {name}.size(2) of {size}, but got {given.size(2)}")
    return given


def weighted_sum(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, chance: float
) -> tuple[Tensor, Tensor]:
    """Attention that shows its weights."""
    scaled = q * math.sqrt(1.0 / q.size(2))
    turned = k.transpose(-2, -1)
    if mask is None:
        scores = torch.bmm(scaled, turned)
    else:
        scores = torch.baddbmm(mask, scaled, turned)
    weights = scores.softmax(-1)
    if chance > 0.0:
        weights = torch.dropout(weights, chance, True)
    return torch.bmm(weights, v), weights


def attended(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    chance: float,
    is_causal: bool,
    batch: int,
    heads: int,
) -> Tensor:
    if mask is not None:
        if mask.dim() == 3 and mask.size(0) == 1:
            mask = mask.unsqueeze(0)
        else:
            mask = mask.view(batch, heads, -1, k.size(1))
    return aten.scaled_dot_product_attention(
        q.view(batch, heads, q.size(1), q.size(2)),
        k.view(batch, heads, k.size(1), k.size(2)),
        v.view(batch, heads, v.size(1), v.size(2)),
        mask,
        chance,
        is_causal,
    )


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    batched = is_batched_attention(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        # What is one tensor stays one tensor.
        same_keys, same_values = query is key, key is value
        query, first_key = query.unsqueeze(1), key.unsqueeze(1)
        key = query if same_keys else first_key
        value = key if same_values else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    queries, batch, features = query.size(0), query.size(1), query.size(2)
    padding = canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method `generate_square_subsequent_mask` to create this mask."  # noqa: E501
        )
    mask: Tensor | None = None
    if not (is_causal and padding is None and not need_weights):
        mask = canonical_mask(attn_mask, "attn_mask", None, "", query)
        # A mask merged with that of the keys is not causal any more.
        is_causal = is_causal and padding is None
    if features != embed_dim_to_check:
        raise AssertionError(
            f"was expecting embedding dimension of {embed_dim_to_check}, but got {features}"
        )
    size = features // num_heads
    if size * num_heads != features:
        raise AssertionError(f"embed_dim {features} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.size()[:2] != value.size()[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.size()[:2]} do not match value's {value.size()[:2]}"  # noqa: E501
            )
    elif key.size() != value.size():
        raise AssertionError(f"key shape {key.size()} does not match value shape {value.size()}")
    if mask is not None:
        mask = three_dims(mask, batch, num_heads, queries, key.size(0))
    if use_separate_proj_weight:
        q = project_one("query", query, q_proj_weight, in_proj_bias, 0, features)
        k = project_one("key", key, k_proj_weight, in_proj_bias, 1, features)
        v = project_one("value", value, v_proj_weight, in_proj_bias, 2, features)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = project_together(query, key, value, in_proj_weight, in_proj_bias)
    if bias_k is not None and bias_v is not None:
        if static_k is not None:
            raise AssertionError("bias cannot be added to static key.")
        if static_v is not None:
            raise AssertionError("bias cannot be added to static value.")
        k = torch.cat([k, bias_k.repeat(1, batch, 1)])
        v = torch.cat([v, bias_v.repeat(1, batch, 1)])
        mask, padding = longer(mask), longer(padding)
    elif bias_k is not None:
        raise AssertionError("bias_k is set but bias_v is None")
    elif bias_v is not None:
        raise AssertionError("bias_v is set but bias_k is None")
    rows = batch * num_heads
    q = q.view(queries, rows, size).transpose(0, 1)
    k = by_head(k, static_k, "static_k", rows, size)
    v = by_head(v, static_v, "static_v", rows, size)
    if add_zero_attn:
        zeros = torch.zeros([rows, 1, size], dtype=k.dtype, device=k.device)
        k, v = torch.cat([k, zeros], dim=1), torch.cat([v, zeros], dim=1)
        mask, padding = longer(mask), longer(padding)
    keys = k.size(1)
    if padding is not None:
        mask = with_padding(mask, padding, batch, num_heads, keys)
    chance = dropout_p if training else 0.0
    shown: Tensor | None = None
    if need_weights:
        output, weights = weighted_sum(q, k, v, mask, chance)
        output = output.transpose(0, 1).reshape(queries * batch, features)
        weights = weights.view(batch, num_heads, queries, keys)
        if average_attn_weights:
            weights = weights.mean(dim=1)
        shown = weights if batched else weights.squeeze(0)
    else:
        output = attended(q, k, v, mask, chance, is_causal, batch, num_heads)
        output = output.permute(2, 0, 1, 3).reshape(batch * queries, features)
    output = aten.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(queries, batch, output.size(1))
    return (output if batched else output.squeeze(1)), shown


multi_head_attention_forward._jit_override_qualname = (
    "__torch__.torch.nn.functional.multi_head_attention_forward"
)


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
    turned = self.batch_first and query.dim() == 3
    padding = canonical_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query)
    mask = canonical_mask(attn_mask, "attn_mask", None, "", query)
    if turned:
        # What is one tensor stays one tensor, so that it is projected once.
        same_keys, same_values = query is key, key is value
        query, first_key = query.transpose(1, 0), key.transpose(1, 0)
        key = query if same_keys else first_key
        value = key if same_values else value.transpose(1, 0)
    output, weights = multi_head_attention_forward(
        query,
        key,
        value,
        self.embed_dim,
        self.num_heads,
        self.in_proj_weight,
        self.in_proj_bias,
        self.bias_k,
        self.bias_v,
        self.add_zero_attn,
        self.dropout,
        self.out_proj.weight,
        self.out_proj.bias,
        training=self.training,
        key_padding_mask=padding,
        need_weights=need_weights,
        attn_mask=mask,
        use_separate_proj_weight=not self._qkv_same_embed_dim,
        q_proj_weight=self.q_proj_weight,
        k_proj_weight=self.k_proj_weight,
        v_proj_weight=self.v_proj_weight,
        average_attn_weights=average_attn_weights,
        is_causal=is_causal,
    )
    return (output.transpose(1, 0) if turned else output), weights


# -- transformers ----------------------------------------------------------------------------------


def is_causal_mask(
    mask: Tensor | None, is_causal: bool | None, source: Tensor, batch_first: bool
) -> bool:
    """The hint as it was given, or whether the mask is the causal one."""
    if is_causal is not None:
        return is_causal
    if mask is None:
        return False
    steps = source.size(1 if source.dim() == 3 and batch_first else 0)
    causal = torch.full([steps, steps], float("-inf"), dtype=mask.dtype, device=mask.device).triu(1)
    return mask.size() == causal.size() and bool((mask == causal).all())


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
    padding = canonical_mask(
        src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src
    )
    mask = canonical_mask(src_mask, "src_mask", None, "", src)
    x = src
    if self.norm_first:
        x = x + self._sa_block(self.norm1(x), mask, padding, is_causal)
        x = x + self._ff_block(self.norm2(x))
    else:
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal))
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
    padding = canonical_mask(src_key_padding_mask, "src_key_padding_mask", mask, "mask", src)
    added = canonical_mask(mask, "mask", None, "", src)
    causal = is_causal_mask(added, is_causal, src, self.layers[0].self_attn.batch_first)
    output = src
    for layer in self.layers:
        output = layer(output, src_mask=added, src_key_padding_mask=padding, is_causal=causal)
    if padding is not None and added is None:
        if self.drops_padding(src, padding):
            # Sequences without their padding come back with zeros in its place.
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
    if self.norm is not None:
        output = self.norm(output)
    return output


@method_of("drops_padding", "TransformerEncoder")
def drops_padding(self, src: Tensor, padding: Tensor) -> bool:
    """Whether padded steps are left out of the computation."""
    if not self.use_nested_tensor or self.layers[0].training or src.dim() != 3:
        return False
    if torch.is_grad_enabled():
        learns = src.requires_grad
        for parameter in self._parameters_of_first_layer:
            learns = learns or parameter.requires_grad
        if learns:
            return False
    if not self.mask_check:
        return True
    barred = padding != 0
    return not bool((barred[:, :-1] & ~barred[:, 1:]).any())


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


@forward_of("TransformerDecoder")
def decoder(
    self,
    tgt: Tensor,
    memory: Tensor,
    tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None,
    tgt_is_causal: bool | None = None,
    memory_is_causal: bool = False,
) -> Tensor:
    causal = is_causal_mask(tgt_mask, tgt_is_causal, tgt, self.layers[0].self_attn.batch_first)
    output = tgt
    for layer in self.layers:
        output = layer(
            output,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=causal,
            memory_is_causal=memory_is_causal,
        )
    if self.norm is not None:
        output = self.norm(output)
    return output


@forward_of("Transformer")
def transformer(
    self,
    src: Tensor,
    tgt: Tensor,
    src_mask: Tensor | None = None,
    tgt_mask: Tensor | None = None,
    memory_mask: Tensor | None = None,
    src_key_padding_mask: Tensor | None = None,
    tgt_key_padding_mask: Tensor | None = None,
    memory_key_padding_mask: Tensor | None = None,
    src_is_causal: bool | None = None,
    tgt_is_causal: bool | None = None,
    memory_is_causal: bool = False,
) -> Tensor:
    batch = 0 if self.batch_first else 1
    if src.dim() == 3 and src.size(batch) != tgt.size(batch):
        raise RuntimeError("the batch number of src and tgt must be equal")
    if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
        raise RuntimeError("the feature number of src and tgt must be equal to d_model")
    memory = self.encoder(
        src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
    )
    return self.decoder(
        tgt,
        memory,
        tgt_mask=tgt_mask,
        memory_mask=memory_mask,
        tgt_key_padding_mask=tgt_key_padding_mask,
        memory_key_padding_mask=memory_key_padding_mask,
        tgt_is_causal=tgt_is_causal,
        memory_is_causal=memory_is_causal,
    )
