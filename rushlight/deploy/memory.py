"""Memory that may be executed: filled first, then closed to writing."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys
from typing import Any

from rushlight.base.errors import error

__all__ = ["Code", "check_machine"]

PAGE = mmap.PAGESIZE


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

    def close(self) -> None:
        """From here on it may be executed and not be written."""
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        if protect(self.address, self.size, mmap.PROT_READ | mmap.PROT_EXEC):
            raise error("RL1582", RuntimeError, reason=f"errno {ctypes.get_errno()}")
