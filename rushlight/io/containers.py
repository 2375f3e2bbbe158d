"""Where the bytes of a checkpoint lie: torch's zip archive, and the stream that came before it (and
before that, `tarformat`).

Both give storages by key, checked against what the file really holds before memory is taken.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np

from rushlight.base.errors import CheckpointError, error
from rushlight.core.dtype import dtype, uint8
from rushlight.core.storage import Storage
from rushlight.core.typedstorage import TypedStorage
from rushlight.io.places import is_meta, restored
from rushlight.io.rebuild import NAMES, StorageType, find_name
from rushlight.io.walker import Inert, Walker, fail, shown
from rushlight.io.zipformat import Entry, Span, read_directory

__all__ = ["Archive", "Source", "Stream"]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
MAX_BYTES = 1 << 62
# Memory that mapped storages begin at must suit every dtype.
MAPPED_ALIGNMENT = 16

# Byte order of files that do not tell theirs: "little", "big" or "native".
endianness: list[str | None] = [None]


class StorageId:
    """What a file says about a storage, checked as far as it can be without the bytes."""

    __slots__ = ("count", "dtype", "key", "location", "part")

    def __init__(self, pid: Any) -> None:
        if type(pid) is not tuple or not 5 <= len(pid) <= 6 or text_of(pid[0]) != "storage":
            raise fail("it refers to something else than a storage")
        storage_type, key, location, count = pid[1:5]
        if not isinstance(storage_type, StorageType):
            raise fail(f"a storage has the type {shown(storage_type)}, which is not known")
        # None for untyped bytes.
        self.dtype: dtype | None = storage_type.dtype
        self.key = str(key) if type(key) is int and abs(key) < MAX_BYTES else text_of(key)
        self.location = text_of(location)
        if self.key is None or self.location is None:
            raise fail("a storage has no key or location")
        if type(count) is not int or not 0 <= count * self.width < MAX_BYTES:
            raise fail(f"a storage has the length {shown(count)}")
        self.count = count
        self.part = pid[5] if len(pid) == 6 else None

    @property
    def width(self) -> int:
        return 1 if self.dtype is None else self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return int(self.count) * self.width


def text_of(value: Any) -> Any:
    """A string, which Python 2 wrote as bytes; None for anything else."""
    if type(value) is bytes and len(value) < 256:
        return value.decode("latin1")
    return value if type(value) is str else None


def swapped(array: Any, dtype: dtype | None) -> Any:
    """Bytes of a machine with the other byte order."""
    if dtype is None:
        raise error("RL0907", CheckpointError)
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    whole = array.size // width * width
    array[:whole] = array[:whole].reshape(-1, width)[:, ::-1].reshape(-1)
    return array


class Source:
    """What the two containers share: storages by key, made once."""

    def __init__(self, map_location: Any) -> None:
        self.map_location = map_location
        self.to_meta = is_meta(map_location)
        self.storages: dict[str, Storage] = {}
        self.walker: Walker | None = None

    def walk(self, data: bytes, position: int, encoding: str) -> tuple[Any, set[str]]:
        """The object of a pickle, and the names that were read as inert records."""
        self.walker = Walker(data, find_name, self.persistent, position, encoding)
        return self.walker.read(), self.walker.inert

    def persistent(self, pid: Any) -> Any:
        """The storage that a pickle refers to, with the dtype that the pickle gives it."""
        if type(pid) is tuple and len(pid) >= 2 and text_of(pid[0]) == "module":
            # A class, with its source text in old files.
            return pid[1]
        known = StorageId(pid)
        storage = self.storages.get(known.key)
        if storage is None:
            storage = self.storages[known.key] = self.placed(known)
        elif known.nbytes > storage.nbytes_:
            raise fail(f"storage {shown(known.key)} has two lengths")
        given = uint8 if known.dtype is None else known.dtype
        if known.part is not None:
            storage = self.part_of(storage, known)
        return TypedStorage.over(storage, given)

    def placed(self, known: StorageId) -> Storage:
        if self.to_meta:
            self.check(known)
            return Storage.meta(known.nbytes)
        if self.walker is not None:
            # Bytes that a file has may be looked through, too.
            self.walker.budget += 2 * known.nbytes
        return restored(Storage(self.bytes_of(known)), known.location, self.map_location)

    def part_of(self, whole: Storage, known: StorageId) -> Storage:
        """A storage within another, as old files have them: (key, offset, count)."""
        part = known.part
        if type(part) is not tuple or len(part) != 3 or text_of(part[0]) is None:
            raise fail("a part of a storage is described in an unknown way")
        key, offset, count = part
        if type(offset) is not int or type(count) is not int or offset < 0 or count < 0:
            raise fail("a part of a storage has no place")
        start, end = offset * known.width, (offset + count) * known.width
        if end > whole.nbytes_:
            raise fail("a part of a storage lies outside of it")
        name = f"{known.key} {text_of(key)}"
        found = self.storages.get(name)
        if found is None:
            if whole.buffer is None:
                found = Storage.meta(end - start)
            else:
                found = Storage(whole.buffer[start:end])
            self.storages[name] = found
        elif found.nbytes_ != end - start:
            raise fail(f"storage {shown(text_of(key))} has two lengths")
        return found

    def check(self, known: StorageId) -> Any:
        """Fails if the file does not hold the storage."""
        raise NotImplementedError

    def bytes_of(self, known: StorageId) -> Any:
        """The storage's bytes, as an array that may be written to."""
        raise NotImplementedError

    def load(self, encoding: str) -> tuple[Any, set[str]]:
        """The object, and the names that were read as inert records."""
        raise NotImplementedError

    def pickles(self) -> Any:
        """A file that begins with the object's pickle, for pickle itself."""
        raise NotImplementedError


