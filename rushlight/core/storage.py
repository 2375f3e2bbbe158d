"""Storage (a flat buffer on a device) and VersionCounter.

A Storage never knows its element type; tensors view it through dtype, sizes, strides, offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.device import cpu as CPU
from rushlight.core.device import device
from rushlight.core.device import meta as META

if TYPE_CHECKING:
    from rushlight.core.protocols import Array
    from rushlight.symbolic.numbers import IntLike

__all__ = ["Storage", "VersionCounter"]


class VersionCounter:
    """Counts in-place writes; shared by a tensor, its views and its detached aliases."""

    __slots__ = ("value", "written_at")

    def __init__(self, value: int = 0) -> None:
        self.value = value
        self.written_at: Any = None


class Storage:
    """A flat run of bytes. `buffer` is None on the meta device."""

    __slots__ = ("__weakref__", "buffer", "device", "nbytes_", "resizable", "shared")

    def __init__(self, buffer: Any, nbytes: IntLike | None = None, place: device = CPU) -> None:
        self.buffer = buffer
        self.nbytes_: Any = buffer.nbytes if nbytes is None else nbytes
        self.device = place
        self.resizable = True
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

    def resize_(self, nbytes: int) -> Storage:
        """Change the length, keeping the common prefix."""
        if self.buffer is not None:
            fresh = np.empty(nbytes, np.uint8)
            kept = min(nbytes, self.buffer.size)
            fresh[:kept] = self.buffer[:kept]
            self.buffer = fresh
        self.nbytes_ = nbytes
        return self

    def clone(self) -> Storage:
        if self.buffer is None:
            return Storage.meta(self.nbytes_)
        return Storage(self.buffer.copy())

    def copy_(self, source: Storage) -> Storage:
        if self.buffer is not None and source.buffer is not None:
            self.buffer[:] = source.buffer
        return self

    def tolist(self) -> list[int]:
        return [] if self.buffer is None else list(self.buffer.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self.buffer[index]

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
