"""TypedStorage: a Storage seen as elements of one dtype, as `Tensor.storage()` returns it."""

from __future__ import annotations

from typing import Any

from rushlight.base.errors import error
from rushlight.core.dtype import get_default_dtype
from rushlight.core.storage import Storage

__all__ = ["TypedStorage"]


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
        buffer = self._untyped_storage.buffer
        if buffer is None:
            raise error("RL0403", NotImplementedError, what="reading a storage asks for values")
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

    def copy_(self, source: TypedStorage) -> TypedStorage:
        self.array()[:] = source.array()
        return self

    def fill_(self, value: complex) -> TypedStorage:
        self.array()[:] = value
        return self

    def is_shared(self) -> bool:
        return self._untyped_storage.shared

    def cpu(self) -> TypedStorage:
        return TypedStorage.over(self._untyped_storage.cpu(), self.dtype)

    def type(self, dtype: Any = None) -> Any:
        """The name of the storage's class, or a copy with elements of another dtype."""
        if dtype is None:
            return f"torch.{self.dtype.legacy_tensor_name.replace('Tensor', 'Storage')}"
        result_dtype = getattr(dtype, "dtype", dtype)
        return TypedStorage(self.array().astype(result_dtype.np).tolist(), dtype=result_dtype)

    def tolist(self) -> list[Any]:
        return list(self.array().tolist())

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __getitem__(self, index: int) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} out of range for storage of size {len(self)}")
        return self.array()[index].item()

    def __setitem__(self, index: int | slice, value: complex) -> None:
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
