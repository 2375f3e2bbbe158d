"""Relocatable objects of LLVM as flat images: bytes that run at any address.

Sections that a program reads or runs lie one behind the other, what refers to one another is
settled, and functions of the C library are reached through a table of addresses that the loader
fills. What is written lies at the beginning, on pages of its own. Thread locals are refused.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from rushlight.base.errors import error

__all__ = ["Image", "image_of"]

HEADER, SECTION = Struct("<16sHHIQQQIHHHHHH"), Struct("<IIQQQQIIQQ")
SYMBOL, RELOCATION = Struct("<IBBHQQ"), Struct("<QQq")
PROGBITS, SYMTAB, RELA, NOBITS = 1, 2, 4, 8
WRITE, ALLOC, THREAD = 1, 2, 0x400
UNDEFINED, ABSOLUTE = 0, 0xFFF1
R_64, R_PC32, R_PLT32, R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX = 1, 2, 4, 9, 41, 42
# What nothing reads when code runs.
LEFT_OUT = (b".eh_frame", b".note", b".comment")
# No page of an x86-64 is smaller.
PAGE = 4096
# A jump to the address in a slot.
JUMP = b"\xff\x25"
STUB = 8


class Image:
    """Code at no address yet. `entries` are offsets of functions, `imports` those of slots for
    addresses of functions by their names, `absolute` those of addresses within the image."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.entries: dict[str, int] = {}
        self.imports: dict[str, int] = {}
        self.absolute: list[int] = []
        # Bytes at the beginning that code writes to.
        self.writable = 0

    def place(self, content: bytes, alignment: int) -> int:
        self.data += b"\0" * (-len(self.data) % max(alignment, 1))
        start = len(self.data)
        self.data += content
        return start

    def facts(self) -> dict[str, Any]:
        """Everything but the bytes, as plain data."""
        return {
            "entries": self.entries,
            "imports": self.imports,
            "absolute": self.absolute,
            "writable": self.writable,
        }


class ObjectFile:
    """An ELF object for x86-64."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        header = HEADER.unpack_from(data)
        start, count, names = header[6], header[12], header[13]
        self.sections = [
            SECTION.unpack_from(data, start + number * SECTION.size) for number in range(count)
        ]
        self.names = [self.text(self.sections[names], section[0]) for section in self.sections]
        tables = [section for section in self.sections if section[1] == SYMTAB]
        self.symbols: list[tuple[bytes, int, int]] = []
        for table in tables[:1]:
            strings = self.sections[table[6]]
            for at in range(table[4], table[4] + table[5], SYMBOL.size):
                name, _, _, home, value, _ = SYMBOL.unpack_from(data, at)
                self.symbols.append((self.text(strings, name), home, value))

    def text(self, strings: Any, at: int) -> bytes:
        start = strings[4] + at
        return self.data[start : self.data.index(b"\0", start)]

    def content(self, section: Any) -> bytes:
        if section[1] == NOBITS:
            return bytes(section[5])
        return self.data[section[4] : section[4] + section[5]]

    def is_written(self, number: int) -> bool:
        is_constant = self.names[number].startswith(b".data.rel.ro")
        return bool(self.sections[number][2] & WRITE) and not is_constant


def image_of(data: bytes, entries: list[str]) -> Image:
    """The image of an object, whose functions `entries` are called from outside."""
    found, image = ObjectFile(data), Image()
    places: dict[int, int] = {}
    kept = [
        number
        for number, section in enumerate(found.sections)
        if section[2] & ALLOC and section[5] and not found.names[number].startswith(LEFT_OUT)
    ]
    for is_data in (True, False):
        for number in kept:
            section = found.sections[number]
            if section[2] & THREAD:
                raise error("RL1585", RuntimeError, what=f"section {found.names[number].decode()}")
            if found.is_written(number) is is_data:
                places[number] = image.place(found.content(section), section[8])
        if is_data and image.data:
            image.place(b"", PAGE)
            image.writable = len(image.data)
    slots = Slots(image)
    for section in found.sections:
        if section[1] == RELA and section[7] in places:
            for at in range(section[4], section[4] + section[5], RELOCATION.size):
                relocate(found, image, slots, places, section[7], RELOCATION.unpack_from(data, at))
    for name, home, value in found.symbols:
        if name.decode() in entries:
            image.entries[name.decode()] = places[home] + value
    return image


class Slots:
    """The addresses of other libraries' functions, and jumps to them."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.stubs: dict[str, int] = {}

    def slot(self, name: str) -> int:
        if name not in self.image.imports:
            self.image.imports[name] = self.image.place(bytes(8), 8)
        return self.image.imports[name]

    def stub(self, name: str) -> int:
        if name not in self.stubs:
            slot = self.slot(name)
            start = self.image.place(bytes(STUB), STUB)
            distance = slot - (start + len(JUMP) + 4)
            code = JUMP + distance.to_bytes(4, "little", signed=True)
            self.image.data[start : start + len(code)] = code
            self.stubs[name] = start
        return self.stubs[name]


def relocate(
    found: ObjectFile,
    image: Image,
    slots: Slots,
    places: dict[int, int],
    home: int,
    entry: tuple[int, int, int],
) -> None:
    offset, info, addend = entry
    kind = info & 0xFFFFFFFF
    name, section, value = found.symbols[info >> 32]
    at = places[home] + offset
    inside = section in places
    if not inside and section != UNDEFINED:
        raise error("RL1585", RuntimeError, what=f"a reference to {found.names[section].decode()}")
    if kind in (R_GOTPCREL, R_GOTPCRELX, R_REX_GOTPCRELX) and not inside:
        target = slots.slot(name.decode())
    elif kind in (R_PC32, R_PLT32):
        target = places[section] + value if inside else slots.stub(name.decode())
    elif kind == R_64 and inside:
        place = places[section] + value + addend
        image.data[at : at + 8] = place.to_bytes(8, "little")
        image.absolute.append(at)
        return
    else:
        raise error("RL1585", RuntimeError, what=f"a relocation of kind {kind}")
    image.data[at : at + 4] = (target + addend - at).to_bytes(4, "little", signed=True)
