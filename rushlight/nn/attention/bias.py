"""Causal masks of attention that are told by their shape, for either corner."""

from __future__ import annotations

from enum import IntEnum, auto
from typing import Any

from rushlight.core.dtype import bool_
from rushlight.core.tensor import Tensor
from rushlight.nn import functional
from rushlight.opset import functions

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """The corner that the diagonal starts or ends in."""

    UPPER_LEFT = auto()
    LOWER_RIGHT = auto()


class CausalBias(Tensor):
    """A causal mask without its elements: attention reads the shape, all else a mask of numbers.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention.bias import causal_lower_right
    >>> q, k = torch.ones(1, 1, 2, 4), torch.ones(1, 1, 3, 4)
    >>> torch.nn.functional.scaled_dot_product_attention(q, k, k, causal_lower_right(2, 3)).shape
    torch.Size([1, 1, 2, 4])
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Any:
        made = functions.empty(0).as_subclass(cls)
        made.variant = variant
        made.seq_len_q, made.seq_len_kv = seq_len_q, seq_len_kv
        return made

    def __init__(self, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> None:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be CausalVariant, got {type(variant)}")

    def materialize(self, device: Any = None) -> Any:
        """The mask: True where attention may look."""
        size = (self.seq_len_q, self.seq_len_kv)
        lower = self.variant is CausalVariant.LOWER_RIGHT
        ones = functions.ones(size, dtype=bool_, device=device)
        return functions.tril(ones, diagonal=size[1] - size[0] if lower else 0)

    def attend(self, query: Any, key: Any, value: Any, **options: Any) -> Any:
        if options.pop("is_causal", False):
            raise ValueError("CausalBias should not be used with causal=True")
        # torch: rows that may look nowhere would give NaN; both corners agree on square masks.
        if self.seq_len_q == self.seq_len_kv or self.variant is CausalVariant.UPPER_LEFT:
            return functional.scaled_dot_product_attention(
                query, key, value, attn_mask=None, is_causal=True, **options
            )
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self.materialize(query.device), **options
        )

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            mask = given.pop("attn_mask")
            return mask.attend(given.pop("query"), given.pop("key"), given.pop("value"), **given)
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return repr(self.materialize())


def causal_upper_left(*size: int) -> CausalBias:
    """A mask whose diagonal starts in the upper left corner."""
    return CausalBias(CausalVariant.UPPER_LEFT, *two(size))


def causal_lower_right(*size: int) -> CausalBias:
    """A mask whose diagonal ends in the lower right corner."""
    return CausalBias(CausalVariant.LOWER_RIGHT, *two(size))


def two(size: tuple[int, ...]) -> tuple[int, ...]:
    if len(size) != 2:
        raise AssertionError(f"a causal mask only supports 2D tensors, got {len(size)}D")
    return size
