"""How many threads NumPy's BLAS uses: read from the library that is loaded, and set there.

NumPy has no call for it, but each BLAS has one. Its name depends on the build (`openblas_`,
`scipy_openblas_ ... 64_`, `MKL_`), so it is looked for by name in the libraries of this process.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = ["blas_libraries", "blas_threads", "set_blas_threads"]

LIBRARY = re.compile(r"(blas|mkl_rt|blis)", re.IGNORECASE)
NAMES = [
    (f"{prefix}openblas_get_num_threads{suffix}", f"{prefix}openblas_set_num_threads{suffix}")
    for prefix in ("scipy_", "")
    for suffix in ("64_", "_64", "")
]
NAMES += [
    ("MKL_Get_Max_Threads", "MKL_Set_Num_Threads"),
    ("bli_thread_get_num_threads", "bli_thread_set_num_threads"),
]


def library_paths() -> Iterator[str]:
    """Files that may be a BLAS: those mapped into this process, and those NumPy came with."""
    try:
        with open("/proc/self/maps") as maps:
            # An address, four facts, and the path where there is one.
            entries = {line.rstrip("\n").split(maxsplit=5)[-1] for line in maps}
        yield from sorted(path for path in entries if path.startswith("/"))
    except OSError:
        package = os.path.dirname(np.__file__)
        for folder in (f"{package}.libs", os.path.join(package, ".dylibs")):
            if os.path.isdir(folder):
                yield from (os.path.join(folder, name) for name in sorted(os.listdir(folder)))


def blas_libraries() -> Iterator[ctypes.CDLL]:
    """Each BLAS in this process."""
    for path in library_paths():
        if not LIBRARY.search(os.path.basename(path)):
            continue
        try:
            yield ctypes.CDLL(path)
        except OSError:
            continue


@functools.cache
def controls() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """(get, set) of each BLAS in this process."""
    found: list[tuple[Any, Any]] = []
    for library in blas_libraries():
        for getter, setter in NAMES:
            if hasattr(library, getter) and hasattr(library, setter):
                get, put = getattr(library, getter), getattr(library, setter)
                get.argtypes, get.restype = (), ctypes.c_int
                put.argtypes, put.restype = (ctypes.c_int,), None
                found.append((get, put))
                break
    return found


def blas_threads() -> int | None:
    """The most threads that NumPy's BLAS uses; None where it cannot be asked."""
    return max((get() for get, _ in controls()), default=None)


def set_blas_threads(number: int) -> bool:
    """Set that number; False where no BLAS can be told."""
    for _, put in controls():
        put(number)
    return bool(controls())