class Archive(Source):
    """A zip file with `data.pkl` and one entry for each storage."""

    # Whether entries may be compressed, and where storages lie.
    may_be_packed = False
    folder = "data"

    def __init__(self, span: Span, map_location: Any, mapping: Any = None) -> None:
        super().__init__(map_location)
        self.span = span
        # Memory that is the file itself, where storages are not to be read.
        self.mapping = mapping
        self.entries = read_directory(span, self.may_be_packed)
        first = next(iter(self.entries), b"")
        self.root = first[: first.find(b"/") + 1]
        if not self.root:
            raise fail("its archive has no folder with a data.pkl")
        self.check_contents()
        self.swap = self.byte_order() != sys.byteorder

    def check_contents(self) -> None:
        """Refuses an archive of another kind."""
        if self.root + b"constants.pkl" in self.entries:
            raise error("RL0908", CheckpointError)

    def find(self, name: str) -> Entry:
        found = self.entries.get(self.root + name.encode("utf-8", "surrogatepass"))
        if found is None:
            raise fail(f"its archive has no entry {shown(name)}")
        return found

    def entry(self, name: str) -> bytes:
        return self.find(name).content(self.span)

    def byte_order(self) -> str:
        if self.root + b"byteorder" not in self.entries:
            order = endianness[0] or "little"
            return sys.byteorder if order == "native" else order
        if self.find("byteorder").size > 16:
            raise fail("its byte order is unknown")
        found = self.entry("byteorder").decode("latin1")
        if found not in ("little", "big"):
            raise fail(f"its byte order is {shown(found)}")
        return found

    def check(self, known: StorageId) -> Entry:
        found = self.find(f"{self.folder}/{known.key}")
        if found.packed is not None:
            raise fail(f"storage {shown(known.key)} is compressed")
        if found.size < known.nbytes:
            raise fail(
                f"storage {shown(known.key)} has {found.size} bytes, {known.nbytes} are expected"
            )
        return found

    def bytes_of(self, known: StorageId) -> Any:
        found = self.check(known)
        start = found.start(self.span)
        if self.mapping is not None and known.nbytes:
            array = np.frombuffer(self.mapping, np.uint8, known.nbytes, start)
            aligned = start % MAPPED_ALIGNMENT == 0
            array = array if aligned else array.copy()
        else:
            array = self.span.array(start, found.size)
            found.check(array)
            array = array[: known.nbytes]
        return swapped(array, known.dtype) if self.swap else array

    def load(self, encoding: str) -> tuple[Any, set[str]]:
        return self.walk(self.entry("data.pkl"), 0, encoding)

    def pickles(self) -> Any:
        return io.BytesIO(self.entry("data.pkl"))


