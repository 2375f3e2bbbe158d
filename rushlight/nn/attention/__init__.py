"""Attention over several heads as a function, and which forms attention may take."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from rushlight.base.lazy import namespace
from rushlight.core.dtype import bool_
from rushlight.core.tensor import Tensor
from rushlight.opset import functions

__all__ = [
    "WARN_FOR_UNFUSED_KERNELS",
    "SDPBackend",
    "activate_flash_attention_impl",
    "current_flash_attention_impl",
    "list_flash_attention_impls",
    "register_flash_attention_impl",
    "restore_flash_attention_impl",
    "sdpa_kernel",
]  # fmt: skip

# torch: whether to tell that a fused kernel was not taken.
WARN_FOR_UNFUSED_KERNELS = False


# Functions that put kernels of others in place, by name, and the one whose kernels are.
REGISTERED: dict[str, Any] = {}
ACTIVE: list[tuple[str, Any]] = []


def register_flash_attention_impl(impl: str, *, register_fn: Any) -> None:
    """Name a function that registers kernels; it may return what has a method `remove`."""
    REGISTERED[impl] = register_fn


def activate_flash_attention_impl(impl: str) -> None:
    """Call the function of a name, in place of what was activated before."""
    if ACTIVE:
        restore_flash_attention_impl()
    if impl not in REGISTERED:
        raise ValueError(
            f"Unknown flash attention impl '{impl}'. Available implementations: "
            f"{list_flash_attention_impls()}"
        )
    handle = REGISTERED[impl]()
    if handle is not None:
        ACTIVE.append((impl, handle))


def restore_flash_attention_impl() -> None:
    """Take back what was activated."""
    if ACTIVE:
        ACTIVE.pop()[1].remove()
    else:
        warnings.warn("no attention of others was activated", stacklevel=2)


def list_flash_attention_impls() -> list[str]:
    """The names that were registered."""
    return sorted(REGISTERED)


def current_flash_attention_impl() -> str | None:
    return ACTIVE[-1][0] if ACTIVE else None


class SDPBackend(Enum):
    """The forms that `scaled_dot_product_attention` may take."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4

    def __int__(self) -> int:
        return self.value

    __index__ = __int__

    def __str__(self) -> str:
        return f"SDPBackend.{self.name}"


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[dict[str, Any]]:
    """Allow only the given forms of attention.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
    >>> x = torch.ones(1, 1, 2, 2)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     torch.nn.functional.scaled_dot_product_attention(x, x, x).sum()
    tensor(4.)
    """
    from rushlight.opset.product.attention import ENABLED

    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    chosen = {int(each) for each in (backends if isinstance(backends, list) else [backends])}
    before = dict(ENABLED)
    try:
        ENABLED.update({number: number in chosen for number in ENABLED})
        yield {}
    finally:
        ENABLED.update(before)


# -- masks -----------------------------------------------------------------------------------------


def canonical_mask(
    mask: Any, mask_name: str, other: Any, other_name: str, dtype: Any, check_other: bool = True
) -> Any:
    """A mask as what is added to scores: a bool mask bars what it is true for."""
    if mask is None:
        return None
    floating = mask.is_floating_point()
    if mask.dtype is not bool_ and not floating:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other is not None and mask.dtype is not other.dtype:
        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for "
            "both instead.",
            stacklevel=3,
        )
    if floating:
        return mask
    return functions.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


