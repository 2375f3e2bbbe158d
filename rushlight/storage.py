"""torch.storage: memory without shape, and the classes that name its elements.

`FloatStorage(4)` is a TypedStorage; as a class it stands for those with elements of its dtype.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dtype as dtypes
from rushlight.core.storage import Storage as UntypedStorage
from rushlight.core.typedstorage import TypedStorage

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
    "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
    "LongStorage", "ShortStorage", "Storage", "TypedStorage", "UntypedStorage",
]  # fmt: skip


class OfOneDtype(type):
    """The class of those below: calls make a TypedStorage, instances are told by dtype."""

    dtype: Any

    def __call__(cls, *wanted: Any, **options: Any) -> TypedStorage:
        return TypedStorage(*wanted, dtype=cls.dtype, **options)

    def from_buffer(cls, buffer: Any, *arguments: Any, **options: Any) -> TypedStorage:
        """A copy of a buffer's elements."""
        held = UntypedStorage.from_buffer(buffer, *arguments, dtype=cls.dtype, **options)
        return TypedStorage.over(held, cls.dtype)

    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """The elements of a file; where `shared`, writes go to it."""
        nbytes = size * cls.dtype.itemsize
        return TypedStorage.over(UntypedStorage.from_file(filename, shared, nbytes), cls.dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype


def of_dtype(dtype: Any) -> Any:
    name = f"{dtype.scalar_type_name}Storage"
    return OfOneDtype(name, (), {"dtype": dtype, "__module__": __name__})


BFloat16Storage = of_dtype(dtypes.bfloat16)
BoolStorage = of_dtype(dtypes.bool_)
ByteStorage = of_dtype(dtypes.uint8)
CharStorage = of_dtype(dtypes.int8)
ComplexDoubleStorage = of_dtype(dtypes.complex128)
ComplexFloatStorage = of_dtype(dtypes.complex64)
DoubleStorage = of_dtype(dtypes.float64)
FloatStorage = Storage = of_dtype(dtypes.float32)
HalfStorage = of_dtype(dtypes.float16)
IntStorage = of_dtype(dtypes.int32)
LongStorage = of_dtype(dtypes.int64)
ShortStorage = of_dtype(dtypes.int16)
