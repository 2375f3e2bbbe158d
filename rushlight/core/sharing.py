"""Memory that tensors have in common: with tensors over it that must follow when it moves, and with
forked processes.
"""

from __future__ import annotations

import gc
import mmap
from sys import getrefcount
from typing import TYPE_CHECKING

import numpy as np

from rushlight.base.errors import error
from rushlight.core import geometry
from rushlight.core.ownership import COUNTS
from rushlight.core.storage import Storage, owner_of
from rushlight.core.tensor import Tensor, alias_array, sizes_of, storage_of, strides_of

if TYPE_CHECKING:
    from rushlight.core.protocols import Array

__all__ = ["move_tensors", "share"]


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
    storage.move_to(memory)
    storage.shared = True
    storage.can_grow = False
    for each in moved:
        take_memory(each, storage)


def take_memory(tensor: Tensor, storage: Storage) -> None:
    """Give a tensor the array that a storage has for it now."""
    tensor._array = alias_array(
        storage, tensor._dtype, sizes_of(tensor), strides_of(tensor), tensor._offset
    )


def move_tensors(storage: Storage, left: list[Array]) -> None:
    """Let the tensors that lie in memory that a storage `left` lie in that which it has now.

    A storage does not know its tensors: those of the process are looked through. Where it became
    smaller, those that have no room in it stay where they were.
    """
    owners = {id(array) for array in left}
    for found in gc.get_objects():
        if not issubclass(type(found), Tensor):
            continue
        array = found._array
        if array is None or id(owner_of(array)) not in owners or storage_of(found) is not storage:
            continue
        extent = geometry.storage_extent(sizes_of(found), strides_of(found), found._offset)
        if array.size and extent * found._dtype.itemsize <= storage.nbytes_:
            take_memory(found, storage)
