"""`quantized::embedding_*`: rows of bytes, or of two numbers a byte, with scales of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.tensor import values_of, wrap
from rushlight.opset import functions
from rushlight.quantization.operators.defining import quantized
from rushlight.quantization.operators.packed import CLASSES, PackedParams

__all__ = ["EmbeddingPackedParamsBase"]

PACKED = CLASSES + "quantized.EmbeddingPackedParamsBase"


class EmbeddingPackedParamsBase(PackedParams, name="quantized.EmbeddingPackedParamsBase"):
    """Rows of integers; a number is `integer * scale - scale * zero_point`."""

    def __init__(self, weight: Any) -> None:
        super().__init__(weight, None)
        made = weight.quantizer
        if made.axis != 0 or weight.dim() != 2:
            raise RuntimeError("Expect embedding_bag weights to be quantized using "
                               "kPerChannelAffineFloatQParams")  # fmt: skip
        scales = values_of(made.scale).astype(np.float32)
        starts = -(scales * values_of(made.zero_point).astype(np.float32))
        if weight.dtype is dtypes.BY_NAME["quint4x2"]:
            # torch: four-bit rows have scales and starts in half precision.
            scales, starts = [
                part.astype(np.float16).astype(np.float32) for part in (scales, starts)
            ]
        self.rows = scales[:, None] * values_of(weight).astype(np.float32) + starts[:, None]

    def contents(self) -> Any:
        return 1, [self.kept_weight], [], [self.bit_rate()]

    @classmethod
    def from_contents(cls, contents: Any) -> Any:
        return cls(contents[1][0])

    def bit_rate(self) -> int:
        return 4 if self.kept_weight.dtype is dtypes.BY_NAME["quint4x2"] else 8

    def numbers(self) -> Any:
        return wrap(self.rows, dtypes.float32)


@quantized(f"embedding_bag_prepack(Tensor weight) -> {PACKED} W_prepack")
def embedding_bag_prepack(weight: Any) -> Any:
    return EmbeddingPackedParamsBase(weight)


@quantized(f"embedding_bag_unpack({PACKED} W_prepack) -> Tensor W_origin")
def embedding_bag_unpack(W_prepack: Any) -> Any:
    return W_prepack.unpack()[0]


@quantized(*[
    f"embedding_{kind}({PACKED} weight, Tensor indices, bool pruned_weights=False) -> Tensor"
    for kind in ("byte", "4bit")
])  # fmt: skip
def embedding(weight: Any, indices: Any, pruned_weights: bool = False) -> Any:
    return functions.embedding(weight.numbers(), indices)


def bags(
    rows: Any, indices: Any, offsets: Any, per_sample_weights: Any, include_last_offset: bool
) -> Any:
    if offsets is None and indices.dim() == 2:
        offsets = functions.arange(0, indices.numel(), indices.shape[1])
        if include_last_offset:
            offsets = functions.cat([offsets, functions.full((1,), indices.numel())])
        indices = indices.reshape((-1,))
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape((-1,))
    if offsets is None:
        raise RuntimeError("embedding_bag expects offsets to be set for 1D indices.")
    return functions.embedding_bag(
        rows, indices, offsets.to(indices.dtype), False, 0, False, per_sample_weights,
        include_last_offset,
    )[0]  # fmt: skip


BAG = (
    "Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, "
    "bool pruned_weights=False, Tensor? per_sample_weights=None, "
    "Tensor? compressed_indices_mapping=None, bool include_last_offset=False"
)


@quantized(
    *[f"embedding_bag_{kind}({PACKED} weight, {BAG}) -> Tensor" for kind in ("byte", "4bit")]
)
def embedding_bag(
    weight: Any, indices: Any, offsets: Any = None, scale_grad_by_freq: bool = False,
    mode: int = 0, pruned_weights: bool = False, per_sample_weights: Any = None,
    compressed_indices_mapping: Any = None, include_last_offset: bool = False,
) -> Any:  # fmt: skip
    rows = weight.numbers()
    return bags(rows, indices, offsets, per_sample_weights, include_last_offset)


# -- rows with their scales beside them ------------------------------------------------------------


@quantized("embedding_bag_byte_prepack(Tensor weight) -> Tensor")
def embedding_bag_byte_prepack(weight: Any) -> Any:
    """Bytes of each row, then its scale and its least number as float32."""
    rows = values_of(weight).astype(np.float32)
    least, most = rows.min(-1, keepdims=True), rows.max(-1, keepdims=True)
    span = most - least
    inverse = np.float32(255) / (span + np.float32(1e-8))
    bytes_ = np.rint((rows - least) * inverse).astype(np.uint8)
    ends = np.concatenate([span / np.float32(255), least], -1).astype(np.float32)
    return wrap(np.concatenate([bytes_, ends.view(np.uint8)], -1), dtypes.uint8)


@quantized("embedding_bag_byte_unpack(Tensor weight) -> Tensor")
def embedding_bag_byte_unpack(weight: Any) -> Any:
    packed = np.ascontiguousarray(values_of(weight))
    ends = np.ascontiguousarray(packed[..., -8:]).view(np.float32)
    made = packed[..., :-8].astype(np.float32) * ends[..., :1] + ends[..., 1:]
    return wrap(made.astype(np.float32), dtypes.float32)


@quantized(f"embedding_bag_byte_rowwise_offsets(Tensor weight, {BAG}) -> Tensor")
def embedding_bag_byte_rowwise_offsets(
    weight: Any, indices: Any, offsets: Any = None, scale_grad_by_freq: bool = False,
    mode: int = 0, pruned_weights: bool = False, per_sample_weights: Any = None,
    compressed_indices_mapping: Any = None, include_last_offset: bool = False,
) -> Any:  # fmt: skip
    rows = embedding_bag_byte_unpack(weight)
    return bags(rows, indices, offsets, per_sample_weights, include_last_offset)
