"""Order of elements: stable sorting and binary search over arrays.

NaN counts as greater than every number. Sorting is stable whether asked for or not, so that
indices of equal elements do not depend on how NumPy was built.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.arrays.numpy_ import BLOCK, is_narrow

# Shorter rows are sorted as they are: packing keys would cost more than it saves.
PACK_FROM = 256


def comparable(array: Any) -> Any:
    """The array in a dtype that NumPy compares well, order kept."""
    if array.dtype == np.bool_:
        return array.view(np.uint8)
    if is_narrow(array.dtype):
        return array.astype(np.float32)
    return array


def order_bits(array: Any) -> Any:
    """int64 in the order of values of at most 32 bits."""
    if array.dtype.kind == "f":
        # One NaN, one zero; then the bits of floats order like sign-magnitude integers.
        bits = np.where(array != array, np.float32(np.nan), array + np.float32(0)).view(np.int32)
        bits = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    else:
        bits = array
    return bits.astype(np.int64)


def first_places(rows: Any, k: int, largest: bool) -> Any:
    """Where the first k of each row's stable order are; None for dtypes and sizes that are not
    packed. Where k is a small part of a row, only what may be among them is sorted."""
    size = rows.shape[-1]
    if rows.dtype.itemsize > 4 or size < 16:
        return None
    flat = rows.reshape(-1, size)
    order = np.empty((len(flat), k), np.int64)
    step = max(1, BLOCK // size)
    find = among_candidates if k * 8 <= size >= PACK_FROM else among_all
    for start in range(0, len(flat), step):
        order[start : start + step] = find(flat[start : start + step], k, largest)
    return order.reshape(*rows.shape[:-1], k)


def among_all(rows: Any, k: int, largest: bool) -> Any:
    # A key is a value and its place: no two are equal.
    keys = packed_keys(rows, largest, 16)
    keys.partition(k - 1, axis=-1)
    chosen = keys[:, :k]
    chosen.sort(axis=-1)
    return chosen & 0xFFFFFFFF


def among_candidates(rows: Any, k: int, largest: bool) -> Any:
    last = rows.shape[1] - k if largest else k - 1
    bounds = np.partition(rows, last, axis=-1)[:, last : last + 1]
    candidate = rows >= bounds if largest else rows <= bounds
    if rows.dtype.kind == "f":
        candidate |= (rows != rows) if largest else (bounds != bounds)
    places = np.flatnonzero(candidate)
    row, column = np.divmod(places, rows.shape[1])
    keys = order_bits(rows.reshape(-1)[places])
    keys = (~keys if largest else keys) << 32 | column
    sorted_ = np.lexsort((keys, row))
    starts = np.searchsorted(row, np.arange(len(rows)))
    return column[sorted_[starts[:, None] + np.arange(k)]]


def packed_keys(array: Any, descending: bool, least: int = PACK_FROM) -> Any:
    """(value, position) as one int64 whose order is a stable order of values; None if too wide, or
    where rows are shorter than `least`.

    NumPy sorts such keys several times faster than it finds a stable order of floats.
    """
    if array.dtype.itemsize > 4 or array.shape[-1] < least:
        return None
    keys = order_bits(array)
    if descending:
        keys = ~keys
    return (keys << 32) | np.arange(array.shape[-1], dtype=np.int64)


def stable_order(array: Any, descending: bool) -> Any:
    """Positions that sort the last axis, equal elements in their order of appearance."""
    array = comparable(array)
    keys = packed_keys(array, descending)
    if keys is not None:
        keys.sort(axis=-1)
        return keys & 0xFFFFFFFF
    if not descending:
        return array.argsort(axis=-1, kind="stable")
    order = array[..., ::-1].argsort(axis=-1, kind="stable")[..., ::-1]
    return (array.shape[-1] - 1) - order


def sorted_pair(array: Any, dim: int, descending: bool) -> tuple[Any, Any]:
    if array.ndim == 0:
        return array.copy(), np.zeros((), np.int64)
    moved = np.moveaxis(array, dim, -1)
    order = stable_order(moved, descending)
    values = np.take_along_axis(moved, order, -1)
    return np.moveaxis(values, -1, dim), np.moveaxis(order.astype(np.int64, copy=False), -1, dim)


def sorted_values(flat: Any) -> Any:
    if is_narrow(flat.dtype):
        return np.sort(flat.astype(np.float32)).astype(flat.dtype)
    return np.sort(flat)


def bisected(boundaries: Any, values: Any, right: bool) -> Any:
    """Binary search of every value in its own row at once. torch: NaN lies behind all."""
    rows = np.arange(boundaries.shape[0])[:, None]
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, boundaries.shape[1], np.int64)
    for _ in range(boundaries.shape[1].bit_length()):
        middle = (low + high) >> 1
        seen = boundaries[rows, np.minimum(middle, boundaries.shape[1] - 1)]
        ahead = ~(seen > values) if right else ~(seen >= values)
        open_ = low < high
        low = np.where(open_ & ahead, middle + 1, low)
        high = np.where(open_ & ~ahead, middle, high)
    return low


def search(boundaries: Any, values: Any, right: bool, sorter: Any, out_int32: bool) -> Any:
    dtype = np.int32 if out_int32 else np.int64
    if sorter is not None:
        if sorter.size and (sorter.min() < 0 or sorter.max() >= boundaries.shape[-1]):
            raise RuntimeError("torch.searchsorted(): sorter index out of range")
        boundaries = np.take_along_axis(boundaries, sorter, -1)
    boundaries, values = comparable(boundaries), comparable(values)
    if boundaries.shape[-1] == 0 or values.size == 0:
        return np.zeros(values.shape, dtype)
    floats = boundaries.dtype.kind == "f" or values.dtype.kind == "f"
    if boundaries.ndim == 1:
        if not (floats and (np.isnan(boundaries[-1]) or np.isnan(values).any())):
            found = np.searchsorted(boundaries, values, "right" if right else "left")
            return np.asarray(found).astype(dtype)
        found = bisected(boundaries[None], values.reshape(1, -1), right)
    else:
        width = boundaries.shape[-1]
        found = bisected(boundaries.reshape(-1, width), values.reshape(-1, values.shape[-1]), right)
    return found.reshape(values.shape).astype(dtype)
