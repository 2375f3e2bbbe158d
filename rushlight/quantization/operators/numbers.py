"""Arithmetic on the numbers of quantised tensors: to floats, and to integers of another scale.

Processors work on blocks of 64 bytes, and on what is left one by one; the two round differently,
and torch's results are of both. In a block a float is a product and a sum that round once, and the
zero point is added to steps that were rounded; one by one each operation rounds, and the zero point
is added before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import schemes
from rushlight.core.tensor import values_of, wrap
from rushlight.subclasses.quantized import (
    INTEGERS,
    LIMITS,
    Quantizer,
    with_integers,
)

__all__ = [
    "elementwise", "floats", "from_floats", "from_integers", "of_integers", "per_tensor", "rounded",
]  # fmt: skip

# Bytes that are computed at once.
BLOCK = 64


def per_tensor(dtype: Any, scale: float, zero_point: int) -> Quantizer:
    return Quantizer(dtype, schemes.per_tensor_affine, float(scale), int(zero_point))


def floats(tensor: Any) -> Any:
    """The numbers as a float32 array, each for itself."""
    return tensor.quantizer.dequantize(values_of(tensor))


def in_block(integers: Any, quantizer: Quantizer) -> Any:
    """Integers as float32, where a product and a sum round once."""
    scale = np.float32(quantizer.scale)
    # In float64 product and sum are exact, so that only the last step rounds.
    shift = np.float64(np.float32(scale * np.float32(-quantizer.zero_point)))
    return (integers * np.float64(scale) + shift).astype(np.float32)


def elementwise(function: Any, target: Quantizer, *operands: Any) -> Any:
    """A function of float32 arrays, quantised. Operands are quantised tensors, or arrays."""
    arrays = [each if isinstance(each, np.ndarray) else values_of(each) for each in operands]
    makers = [getattr(each, "quantizer", None) for each in operands]
    whole = np.broadcast_arrays(*arrays)
    shape = whole[0].shape
    flat = [array.reshape(-1) for array in whole]
    count = flat[0].size
    size = BLOCK // INTEGERS[target.dtype].itemsize
    # Where operands are repeated along some dimension there is no row to cut.
    main = count - count % size if all(array.shape == shape for array in arrays) else count
    made = np.empty(count, INTEGERS[target.dtype].np)
    pairs = list(zip(flat, makers, strict=True))
    if main:
        given = [a[:main] if maker is None else in_block(a[:main], maker) for a, maker in pairs]
        made[:main] = values_of(from_floats(function(*given), target))
    if main < count:
        given = [a[main:] if maker is None else maker.dequantize(a[main:]) for a, maker in pairs]
        made[main:] = target.quantize(function(*given))
    return of_integers(made.reshape(shape), target)


def rounded(steps: Any, quantizer: Quantizer) -> Any:
    """float32 steps from the zero point as a tensor of integers."""
    least, most = LIMITS[quantizer.dtype]
    with np.errstate(all="ignore"):
        found = np.rint(steps).astype(np.float64) + quantizer.zero_point
    kept = np.where(np.isnan(found), most, np.clip(found, least, most))
    return of_integers(kept.astype(INTEGERS[quantizer.dtype].np), quantizer)


def of_integers(array: Any, quantizer: Quantizer) -> Any:
    array = np.asarray(array, order="C")
    return with_integers(wrap(array, INTEGERS[quantizer.dtype]), quantizer)


def from_floats(numbers: Any, quantizer: Quantizer) -> Any:
    """float32 numbers, quantised."""
    inverse = np.float32(1) / np.float32(quantizer.scale)
    return rounded(numbers.astype(np.float32, copy=False) * inverse, quantizer)


def from_integers(integers: Any, multiplier: Any, quantizer: Quantizer) -> Any:
    """Whole numbers times a float32 step, as integers of a quantiser."""
    return rounded(integers.astype(np.float32) * np.float32(multiplier), quantizer)
