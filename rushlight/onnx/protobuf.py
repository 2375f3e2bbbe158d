"""Protocol buffers, as far as ONNX models need them: fields are appended to bytes.

A message is the bytes of its fields. Nothing is read: models are written only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

__all__ = ["bytes_field", "float_field", "floats_field", "int_field", "ints_field", "text_field"]

VARINT, LENGTH, FIXED32 = 0, 2, 5


def varint(value: int) -> bytes:
    """An integer in groups of seven bits; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def int_field(number: int, value: int) -> bytes:
    return tag(number, VARINT) + varint(value)


def float_field(number: int, value: float) -> bytes:
    return tag(number, FIXED32) + struct.pack("<f", value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Bytes, or a message."""
    return tag(number, LENGTH) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode())


def ints_field(number: int, values: Iterable[int]) -> bytes:
    """Integers, packed."""
    return bytes_field(number, b"".join([varint(value) for value in values]))


def floats_field(number: int, values: Iterable[float]) -> bytes:
    return bytes_field(number, b"".join([struct.pack("<f", value) for value in values]))
