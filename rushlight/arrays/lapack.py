"""LU from the LAPACK that NumPy's BLAS comes with, which numpy.linalg has no functions for.

Routines are found by name in the libraries of this process; where there are none, callers have
loops of their own. Matrices go in as copies whose columns lie one after another.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.arrays.threads import blas_libraries

__all__ = ["factored", "solved", "symmetric"]

# The names of a routine, and the integers that it takes.
NAMES = (("scipy_{}_64_", np.int64), ("{}_64_", np.int64), ("{}_", np.int32))
ARGUMENTS = {"getrf": 6, "getrs": 10, "sytrf": 9, "hetrf": 9}
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
# Smaller matrices in larger batches are sooner done by loops over columns of them all.
WIDE, FEW = 16, 8


@functools.cache
def routine(name: str) -> tuple[Callable[..., Any], Any] | None:
    """A routine, and NumPy's type for its integers."""
    for library in blas_libraries():
        for form, integer in NAMES:
            found = getattr(library, form.format(name), None)
            if found is not None:
                found.restype = None
                # All that routines take are addresses, and lengths of texts after them.
                found.argtypes = [ctypes.c_void_p] * ARGUMENTS[name[1:]]
                return found, integer
    return None


def chosen(name: str, dtype: Any, batch: int, size: int) -> tuple[Callable[..., Any], Any] | None:
    letter = LETTERS.get(dtype.name)
    if letter is None or not batch or not size or (size < WIDE and batch > FEW):
        return None
    return routine(letter + name)


def by_column(array: Any, batch: tuple[int, ...]) -> Any:
    """A fresh batch of matrices, each transposed in memory."""
    sizes = array.shape[-2:]
    spread = np.broadcast_to(array, batch + sizes).reshape(-1, *sizes)
    return np.array(spread.swapaxes(1, 2), order="C")


def by_row(columns: Any, shape: tuple[int, ...]) -> Any:
    return np.ascontiguousarray(columns.swapaxes(1, 2)).reshape(shape)


def addresses(array: Any) -> range:
    """Where each entry of the first axis lies."""
    start, step = array.ctypes.data, array.strides[0]
    return range(start, start + len(array) * step, step)


def factored(array: Any) -> tuple[Any, Any, Any] | None:
    """(L and U in one matrix, pivots, info) of each matrix; None where there is no routine."""
    batch, (rows, columns) = array.shape[:-2], array.shape[-2:]
    rank = min(rows, columns)
    count = int(np.prod(batch, dtype=np.int64))
    found = chosen("getrf", array.dtype, count, rank)
    if found is None:
        return None
    call, integer = found
    work = by_column(array, batch)
    pivots, info = np.empty((count, rank), integer), np.zeros(count, integer)
    m, n = np.array(rows, integer), np.array(columns, integer)
    tall, wide = m.ctypes.data, n.ctypes.data
    for matrix, order, state in zip(*map(addresses, (work, pivots, info)), strict=True):
        call(tall, wide, matrix, tall, order, state)
    return (
        by_row(work, array.shape),
        pivots.reshape((*batch, rank)).astype(np.int32),
        info.reshape(batch).astype(np.int32),
    )


def solved(factors: Any, pivots: Any, values: Any, adjointed: bool) -> Any:
    """X of `A @ X = values`, or of `A^H @ X = values`; None where there is no routine or a pivot
    that is 0."""
    batch = np.broadcast_shapes(factors.shape[:-2], values.shape[:-2])
    size, width = values.shape[-2:]
    count = int(np.prod(batch, dtype=np.int64))
    found = chosen("getrs", values.dtype, count, size) if width else None
    if found is None or not np.diagonal(factors, axis1=-2, axis2=-1).all():
        return None
    call, integer = found
    matrices, result = by_column(factors, batch), by_column(values, batch)
    order = np.broadcast_to(pivots, batch + pivots.shape[-1:]).reshape(count, -1)
    order = order.astype(integer, order="C")
    n, nrhs, info = np.array(size, integer), np.array(width, integer), np.zeros((), integer)
    form = np.array(b"C" if adjointed else b"N")
    whole, several, state, how = [x.ctypes.data for x in (n, nrhs, info, form)]
    for matrix, pivot, columns in zip(*map(addresses, (matrices, order, result)), strict=True):
        call(how, whole, several, matrix, whole, pivot, columns, whole, state, 1)
    return by_row(result, batch + values.shape[-2:])


def symmetric(array: Any, hermitian: bool) -> tuple[Any, Any, Any] | None:
    """(L and D in the lower triangle, pivots, info) of each matrix, of which the lower triangle is
    read; None where there is no routine."""
    batch, size = array.shape[:-2], array.shape[-1]
    count = int(np.prod(batch, dtype=np.int64))
    found = chosen("hetrf" if hermitian else "sytrf", array.dtype, count, size)
    if found is None:
        return None
    call, integer = found
    work = by_column(array, batch)
    pivots, info = np.empty((count, size), integer), np.zeros(count, integer)
    spare = np.empty(64 * size, array.dtype)
    n, length, form = np.array(size, integer), np.array(spare.size, integer), np.array(b"L")
    how, order, free, most = [x.ctypes.data for x in (form, n, spare, length)]
    for matrix, pivot, state in zip(*map(addresses, (work, pivots, info)), strict=True):
        call(how, order, matrix, order, pivot, free, most, state, 1)
    return (
        np.tril(by_row(work, array.shape)),
        pivots.reshape((*batch, size)).astype(np.int32),
        info.reshape(batch).astype(np.int32),
    )
