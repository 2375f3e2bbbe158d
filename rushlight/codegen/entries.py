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

__all__ = ["DATA_OFFSET", "builtin", "plain", "reads_arrays"]

METH_FASTCALL = 0x0080
# The data pointer within a NumPy array object.
DATA_OFFSET = 16


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


def builtin(name: str, address: int, code: object) -> Callable[..., Any]:
    """A function of arrays and integers that the code at an address takes as objects; it keeps
    `code` alive."""
    method = MethodDef(name.encode(), address, METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    # The builtin's module slot keeps the record and the code alive as long as itself.
    return cast(Callable[..., Any], make(ctypes.addressof(method), None, (method, code)))


def plain(address: int, code: object) -> Callable[..., Any]:
    """The same of code that takes an array of pointers and integers."""
    # The lock stays held, as in a builtin.
    call = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(address)

    def run(*given: Any, code: object = code) -> None:
        words = [a if type(a) is int else a.ctypes.data for a in given]
        pointers = (ctypes.c_size_t * len(given))(*words)
        call(ctypes.addressof(pointers))

    return run
