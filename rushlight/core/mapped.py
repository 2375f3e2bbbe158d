"""`from_file`: tensors over the bytes of a file."""

from __future__ import annotations

import mmap
import os
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rushlight.base.errors import error
from rushlight.core.dtype import get_default_dtype
from rushlight.core.storage import Storage
from rushlight.core.tensor import alias_array, set_requires_grad, wrap_strided

__all__ = ["FILES", "from_file"]

# The files of storages that share one.
FILES: WeakKeyDictionary[Storage, str] = WeakKeyDictionary()


def from_file(
    filename: Any,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:
    """A tensor of `size` elements over a file; where `shared`, writes go to the file.

    A shared file is made, and lengthened with zeros, as needed.
    """
    result_dtype = get_default_dtype() if dtype is None else dtype
    count = size or 0
    nbytes = count * result_dtype.itemsize
    storage = storage_from_file(filename, bool(shared), nbytes)
    array = alias_array(storage, result_dtype, (count,), (1,), 0)
    result = wrap_strided(array, result_dtype, storage)
    if device is not None:
        result = result.to(device)
    if requires_grad:
        set_requires_grad(result, True)
    return result


def storage_from_file(filename: Any, shared: bool, nbytes: int) -> Storage:
    """A storage over the first bytes of a file."""
    storage = Storage(file_bytes(filename, shared, nbytes))
    storage.shared = shared
    storage.can_grow = False
    if shared:
        FILES[storage] = os.fspath(filename)
    return storage


def file_bytes(filename: Any, shared: bool, nbytes: int) -> Any:
    mode = os.O_RDWR | os.O_CREAT if shared else os.O_RDONLY
    handle = os.open(filename, mode, 0o600)
    try:
        have = os.fstat(handle).st_size
        if have < nbytes and not shared:
            raise error("RL0919", file=os.fspath(filename), found=have, expected=nbytes)
        if have < nbytes:
            os.ftruncate(handle, nbytes)
        if nbytes == 0:
            return np.empty(0, np.uint8)
        access = mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY
        return np.frombuffer(mmap.mmap(handle, nbytes, access=access), np.uint8)
    finally:
        os.close(handle)