def check_ranks(
    query: Any, key: Any, value: Any, key_padding_mask: Any, attn_mask: Any, num_heads: int
) -> bool:
    """Whether the operands have a batch dim, once their ranks are known to agree."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    batched = bool(query.dim() == 3)
    rank = 3 if batched else 2
    head = f"For {'batched (3-D)' if batched else 'unbatched (2-D)'} `query`, expected "
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{head}`key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D "
            "tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{head}`key_padding_mask` to be `None` or {rank - 1}-D but found "
            f"{key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is None:
        return batched
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{head}`attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor "
            "instead"
        )
    if not batched and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
    return batched


def three_dims(mask: Any, batch: Any, num_heads: int, queries: Any, keys: Any) -> Any:
    """An attention mask with a dim for samples and heads."""
    wanted = (queries, keys) if mask.dim() == 2 else (batch * num_heads, queries, keys)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def own_mask(
    mask: Any, is_causal: bool, has_padding: bool, need_weights: bool, dtype: Any
) -> tuple[Any, bool]:
    """(the attention mask, whether to leave it to the hint that it is causal)."""
    if is_causal and mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and not has_padding and not need_weights:
        return None, True
    # A mask merged with that of the keys is not causal any more.
    return canonical_mask(mask, "attn_mask", None, "", dtype, False), is_causal and not has_padding


def with_padding(mask: Any, padding: Any, batch: Any, num_heads: int, keys: Any) -> Any:
    """The attention mask merged with that of the keys."""
    if tuple(padding.shape) != (batch, keys):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, keys)}, but got {padding.shape}"
        )
    by_key = padding.view(batch, 1, 1, keys).expand(-1, num_heads, -1, -1)
    by_key = by_key.reshape(batch * num_heads, 1, keys)
    return by_key if mask is None else mask + by_key


def has_biases(bias_k: Any, bias_v: Any, static_k: Any, static_v: Any) -> bool:
    """Whether one more key and value are given."""
    if (bias_k is None) != (bias_v is None):
        names = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{names[0]} is set but {names[1]} is None")
    for name, given in (("key", static_k), ("value", static_v)):
        if bias_k is not None and given is not None:
            raise AssertionError(f"bias cannot be added to static {name}.")
    return bias_k is not None


def longer(mask: Any) -> Any:
    """A mask for one more key, which is open to all."""
    return None if mask is None else functions.pad(mask, (0, 1))


# -- projections -----------------------------------------------------------------------------------


def take_apart(projected: Any, count: int, size: Any) -> Any:
    """A projection to several operands at once, taken apart."""
    parts = projected.unflatten(-1, (count, size)).unsqueeze(0).transpose(0, -2)
    parts = parts.squeeze(-2).contiguous()
    return [parts[i] for i in range(count)]


def project_together(query: Any, key: Any, value: Any, weight: Any, bias: Any) -> Any:
    """The operands by one weight; those that are the same tensor in one product."""
    size = query.size(-1)
    if key is value and query is key:
        return take_apart(functions.linear(query, weight, bias), 3, size)
    if key is value:
        weights = weight.split([size, size * 2])
        biases = (None, None) if bias is None else bias.split([size, size * 2])
        own = functions.linear(query, weights[0], biases[0])
        return [own, *take_apart(functions.linear(key, weights[1], biases[1]), 2, size)]
    weights = weight.chunk(3)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    triples = zip((query, key, value), weights, biases, strict=True)
    return [functions.linear(*triple) for triple in triples]


def project_apart(operands: Any, weights: Any, bias: Any) -> Any:
    """The operands, of different sizes, by a weight each."""
    size = operands[0].shape[-1]
    biases = (None, None, None) if bias is None else bias.chunk(3)
    found = []
    for name, tensor, weight, shift in zip(
        ("query", "key", "value"), operands, weights, biases, strict=True
    ):
        if weight is None:
            raise AssertionError(
                f"use_separate_proj_weight is True but {name[0]}_proj_weight is None"
            )
        wanted = (size, tensor.shape[-1])
        if tuple(weight.shape) != wanted:
            raise AssertionError(
                f"expecting {name} weights shape of {wanted}, but got {weight.shape}"
            )
        if shift is not None and tuple(shift.shape) != (size,):
            raise AssertionError(f"expecting {name} bias shape of {(size,)}, but got {shift.shape}")
        found.append(functions.linear(tensor, weight, shift))
    return found


def by_head(tensor: Any, given: Any, name: str, batch: Any, num_heads: int, size: Any) -> Any:
    """Keys or values as (sample and head, step, feature), or those that the caller gave."""
    if given is None:
        return tensor.view(tensor.shape[0], batch * num_heads, size).transpose(0, 1)
    for dim, wanted in ((0, batch * num_heads), (2, size)):
        if given.shape[dim] != wanted:
            raise AssertionError(
                f"expecting {name}.size({dim}) of {wanted}, but got {given.shape[dim]}"
            )
    return given


# -- the function ----------------------------------------------------------------------------------


def head_size(found: Any, key: Any, value: Any, embed_dim: Any, num_heads: int, apart: bool) -> Any:
    """Features of each head, once sizes are known to agree."""
    if found != embed_dim:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim}, but got {found}")
    # torch: a traced size is divided as tensors are.
    traced = isinstance(found, Tensor)
    size = found.div(num_heads, rounding_mode="trunc") if traced else found // num_heads
    if size * num_heads != found:
        raise AssertionError(f"embed_dim {found} not divisible by num_heads {num_heads}")
    if apart and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not apart and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
    return size


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """(output, attention weights or None) of attention over several heads."""
    batched = check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        # What is one tensor stays one tensor.
        added = {id(t): t.unsqueeze(1) for t in (query, key, value)}
        query, key, value = (added[id(t)] for t in (query, key, value))
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    queries, batch, features = query.shape
    key_padding_mask = canonical_mask(
        key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype
    )
    attn_mask, is_causal = own_mask(
        attn_mask, is_causal, key_padding_mask is not None, need_weights, query.dtype
    )
    size = head_size(features, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if attn_mask is not None:
        attn_mask = three_dims(attn_mask, batch, num_heads, queries, key.shape[0])
    if use_separate_proj_weight:
        weights = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = project_apart((query, key, value), weights, in_proj_bias)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = project_together(query, key, value, in_proj_weight, in_proj_bias)
    if has_biases(bias_k, bias_v, static_k, static_v):
        k = functions.cat([k, bias_k.repeat(1, batch, 1)])
        v = functions.cat([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    q = q.view(queries, batch * num_heads, size).transpose(0, 1)
    k = by_head(k, static_k, "static_k", batch, num_heads, size)
    v = by_head(v, static_v, "static_v", batch, num_heads, size)
    if add_zero_attn:
        zeros = functions.zeros((batch * num_heads, 1, size), dtype=k.dtype, device=k.device)
        k, v = functions.cat([k, zeros], 1), functions.cat([v, zeros], 1)
        attn_mask, key_padding_mask = longer(attn_mask), longer(key_padding_mask)
    keys = k.shape[1]
    if key_padding_mask is not None:
        attn_mask = with_padding(attn_mask, key_padding_mask, batch, num_heads, keys)
    chance = dropout_p if training else 0.0
    if need_weights:
        output, weights = weighted_sum(q, k, v, attn_mask, chance)
        output = output.transpose(0, 1).reshape(queries * batch, features)
        weights = weights.view(batch, num_heads, queries, keys)
        if average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            weights = weights.squeeze(0)
    else:
        sizes = (batch, num_heads, queries, keys, size)
        output, weights = attended(q, k, v, attn_mask, chance, is_causal, sizes), None
        output = output.permute(2, 0, 1, 3).reshape(batch * queries, features)
    output = functions.linear(output, out_proj_weight, out_proj_bias)
    output = output.view(queries, batch, output.shape[1])
    return output if batched else output.squeeze(1), weights


def weighted_sum(q: Any, k: Any, v: Any, mask: Any, chance: float) -> tuple[Any, Any]:
    """Attention that shows its weights."""
    scaled = q * math.sqrt(1.0 / q.shape[2])
    turned = k.transpose(-2, -1)
    scores = scaled.bmm(turned) if mask is None else functions.baddbmm(mask, scaled, turned)
    weights = scores.softmax(-1)
    if chance > 0.0:
        weights = functions.dropout(weights, chance, True)
    return weights.bmm(v), weights


def attended(
    q: Any, k: Any, v: Any, mask: Any, chance: float, is_causal: bool, sizes: tuple[Any, ...]
) -> Any:
    batch, heads, queries, keys, size = sizes
    if mask is not None:
        alone = mask.dim() == 3 and mask.shape[0] == 1
        mask = mask.unsqueeze(0) if alone else mask.view(batch, heads, -1, keys)
    q = q.view(batch, heads, queries, size)
    k, v = (t.view(batch, heads, keys, size) for t in (k, v))
    return functions.scaled_dot_product_attention(q, k, v, mask, chance, is_causal)


__getattr__, __dir__ = namespace(
    __name__,
    modules=("bias", "varlen"),
)
