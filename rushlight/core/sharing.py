"""Memory that forked processes have in common."""

from __future__ import annotations

import mmap
from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

from rushlight.base.errors import error
from rushlight.core.ownership import COUNTS
from rushlight.core.tensor import alias_array, sizes_of, storage_of, strides_of

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

__all__ = ["share"]


def share(tensor: Tensor) -> None:
    """Move a tensor's storage to an anonymous shared mapping.

    Tensors hold arrays over their storage, so no other tensor may be over this one.
    """
    if tensor._array is None:
        raise error("RL1002")
    storage = storage_of(tensor)
    if storage.shared:
        return
    moved = [tensor] if tensor._view is None else [tensor, tensor._view.base]
    # Beside the local name, each tensor that moves holds them. Views have the counter in common
    # from the start, the storage once one of them asks for it.
    counter, own = tensor._counter, COUNTS.local + len(moved)
    if getrefcount(storage) > own or (counter is not None and getrefcount(counter) > own):
        raise error("RL1003")
    nbytes = int(storage.nbytes_)
    memory = np.frombuffer(mmap.mmap(-1, max(nbytes, 1)), np.uint8)[:nbytes]
    memory[:] = storage.buffer
    storage.buffer, storage.moved = memory, True
    storage.shared = True
    storage.can_grow = False
    for each in moved:
        each._array = alias_array(
            storage, each._dtype, sizes_of(each), strides_of(each), each._offset
        )
