"""Quantised tensors in checkpoints: their integers as a storage, and the scales beside it."""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core import schemes
from rushlight.core.tensor import Tensor, strides_of, values_of, wrap
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.rebuild import NAMES, StorageType, known, numbers, tensor_over
from rushlight.io.walker import fail
from rushlight.subclasses.quantized import INTEGERS, LIMITS, QUINT4X2, Quantizer, with_integers

__all__ = ["STORAGES", "WRITTEN", "parts_of"]

# Name of a storage class -> what its elements are. Four-bit numbers share bytes there.
STORAGES = {f"{dtype.scalar_type_name}Storage": dtype for dtype in INTEGERS}


def number(value: Any, what: str) -> float:
    if type(value) not in (int, float):
        raise fail(f"{what} of a quantised tensor is no number")
    return float(value)


def quantizer_from(dtype: Any, said: Any) -> Quantizer:
    """What a file says that integers stand for."""
    if type(said) is not tuple or not said or not isinstance(said[0], schemes.qscheme):
        raise fail("a quantised tensor has no scheme")
    scheme, rest = said[0], said[1:]
    if scheme is schemes.per_tensor_affine and len(rest) == 2:
        least, most = LIMITS[dtype]
        start = int(number(rest[1], "the zero point"))
        if not least <= start <= most:
            raise fail(f"the zero point of a quantised tensor is {start}")
        return Quantizer(dtype, scheme, number(rest[0], "the scale"), start)
    if scheme is schemes.per_tensor_affine or len(rest) != 3 or type(rest[2]) is not int:
        raise fail("a quantised tensor has no scales")
    if not all(type(part) is Tensor and part.dim() == 1 for part in rest[:2]):
        raise fail("the scales of a quantised tensor are no tensors")
    return Quantizer(dtype, scheme, *rest)


def rebuild(
    storage: Any, offset: Any, size: Any, stride: Any, quantizer_params: Any, requires_grad: Any,
    backward_hooks: Any,
) -> Any:  # fmt: skip
    if not isinstance(storage, TypedStorage) or storage.dtype not in STORAGES.values():
        raise fail("a quantised tensor has no storage of quantised numbers")
    dtype = storage.dtype
    made = quantizer_from(dtype, quantizer_params)
    if dtype is QUINT4X2:
        integers = unpacked(storage, offset, size)
    else:
        integers = tensor_over(storage, offset, size, stride, dtype=INTEGERS[dtype])
    if made.axis is not None:
        fits = 0 <= made.axis < integers.dim() and all(
            part.numel() == integers.shape[made.axis] for part in (made.scale, made.zero_point)
        )
        if not fits:
            raise fail("a quantised tensor has scales for another number of channels")
    return with_integers(integers, made)


def unpacked(storage: Any, offset: Any, size: Any) -> Any:
    """Numbers of four bits, each in a byte of its own."""
    sizes = numbers(size, "a size")
    count = math.prod(sizes)
    held = (count + 1) // 2
    if offset != 0:
        raise fail("a tensor of four-bit numbers begins within its storage")
    packed = values_of(tensor_over(storage, 0, (held,), (1,), dtype=dtypes.uint8))
    pairs = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[:count]
    return wrap(np.ascontiguousarray(pairs).reshape(sizes), dtypes.uint8)


def parts_of(tensor: Any, store: Any, named: Any) -> tuple[Any, tuple[Any, ...]]:
    """The name of torch's function that makes it again, and what it is given. `store` makes a part
    of a tensor's memory and the dtype that it is seen with."""
    made = tensor.quantizer
    if made.dtype is QUINT4X2:
        stored, offset = store(tensor.int_repr(), made.dtype), 0
    else:
        stored, offset = store(tensor, made.dtype), int(tensor._offset)
    said: tuple[Any, ...] = (made.scale, made.zero_point)
    if made.axis is not None:
        said = (*said, made.axis)
    scheme = named("torch", made.scheme.name)
    hooks: OrderedDict[Any, Any] = OrderedDict()
    args = (
        stored, offset, tuple(tensor.shape), strides_of(tensor), (scheme, *said), False, hooks,
    )  # fmt: skip
    return named("torch._utils", "_rebuild_qtensor"), args


def cost(*args: Any) -> int:
    return 2000


NAMES |= known("torch._utils", cost, _rebuild_qtensor=rebuild)
NAMES |= {("torch", name): StorageType(dtype) for name, dtype in STORAGES.items()}
NAMES |= {("torch", name): scheme for name, scheme in schemes.BY_NAME.items()}
WRITTEN = {dtype: name for name, dtype in STORAGES.items()}
