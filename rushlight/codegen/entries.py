"""Functions of Python over machine code at an address.

An entry point of CPython's fastcall convention reads the data pointers of NumPy arrays itself;
where the layout of array objects is not the expected one, a ctypes call with explicit pointers
takes its place. Needs no compiler, so that code made ahead of time runs without one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, cast

import numpy as np

__all__ = ["DATA_OFFSET", "NEW_ARRAY", "array_maker", "builtin", "plain", "reads_arrays"]

METH_FASTCALL = 0x0080
# The data pointer within a NumPy array object.
DATA_OFFSET = 16
# What native code calls NumPy's `PyArray_NewFromDescr`, and its place in NumPy's table.
NEW_ARRAY, PLACE_OF_NEW_ARRAY = "rl_new_array", 94
# Where that table has the class of arrays.
PLACE_OF_CLASS = 2


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def reads_arrays() -> bool:
    """Whether array objects keep their data pointer where entry points look for it."""
    import sys

    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    for probe in (np.zeros(3), np.zeros((4, 2), np.int8)[1:]):
        found = ctypes.c_void_p.from_address(id(probe) + DATA_OFFSET).value
        if found != probe.ctypes.data:
            return False
    return True


def array_maker() -> int | None:
    """The address of NumPy's function that makes arrays; None where it, or a field of arrays and
    tuples, is not where native code looks for it."""
    if not reads_arrays():
        return None
    probe = np.zeros((4, 6), np.int8)[1:, 2:]
    at = id(probe)
    word, short = ctypes.c_void_p.from_address, ctypes.c_int.from_address
    dims = (ctypes.c_ssize_t * 2).from_address(word(at + 32).value or at)
    facts = (short(at + 24).value, tuple(dims), word(at + 56).value)
    if facts != (2, probe.shape, id(probe.dtype)) or short(at + 64).value & 0x101 != 0x100:
        return None
    if [word(id(pair) + 24 + 8 * k).value for pair in [("a", "b")] for k in (0, 1)] != [
        id("a"),
        id("b"),
    ]:
        return None
    try:
        capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    except AttributeError:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return table[PLACE_OF_NEW_ARRAY] if table[PLACE_OF_CLASS] == id(np.ndarray) else None


def builtin(
    name: str, address: int, code: object, given: tuple[Any, ...] | None = None
) -> Callable[..., Any]:
    """A function of arrays and integers that the code at an address takes as objects; it keeps
    `code` alive, and has `given` for its `self`."""
    method = MethodDef(name.encode(), address, METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    # The builtin's module slot keeps the record and the code alive as long as itself.
    return cast(Callable[..., Any], make(ctypes.addressof(method), given, (method, code)))


def plain(address: int, code: object) -> Callable[..., Any]:
    """The same of code that takes an array of pointers and integers."""
    # The lock stays held, as in a builtin.
    call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address)

    def run(*given: Any, code: object = code) -> None:
        words = [a if type(a) is int else a.ctypes.data for a in given]
        pointers = (ctypes.c_size_t * len(given))(*words)
        call(ctypes.addressof(pointers))

    return run
