"""TypedStorage: a Storage seen as elements of one dtype, as `Tensor.storage()` returns it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from rushlight.core import dtype as dtypes
from rushlight.core.dtype import get_default_dtype
from rushlight.core.storage import Storage

__all__ = ["TypedStorage", "bytes_of_buffer"]


def bytes_of_buffer(
    buffer: Any, byte_order: str, count: int, offset: int, dtype: Any
) -> np.ndarray[Any, Any]:
    """A copy of elements of a buffer, as bytes in this machine's order."""
    if byte_order not in ("native", "big", "little"):
        raise ValueError(
            f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
        )
    width = 1 if dtype is None else dtype.itemsize
    held = np.frombuffer(buffer, np.uint8)
    if not 0 <= offset <= held.size:
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({held.size}) , but "
            f"got {offset}"
        )
    if count < 0:
        if (held.size - offset) % width:
            raise ValueError(
                f"buffer size ({held.size}) must be a multiple of element size ({width})"
            )
        count = (held.size - offset) // width
    if offset + count * width > held.size:
        raise ValueError(
            f"buffer has only {held.size - offset} elements after offset {offset}, but specified a "
            f"size of {count}"
        )
    found = held[offset : offset + count * width].copy()
    if dtype is dtypes.bool_:
        return found.astype(bool).view(np.uint8)
    if byte_order not in ("native", sys.byteorder):
        part = width // 2 if dtype is not None and dtype.is_complex else width
        found = np.ascontiguousarray(found.reshape(-1, part)[:, ::-1]).reshape(-1)
    return found


class TypedStorage:
    """A flat run of elements over an untyped storage."""

    __slots__ = ("_untyped_storage", "dtype")

    def __init__(
        self, *wanted: Any, wrap_storage: Any = None, dtype: Any = None, device: Any = None
    ) -> None:
        """A length, or the values to hold; or `wrap_storage`, memory that is there already."""
        if len(wanted) > 1:
            raise TypeError(f"TypedStorage takes one length or sequence, but got {len(wanted)}")
        result_dtype = get_default_dtype() if dtype is None else dtype
        if wrap_storage is not None:
            if wanted or device is not None:
                raise TypeError("TypedStorage: wrap_storage brings its own length and device")
            if not isinstance(wrap_storage, Storage):
                raise TypeError(
                    "TypedStorage: argument 'wrap_storage' must be UntypedStorage, not "
                    f"{type(wrap_storage).__name__}"
                )
            self._untyped_storage, self.dtype = wrap_storage, result_dtype
            return
        first: Any = wanted[0] if wanted else 0
        count = first if isinstance(first, int) else len(first)
        self._untyped_storage = Storage(count * result_dtype.itemsize, device=device)
        self.dtype = result_dtype
        if first is not count and self._untyped_storage.buffer is not None:
            self.array()[:] = list(first)

    @classmethod
    def over(cls, storage: Storage, dtype: Any) -> TypedStorage:
        """The storage seen as elements of `dtype`."""
        return cls(wrap_storage=storage, dtype=dtype)

    @property
    def device(self) -> Any:
        return self._untyped_storage.device

    def untyped(self) -> Storage:
        return self._untyped_storage

    def array(self) -> Any:
        buffer = self._untyped_storage.values()
        usable = self.size() * self.dtype.itemsize
        return buffer[:usable].view(self.dtype.np)

    def size(self) -> Any:
        return self._untyped_storage.nbytes_ // self.dtype.itemsize

    _size = size

    def __len__(self) -> int:
        return int(self.size())

    def nbytes(self) -> Any:
        return self._untyped_storage.nbytes_

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    _data_ptr = data_ptr

    def resize_(self, size: int) -> TypedStorage:
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage.over(self._untyped_storage.clone(), self.dtype)

    __copy__ = clone

    def copy_(self, source: TypedStorage) -> TypedStorage:
        if len(self) != len(source):
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was "
                f"{source.nbytes()} bytes"
            )
        if self._untyped_storage.buffer is not None:
            self.array()[:] = source.array()
        return self

    def fill_(self, value: complex) -> TypedStorage:
        if self._untyped_storage.buffer is not None:
            self.array()[:] = value
        return self

    def resizable(self) -> bool:
        return self._untyped_storage.resizable()

    def is_pinned(self, device: Any = None) -> bool:
        return False

    @property
    def filename(self) -> str | None:
        return self._untyped_storage.filename

    @property
    def is_cuda(self) -> bool:
        return self._untyped_storage.is_cuda

    @property
    def _cdata(self) -> int:
        return self._untyped_storage._cdata

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + int(self.nbytes())

    def is_shared(self) -> bool:
        return self._untyped_storage.shared

    def cpu(self) -> TypedStorage:
        return TypedStorage.over(self._untyped_storage.cpu(), self.dtype)

    def type(self, dtype: Any = None) -> Any:
        """The name of the storage's class, or a copy with elements of another dtype."""
        if dtype is None:
            return f"torch.{storage_name(self.dtype)}"
        if isinstance(dtype, str):
            named = {f"torch.{storage_name(each)}": each for each in dtypes.ALL}
            if dtype not in named:
                raise AttributeError(f"there is no storage class {dtype!r}")
            return self.cast(named[dtype])
        return self.cast(getattr(dtype, "dtype", dtype))

    def cast(self, dtype: Any) -> TypedStorage:
        """The elements as those of another dtype, in memory of their own unless it is the same."""
        if dtype is self.dtype:
            return self
        memory = self._untyped_storage
        if memory.buffer is None:
            return TypedStorage.over(Storage.meta(self.size() * dtype.itemsize), dtype)
        values = self.array().astype(dtype.np)
        return TypedStorage.over(Storage(values.view(np.uint8)), dtype)

    def pickle_storage_type(self) -> str:
        return storage_name(self.dtype)

    def tolist(self) -> list[Any]:
        return list(self.array().tolist())

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        if not isinstance(index, (int, slice)):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self.array()[index].item()

    def __setitem__(self, index: int | slice, value: complex) -> None:
        if self._untyped_storage.buffer is not None:
            self.array()[index] = value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and self.dtype is other.dtype
            and self._untyped_storage == other._untyped_storage
        )

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __repr__(self) -> str:
        head = f"[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size "
        body = (
            "..."
            if self._untyped_storage.buffer is None
            else "\n".join(f" {value}" for value in self.tolist())
        )
        return f"{body}\n{head}{len(self)}]"


def storage_name(dtype: Any) -> str:
    return str(dtype.legacy_tensor_name.replace("Tensor", "Storage"))


def cast_method(name: str, dtype: Any) -> None:
    """`storage.float()` and its kin; the elements of memory without a dtype are its bytes."""

    def typed(self: TypedStorage) -> TypedStorage:
        return self.cast(dtype)

    def untyped(self: Storage) -> TypedStorage:
        return TypedStorage.over(self, dtypes.uint8).cast(dtype)

    for cls, method in ((TypedStorage, typed), (Storage, untyped)):
        method.__name__ = name
        method.__qualname__ = f"{cls.__name__}.{name}"
        setattr(cls, name, method)


for name, dtype in {
    "bfloat16": dtypes.bfloat16, "bool": dtypes.bool_, "byte": dtypes.uint8, "char": dtypes.int8,
    "complex_double": dtypes.complex128, "complex_float": dtypes.complex64,
    "double": dtypes.float64, "float": dtypes.float32, "half": dtypes.float16, "int": dtypes.int32,
    "long": dtypes.int64, "short": dtypes.int16,
}.items():  # fmt: skip
    cast_method(name, dtype)
