"""Zip archives as checkpoints use them: entries stored as they are, each name once.

The reader believes the central directory only as far as the file bears it out: entries lie within
the file, one behind the other, under the names that the directory gives them.
The writer needs nothing but `write` and puts every entry at a multiple of 64 bytes.
"""

from __future__ import annotations

import zlib
from struct import error as StructError
from struct import unpack_from
from typing import Any

import numpy as np

from rushlight.io.walker import fail, shown

__all__ = ["ALIGNMENT", "Entry", "Span", "ZipWriter", "read_directory"]

ALIGNMENT = 64
LOCAL, CENTRAL, END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64, LOCATOR64 = b"PK\x06\x06", b"PK\x06\x07"
LOCAL_SIZE, CENTRAL_SIZE, END_SIZE, END64_SIZE, LOCATOR64_SIZE = 30, 46, 22, 56, 20
FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF
ENCRYPTED = 1
DEFLATED = 8
# Entries that may be compressed are texts.
MOST_UNPACKED = 64 << 20
CHUNK = 1 << 24


class Span:
    """A part of a file: `length` bytes from `start`, read at offsets within it."""

    def __init__(self, file: Any, start: int, length: int) -> None:
        self.file = file
        self.start = start
        self.length = length

    def at(self, offset: int, count: int) -> bytes:
        if offset < 0 or count < 0 or offset + count > self.length:
            raise fail("its archive is cut off")
        self.file.seek(self.start + offset)
        found = self.file.read(count)
        if len(found) != count:
            raise fail("its archive is cut off")
        return bytes(found)

    def array(self, offset: int, count: int) -> Any:
        """Bytes as an array of their own."""
        if offset < 0 or count < 0 or offset + count > self.length:
            raise fail("its archive is cut off")
        result: Any = np.empty(count, np.uint8)
        self.file.seek(self.start + offset)
        target, done = memoryview(result), 0
        readinto = getattr(self.file, "readinto", None)
        while done < count:
            if readinto is not None:
                got = readinto(target[done:])
            else:
                piece = self.file.read(min(count - done, CHUNK))
                got = len(piece)
                target[done : done + got] = piece
            if not got:
                raise fail("its archive is cut off")
            done += got
        return result


class Entry:
    """One file of an archive."""

    __slots__ = ("crc", "header", "name", "packed", "size")

    def __init__(
        self, name: bytes, header: int, size: int, crc: int, packed: int | None = None
    ) -> None:
        self.name = name
        self.header = header
        self.size = size
        self.crc = crc
        # How many bytes it takes where it is compressed, else None.
        self.packed = packed

    def start(self, span: Span) -> int:
        """Where its bytes begin, according to the header before them."""
        header = span.at(self.header, LOCAL_SIZE)
        flags, method = unpack_from("<HH", header, 6)
        name_size, extra_size = unpack_from("<HH", header, 26)
        wanted = 0 if self.packed is None else DEFLATED
        if header[:4] != LOCAL or method != wanted or flags & ENCRYPTED:
            raise fail(f"entry {shown(self.name)} of its archive is damaged")
        if span.at(self.header + LOCAL_SIZE, name_size) != self.name:
            raise fail(f"entry {shown(self.name)} of its archive has two names")
        start = self.header + LOCAL_SIZE + int(name_size) + int(extra_size)
        if start + self.stored > span.length:
            raise fail(f"entry {shown(self.name)} of its archive is cut off")
        return start

    @property
    def stored(self) -> int:
        """How many bytes it takes in the file."""
        return self.size if self.packed is None else self.packed

    def content(self, span: Span) -> bytes:
        """Its bytes, unpacked and compared with their checksum."""
        found = span.at(self.start(span), self.stored)
        if self.packed is not None:
            found = self.unpacked(found)
        self.check(found)
        return found

    def unpacked(self, packed: bytes) -> bytes:
        # No more than the directory promises is made, whatever the bytes would give.
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            found = inflate.decompress(packed, self.size + 1)
        except zlib.error:
            found = b""
        if len(found) != self.size or not inflate.eof:
            raise fail(f"entry {shown(self.name)} of its archive is damaged")
        return found

    def check(self, content: Any) -> None:
        # torch writes 0 where it was told not to compute checksums.
        if self.crc and zlib.crc32(content) != self.crc:
            raise fail(f"entry {shown(self.name)} of its archive is damaged (its checksum differs)")


def read_directory(span: Span, may_be_packed: bool = False) -> dict[bytes, Entry]:
    """The entries of an archive by name, in the order of its directory."""
    try:
        return entries_of(span, may_be_packed)
    except StructError:
        raise fail("the directory of its archive is damaged") from None


def entries_of(span: Span, may_be_packed: bool) -> dict[bytes, Entry]:
    count, size, offset = find_directory(span)
    directory = span.at(offset, size)
    entries: dict[bytes, Entry] = {}
    place = 0
    for _ in range(count):
        if directory[place : place + 4] != CENTRAL:
            raise fail("the directory of its archive is damaged")
        flags, method = unpack_from("<HH", directory, place + 8)
        crc, packed, plain, name_size, extra_size, comment_size = unpack_from(
            "<IIIHHH", directory, place + 16
        )
        (header,) = unpack_from("<I", directory, place + 42)
        name = directory[place + CENTRAL_SIZE : place + CENTRAL_SIZE + name_size]
        extra = place + CENTRAL_SIZE + name_size
        place = extra + extra_size + comment_size
        if place > size:
            raise fail("the directory of its archive is damaged")
        if FULL32 in (packed, plain, header):
            plain, packed, header = large_fields(
                directory[extra : extra + extra_size], [plain, packed, header]
            )
        is_packed = may_be_packed and method == DEFLATED
        if is_packed and plain > MOST_UNPACKED:
            raise fail(f"entry {shown(name)} of its archive is too large to be compressed")
        if not is_packed and (method or packed != plain):
            raise fail(
                f"entry {shown(name)} of its archive is compressed; checkpoints store their entries"
            )
        if flags & ENCRYPTED:
            raise fail(f"entry {shown(name)} of its archive is encrypted")
        if name in entries:
            raise fail(f"two entries of its archive are called {shown(name)}")
        entries[name] = Entry(name, header, plain, crc, packed if is_packed else None)
    if place != size:
        raise fail("the directory of its archive is damaged")
    check_places(entries, offset)
    return entries


