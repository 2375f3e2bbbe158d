"""The first format of all: a tar archive of storages, of tensors over them, and of a pickle.

`storages` and `tensors` are runs of pickles with raw bytes between them. All lengths are checked
against the archive before memory is taken; nothing is extracted.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

from rushlight.core.storage import Storage
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.containers import Source, no_storage, storage_names, text_of
from rushlight.io.places import restored
from rushlight.io.rebuild import StorageType, tensor_over
from rushlight.io.walker import Walker, fail, shown

__all__ = ["Tar"]

BLOCK = 512
MEMBERS = ("storages", "tensors", "pickle")
MOST_DIMS = 64


def members_of(data: bytes) -> dict[str, bytes]:
    """The files of an archive, by name."""
    found: dict[str, bytes] = {}
    position = 0
    while position + BLOCK <= len(data) and data[position] != 0:
        header = data[position : position + BLOCK]
        name = header[:100].rstrip(b"\0").decode("latin1")
        try:
            size = int(header[124:136].rstrip(b"\0 ") or b"0", 8)
        except ValueError:
            raise fail("an entry of its archive has no length") from None
        start = position + BLOCK
        if start + size > len(data):
            raise fail("its archive is cut off")
        if header[156:157] in (b"0", b"\0") and name in MEMBERS:
            if name in found:
                raise fail(f"two entries of its archive are called {name!r}")
            found[name] = data[start : start + size]
        position = start + -(-size // BLOCK) * BLOCK
    return found


class Run:
    """Pickles with raw bytes between them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def pickle(self) -> Any:
        walker = Walker(self.data, storage_names, no_storage, self.position, "latin1")
        found = walker.read()
        self.position = walker.position
        return found

    def count(self, least: int) -> int:
        """A number of things, each of which takes at least so many bytes."""
        found = self.pickle()
        if type(found) is not int or not 0 <= found * least <= len(self.data):
            raise fail(f"it claims to hold {shown(found)} tensors or storages")
        return found

    def take(self, nbytes: int) -> bytes:
        end = self.position + nbytes
        if nbytes < 0 or end > len(self.data):
            raise fail("its storages are cut off")
        found = self.data[self.position : end]
        self.position = end
        return found

    def numbers(self, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}q", self.take(8 * count))


class Tar(Source):
    """Storages and tensors by key, then the object that refers to them."""

    def __init__(self, file: Any, map_location: Any) -> None:
        super().__init__(map_location)
        members = members_of(file.read())
        missing = [name for name in MEMBERS if name not in members]
        if missing:
            raise fail(f"its archive has no entry {missing[0]!r}")
        self.members = members
        self.objects: dict[str, Any] = {}

    def read_storages(self) -> None:
        run = Run(self.members["storages"])
        for _ in range(run.count(8)):
            entry = run.pickle()
            if type(entry) is not tuple or len(entry) != 3 or not isinstance(entry[2], StorageType):
                raise fail("a storage is described in an unknown way")
            key, location, dtype = str(entry[0]), text_of(entry[1]), entry[2].dtype
            if dtype is None or location is None:
                raise fail("a storage has no type or location")
            (count,) = run.numbers(1)
            raw = run.take(count * dtype.itemsize)
            storage = Storage(np.frombuffer(raw, np.uint8).copy())
            if self.to_meta:
                storage = Storage.meta(storage.nbytes_)
            else:
                storage = restored(storage, location, self.map_location)
            self.objects[key] = TypedStorage.over(storage, dtype)
        views = run.pickle()
        if type(views) is not list:
            raise fail("the list of its storages is missing")
        for view in views:
            self.add_part(view)

    def add_part(self, view: Any) -> None:
        """A storage within another."""
        if type(view) is not tuple or len(view) != 4:
            raise fail("a part of a storage is described in an unknown way")
        key, root, offset, count = view
        whole = self.objects.get(str(root))
        if not isinstance(whole, TypedStorage) or type(offset) is not int or type(count) is not int:
            raise fail("a part of a storage has no place")
        width = whole.dtype.itemsize
        start, end = offset * width, (offset + count) * width
        buffer = whole._untyped_storage.buffer
        if not 0 <= start <= end <= whole._untyped_storage.nbytes_:
            raise fail("a part of a storage lies outside of it")
        part = Storage.meta(end - start) if buffer is None else Storage(buffer[start:end])
        self.objects[str(key)] = TypedStorage.over(part, whole.dtype)

    def read_tensors(self) -> None:
        run = Run(self.members["tensors"])
        for _ in range(run.count(16)):
            entry = run.pickle()
            if type(entry) is not tuple or len(entry) != 3:
                raise fail("a tensor is described in an unknown way")
            ndim, _ = struct.unpack("<ii", run.take(8))
            if not 0 <= ndim <= MOST_DIMS:
                raise fail(f"a tensor has {ndim} dimensions")
            sizes, strides = run.numbers(ndim), run.numbers(ndim)
            (offset,) = run.numbers(1)
            stored = self.objects.get(str(entry[1]))
            self.objects[str(entry[0])] = tensor_over(stored, offset, sizes, strides)

    def persistent(self, pid: Any) -> Any:
        if type(pid) is tuple and pid:
            # A class, with its source text.
            return pid[0]
        found = self.objects.get(str(pid)) if type(pid) in (int, str, bytes) else None
        if found is None:
            raise fail(f"it refers to {shown(pid)}, which it does not hold")
        return found

    def load(self, encoding: str) -> tuple[Any, set[str]]:
        if not self.objects:
            self.read_storages()
            self.read_tensors()
        return self.walk(self.members["pickle"], 0, encoding)

    def pickles(self) -> Any:
        self.read_storages()
        self.read_tensors()
        return io.BytesIO(self.members["pickle"])
