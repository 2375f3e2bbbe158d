"""The parts of sparse tensors: plain dense tensors without history, held by the extension record.

Parts are never changed but replaced, so that aliases of a tensor keep what they saw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.tensor import Tensor, Unusual, values_of, wrap

if TYPE_CHECKING:
    from rushlight.core.device import layout
    from rushlight.core.protocols import Sizes

__all__ = ["Compressed", "Coo", "copied_parts", "owned", "parts_of", "sparse_tensor"]


class Coo:
    """Parts of a COO tensor: indices (sparse dims × nnz), values (nnz × dense sizes)."""

    __slots__ = ("coalesced", "indices", "values")

    def __init__(self, indices: Tensor, values: Tensor, coalesced: bool) -> None:
        self.indices = indices
        self.values = values
        self.coalesced = coalesced


class Compressed:
    """Parts of a compressed tensor: pointers into the plain indices, those indices, values."""

    __slots__ = ("compressed", "plain", "values")

    def __init__(self, compressed: Tensor, plain: Tensor, values: Tensor) -> None:
        self.compressed = compressed
        self.plain = plain
        self.values = values


def sparse_tensor(layout: layout, sizes: Sizes, parts: Coo | Compressed) -> Tensor:
    """A tensor of the given layout over its parts."""
    result = wrap(None, parts.values._dtype)
    result._is_contiguous = False
    unusual = result._unusual = Unusual(parts.values.device)
    unusual.sizes = tuple(sizes)
    unusual.strides = (0,) * len(unusual.sizes)
    unusual.layout = layout
    unusual.parts = parts
    return result


def parts_of(tensor: Any) -> Any:
    return tensor._unusual.parts


def copied_parts(source: Tensor) -> Any:
    """A sparse tensor with memory of its own."""
    parts = parts_of(source)
    if isinstance(parts, Coo):
        made: Any = Coo(owned(parts.indices), owned(parts.values), parts.coalesced)
    else:
        made = Compressed(owned(parts.compressed), owned(parts.plain), owned(parts.values))
    return sparse_tensor(source.layout, source.shape, made)


def owned(part: Tensor) -> Tensor:
    return wrap(np.array(values_of(part), order="C"), part._dtype)
