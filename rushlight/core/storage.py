"""Storage (a flat buffer on a device) and VersionCounter.

A Storage never knows its element type; tensors view it through dtype, sizes, strides, offset.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np

from rushlight.base.errors import error
from rushlight.core.device import cpu as CPU
from rushlight.core.device import device
from rushlight.core.device import meta as META
from rushlight.core.ownership import COUNTS

if TYPE_CHECKING:
    from rushlight.core.protocols import Array, DeviceLike
    from rushlight.symbolic.numbers import IntLike

__all__ = ["Former", "Storage", "VersionCounter"]


class VersionCounter:
    """Counts in-place writes; shared by a tensor, its views and its detached aliases."""

    __slots__ = ("value", "written_at")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.written_at: Any = None


def memory_for(wanted: int | Iterable[int], place: DeviceLike | None) -> tuple[Any, int, device]:
    """(buffer, length, device) for a length or for the bytes to hold."""
    where = CPU if place is None else device(place)
    if not isinstance(wanted, int):
        values = np.array(list(wanted), np.uint8)
        return (None if where.type == "meta" else values), values.nbytes, where
    if wanted < 0:
        raise RuntimeError(f"a storage cannot have {wanted} bytes")
    return (None if where.type == "meta" else np.empty(wanted, np.uint8)), wanted, where


class Storage:
    """A flat run of bytes. `buffer` is None on the meta device.

    Called with a length or with numbers, as `torch.UntypedStorage(4)`, it finds its own memory.
    """

    __slots__ = ("__weakref__", "buffer", "can_grow", "device", "moved", "nbytes_", "shared")

    def __init__(
        self,
        buffer: Any = 0,
        nbytes: IntLike | None = None,
        place: device = CPU,
        *,
        device: DeviceLike | None = None,
    ) -> None:
        if type(buffer) is not np.ndarray and buffer is not None:
            buffer, nbytes, place = memory_for(buffer, device)
        self.buffer = buffer
        self.nbytes_: Any = buffer.nbytes if nbytes is None else nbytes
        self.device = place
        # False over memory that others own or see: it cannot move.
        self.can_grow = True
        # The memory that it had before, while arrays over that are alive: they are still its own.
        self.moved: tuple[ReferenceType[Array], ...] = ()
        # Whether forked processes see writes to it.
        self.shared = False

    @classmethod
    def of_array(cls, array: Array) -> Storage:
        """The storage of an array that starts where its memory starts, sharing that memory."""
        if array.size == 0:
            return cls(np.empty(0, np.uint8))
        while not array.flags.c_contiguous and type(array.base) is np.ndarray:
            array = array.base
        return cls(array.reshape(-1).view(np.uint8))

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Storage:
        """The bytes of a file; where `shared`, writes go to it."""
        from rushlight.core.mapped import storage_from_file

        return storage_from_file(filename, shared, nbytes)

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str = "native",
        count: int = -1,
        offset: int = 0,
        dtype: Any = None,
    ) -> Storage:
        """A copy of a buffer's bytes: `count` elements of `dtype` from byte `offset` on."""
        from rushlight.core.typedstorage import bytes_of_buffer

        return cls(bytes_of_buffer(buffer, byte_order, count, offset, dtype))

    @classmethod
    def foreign(cls, buffer: Any) -> Storage:
        """Memory that an object outside owns."""
        storage = cls(buffer)
        storage.can_grow = False
        return storage

    @classmethod
    def meta(cls, nbytes: IntLike) -> Storage:
        return cls(None, nbytes, META)

    def nbytes(self) -> Any:
        return self.nbytes_

    def size(self) -> Any:
        return self.nbytes_

    def __len__(self) -> int:
        return int(self.nbytes_)

    def data_ptr(self) -> int:
        if self.buffer is None or self.buffer.size == 0:
            return 0
        return int(self.buffer.ctypes.data)

    def resizable(self) -> bool:
        return self.can_grow

    def resize_(self, nbytes: int) -> Storage:
        """Change the length, keeping the common prefix."""
        if not self.can_grow:
            raise RuntimeError(
                "Trying to resize storage that is not resizable: its memory belongs to an array or "
                "a buffer, or other processes see it. Resize a clone() of the tensor instead."
            )
        if self.buffer is not None:
            fresh = np.empty(nbytes, np.uint8)
            kept = min(nbytes, self.buffer.size)
            fresh[:kept] = self.buffer[:kept]
            has_users = self.buffer.size > 0 and not self.has_one_user()
            left = [*self.formers(), owner_of(self.buffer)]
            self.move_to(fresh)
            self.nbytes_ = nbytes
            if nbytes and (has_users or len(left) > 1):
                from rushlight.core.sharing import move_tensors

                move_tensors(self, left)
        self.nbytes_ = nbytes
        return self

    def has_one_user(self) -> bool:
        """Whether one array besides the buffer lies in its memory. False where nobody can tell."""
        array = self.buffer
        # The storage holds the buffer, which holds what it is a view of.
        others = getrefcount(array) - COUNTS.local - 1
        while type(array.base) is np.ndarray:
            array = array.base
            others += getrefcount(array) - COUNTS.local - 1
        return others <= 1

    def formers(self) -> list[Array]:
        """What is still alive of the memory that it had before."""
        found = [former() for former in self.moved]
        return [array for array in found if array is not None]

    def move_to(self, buffer: Any) -> None:
        """Go on in other memory."""
        self.moved = tuple([ref(array) for array in [*self.formers(), owner_of(self.buffer)]])
        self.buffer = buffer

    def byteswap(self, dtype: Any) -> None:
        """Turn the bytes of every element of `dtype` round."""
        part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
        self.values()[:] = self.values().reshape(-1, part)[:, ::-1].reshape(-1)

    def values(self) -> Array:
        if self.buffer is None:
            # torch: a wrong call.
            raise NotImplementedError("Not available for 'meta' device type")
        held: Array = self.buffer
        return held

    def clone(self) -> Storage:
        if self.buffer is None:
            return Storage.meta(self.nbytes_)
        return Storage(self.buffer.copy())

    __copy__ = clone

    def copy_(self, source: Storage) -> Storage:
        if self.nbytes_ != source.nbytes_:
            raise RuntimeError(
                f"size does not match, self was {self.nbytes_} bytes but src was "
                f"{source.nbytes_} bytes"
            )
        if self.buffer is not None and source.buffer is not None:
            self.buffer[:] = source.buffer
        return self

    def fill_(self, value: int) -> Storage:
        if self.buffer is not None:
            self.buffer[:] = value
        return self

    def untyped(self) -> Storage:
        return self

    def element_size(self) -> int:
        return 1

    def cpu(self) -> Storage:
        if self.device.type == "meta":
            raise error("RL0402", NotImplementedError)
        return self

    def is_shared(self) -> bool:
        return self.shared

    def is_pinned(self, device: Any = None) -> bool:
        return False

    @property
    def is_cuda(self) -> bool:
        return self.device.type == "cuda"

    @property
    def filename(self) -> str | None:
        """The file that writes go to."""
        from rushlight.core.mapped import FILES

        return FILES.get(self)

    @property
    def _cdata(self) -> int:
        return id(self)

    def type(self) -> str:
        return "torch.storage.UntypedStorage"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + int(self.nbytes_)

    def tolist(self) -> list[int]:
        return list(self.values().tolist())

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            # torch: a slice is a storage over the same memory.
            return Storage(self.values()[index])
        return int(self.values()[self.place(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values()[index if isinstance(index, slice) else self.place(index)] = value

    def place(self, index: Any) -> int:
        if not hasattr(index, "__index__"):
            raise TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        if not -self.nbytes_ <= index < self.nbytes_:
            raise IndexError(f"index {index} out of range for storage of size {self.nbytes_}")
        return int(index)

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Storage)
            and self.buffer is not None
            and other.buffer is not None
            and self.data_ptr() == other.data_ptr()
            and self.nbytes_ == other.nbytes_
        )

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<rushlight.Storage {self.nbytes_} bytes on {self.device}>"


def owner_of(array: Array) -> Array:
    """The array whose memory another is a view of."""
    while type(array.base) is np.ndarray:
        array = array.base
    return array


class Former:
    """Memory that tensors had before they were given other memory. A view takes its base's storage
    when it first needs one: by then the base may have another."""

    used = False
    by_address: ClassVar[WeakValueDictionary[int, Storage]] = WeakValueDictionary()

    @classmethod
    def leave(cls, storage: Storage) -> None:
        """Note that a tensor is about to be given another storage."""
        cls.used = True
        if storage.buffer is not None:
            cls.by_address[storage.data_ptr()] = storage

    @classmethod
    def storage_of(cls, array: Array | None, current: Storage) -> Storage:
        """The storage that a view's array lies in, if its base has the current one."""
        if not cls.used or array is None or current.buffer is None:
            return current
        if not array.size or np.may_share_memory(array, current.buffer):
            return current
        array = owner_of(array)
        address = int(array.ctypes.data)
        found = cls.by_address.get(address)
        # Its own first memory may be another's by now.
        if found is not None and np.may_share_memory(array, found.buffer):
            return found
        if any([former is array for former in current.formers()]):
            return current
        found = cls.by_address[address] = Storage.of_array(array)
        return found
