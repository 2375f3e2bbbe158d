"""Keys that tell values apart by type and bits.

Python's `==` takes 0.0 for -0.0 and True for 1, and no NaN for itself. What is remembered under a
key made here is found again for the very same value only.
"""

from __future__ import annotations

from struct import pack
from typing import Any

__all__ = ["exact_key"]

# Values of these types equal nothing but themselves: they are their own keys.
ATOMS = frozenset((int, str, bytes, type(None)))


def exact_key(value: Any) -> Any:
    """A key of a plain value: type and exact bits, tuples and the like item by item.

    It can be hashed if the values in it can.
    """
    cls = type(value)
    if cls in ATOMS:
        return value
    if cls is float:
        return (float, pack("<d", value))
    if cls is complex:
        return (complex, pack("<dd", value.real, value.imag))
    if isinstance(value, (tuple, list)):
        return (cls, *[exact_key(item) for item in value])
    if isinstance(value, dict):
        return (cls, *[(exact_key(key), exact_key(item)) for key, item in value.items()])
    if cls is slice:
        return (slice, exact_key(value.start), exact_key(value.stop), exact_key(value.step))
    if hasattr(value, "facts"):
        return (cls, *[exact_key(fact) for fact in value.facts()])
    if hasattr(value, "tobytes"):
        return (cls, value.dtype, value.shape, value.tobytes())
    return (cls, value)
