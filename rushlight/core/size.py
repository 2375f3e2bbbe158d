"""`Size`: the tuple of a tensor's sizes.

Slices, sums and multiples of a Size are Sizes. Entries are ints or symbolic ints;
the public constructor checks them, `unchecked` trusts its caller.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from operator import index
from typing import Any, SupportsIndex

from rushlight.core import ports
from rushlight.core.state import active_tracer


class Size(tuple[Any, ...]):
    """The sizes of a tensor."""

    __slots__ = ()

    def __new__(cls, sizes: Iterable[Any] = (), /) -> Size:
        if type(sizes) is Size:
            return sizes
        entries = tuple(sizes)
        for entry in entries:
            if type(entry) is not int:
                entries = tuple(
                    checked_entry(entry, position) for position, entry in enumerate(entries)
                )
                break
        return tuple.__new__(cls, entries)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __reduce__(self) -> tuple[Any, tuple[tuple[Any, ...]]]:
        return Size, (tuple(self),)

    def __getitem__(self, key: SupportsIndex | slice) -> Any:
        found = tuple.__getitem__(self, key)
        return unchecked(found) if type(key) is slice else found

    def __add__(self, other: tuple[Any, ...]) -> Size:
        if not isinstance(other, tuple):
            raise TypeError(
                f"can only concatenate tuple (not {type(other).__name__}) to torch.Size"
            )
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: object) -> Size:
        if not isinstance(other, tuple):
            return NotImplemented
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: SupportsIndex) -> Size:
        return unchecked(tuple.__mul__(self, count))

    __rmul__ = __mul__

    def numel(self) -> Any:
        """The number of elements of a tensor of these sizes."""
        product: Any = 1
        for size in self:
            product = product * size
        return product


unchecked = partial(tuple.__new__, Size)


def checked_entry(entry: Any, position: int) -> Any:
    """An entry as an int, or itself where it is symbolic (it carries a `node`)."""
    if isinstance(entry, int) and type(entry) is not bool:
        return entry
    if hasattr(entry, "node"):
        return entry
    if isinstance(entry, ports.tensor_types) and active_tracer() is not None:
        # The sizes of a traced program are tensors.
        return entry
    try:
        return int(index(entry))
    except TypeError:
        raise TypeError(
            f"torch.Size() takes an iterable of 'int' (item {position} is '{type(entry).__name__}')"
        ) from None
