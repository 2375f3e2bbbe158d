"""Memory that may be executed: filled first, then closed to writing."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from typing import Any

from rushlight.base.errors import error
from rushlight.deploy.container import refuse

__all__ = ["Code", "check_machine", "placed"]

PAGE = mmap.PAGESIZE
# What machine code calls of the C library, and of the interpreter.
LIBRARY = frozenset(
    f"{name}{kind}"
    for name in ("ceil", "copysign", "floor", "fma", "fmax", "fmin", "fmod", "nearbyint", "rint",
                 "round", "roundeven", "sqrt", "trunc", "exp", "log", "pow")
    for kind in ("", "f")
) | {
    "memcpy", "memmove", "memset", "pthread_create", "pthread_join", "pthread_sigmask",
    "sigfillset", "syscall",
}  # fmt: skip
INTERPRETER = frozenset(("PyLong_AsSsize_t", "Py_IncRef"))


def check_machine() -> None:
    """Refuse machines whose code, or whose way of calling it, is another."""
    machine = platform.machine().lower()
    if machine not in ("x86_64", "amd64") or sys.platform == "win32" or sys.maxsize < 1 << 32:
        raise error("RL1581", RuntimeError, found=f"{sys.platform} on {machine}")


class Code:
    """Machine code at an address of its own, as long as this object lives."""

    def __init__(self, image: bytes) -> None:
        size = max(-(-len(image) // PAGE) * PAGE, PAGE)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.memory = mmap.mmap(-1, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.memory[: len(image)] = image
        # Holds the mapping; its address is that of the first byte.
        self.first: Any = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(self.first)
        self.size = size

    def put_address(self, offset: int, address: int) -> None:
        self.memory[offset : offset + 8] = address.to_bytes(8, "little")

    def close(self, writable: int = 0) -> None:
        """From here on it may be executed and not be written, but for so many pages' bytes at its
        beginning, which are data."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(self.address + writable, self.size - writable, mmap.PROT_READ | mmap.PROT_EXEC):
            raise error("RL1582", RuntimeError, reason=f"errno {ctypes.get_errno()}")


def placed(image: Any, facts: dict[str, Any]) -> Code:
    """The code of an image, whose addresses are settled."""
    data = bytes(image)
    writable = facts["writable"]
    offsets = [*facts["imports"].values(), *facts["absolute"]]
    if any([not 0 <= offset <= len(data) - 8 for offset in offsets]):
        raise refuse("an address in its code lies outside")
    if writable % PAGE or not 0 <= writable < len(data):
        raise refuse("the data of its code lies outside")
    code = Code(data)
    for name, offset in facts["imports"].items():
        code.put_address(offset, library_address(name))
    for offset in facts["absolute"]:
        place = int.from_bytes(data[offset : offset + 8], "little")
        code.put_address(offset, code.address + place)
    code.close(writable)
    return code


def library_address(name: str) -> int:
    """Where a function of the C library is."""
    home: Any = None
    if name in INTERPRETER:
        home = ctypes.pythonapi
    elif name in LIBRARY:
        home = ctypes.CDLL(None)
        if not hasattr(home, name):
            home = ctypes.CDLL("libm.so.6")
    if home is None or not hasattr(home, name):
        raise refuse(f"its code calls {name!r}, which this system does not have")
    return ctypes.cast(getattr(home, name), ctypes.c_void_p).value or 0
