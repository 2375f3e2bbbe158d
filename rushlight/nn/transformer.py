"""Multi-head attention and transformer layers."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

from rushlight.autograd.grad_mode import is_grad_enabled
from rushlight.core.parameter import Parameter
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.activation import GELU, ReLU
from rushlight.nn.attention import canonical_mask, multi_head_attention_forward
from rushlight.nn.containers import ModuleList
from rushlight.nn.dropout import Dropout
from rushlight.nn.linear import Linear
from rushlight.nn.module import Module
from rushlight.nn.norm import LayerNorm
from rushlight.opset import functions
from rushlight.opset.creation import create

__all__ = [
    "MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
    "TransformerEncoder", "TransformerEncoderLayer",
]  # fmt: skip


class NonDynamicallyQuantizableLinear(Linear):
    """torch: the projection of attention's output shows itself under this name."""


class MultiheadAttention(Module):
    """Attention over several heads.

    >>> import rushlight as torch
    >>> x = torch.ones(5, 2, 4)
    >>> output, weights = torch.nn.MultiheadAttention(4, 2)(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 5, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim == self.vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        place = {"device": device, "dtype": dtype}

        def made(*shape: int) -> Any:
            return Parameter(create.empty(shape, **place))

        sizes = {"q": embed_dim, "k": self.kdim, "v": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = made(3 * embed_dim, embed_dim)
            for name in sizes:
                self.register_parameter(f"{name}_proj_weight", None)
        else:
            for name, size in sizes.items():
                self.register_parameter(f"{name}_proj_weight", made(embed_dim, size))
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", made(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, **place)
        self.bias_k = made(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = made(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        names = ("in",) if self._qkv_same_embed_dim else ("q", "k", "v")
        for name in names:
            init.xavier_uniform_(getattr(self, f"{name}_proj_weight"))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        turned = self.batch_first and query.dim() == 3
        key_padding_mask = canonical_mask(
            key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype
        )
        attn_mask = canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        if turned:
            # What is one tensor stays one tensor, so that it is projected once.
            turned_query = query.transpose(1, 0)
            turned_key = turned_query if key is query else key.transpose(1, 0)
            if value is query or value is key:
                value = turned_query if value is query else turned_key
            else:
                value = value.transpose(1, 0)
            query, key = turned_query, turned_key
        projections = (self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v)
        output, weights = multi_head_attention_forward(
            *(query, key, value, self.embed_dim, self.num_heads),
            *projections,
            *(self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias),
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return output.transpose(1, 0) if turned else output, weights


ACTIVATIONS = ("relu", "gelu")


def activation_of(activation: Any) -> Any:
    if not isinstance(activation, str):
        return activation
    if activation not in ACTIVATIONS:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class TransformerLayer(Module):
    """What encoder and decoder layers share: attention to itself and a feedforward part."""

    # Sublayers that are added to what goes in, each with a norm and a dropout of its own.
    sublayers = 2

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        place = {"device": device, "dtype": dtype}
        super().__init__()
        for name in ("self_attn", "multihead_attn")[: self.sublayers - 1]:
            made = MultiheadAttention(
                d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
            )
            self.add_module(name, made)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        for number in range(1, self.sublayers + 1):
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
            self.add_module(f"norm{number}", norm)
        for number in range(1, self.sublayers + 1):
            self.add_module(f"dropout{number}", Dropout(dropout))
        self.activation = activation_of(activation)

    def added(self, number: int, x: Any, sublayer: Any) -> Any:
        """One sublayer with its norm, added to its input."""
        norm = getattr(self, f"norm{number}")
        return x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))

    def _sa_block(
        self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
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

    def _ff_block(self, x: Any) -> Any:
        found = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{self.sublayers}")(found)


class TransformerEncoderLayer(TransformerLayer):
    """Attention of a sequence to itself and a feedforward part."""

    @property
    def activation_relu_or_gelu(self) -> int:
        """1 for relu, 2 for gelu, 0 for anything else."""
        if self.activation is F.relu or isinstance(self.activation, ReLU):
            return 1
        return 2 if self.activation is F.gelu or isinstance(self.activation, GELU) else 0

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", src_mask, "src_mask", src.dtype
        )
        mask = canonical_mask(src_mask, "src_mask", None, "", src.dtype, False)
        x = self.added(1, src, lambda x: self._sa_block(x, mask, padding, is_causal))
        return self.added(2, x, self._ff_block)


class TransformerDecoderLayer(TransformerLayer):
    """Attention of a sequence to itself and to a memory, and a feedforward part."""

    sublayers = 3

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        x = self.added(1, tgt, lambda x: self._sa_block(x, *own))
        x = self.added(2, x, lambda x: self._mha_block(x, *other))
        return self.added(3, x, self._ff_block)

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
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


def copies(module: Module, count: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def subsequent_mask(size: Any, device: Any = None, dtype: Any = None) -> Any:
    """-inf above the diagonal: no step sees a later one."""
    return functions.full((size, size), -math.inf, dtype=dtype, device=device).triu(1)


def is_causal_mask(mask: Any, is_causal: bool | None, layer: Any, source: Any) -> bool:
    """The hint as it was given, or whether the mask is the causal one."""
    if is_causal is not None or mask is None:
        return is_causal is True
    dim = 1 if source.dim() == 3 and layer.self_attn.batch_first else 0
    causal = subsequent_mask(source.shape[dim], mask.device, mask.dtype)
    return mask.shape == causal.shape and bool((mask == causal).all())


class TransformerEncoder(Module):
    """A stack of encoder layers."""

    def __init__(
        self,
        encoder_layer: Any,
        num_layers: int,
        norm: Any = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        why = why_not_nested(encoder_layer)
        self.use_nested_tensor = enable_nested_tensor and not why
        if enable_nested_tensor and why:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why}",
                stacklevel=2,
            )

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        padding = canonical_mask(
            src_key_padding_mask, "src_key_padding_mask", mask, "mask", src.dtype
        )
        mask = canonical_mask(mask, "mask", None, "", src.dtype, False)
        first = self.layers[0]
        causal = is_causal_mask(mask, is_causal, first, src)
        output = src
        for layer in self.layers:
            output = layer(output, src_mask=mask, is_causal=causal, src_key_padding_mask=padding)
        if padding is not None and mask is None and self.drops_padding(src, padding):
            # torch: sequences without their padding come back with zeros in its place.
            output = output.masked_fill((padding != 0).unsqueeze(-1), 0.0)
        return output if self.norm is None else self.norm(output)

    def drops_padding(self, src: Any, padding: Any) -> bool:
        """Whether padded steps are left out of the computation."""
        if not self.use_nested_tensor or self.layers[0].training or src.dim() != 3:
            return False
        if is_grad_enabled() and any(p.requires_grad for p in (src, *self.layers[0].parameters())):
            return False
        if not self.mask_check:
            return True
        barred = padding != 0
        return not bool((barred[:, :-1] & ~barred[:, 1:]).any())


def why_not_nested(layer: Any) -> str:
    """Why a stack of such layers does not leave padding out; "" when it does."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = (
        (layer.norm_first, "norm_first was True"),
        (
            not attention.batch_first,
            "self_attn.batch_first was not True(use batch_first for better inference performance)",
        ),
        (not attention._qkv_same_embed_dim, "self_attn._qkv_same_embed_dim was not True"),
        (attention.in_proj_bias is None, "self_attn was passed bias=False"),
        (not layer.activation_relu_or_gelu, "activation_relu_or_gelu was not True"),
        (layer.norm1.eps != layer.norm2.eps, "norm1.eps was not equal to encoder_layer.norm2.eps"),
        (attention.num_heads % 2 == 1, "self_attn.num_heads is odd"),
    )
    for holds, reason in reasons:
        if holds:
            return f"encoder_layer.{reason}"
    return ""


class TransformerDecoder(Module):
    """A stack of decoder layers."""

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        causal = is_causal_mask(tgt_mask, tgt_is_causal, self.layers[0], tgt)
        masks = {
            "tgt_mask": tgt_mask,
            "memory_mask": memory_mask,
            "tgt_key_padding_mask": tgt_key_padding_mask,
            "memory_key_padding_mask": memory_key_padding_mask,
            "tgt_is_causal": causal,
            "memory_is_causal": memory_is_causal,
        }
        output = tgt
        for layer in self.layers:
            output = layer(output, memory, **masks)
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder."""

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Any = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        options = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias,
        )  # fmt: skip

        def norm() -> Any:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)

        if custom_encoder is None:
            layer: Any = TransformerEncoderLayer(*options, **place)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*options, **place)
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        paddings = {"src_key_padding_mask": src_key_padding_mask}
        memory = self.encoder(src, mask=src_mask, is_causal=src_is_causal, **paddings)
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

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Any:
        """A mask that keeps every step from seeing later ones."""
        return subsequent_mask(sz, device, dtype)