class Stream(Source):
    """The older format: pickles one after the other, then the bytes of the storages."""

    def __init__(self, file: Any, map_location: Any) -> None:
        super().__init__(map_location)
        start = file.tell()
        self.data = file.read()
        self.places: dict[str, tuple[int, int]] = {}
        position = 0
        for expected in (MAGIC_NUMBER, PROTOCOL_VERSION):
            found, position = self.skim(position)
            if type(found) is not int or found != expected:
                raise fail("it does not begin as checkpoints do; pickle.load reads plain pickles")
        system, position = self.skim(position)
        if type(system) is not dict:
            raise fail("it does not tell the machine it was written on")
        self.swap = bool(system.get("little_endian", True)) != (sys.byteorder == "little")
        self.start = position
        # Storages stand behind the object: where they are must be known before it is made.
        self.seen: dict[str, StorageId] = {}
        _, position = self.skim(position, self.note)
        keys, position = self.skim(position)
        file.seek(start + self.locate(keys, position))

    def skim(self, position: int, persistent: Any = None) -> tuple[Any, int]:
        """(the pickle at a position with nothing but inert records, the position behind it)."""
        walker = Walker(self.data, storage_names, persistent or no_storage, position, "latin1")
        found = walker.read()
        return found, walker.position

    def note(self, pid: Any) -> Any:
        if type(pid) is tuple and len(pid) >= 2 and text_of(pid[0]) == "module":
            return pid[1]
        known = StorageId(pid)
        before = self.seen.setdefault(known.key, known)
        if before.nbytes != known.nbytes:
            raise fail(f"storage {shown(known.key)} has two lengths")
        return None

    def locate(self, keys: Any, position: int) -> int:
        """Where each storage lies; the position behind the last."""
        if type(keys) is not list:
            raise fail("the list of its storages is missing")
        for key in keys:
            known = self.seen.get(str(key) if type(key) is int else text_of(key))
            if known is None or known.key in self.places:
                raise fail(f"storage {shown(key)} is not part of it")
            header = self.data[position : position + 8]
            order: Any = "big" if self.swap == (sys.byteorder == "little") else "little"
            if len(header) < 8 or position + 8 + known.nbytes > len(self.data):
                raise fail("its storages are cut off")
            count = int.from_bytes(header, order)
            if count != known.count:
                raise fail(
                    f"storage {shown(known.key)} has {count} elements, {known.count} are expected"
                )
            self.places[known.key] = (position + 8, known.nbytes)
            position += 8 + known.nbytes
        return position

    def check(self, known: StorageId) -> tuple[int, int]:
        found = self.places.get(known.key)
        if found is None or found[1] != known.nbytes:
            raise fail(f"storage {shown(known.key)} is missing")
        return found

    def bytes_of(self, known: StorageId) -> Any:
        start, nbytes = self.check(known)
        array = np.frombuffer(self.data, np.uint8, nbytes, start).copy()
        return swapped(array, known.dtype) if self.swap else array

    def load(self, encoding: str) -> tuple[Any, set[str]]:
        return self.walk(self.data, self.start, encoding)

    def pickles(self) -> Any:
        file = io.BytesIO(self.data)
        file.seek(self.start)
        return file


def storage_names(module: str, name: str) -> Any:
    found = NAMES.get((module, name))
    return found if isinstance(found, StorageType) else Inert(module, name)


def no_storage(pid: Any) -> Any:
    raise fail("it refers to a storage where there can be none")