def check_places(entries: dict[bytes, Entry], limit: int) -> None:
    """Entries follow one another, and the directory follows them."""
    free = 0
    for entry in sorted(entries.values(), key=lambda entry: entry.header):
        if entry.header < free:
            raise fail("the entries of its archive overlap")
        free = entry.header + LOCAL_SIZE + len(entry.name) + entry.stored
    if free > limit:
        raise fail("the entries of its archive are longer than the file")


def large_fields(extra: bytes, fields: list[int]) -> list[int]:
    """Sizes and offset where 32 bits do not hold them (zip64)."""
    place = 0
    while place + 4 <= len(extra):
        kind, size = unpack_from("<HH", extra, place)
        if kind == 1:
            body, at = extra[place + 4 : place + 4 + size], 0
            for position, value in enumerate(fields):
                if value == FULL32:
                    (fields[position],) = unpack_from("<Q", body, at)
                    at += 8
            return fields
        place += 4 + size
    return fields


def find_directory(span: Span) -> tuple[int, int, int]:
    """(number of entries, size, offset) of the central directory."""
    tail_size = min(span.length, END_SIZE + FULL16)
    tail_start = span.length - tail_size
    tail = span.at(tail_start, tail_size)
    place = tail.rfind(END)
    while place >= 0:
        if place + END_SIZE <= tail_size:
            (comment,) = unpack_from("<H", tail, place + 20)
            if place + END_SIZE + comment == tail_size:
                break
        place = tail.rfind(END, 0, place + 3)
    if place < 0:
        raise fail("its archive has no end; it may have been cut off while it was written or sent")
    disk, first_disk, here, count, size, offset = unpack_from("<HHHHII", tail, place + 4)
    end = tail_start + place
    if count == FULL16 or size == FULL32 or offset == FULL32:
        locator = end - LOCATOR64_SIZE
        if locator >= 0 and span.at(locator, 4) == LOCATOR64:
            (end,) = unpack_from("<Q", span.at(locator, LOCATOR64_SIZE), 8)
            record = span.at(end, END64_SIZE)
            if record[:4] != END64:
                raise fail("the directory of its archive is damaged")
            disk, first_disk, here, count, size, offset = unpack_from("<IIQQQQ", record, 16)
    if disk or first_disk or here != count:
        raise fail("its archive has several volumes")
    if offset + size > end or count * CENTRAL_SIZE > size:
        raise fail("the directory of its archive is damaged")
    return count, size, offset


class ZipWriter:
    """Writes an archive, entry by entry; `close` writes the directory."""

    def __init__(self, write: Any) -> None:
        self.write = write
        self.position = 0
        self.directory: list[bytes] = []

    def put(self, content: Any) -> None:
        self.write(content)
        self.position += len(content)

    def add(self, name: str, content: Any) -> None:
        """An entry; `content` is bytes or a flat array of them."""
        label = name.encode()
        size, header = len(content), self.position
        crc = zlib.crc32(content)
        sizes = size.to_bytes(8, "little")
        large = b"\x01\x00\x10\x00" + sizes + sizes if size >= FULL32 else b""
        padding = -(header + LOCAL_SIZE + len(label) + len(large) + 4) % ALIGNMENT
        extra = large + b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
        short = min(size, FULL32).to_bytes(4, "little")
        # Version, flags (names are UTF-8), method, and a date before all others.
        head = b"\x2d\x00\x00\x08\x00\x00\x00\x00\x21\x00"
        body = head + crc.to_bytes(4, "little") + short + short + len(label).to_bytes(2, "little")
        self.put(LOCAL + body + len(extra).to_bytes(2, "little") + label + extra)
        self.put(content)
        wide = large[4:] + (header.to_bytes(8, "little") if header >= FULL32 else b"")
        if wide:
            wide = b"\x01\x00" + len(wide).to_bytes(2, "little") + wide
        place = min(header, FULL32).to_bytes(4, "little")
        tail = len(wide).to_bytes(2, "little") + bytes(10) + place
        self.directory.append(CENTRAL + b"\x00\x00" + body + tail + label + wide)

    def close(self) -> None:
        start, count = self.position, len(self.directory)
        self.put(b"".join(self.directory))
        size, end = self.position - start, self.position

        def number(value: int, width: int) -> bytes:
            return value.to_bytes(width, "little")

        if count >= FULL16 or start >= FULL32:
            self.put(END64 + number(44, 8) + b"\x2d\x00\x2d\x00" + bytes(8))
            self.put(number(count, 8) * 2 + number(size, 8) + number(start, 8))
            self.put(LOCATOR64 + bytes(4) + number(end, 8) + number(1, 4))
        few = number(min(count, FULL16), 2)
        place = number(min(size, FULL32), 4) + number(min(start, FULL32), 4)
        self.put(END + bytes(4) + few + few + place + bytes(2))
