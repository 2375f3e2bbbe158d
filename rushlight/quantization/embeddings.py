"""Embeddings whose rows are bytes, or of four bits a number."""

from __future__ import annotations

from typing import Any

from rushlight import nn
from rushlight.core import schemes
from rushlight.nn.module import Module
from rushlight.opset import functions
from rushlight.quantization import training
from rushlight.quantization.observers import QUINT4X2, QUINT8
from rushlight.quantization.operators import embedding as _embedding  # noqa: F401
from rushlight.quantization.qconfig import float_qparams_weight_only_qconfig
from rushlight.quantization.static import operator
from rushlight.quantization.weighted import quantized_weight, take, with_packed_text
from rushlight.subclasses.quantized import quantize_per_channel

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


def empty_rows(count: int, width: int, dtype: Any) -> Any:
    scales, starts = functions.ones((count,)), functions.zeros((count,))
    return quantize_per_channel(functions.zeros((count, width)), scales, starts, 0, dtype)


class EmbeddingPackedParams(Module):
    """The packed rows of an embedding."""

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: Any = QUINT8) -> None:
        super().__init__()
        if dtype not in (QUINT8, QUINT4X2):
            # torch: the class of the error.
            raise NotImplementedError(
                "Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got "
                f"dtype: {dtype}"
            )
        self.dtype = dtype
        self.set_weight(empty_rows(num_embeddings, embedding_dim, dtype))

    def set_weight(self, weight: Any) -> None:
        self._packed_weight = operator("embedding_bag_prepack")(weight)

    def _weight(self) -> Any:
        return operator("embedding_bag_unpack")(self._packed_weight)

    def forward(self, x: Any) -> Any:
        return x

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, strict: bool, *rest: Any
    ) -> None:
        self.dtype, weight = take(state_dict, prefix, "dtype", "_packed_weight")
        self.set_weight(weight)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, *rest)

    def __repr__(self) -> str:
        return repr(self._weight())


class Embedding(Module):
    """Rows by their numbers, as floats."""

    _version = 1
    _FLOAT_MODULE: Any = nn.Embedding
    ROUNDED: Any = training.Embedding

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: Any = None,
        max_norm: Any = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
        sparse: bool = False, _weight: Any = None, dtype: Any = QUINT8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.dtype = dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            wanted = [num_embeddings, embedding_dim]
            if list(_weight.shape) != wanted:
                raise AssertionError(
                    "Shape of weight does not match num_embeddings and embedding_dim: expected "
                    f"{wanted}, got {list(_weight.shape)}"
                )
            self.set_weight(_weight)

    def form(self) -> str:
        return "4bit" if self.dtype is QUINT4X2 else "byte"

    def forward(self, indices: Any) -> Any:
        packed = self._packed_params._packed_weight
        return operator(f"embedding_{self.form()}")(packed, indices)

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def __repr__(self) -> str:
        return with_packed_text(self, EmbeddingPackedParams)

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Any) -> None:
        self._packed_params.set_weight(w)

    def weight(self) -> Any:
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        if hasattr(mod, "weight_fake_quant"):
            wanted, watching = cls.ROUNDED, mod.weight_fake_quant
        else:
            wanted = cls._FLOAT_MODULE
            if not hasattr(mod, "qconfig"):
                raise AssertionError(
                    f"{wanted.__name__} input float module must have qconfig defined"
                )
            own = mod.qconfig is not None and mod.qconfig.weight is not None
            watching = (mod.qconfig if own else float_qparams_weight_only_qconfig).weight()
        if type(mod) is not wanted:
            raise AssertionError(f"nnq.{cls.__name__}.from_float only works for {wanted.__name__}")
        if watching.qscheme is not schemes.per_channel_affine_float_qparams:
            raise AssertionError(
                f"{cls.__name__} quantization is only supported with "
                "float_qparams_weight_only_qconfig."
            )
        watching(mod.weight)
        made = cls(mod.num_embeddings, mod.embedding_dim, dtype=watching.dtype, **cls.options(mod))
        made.set_weight(quantized_weight(mod.weight, watching))
        return made

    @classmethod
    def options(cls, mod: Any) -> dict[str, Any]:
        return {}


class EmbeddingBag(Embedding):
    """Sums of rows, as floats."""

    _FLOAT_MODULE = nn.EmbeddingBag
    ROUNDED = training.EmbeddingBag

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: Any = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "sum",
        sparse: bool = False, _weight: Any = None, include_last_offset: bool = False,
        dtype: Any = QUINT8,
    ) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights = mode, False
        self.include_last_offset = include_last_offset

    def forward(  # type: ignore[override]
        self, indices: Any, offsets: Any = None, per_sample_weights: Any = None,
        compressed_indices_mapping: Any = None,
    ) -> Any:  # fmt: skip
        return operator(f"embedding_bag_{self.form()}")(
            self._packed_params._packed_weight, indices, offsets, False, 0, self.pruned_weights,
            per_sample_weights, compressed_indices_mapping, self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def options(cls, mod: Any) -> dict[str, Any]:
        return {"mode": mod.mode, "include_last_offset": mod.include_last_offset}
