"""Batches from one process to another over a connection.

A message is a pickle; the memory of large tensors and arrays travels beside it. On Linux each large
buffer is an anonymous file whose descriptor is sent: it has no name, so whichever process dies, the
system takes the memory back. Elsewhere the bytes follow the pickle through the connection.
Invariant: a tensor's memory is its own mapping, so keeping one tensor keeps no other of its batch.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import pickle
import socket
import struct
import sys
import weakref
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rushlight.base.errors import error
from rushlight.core.interop import rebuild_tensor
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

__all__ = ["dumps", "loads", "receive", "send"]

# Buffers below this many bytes are copied into the pickle: cheaper than a file of their own.
LARGE = 1 << 16
# Descriptors that one system call may carry; the system's own limit is 253.
FDS_PER_CALL = 128
SENDS_FILES = (
    hasattr(os, "memfd_create") and hasattr(socket, "send_fds") and sys.maxsize == (1 << 63) - 1
)
FAILED_ADDRESS = (1 << 64) - 1
# The number of buffers, and three numbers that are known even where a pickle cannot be read.
HEAD = struct.Struct("<Iqqq")
# Descriptors travel only beside data.
MARK = b"f"


# -------------------------------------------------------------------- pickling


def rebuild_storage(data: Any) -> Storage:
    """A storage over received memory, without a copy."""
    return Storage(np.frombuffer(data, np.uint8))


def reduce_storage(storage: Storage) -> Any:
    if not isinstance(storage.buffer, np.ndarray):
        from rushlight.core.interop import storage_state

        return storage_state(storage)
    return rebuild_storage, (pickle.PickleBuffer(as_writable(storage.buffer)),)


def as_writable(buffer: Any) -> Any:
    """A buffer whose memory arrives writable, whatever the sender may do with it."""
    return buffer if buffer.flags.writeable else buffer.copy()


def span_of(tensor: Any) -> tuple[int, int]:
    """The first element of a strided tensor's memory and the one after its last."""
    first = tensor.storage_offset()
    reach = sum([(n - 1) * s for n, s in zip(tensor.shape, tensor.stride())])
    return first, first + reach + 1


def compacted(tensor: Any) -> Any:
    """How to rebuild a view of much larger memory from its part alone; None for other tensors.

    A row of a dataset's tensor must not take the whole dataset along. Views that cover half of
    their memory or more send it whole, and keep sharing it.
    """
    if type(tensor) is not Tensor or tensor.__dict__ or tensor._array is None or not tensor.numel():
        return None
    storage = tensor.untyped_storage()
    if not isinstance(getattr(storage, "buffer", None), np.ndarray):
        return None
    begin, end = span_of(tensor)
    width = tensor.element_size()
    if (end - begin) * width * 2 > storage.buffer.nbytes:
        return None
    part = storage.buffer[begin * width : end * width]
    bits = (tensor.is_conj(), tensor.is_neg())
    return rebuild_tensor, (
        Storage(part), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), 0,
        tensor.requires_grad, bits,
    )  # fmt: skip


class BatchPickler(pickle.Pickler):
    """Pickles tensors by their memory, which is left beside the pickle where it is large."""

    def __init__(self, file: Any, large: list[Any]) -> None:
        super().__init__(file, 5, buffer_callback=lambda view: self.stays_inside(view, large))
        # What multiprocessing knows to send (connections, locks), and storages.
        known = ForkingPickler(file).dispatch_table
        self.dispatch_table = {**known, Storage: reduce_storage}

    @staticmethod
    def stays_inside(view: pickle.PickleBuffer, large: list[Any]) -> bool:
        raw = view.raw()
        if raw.nbytes < LARGE:
            return True
        large.append(raw)
        return False

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor):
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since "
                "autograd does not support crossing process boundaries.  If you just want to "
                "transfer the data, call detach() on the tensor before serializing (e.g., putting "
                "it on the queue)."
            )
        found = compacted(obj)
        return NotImplemented if found is None else found


def dumps(message: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle of a message, and the large buffers it leaves out."""
    large: list[memoryview] = []
    file = io.BytesIO()
    BatchPickler(file, large).dump(message)
    return file.getvalue(), large


def loads(data: Any, buffers: list[Any]) -> Any:
    """The message of `dumps`, over the given memory."""
    return pickle.loads(data, buffers=buffers)


# -------------------------------------------------------------------- memory


def file_with(data: memoryview) -> int:
    """A new anonymous file that holds `data`."""
    fd = os.memfd_create("rushlight-batch")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except BaseException:
        os.close(fd)
        raise
    return fd


def memory_of(fd: int) -> Any:
    """The memory of an anonymous file; it lives as long as something looks at it."""
    size = os.fstat(fd).st_size
    library = ctypes.CDLL(None, use_errno=True)
    # Not the module's own mapping: that keeps a descriptor open, and a program may keep thousands
    # of batches.
    library.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
    address = library.mmap(
        None, ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, ctypes.c_long(0)
    )
    if address is None or address == FAILED_ADDRESS:  # too many mappings
        copied = bytearray(size)
        view = memoryview(copied)
        place = 0
        while place < size:
            place += os.preadv(fd, [view[place:]], place)
        return copied
    memory = (ctypes.c_uint8 * size).from_address(address)
    unmap = weakref.finalize(
        memory, library.munmap, ctypes.c_void_p(address), ctypes.c_size_t(size)
    )
    unmap.atexit = False
    return memory


# -------------------------------------------------------------------- messages


def send(connection: Connection, head: tuple[int, int, int], message: Any) -> None:
    """Send one message. Nothing has been sent when pickling fails."""
    data, large = dumps(message)
    fds: list[int] = []
    try:
        if SENDS_FILES:
            fds = [file_with(view) for view in large]
        connection.send_bytes(HEAD.pack(len(large), *head) + data)
        if fds:
            with over_socket(connection) as channel:
                for start in range(0, len(fds), FDS_PER_CALL):
                    socket.send_fds(channel, [MARK], fds[start : start + FDS_PER_CALL])
        else:
            for view in large:
                connection.send_bytes(view)
    finally:
        for fd in fds:
            os.close(fd)


def receive(connection: Connection) -> tuple[tuple[int, int, int], Any, list[Any]]:
    """The next message: its head, and what `loads` takes. EOFError: the other side is gone."""
    received = connection.recv_bytes()
    count, *head = HEAD.unpack_from(received)
    buffers: list[Any] = []
    if count and SENDS_FILES:
        with over_socket(connection) as channel:
            while len(buffers) < count:
                asked = min(count - len(buffers), FDS_PER_CALL)
                mark, fds, _, _ = socket.recv_fds(channel, len(MARK), asked)
                try:
                    if not mark:
                        raise EOFError
                    if len(fds) != asked:
                        raise error("RL1001", found=len(fds), asked=asked)
                    buffers += [memory_of(fd) for fd in fds]
                finally:
                    for fd in fds:
                        os.close(fd)
    else:
        buffers = [bytearray(connection.recv_bytes()) for _ in range(count)]
    return (head[0], head[1], head[2]), memoryview(received)[HEAD.size :], buffers


def over_socket(connection: Connection) -> socket.socket:
    """The socket below a connection; closing it leaves the connection open."""
    return socket.socket(fileno=os.dup(connection.fileno()))
