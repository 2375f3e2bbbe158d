"""Windows that slide over array axes, one axis at a time.

A `Windows` says which places of one axis each output place covers. Sums, maxima and their adjoints
over boxes are done axis after axis, one kernel tap at a time: the work grows with the sum of the
kernel's sizes, not with their product, and no Python loop runs over places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.arrays.precision import widen

__all__ = [
    "Windows", "adaptive", "add_along", "box_maximum", "box_spread", "box_sum",
    "regular",
]  # fmt: skip


class Windows:
    """The windows over one axis of `size` places: tap t of window o lies at starts[o] + t * step,
    and counts where that is neither before the axis nor at or after ends[o]."""

    __slots__ = ("count", "ends", "size", "starts", "step", "stride", "taps")

    def __init__(
        self, size: int, starts: Any, ends: Any, count: int, step: int, stride: int | None
    ) -> None:
        self.size = size
        self.starts = starts
        self.ends = ends
        self.count = count  # of taps
        self.step = step
        self.stride = stride  # between starts, where it is one and the same
        self.taps = list(self.find_taps())

    def __len__(self) -> int:
        return len(self.starts)

    def find_taps(self) -> Iterator[tuple[int, Any, Any]]:
        """(tap, output places, input places) for every tap that any window has."""
        for tap in range(self.count):
            places = self.starts + tap * self.step
            inside = np.flatnonzero((places >= 0) & (places < self.ends))
            if not inside.size:
                continue
            first, last = int(inside[0]), int(inside[-1])
            if self.stride is not None and last - first + 1 == inside.size:
                stop = int(places[last]) + 1
                yield tap, slice(first, last + 1), slice(int(places[first]), stop, self.stride)
            else:
                yield tap, inside, places[inside]

    def is_whole(self, entry: tuple[int, Any, Any]) -> bool:
        """Whether a tap is one of every window."""
        return type(entry[1]) is slice and entry[1].stop - entry[1].start == len(self)

    def first_taps(self) -> Any:
        """The first tap of each window that lies inside."""
        return np.maximum(-(self.starts // self.step), 0)


@lru_cache(maxsize=256)
def regular(
    size: int, places: int, kernel: int, stride: int, padding: int, dilation: int = 1
) -> Windows:
    starts = np.arange(places) * stride - padding
    return Windows(size, starts, np.full(places, size), kernel, dilation, stride)


def adaptive(size: int, places: int) -> Windows:
    """Windows that share the axis out among `places`, as evenly as whole numbers allow."""
    order = np.arange(places)
    starts = order * size // max(places, 1)
    ends = -(-(order + 1) * size // max(places, 1))
    count = int((ends - starts).max()) if places else 0
    even = places > 0 and size % places == 0
    return Windows(size, starts, ends, count, 1, size // places if even else None)


def along(axis: int, ndim: int, selected: Any) -> tuple[Any, ...]:
    entries: list[Any] = [slice(None)] * ndim
    entries[axis] = selected
    return tuple(entries)


def add_along(target: Any, axis: int, index: Any, values: Any) -> None:
    """target[index] += values along one axis, where `index` never decreases but may repeat."""
    if not isinstance(index, slice):
        repeats = np.diff(index) == 0
        if repeats.any():
            firsts = np.flatnonzero(np.concatenate(([True], ~repeats)))
            values = np.add.reduceat(values, firsts, axis)
            index = index[firsts]
    target[along(axis, target.ndim, index)] += values


def box_sum(array: Any, windows: Sequence[Windows]) -> Any:
    """Sums over boxes of the trailing axes."""
    for axis in range(-1, -len(windows) - 1, -1):
        plan = windows[axis]
        sizes = list(array.shape)
        sizes[axis] = len(plan)
        result, taps = None, plan.taps
        if taps and plan.is_whole(taps[0]):
            # -0.0 + 0.0 is 0.0.
            result = array[along(axis, array.ndim, taps[0][2])] + array.dtype.type(0)
            taps = taps[1:]
        else:
            result = np.zeros(sizes, array.dtype)
        for _, outer, inner in taps:
            result[along(axis, array.ndim, outer)] += array[along(axis, array.ndim, inner)]
        array = result
    return array


def box_spread(array: Any, windows: Sequence[Windows]) -> Any:
    """The adjoint of `box_sum`: every value is added to all places of its box."""
    for axis in range(-len(windows), 0):
        plan = windows[axis]
        sizes = list(array.shape)
        sizes[axis] = plan.size
        result = np.zeros(sizes, array.dtype)
        for _, outer, inner in plan.taps:
            add_along(result, axis, inner, array[along(axis, array.ndim, outer)])
        array = result
    return array


def lowest_of(dtype: Any) -> Any:
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def box_maximum(array: Any, windows: Sequence[Windows]) -> tuple[Any, Any]:
    """Maxima over boxes of the trailing axes, and where in the flattened axes they lie.

    The first of equal values is named; of NaNs, which count as largest, the last one.
    """
    rank = len(windows)
    best = widen(array)
    count = math.prod([plan.count for plan in windows])
    # A code numbers the taps of a box in their order in memory: a later find has a larger one.
    dtype = np.uint8 if count <= 256 else np.uint16 if count <= 65536 else np.uint32
    with_nan = best.dtype.kind == "f" and best.size and bool(np.isnan(best.max()))
    codes: Any = None
    start: Any = np.zeros((1,) * rank, dtype)
    weight = 1
    for axis in range(-1, -rank - 1, -1):
        plan = windows[axis]
        sizes = list(best.shape)
        sizes[axis] = len(plan)
        shape = [1] * rank
        shape[axis] = len(plan)
        start = start + (plan.first_taps() * weight).astype(dtype).reshape(shape)
        taps = plan.taps
        if taps and taps[0][0] == 0 and plan.is_whole(taps[0]):
            # The first taps are those of all windows: what there is to begin with.
            inner = along(axis, best.ndim, taps[0][2])
            result = best[inner].copy()
            found = np.zeros(sizes, dtype) if codes is None else codes[inner].copy()
            taps = taps[1:]
        else:
            result = np.full(sizes, lowest_of(best.dtype), best.dtype)
            found = np.empty(sizes, dtype)
            found[...] = start
        for tap, outer, inner in taps:
            into = along(axis, best.ndim, outer)
            values, seen = best[along(axis, best.ndim, inner)], result[into]
            larger = values > seen
            if with_nan:
                larger |= np.isnan(values)
            code: Any = dtype(tap * weight)
            if codes is not None:
                code = codes[along(axis, best.ndim, inner)] + code
            earlier = found[into]
            np.maximum(earlier, larger.view(np.uint8) * code, out=earlier)
            np.maximum(seen, values, out=seen)
            if type(outer) is not slice:
                found[into], result[into] = earlier, seen
        best, codes = result, found
        weight *= plan.count
    return best.astype(array.dtype, copy=False), flat_places(codes, windows)


def flat_places(codes: Any, windows: Sequence[Windows]) -> Any:
    """Taps of boxes as positions in the flattened trailing axes."""
    offsets, origin = flat_tables(tuple(windows))
    return np.take(offsets, codes) + origin


@lru_cache(maxsize=64)
def flat_tables(windows: tuple[Windows, ...]) -> tuple[Any, Any]:
    """(the offset of each code, where each box begins) in the flattened trailing axes."""
    rank = len(windows)
    origin: Any = np.zeros((1,) * rank, np.int64)
    offsets: Any = np.zeros((1,) * rank, np.int64)
    step = 1
    for axis in range(-1, -rank - 1, -1):
        plan = windows[axis]
        shape = [1] * rank
        shape[axis] = len(plan)
        origin = origin + (plan.starts * step).reshape(shape)
        shape[axis] = plan.count
        offsets = offsets + (np.arange(plan.count) * (plan.step * step)).reshape(shape)
        step *= plan.size
    return offsets.reshape(-1), origin
